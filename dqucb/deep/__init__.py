"""Deep agents (extra `deep`): `DQN`, `DQNUCB` and `DeepDQUCB`, trained for many seeds in lockstep.

The agents differ in the bonus (bonus.py) and in what they do after a change (adapting.py, law.py). Where to find what:
agents.py the agents and their parameters; base.py what they share; building.py the parts of a run; trainer.py one step
of the algorithm; double_q.py the update; network.py the networks of all seeds in one stack; head.py and heads.py how
actions are read out of them; spaces.py which envs they fit; replay.py the transitions; checkpoint.py the state of a
learner; policy.py what acts afterwards; calibration.py the check of confidence intervals; tensorboard.py a callback.
The loop, the curves and evaluation are those of all agents, in `dqucb.running`.
Kernels load when training begins.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dqucb._lazy import no_attribute
from dqucb.deep.agents import DAILY, DAILY_KNOWN, DQN, DQNUCB, DeepDQUCB, RandomPolicy
from dqucb.deep.base import DeepAgent
from dqucb.deep.bonus import CountBonus, DensityBonus, NoBonus
from dqucb.deep.calibration import Calibration, CalibrationRecorder, Visits, calibration, corrected, fitted_scale
from dqucb.deep.simhash import SimHashCounts
from dqucb.deep.tensorboard import TensorBoardCallback
from dqucb.running.evaluation import evaluation_returns, random_policy

if TYPE_CHECKING:
    from dqucb.deep.head import HEADS, Head
    from dqucb.deep.heads import BranchingHead, DiscreteHead
    from dqucb.deep.network import StackedAdam, StackedMLP
    from dqucb.deep.replay import Replay
    from dqucb.deep.trainer import DeepMoment

_LATE = {
    "HEADS": "head",
    "BranchingHead": "heads",
    "DeepMoment": "trainer",
    "DiscreteHead": "heads",
    "Head": "head",
    "Replay": "replay",
    "StackedAdam": "network",
    "StackedMLP": "network",
}

__all__ = [
    "DAILY",
    "DAILY_KNOWN",
    "DQN",
    "DQNUCB",
    "HEADS",
    "BranchingHead",
    "Calibration",
    "CalibrationRecorder",
    "CountBonus",
    "DeepAgent",
    "DeepDQUCB",
    "DeepMoment",
    "DensityBonus",
    "DiscreteHead",
    "Head",
    "NoBonus",
    "RandomPolicy",
    "Replay",
    "SimHashCounts",
    "StackedAdam",
    "StackedMLP",
    "TensorBoardCallback",
    "Visits",
    "calibration",
    "corrected",
    "evaluation_returns",
    "fitted_scale",
    "random_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise no_attribute(__name__, name)
    return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
