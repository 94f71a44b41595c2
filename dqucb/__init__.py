"""Reinforcement learning in environments that change.

Density-QUCB, PlanningDQUCB, their baselines, problems that shift, drift detection and an exact sliding-window density.
Names load when they are first used, so that `import dqucb` stays quick; it registers the Gymnasium ids `dqucb/...-v0`.
"""

from importlib import import_module
from typing import Any

import dqucb.envs  # noqa: F401  (registers the Gymnasium ids)

__version__ = "0.1.0"

# Module -> the public names that it gives to the package.
_PUBLIC = {
    "dqucb._storage": ("SavedFileError",),
    "dqucb.agents": (
        "DQUCB",
        "QUCB",
        "UCBB",
        "UCBMQ",
        "UCBVI",
        "DetectReset",
        "DiscountedQUCB",
        "OracleRestart",
        "QLearning",
        "Random",
        "RestartQUCB",
        "SelfTuningDQUCB",
        "SlidingWindowQUCB",
    ),
    "dqucb.base": ("AGENTS", "Agent", "Moment", "make_agent"),
    "dqucb.checks": ("check_agent", "check_problem"),
    "dqucb.density": (
        "DENSITIES",
        "DiscreteTransitionKDE",
        "FourierTransitionDensity",
        "SlidingKDE",
        "TransitionCounts",
        "TransitionDensity",
        "TransitionKDE",
        "check_density",
    ),
    "dqucb.experiments": ("Comparison", "compare", "load_comparison", "sweep", "warmup"),
    "dqucb.problems": (
        "PROBLEMS",
        "ShiftingMDP",
        "TabularMDP",
        "combination_lock",
        "drifting_lake",
        "from_gymnasium",
        "frozen_lake",
        "gridworld",
        "moving_goal",
        "periodic_lake",
        "random_mdp",
        "river_swim",
        "still_grid",
        "still_lake",
        "two_rooms",
    ),
    "dqucb.run": ("Run",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
_PACKAGES = ("agents", "deep", "density", "experiments", "problems", "theory")

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"dqucb.{name}")
    if name in _MODULE_OF:
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value
    raise AttributeError(f"module 'dqucb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
