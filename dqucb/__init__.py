"""Reinforcement learning in environments that change.

Density-QUCB, its baselines, problems that shift, and an exact sliding-window density. Names load when they are
first used, so that `import dqucb` stays quick; it registers the Gymnasium ids `dqucb/...-v0`.
"""

from importlib import import_module
from typing import Any

import dqucb.envs  # noqa: F401  (registers the Gymnasium ids)

__version__ = "0.1.0"

_PLACES = {
    "dqucb.agents": ("AGENTS", "DQUCB", "QUCB", "UCBMQ", "UCBVI", "Agent", "QLearning", "Random", "Run", "load_agent"),
    "dqucb.density": (
        "DiscreteTransitionKDE",
        "FourierTransitionDensity",
        "SlidingKDE",
        "TransitionCounts",
        "TransitionDensity",
        "TransitionKDE",
    ),
    "dqucb.problems": ("ShiftingMDP", "TabularMDP", "frozen_lake", "from_gymnasium", "gridworld", "two_rooms"),
    "dqucb._storage": ("SavedFileError",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
_ROOMS = ("agents", "density", "problems")

__all__ = ["__version__", *_PLACE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PLACE_OF:
        value = getattr(import_module(_PLACE_OF[name]), name)
    elif name in _ROOMS:
        value = import_module(f"dqucb.{name}")
    else:
        raise AttributeError(f"module 'dqucb' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
