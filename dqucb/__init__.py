"""Reinforcement learning in environments that change.

Density-QUCB, PlanningDQUCB, their baselines, problems that shift, drift detection and an exact sliding-window density.
Names load when they are first used, so that `import dqucb` stays quick; it registers the Gymnasium ids `dqucb/...-v0`.
"""

from importlib import import_module
from typing import Any

import dqucb.envs  # noqa: F401  (registers the Gymnasium ids)
from dqucb._lazy import no_attribute

__version__ = "0.2.0"

# Module -> the public names that it gives to the package.
_PUBLIC = {
    "dqucb._storage": ("SavedFileError",),
    "dqucb.agents": (
        "DQUCB",
        "MASTER",
        "PSRL",
        "QUCB",
        "RBOCPDUCRL2",
        "UCBB",
        "UCBMQ",
        "UCBVI",
        "DetectReset",
        "DiscountedQUCB",
        "DynaQPlus",
        "OracleRestart",
        "OracleUCBVI",
        "PlanningDQUCB",
        "ProbeRestart",
        "QLearning",
        "Random",
        "RestartQUCB",
        "SelectiveRestart",
        "SlidingWindowQUCB",
        "TabularAgent",
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
    "dqucb.drift": (
        "DETECTORS",
        "ContinuousDriftDetector",
        "FiniteDriftDetector",
        "ShiftMonitor",
        "check_detector",
        "watch",
    ),
    "dqucb.experiments": ("Comparison", "Evaluation", "compare", "load_comparison", "sweep", "warmup"),
    "dqucb.problems": (
        "PROBLEMS",
        "ShiftingMDP",
        "TabularMDP",
        "cliff_walking",
        "combination_lock",
        "drifting_lake",
        "endless_river",
        "from_gymnasium",
        "frozen_lake",
        "frozen_lake_8x8",
        "gridworld",
        "large_rooms",
        "moving_goal",
        "new_prize",
        "periodic_lake",
        "random_mdp",
        "returning_rooms",
        "river_swim",
        "still_grid",
        "still_lake",
        "taxi",
        "tidal_river",
        "two_rooms",
    ),
    "dqucb.run": ("Run",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
_PACKAGES = ("agents", "deep", "density", "drift", "experiments", "problems", "theory")

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"dqucb.{name}")
    if name in _MODULE_OF:
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value
    raise no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
