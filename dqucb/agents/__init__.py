"""Tabular agents, one module per algorithm: parameters, validation, and the tables that a kernel fills.

`tabular.py` trains and steps all of them alike, under the contract of `dqucb.base`.
"""

from dqucb.agents.baselines import QLearning, Random
from dqucb.agents.detect_reset import DetectReset
from dqucb.agents.dqucb import DQUCB
from dqucb.agents.forgetting import DiscountedQUCB, SlidingWindowQUCB
from dqucb.agents.qucb import QUCB
from dqucb.agents.restarting import OracleRestart, RestartQUCB
from dqucb.agents.self_tuning import SelfTuningDQUCB
from dqucb.agents.tabular import TabularAgent
from dqucb.agents.ucbb import UCBB
from dqucb.agents.ucbmq import UCBMQ
from dqucb.agents.ucbvi import UCBVI

__all__ = [
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
    "TabularAgent",
]
