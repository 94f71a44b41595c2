"""Rewards outside [0, 1], and what a state is worth that ends some episodes and not others."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dqucb import AGENTS, MASTER, QUCB, UCBMQ, UCBVI, TabularAgent, TabularMDP
from dqucb.agents.tables import count_type
from dqucb.envs.tabular import TabularEnv

LEARNERS = [
    *("planning-dqucb", "qucb", "dqucb", "ucbvi", "ucbmq", "ucbb", "psrl", "restart-qucb", "sliding-window-qucb"),
    "detect-reset",
]


class Arms(gymnasium.Env):
    """One state; each action pays its own sure reward and ends the episode."""

    def __init__(self, pays):
        self.pays = pays
        self.observation_space, self.action_space = spaces.Discrete(1), spaces.Discrete(len(pays))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, float(self.pays[action]), True, False, {}


def share_of_best(agent, pays, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = agent.train(lambda: Arms(pays), episodes=200, horizon=1, seed=seed, **options)
    return float((run.returns[100:] == max(pays)).mean())


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("pays", [(5.0, 10.0), (-10.0, -1.0), (0.5, 300.0)])
def test_an_env_may_pay_more_than_one_or_less_than_nothing(name, pays):
    assert share_of_best(AGENTS[name](), pays) >= 0.95


def test_a_reward_beyond_the_bounds_is_said_once():
    with pytest.warns(UserWarning, match=r"met the reward 5, above 1, .*give max_return") as caught:
        QUCB().train(lambda: Arms((5.0, 10.0)), episodes=50, horizon=1)
    assert len(caught) == 1


@pytest.mark.parametrize("agent", [QUCB(), UCBVI()])
def test_max_return_states_the_bound_beforehand(agent):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = agent.train(lambda: Arms((5.0, 10.0)), episodes=100, horizon=1, max_return=10.0)
    assert (run.returns[50:] == 10.0).all()
    assert agent._started().sizes.bounds.tolist() == [10.0, 0.0]


def test_bounds_grow_in_powers_of_two():
    """Bounds grow to the next power of two, and what was learned under the lower ones is gone."""
    agent = QUCB().start(2, 2, horizon=3)
    with pytest.warns(UserWarning, match="met the reward 2.5"):
        agent.observe(0, 1, 2.5, 1, step=0)
    assert agent._started().sizes.bounds.tolist() == [12.0, 8.0, 4.0, 0.0]
    agent.observe(1, 0, 4.0, 1, step=1)
    assert agent.visits_.sum() == 2
    agent.observe(1, 0, 4.1, 1, step=1)
    assert agent.visits_.sum() == 1


def test_a_loop_of_ones_own_keeps_to_the_bound_it_was_given():
    agent = QUCB().start(1, 2, horizon=1, return_bound=2.0)
    with pytest.raises(ValueError, match=r"reward must be at most return_bound=2, got 3\.0"):
        agent.observe(0, 0, 3.0, 0)


@pytest.mark.parametrize("way", ["table", "hidden env"])
@pytest.mark.parametrize("agent", [UCBMQ(), MASTER()])
def test_negative_rewards_are_learned_as_positive_ones(agent, way):
    """The first action leads to -10 or to -1, and the same plus 10: a value cut off at zero cannot tell them apart."""
    P, R = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1.0
    R[1:] = [[-10.0], [-1.0]]
    shares = []
    for shift in (0.0, 10.0):
        problem = TabularMDP(P, R + shift, horizon=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            hidden = {} if way == "table" else {"horizon": 2}
            given = problem if way == "table" else lambda problem=problem: Hidden(TabularEnv(problem))
            runs = [agent.clone().train(given, episodes=300, seed=seed, **hidden) for seed in range(4)]
        best = problem.optimal_values()[0, 0]
        shares.append(np.mean([run.returns[150:] == best for run in runs]))
    assert shares[0] > 0.5
    assert shares[0] > shares[1] - 0.1


class Hidden(gymnasium.Wrapper):
    """An env of which the library cannot know that it changes nothing."""


class Trap(gymnasium.Env):
    """From 0, action 0 enters state 1 and ends the episode; action 1 enters it and goes on, to a reward of 1."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        if self.state == 0:
            self.state = 1
            return 1, 0.3 * (action == 0), action == 0, False, {}
        return 1, 1.0, True, False, {}


@pytest.mark.parametrize("options", [{}, {"planning": "real_time"}, {"cap_q": False}, {"stage_dependent": False}])
def test_ucbvi_tells_the_end_of_an_episode_from_the_state_in_which_it_ended(options):
    for seed in range(4):
        run = UCBVI(**options).train(Trap, episodes=300, horizon=2, seed=seed)
        assert (run.returns[-50:] == 1.0).all()


def test_every_agent_learns_a_state_that_ends_some_episodes():
    stuck = []
    cautious = {"sw-ucrl2-cw": {"bonus_scale": 0.05}}  # its radii as published are too wide for so few episodes
    slow = {"ns-nac": 5_000}  # its step sizes follow from the length of the run
    for name, kind in AGENTS.items():
        if not issubclass(kind, TabularAgent) or "oracle" in name or name in ("random", "master", "borl"):
            continue  # oracles need the model; MASTER explores for ever, and BORL keeps drawing useless windows
        episodes = slow.get(name, 400)
        run = kind(**cautious.get(name, {})).train(Trap, episodes=episodes, horizon=2)
        if run.returns[-episodes // 4 :].mean() < 0.8:
            stuck.append(name)
    assert not stuck


def test_counts_are_as_wide_as_the_run_is_long():
    sizes = QUCB().start(1, 1, horizon=500, length=1_000_000)._started().sizes
    assert count_type(sizes) is np.int32
    assert count_type(sizes._replace(length=5_000_000)) is np.int64


def test_a_count_that_would_overflow_is_refused_by_the_compiled_loop():
    problem = TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.7]]), horizon=1)
    agent = QUCB()
    agent.train(problem, episodes=100, stop_at=10)
    agent._started().learner.q.visits[0, 0, 1] = np.iinfo(np.int32).max - 5
    with pytest.raises(ValueError, match=r"a pair has 2,147,483,642 visits, about the most that this QUCB counts"):
        agent.train(problem, episodes=100)
