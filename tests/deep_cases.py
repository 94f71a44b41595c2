"""What the tests of deep agents share."""

from functools import partial

import gymnasium

from dqucb.deep import DQN, DQNUCB, DeepDQUCB

CARTPOLE = "dqucb/CartPole-v0"
SMALL = {"hidden": (16,), "learning_starts": 60, "buffer_size": 300, "batch_size": 8}
KINDS = [DQN, DQNUCB, DeepDQUCB]


def cartpole(**options):
    return partial(gymnasium.make, CARTPOLE, **options)


def curves(run):
    return [getattr(run, name).tobytes() for name in ("returns", "likelihood", "lengths", "ends")]


def weights(agent):
    """The networks that act, one row per trained seed."""
    return agent._greedy().network.weights


def stop_after(steps):
    return lambda moment: moment.step < steps
