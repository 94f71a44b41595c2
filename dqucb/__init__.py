"""Reinforcement learning in environments that change.

Density-QUCB, its baselines, problems that shift, and an exact sliding-window density. Names load when they are
first used, so that `import dqucb` stays quick; it registers the Gymnasium ids `dqucb/...-v0`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import dqucb.envs  # noqa: F401  (registers the Gymnasium ids)

if TYPE_CHECKING:
    from dqucb._storage import SavedFileError
    from dqucb.agents import (
        AGENTS,
        DQUCB,
        QUCB,
        UCBB,
        UCBMQ,
        UCBVI,
        Agent,
        DetectReset,
        DiscountedQUCB,
        OracleRestart,
        QLearning,
        Random,
        RestartQUCB,
        Run,
        SelfTuningDQUCB,
        SlidingWindowQUCB,
        load_agent,
    )
    from dqucb.density import (
        DiscreteTransitionKDE,
        FourierTransitionDensity,
        SlidingKDE,
        TransitionCounts,
        TransitionDensity,
        TransitionKDE,
    )
    from dqucb.experiments import Comparison, compare, load_comparison, sweep, warmup
    from dqucb.problems import ShiftingMDP, TabularMDP, from_gymnasium, frozen_lake, gridworld, two_rooms  # type: ignore[no-redef]

__version__ = "0.1.0"

__all__ = [
    "AGENTS",
    "DQUCB",
    "QUCB",
    "UCBB",
    "UCBMQ",
    "UCBVI",
    "Agent",
    "Comparison",
    "DetectReset",
    "DiscountedQUCB",
    "DiscreteTransitionKDE",
    "FourierTransitionDensity",
    "OracleRestart",
    "QLearning",
    "Random",
    "RestartQUCB",
    "Run",
    "SavedFileError",
    "SelfTuningDQUCB",
    "ShiftingMDP",
    "SlidingKDE",
    "SlidingWindowQUCB",
    "TabularMDP",
    "TransitionCounts",
    "TransitionDensity",
    "TransitionKDE",
    "__version__",
    "compare",
    "from_gymnasium",
    "frozen_lake",
    "gridworld",
    "load_agent",
    "load_comparison",
    "sweep",
    "two_rooms",
    "warmup",
]

_ROOMS = ("agents", "deep", "density", "experiments", "problems", "theory")
_SEARCHED = ("problems", "density", "agents", "experiments", "_storage")  # the quick ones first


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"dqucb.{name}")
    if name in __all__:
        for room in _SEARCHED:
            value = getattr(import_module(f"dqucb.{room}"), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module 'dqucb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
