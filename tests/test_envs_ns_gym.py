"""The bridge to ns-gym, with a stand-in for its wrappers, and with the package where it is installed."""

import importlib
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from dqucb import QUCB
from dqucb.envs import LakePlanner, PolePlanner, from_ns_gym, ns_gym_scores, write_ns_gym_entry


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


class Counted(StandIn):
    """A stand-in that notifies, with a planning env and the ground truth of changes."""

    def __init__(self, change_notification=False, delta_change_notification=False):
        super().__init__(change=1)
        self.change_notification, self.delta_change_notification = change_notification, delta_change_notification

    def get_planning_env(self):
        return self

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        info["Ground Truth Env Change"] = {"P": int(self.t == 2)}
        return observation, reward + action, terminated, truncated, info


def test_scores_are_those_of_the_evaluator():
    """Means and population standard deviations over episodes, for each level a new agent."""
    begun = []

    def new_agent():
        begun.append(0)

        def act(observation, planning_env):
            begun[-1] += 1
            return int(begun[-1] > 3)  # the second episode earns 6

        return act

    scores = ns_gym_scores(Counted, new_agent, episodes=2)
    assert list(scores) == ["notify-full", "notify-change", "notify-none"]
    assert begun == [6, 6, 6]
    for values in scores.values():
        assert values["mean_total_reward"] == 4.5
        assert values["std_total_reward"] == 1.5
        assert values["mean_episode_steps"] == 3.0
        assert values["mean_transition_fn_changes"] == 1.0
        assert values["mean_decision_time"] > 0.0


def gaps_of(planner, true, steps, rng):
    """Feed a planner outcomes on a line of ten cells whose three kinds have the probabilities `true`."""
    table = {
        s: {0: [(p, min(9, max(0, s + move)), 0.0, False) for p, move in zip((1.0, 0.0, 0.0), (1, 0, -1), strict=True)]}
        for s in range(10)
    }
    env = SimpleNamespace(P=table, transition_prob=[1.0, 0.0, 0.0], change_notification=False)
    env.unwrapped, env.delta_change_notification = env, False
    state = 4
    for now in range(steps):
        planner({"state": state, "relative_time": now, "env_change": {"P": 0}}, env)
        state = min(9, max(0, state + int(rng.choice((1, 0, -1), p=true))))
    return np.abs(planner.probabilities(np.array([1.0, 0.0, 0.0]), steps) - true).sum()


def test_a_planner_estimates_slips_that_nobody_notifies():
    rng = np.random.default_rng(0)
    errors = [gaps_of(LakePlanner(memory=40.0), np.array([0.5, 0.2, 0.3]), 99, rng) for _ in range(5)]
    assert max(errors) < 0.6  # the planning env is off by 1.0
    assert np.mean(errors) < 0.35


def balanced(planner, *, known, **physics):
    """For how many steps a planner balances a pole; unless `known`, its planning env has the physics of CartPole."""
    env, plain = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")
    for name, value in physics.items():
        setattr(env.unwrapped, name, value)
    env.unwrapped.total_mass = env.unwrapped.masspole + env.unwrapped.masscart
    env.unwrapped.polemass_length = env.unwrapped.masspole * env.unwrapped.length
    planning = SimpleNamespace(
        unwrapped=(env if known else plain).unwrapped, change_notification=known, delta_change_notification=known
    )
    steps, over = 0, False
    state, _ = env.reset(seed=3)
    while not over:
        action = planner({"state": state, "relative_time": steps, "env_change": {}}, planning)
        state, _, terminated, truncated, _ = env.step(action)
        steps, over = steps + 1, terminated or truncated
    return steps


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "physics",
    [{}, {"length": 1.5}, {"masspole": 2.0, "gravity": 5.0}, {"length": 0.3, "gravity": 20.0}, {"force_mag": 5.0}],
    ids=str,
)
def test_the_regulator_balances_poles_of_known_and_unknown_physics(physics, known):
    assert balanced(PolePlanner(), known=known, **physics) == 500


def test_accelerations_are_those_of_cartpole():
    """The regression recovers what the equations of motion say, from the steps of an env."""
    planner = PolePlanner(memory=200.0)
    balanced(planner, known=False, length=1.0, masspole=0.5)
    found = np.linalg.solve(planner.squares, planner.products)
    np.testing.assert_allclose(found, PolePlanner.linear_motion(9.8, 1.0, 0.5, 1.0, 10.0), rtol=0.02)


def test_the_entry_fits_the_template(tmp_path, monkeypatch):
    """A stand-in for the template's base classes; the files are imported as its evaluator imports them."""
    write_ns_gym_entry(tmp_path)
    (tmp_path / "src" / "AAMAS_Comp" / "__init__.py").write_text("")
    (tmp_path / "src" / "AAMAS_Comp" / "base_agent.py").write_text(
        "class ModelBasedAgent:\n    pass\n\n\nclass ModelFreeAgent:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    submission = importlib.import_module("submission")
    env = gymnasium.make("CartPole-v1")
    state, _ = env.reset(seed=1)
    env.change_notification = env.delta_change_notification = True
    action = submission.get_agent("CartPole-v1").get_action({"state": state, "relative_time": 0}, env)
    assert type(action) is int
    assert env.action_space.contains(action)
    with pytest.raises(ValueError, match="Ant-v5 not in: FrozenLake-v1, CartPole-v1"):
        submission.get_agent("Ant-v5")
    for name in ("submission", "AAMAS_Comp", "AAMAS_Comp.agent", "AAMAS_Comp.base_agent"):
        sys.modules.pop(name, None)


def test_with_the_package_itself_the_entry_reaches_the_goal():
    pytest.importorskip("ns_gym")
    from benchmarks.ns_gym_entry import envs

    for name, least in (("FrozenLake, example", 0.5), ("CartPole, example", 400.0)):
        make, planner = envs()[name]
        for level, values in ns_gym_scores(make, planner, episodes=4, first_seed=7).items():
            assert values["mean_total_reward"] > least, (name, level)
            assert values["mean_transition_fn_changes"] > 0.5 * values["mean_episode_steps"]
