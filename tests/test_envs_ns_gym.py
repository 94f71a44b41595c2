"""The bridge to ns-gym, with a stand-in for its wrappers, and with the package where it is installed."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from dqucb import QUCB
from dqucb.envs import from_ns_gym


class StandIn(gymnasium.Env):
    """Speaks as a wrapper of ns-gym 1.0 does: a clock, an update with a scheduler, observations as mappings."""

    def __init__(self, change=5):
        self.update = SimpleNamespace(scheduler=lambda t: t == change)
        self.tunable_params, self.persistent_params, self.t = {"P": self.update}, False, 0
        self.action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = gymnasium.spaces.Dict({"state": gymnasium.spaces.Discrete(9)})
        self.world = 0
        self.spec = gymnasium.spec("FrozenLake-v1")

    def reset(self, *, seed=None, options=None):
        self.t = self.taken = 0
        if not self.persistent_params:
            self.world = 0
        return {"state": 0, "relative_time": 0}, {}

    def step(self, action):
        if self.update.scheduler(self.t):
            self.world += 1
        self.t += 1
        self.taken += 1
        return {"state": self.world, "relative_time": self.t}, 1.0, self.taken == 3, False, {}


def played(env, episodes):
    states = []
    for _ in range(episodes):
        env.reset()
        over = False
        while not over:
            state, _, over, _, _ = env.step(0)
            states.append(state)
    return states


def test_the_clock_counts_steps_or_episodes_of_the_run_or_steps_of_each_episode():
    assert played(from_ns_gym(StandIn), 3) == [0] * 5 + [1] * 4
    assert played(from_ns_gym(StandIn, clock="episodes"), 7) == [0] * 15 + [1] * 6  # once, though an episode has steps
    assert played(from_ns_gym(StandIn, clock="each episode"), 3) == [0] * 9
    assert played(from_ns_gym(lambda: StandIn(change=1), clock="each episode"), 2) == [0, 1, 1] * 2
    env = from_ns_gym(StandIn)
    played(env, 3)
    assert env.reset(seed=1)[0] == 0  # a seed begins a run, in a new env
    assert played(env, 3) == [0] * 5 + [1] * 4


def test_what_is_not_of_ns_gym_is_refused():
    with pytest.raises(ValueError, match="make must be a function"):
        from_ns_gym(StandIn())
    with pytest.raises(ValueError, match="make must return a wrapper of ns-gym"):
        from_ns_gym(lambda: gymnasium.make("FrozenLake-v1"))
    with pytest.raises(ValueError, match="clock must be one of"):
        from_ns_gym(StandIn, clock="hour")


def test_with_the_package_itself_our_agents_train_and_repeat():
    pytest.importorskip("ns_gym")
    from benchmarks.ns_gym_table import make

    runs = [QUCB().train(lambda: from_ns_gym(lambda: make("FrozenLake", 300)), episodes=60, seed=3) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].returns, runs[1].returns)
