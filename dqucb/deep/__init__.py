"""Deep agents (extra `deep`): `DQN`, `DQNUCB` and `DeepDQUCB`, trained for many seeds in lockstep.

The agents differ in the bonus (bonus.py) and in their reaction to a change (adaptation.py, dynamics.py).

double_q.py is the update of all of them, on one page. network.py defines the network interface and its compiled
implementation; torch_network.py and torch_modules.py implement it for any `torch.nn.Module`; factories.py chooses.
head.py and heads.py convert outputs to actions; spaces.py chooses the head of an env; replay.py stores transitions.
agents.py and base.py define the agents and their parameters, own_network.py their methods for networks (export, files).
trainer.py creates the learner of a run and implements one step of the algorithm; checkpoint.py saves it, and policy.py
is its greedy policy. calibration.py checks confidence intervals; recording.py and tensorboard.py are callbacks. The
loop, curves, observations and evaluation are those of all agents, in `dqucb.running`. Kernels are loaded when training
starts, torch when a network needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dqucb._lazy import no_attribute
from dqucb.deep.agents import DAILY, DAILY_KNOWN, DQN, DQNUCB, DeepDQUCB, RandomPolicy
from dqucb.deep.base import DeepAgent
from dqucb.deep.bonus import CountBonus, DensityBonus, NoBonus
from dqucb.deep.calibration import Calibration, CalibrationRecorder, Visits, calibration, corrected, fitted_scale
from dqucb.deep.recording import TrainingRecorder
from dqucb.deep.simhash import SimHashCounts
from dqucb.deep.tensorboard import TensorBoardCallback
from dqucb.running.evaluation import evaluation_returns, random_policy

if TYPE_CHECKING:
    from dqucb.deep.factories import NETWORKS
    from dqucb.deep.head import HEADS, Head
    from dqucb.deep.heads import BranchingHead, DiscreteHead
    from dqucb.deep.network import StackedAdam, StackedMLP
    from dqucb.deep.replay import Replay
    from dqucb.deep.trainer import DeepProgress

_LATE = {
    "HEADS": "head",
    "NETWORKS": "factories",
    "BranchingHead": "heads",
    "DeepProgress": "trainer",
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
    "NETWORKS",
    "BranchingHead",
    "Calibration",
    "CalibrationRecorder",
    "CountBonus",
    "DeepAgent",
    "DeepDQUCB",
    "DeepProgress",
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
    "TrainingRecorder",
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
