"""Envs in other forms than the plain one: numbered and flattened spaces, wrappers, objects that are used again."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward

from dqucb import QUCB, UCBVI, TabularMDP, compare, gridworld
from dqucb.deep import DQN, RandomPolicy
from dqucb.drift import ShiftMonitor
from dqucb.envs import CartPoleEnv
from dqucb.envs.making import make_env, stated_problem
from dqucb.envs.numbering import count, element, number_of, numbered
from dqucb.envs.tabular import TabularEnv
from dqucb.hospital import GreedyByFreeBeds, HospitalAllocationEnv, synthetic_hospitals

SPACES = [
    spaces.Discrete(5),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete([[2, 3], [3, 2]], start=[[1, 0], [0, -1]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary((2, 2)),
    spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2, start=1)]),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(3)])}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_each_element_of_a_finite_space_has_a_number_of_its_own(space):
    elements = [element(space, number) for number in range(count(space))]
    assert all(space.contains(each) for each in elements)
    assert [number_of(space, each) for each in elements] == list(range(len(elements)))
    space.seed(0)
    assert {number_of(space, space.sample()) for _ in range(40 * len(elements))} == set(range(len(elements)))


class Two(gymnasium.Env):
    """Pays 1 for the action that is equal to the state, which is drawn; spaces of any form with three elements."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def _draw(self):
        self.state = int(self.np_random.integers(count(self.observation_space)))
        return element(self.observation_space, self.state)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float(number_of(self.action_space, action) == self.state)
        return self._draw(), reward, False, False, {}


@pytest.mark.parametrize("space", SPACES[1:], ids=str)
def test_tabular_agents_learn_on_any_finite_space(space):
    def make(space=space):
        return Two(space, space)

    plain = Two(spaces.Discrete(count(space)), spaces.Discrete(count(space)))
    runs = [UCBVI(stage_dependent=False).train(env, episodes=30, horizon=4) for env in (make, plain)]
    assert runs[0].returns.tobytes() == runs[1].returns.tobytes()
    agent = QUCB()
    agent.train(make, episodes=20, horizon=4, detector="auto")
    assert agent.evaluate(make, 3).shape == (3,)


def test_a_space_that_is_not_finite_is_refused_in_words():
    with pytest.raises(ValueError, match=r"observation_space must be finite .*, got Box.* an agent of dqucb.deep"):
        numbered(gymnasium.make("CartPole-v1"))


class Parts(gymnasium.Env):
    observation_space = spaces.Dict({"at": spaces.Box(-1, 1, (2,)), "mode": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self._shown(), {}

    def _shown(self):
        return {"at": self.np_random.uniform(-1, 1, 2).astype(np.float32), "mode": int(self.np_random.integers(3))}

    def step(self, action):
        self.left -= 1
        return self._shown(), float(action), self.left == 0, False, {}


def test_deep_agents_flatten_what_is_no_vector():
    agent = DQN(learning_starts=20, epsilon_steps=50)
    assert len(agent.train(Parts, episodes=10, max_return=5.0)) == 10
    assert agent.evaluate(Parts, 3).shape == (3,)


# ---- wrappers around an env of ours -----------------------------------------------------------------------

GRID = gridworld(0.1, rows=2, cols=3, horizon=6, change_at=())


def test_a_wrapper_that_changes_rewards_hides_the_problem():
    """Its optimal values are those of other rewards: regret against them would be wrong."""
    wrapped = TransformReward(TabularEnv(GRID), lambda reward: 10.0 * reward)
    assert stated_problem(wrapped) is None
    with pytest.warns(UserWarning, match="met the reward 10"):
        run = QUCB().train(wrapped, episodes=200)
    assert np.isnan(run.regret).all()
    assert run.problem != GRID.description


@pytest.mark.parametrize(
    "wrap",
    [RecordEpisodeStatistics, ShiftMonitor, lambda env: TimeLimit(env, 6), lambda env: TimeLimit(env, 60)],
)
def test_a_wrapper_that_only_looks_changes_no_bit(wrap):
    wanted = QUCB().train(GRID, episodes=30)
    found = QUCB().train(wrap(TabularEnv(GRID)), episodes=30)
    assert found.gaps.tobytes() == wanted.gaps.tobytes()
    assert stated_problem(TimeLimit(TabularEnv(GRID), 5)) is None  # it cuts episodes short


@pytest.mark.parametrize("wrap", [RecordEpisodeStatistics, ShiftMonitor])
def test_what_an_env_states_of_its_regret_is_read_through_wrappers_that_only_look(wrap):
    """The best return of an episode, and the regret of each day."""
    system = synthetic_hospitals(3, days=20, change_at=())
    for agent, env, length in (
        (GreedyByFreeBeds(), HospitalAllocationEnv(system), {"steps": 20}),
        (RandomPolicy(), CartPoleEnv(), {"episodes": 3}),
    ):
        wanted, found = (agent.clone().train(each, **length) for each in (copy.deepcopy(env), wrap(env)))
        assert not np.isnan(wanted.gaps).any()
        assert found.gaps.tobytes() == wanted.gaps.tobytes()
        doubled = agent.clone().train(TransformReward(env, lambda reward: 2.0 * reward), **length)
        assert np.isnan(doubled.gaps).all()


# ---- env objects ------------------------------------------------------------------------------------------


class Wearing(gymnasium.Env):
    """Pays less with every episode that it has seen, and no reset(seed=...) makes it new."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        return 0, {}

    def step(self, action):
        return 0, 1.0 / self.episodes, True, False, {}


def test_an_env_object_has_one_run():
    options = {"episodes": 4, "horizon": 1, "regret": "none"}
    with pytest.raises(ValueError, match="function that makes a new env for 2 runs: an env object keeps"):
        compare("qucb", Wearing(), seeds=2, jobs=1, **options)
    with pytest.raises(ValueError, match="for 2 runs"):
        compare(["qucb", "random"], Wearing(), seeds=1, jobs=1, **options)
    with pytest.raises(ValueError, match="for 3 runs"):
        QUCB().train_seeds(Wearing(), 3, episodes=4, horizon=1)
    env = Wearing()
    one = compare("qucb", env, seeds=1, jobs=1, **options)
    assert one.load_run("QUCB", 0).returns.tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]  # no episode was used up before
    several = compare("qucb", Wearing, seeds=2, jobs=1, **options)
    assert several.load_run("QUCB", 1).returns.tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]


@pytest.mark.parametrize("env", [lambda: TabularEnv(GRID), lambda: gymnasium.make("FrozenLake-v1")])
def test_an_env_object_that_a_seed_makes_new_may_have_several(env):
    options = {"episodes": 20, "horizon": None if make_env(env).spec is None else 100, "regret": "none", "jobs": 1}
    shared, fresh = (compare("qucb", problem, seeds=2, **options) for problem in (env(), env))
    for seed in (0, 1):
        assert shared.load_run("QUCB", seed).returns.tobytes() == fresh.load_run("QUCB", seed).returns.tobytes()


def test_discount_zero_is_compared_as_it_is_trained():
    problem = TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.7]]), discount=0.0)
    trained = QUCB().train(problem, steps=50)
    compared = compare("qucb", problem, steps=50, seeds=1, jobs=1)
    assert compared.load_run("QUCB", 0).gaps.tobytes() == trained.gaps.tobytes()
    assert len(QUCB().train(lambda: Two(spaces.Discrete(2), spaces.Discrete(2)), steps=20, discount=0.0)) > 0


def test_a_change_after_the_end_is_refused():
    with pytest.raises(ValueError, match="change_at must lie before the end of a run of episodes=10, got 50"):
        QUCB().train(lambda: Two(spaces.Discrete(2), spaces.Discrete(2)), episodes=10, horizon=3, change_at=[50])
