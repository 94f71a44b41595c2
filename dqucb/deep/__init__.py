"""Deep agents (extra `deep`): `DQN`, `DQNUCB` and `DeepDQUCB`, trained for many seeds in lockstep.

The three differ in one object, the bonus (bonus.py). network.py holds all seeds' networks in one stack, heads.py
reads actions out of them, replay.py the transitions, lockstep.py the environments, loop.py the one training loop,
agents.py the public face, evaluation.py returns in envs apart from training, calibration.py the check of confidence
intervals. This room calls `agents` (for `Run`), `density` and `envs`.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(f'dqucb.deep needs torch: pip install "dqucb[deep]" ({error})') from error

from dqucb.deep.agents import DEEP_AGENTS, DQN, DQNUCB, DeepDQUCB, RandomPolicy
from dqucb.deep.allocation import DAILY, AllocationHead
from dqucb.deep.base import DeepAgent
from dqucb.deep.bonus import CountBonus, DensityBonus, NoBonus
from dqucb.deep.calibration import Calibration, CalibrationRecorder, calibration, fitted_scale
from dqucb.deep.evaluation import evaluation_returns, random_policy
from dqucb.deep.head import Head
from dqucb.deep.heads import BranchingHead, DiscreteHead
from dqucb.deep.loop import Moment
from dqucb.deep.network import StackedAdam, StackedMLP
from dqucb.deep.replay import Replay
from dqucb.deep.simhash import SimHashCounts

__all__ = [
    "DAILY",
    "DEEP_AGENTS",
    "DQN",
    "DQNUCB",
    "AllocationHead",
    "BranchingHead",
    "Calibration",
    "CalibrationRecorder",
    "CountBonus",
    "DeepAgent",
    "DeepDQUCB",
    "DensityBonus",
    "DiscreteHead",
    "Head",
    "Moment",
    "NoBonus",
    "RandomPolicy",
    "Replay",
    "SimHashCounts",
    "StackedAdam",
    "StackedMLP",
    "calibration",
    "evaluation_returns",
    "fitted_scale",
    "random_policy",
]
