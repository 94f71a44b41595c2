"""The agents by the names that commands and files use."""

import os

from dqucb import _storage, _validate
from dqucb.agents import checkpoint
from dqucb.agents.base import Agent
from dqucb.agents.baselines import QLearning, Random
from dqucb.agents.detect_reset import DetectReset
from dqucb.agents.dqucb import DQUCB
from dqucb.agents.forgetting import DiscountedQUCB, SlidingWindowQUCB
from dqucb.agents.qucb import QUCB
from dqucb.agents.restarting import OracleRestart, RestartQUCB
from dqucb.agents.self_tuning import SelfTuningDQUCB
from dqucb.agents.ucbb import UCBB
from dqucb.agents.ucbmq import UCBMQ
from dqucb.agents.ucbvi import UCBVI

AGENTS: dict[str, type[Agent]] = {
    "dqucb": DQUCB,
    "qucb": QUCB,
    "ucbvi": UCBVI,
    "ucbmq": UCBMQ,
    "ucbb": UCBB,
    "restart-qucb": RestartQUCB,
    "sliding-window-qucb": SlidingWindowQUCB,
    "discounted-qucb": DiscountedQUCB,
    "self-tuning-dqucb": SelfTuningDQUCB,
    "detect-reset": DetectReset,
    "oracle-restart": OracleRestart,
    "q-learning": QLearning,
    "random": Random,
}
_CLASSES = {agent.__name__: agent for agent in AGENTS.values()}


def load_agent(path: str | os.PathLike[str]) -> Agent:
    """Read any saved agent; a file that is damaged or not an agent is a `SavedFileError`."""
    settings, arrays = _storage.load(path, "Agent")
    try:
        described = settings["agent"]
        cls = _CLASSES[_validate.one_of("agent", described["name"], _CLASSES)]
        agent = cls(**described["parameters"])
        agent._training = checkpoint.unpacked(settings, arrays, agent._new_learner, agent._check_tables)
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise _storage.SavedFileError(f"{os.fspath(path)}: not a usable agent ({error})") from error
    return agent
