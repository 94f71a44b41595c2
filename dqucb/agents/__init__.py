"""Tabular agents, one module per algorithm: parameters, validation, and the tables that a kernel updates.

`tabular.py` trains and steps all of them, under the contract of `dqucb.base`.
"""

from dqucb.agents.baselines import QLearning, Random
from dqucb.agents.context_detection import RLCD
from dqucb.agents.detect_reset import DetectReset
from dqucb.agents.dqucb import DQUCB
from dqucb.agents.dyna import DynaQPlus
from dqucb.agents.forgetting import DiscountedQUCB, SlidingWindowQUCB
from dqucb.agents.master import MASTER
from dqucb.agents.natural_actor_critic import NSNAC
from dqucb.agents.planning_dqucb import PlanningDQUCB
from dqucb.agents.psrl import PSRL
from dqucb.agents.qucb import QUCB
from dqucb.agents.restarting import OracleRestart, RestartQUCB
from dqucb.agents.restarting_ucbvi import RBOCPDUCRL2, OracleUCBVI, ProbeRestart
from dqucb.agents.selective import AdaptiveRestart, PartialRestart, SelectiveRestart
from dqucb.agents.sliding_ucrl import BORL, SWUCRL2CW
from dqucb.agents.tabular import TabularAgent
from dqucb.agents.ucbb import UCBB
from dqucb.agents.ucbmq import UCBMQ
from dqucb.agents.ucbvi import UCBVI

__all__ = [
    "BORL",
    "DQUCB",
    "MASTER",
    "NSNAC",
    "PSRL",
    "QUCB",
    "RBOCPDUCRL2",
    "RLCD",
    "SWUCRL2CW",
    "UCBB",
    "UCBMQ",
    "UCBVI",
    "AdaptiveRestart",
    "DetectReset",
    "DiscountedQUCB",
    "DynaQPlus",
    "OracleRestart",
    "OracleUCBVI",
    "PartialRestart",
    "PlanningDQUCB",
    "ProbeRestart",
    "QLearning",
    "Random",
    "RestartQUCB",
    "SelectiveRestart",
    "SlidingWindowQUCB",
    "TabularAgent",
]
