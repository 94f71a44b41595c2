"""Densities over the most recent points or transitions; usable alone, and what DQUCB asks for its likelihood.

`SlidingKDE` scores real vectors. The transition densities give p(s' | s, a) behind one small protocol,
`TransitionDensity`. This room knows no agent; it calls `_kernels`.
"""

from dqucb.density.continuous import TransitionKDE
from dqucb.density.discrete import DiscreteTransitionKDE, TransitionCounts, WindowSettings
from dqucb.density.fourier import FourierTransitionDensity
from dqucb.density.protocol import TransitionDensity
from dqucb.density.sliding import SlidingKDE

__all__ = [
    "DiscreteTransitionKDE",
    "FourierTransitionDensity",
    "SlidingKDE",
    "TransitionCounts",
    "TransitionDensity",
    "TransitionKDE",
    "WindowSettings",
]
