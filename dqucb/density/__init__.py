"""Densities over the most recent points or transitions; usable alone, and what DQUCB asks for its likelihood.

`SlidingKDE` scores real vectors. The transition densities give p(s' | s, a) behind one small protocol,
`TransitionDensity`. This room knows no agent; it calls `_kernels`.
"""

from dqucb.density.discrete import DiscreteTransitionKDE, TransitionCounts, WindowSettings
from dqucb.density.protocol import TransitionDensity

__all__ = [
    "DiscreteTransitionKDE",
    "TransitionCounts",
    "TransitionDensity",
    "WindowSettings",
]
