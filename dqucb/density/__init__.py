"""Densities over the most recent points or transitions; usable alone, and the source of DQUCB's likelihood.

`SlidingKDE` scores real vectors. The transition densities give p(s' | s, a) behind one small protocol,
`TransitionDensity`; agents find them by name in `DENSITIES` and build them with `make_density`. `check_density` tests
a density of your own. This package imports `_kernels` and no agent.
"""

from dqucb.density.base import DENSITIES, Density, check_density_spec, make_density
from dqucb.density.checks import check_density
from dqucb.density.continuous import TransitionKDE
from dqucb.density.discrete import DiscreteTransitionKDE, TransitionCounts, WindowSettings
from dqucb.density.fourier import FourierTransitionDensity
from dqucb.density.protocol import TransitionDensity
from dqucb.density.sliding import SlidingKDE

__all__ = [
    "DENSITIES",
    "Density",
    "DiscreteTransitionKDE",
    "FourierTransitionDensity",
    "SlidingKDE",
    "TransitionCounts",
    "TransitionDensity",
    "TransitionKDE",
    "WindowSettings",
    "check_density",
    "check_density_spec",
    "make_density",
]
