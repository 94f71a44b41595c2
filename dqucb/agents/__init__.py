"""One file per algorithm, thin: parameters, validation, and the tables that a kernel fills.

`base.py` trains and steps all of them alike. Agents know `problems`, `density` and `_kernels`.
"""

from dqucb.agents.base import Agent
from dqucb.agents.baselines import QLearning, Random
from dqucb.agents.detect_reset import DetectReset
from dqucb.agents.dqucb import DQUCB
from dqucb.agents.forgetting import DiscountedQUCB, SlidingWindowQUCB
from dqucb.agents.qucb import QUCB
from dqucb.agents.registry import AGENTS, load_agent
from dqucb.agents.restarting import OracleRestart, RestartQUCB
from dqucb.agents.run import Run
from dqucb.agents.self_tuning import SelfTuningDQUCB
from dqucb.agents.ucbb import UCBB
from dqucb.agents.ucbmq import UCBMQ
from dqucb.agents.ucbvi import UCBVI

__all__ = [
    "AGENTS",
    "DQUCB",
    "QUCB",
    "UCBB",
    "UCBMQ",
    "UCBVI",
    "Agent",
    "DetectReset",
    "DiscountedQUCB",
    "OracleRestart",
    "QLearning",
    "Random",
    "RestartQUCB",
    "Run",
    "SelfTuningDQUCB",
    "SlidingWindowQUCB",
    "load_agent",
]
