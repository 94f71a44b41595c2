"""Continuous actions: bins on any Box, and the branching head that answers them, against enumeration of all actions."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env

from dqucb import SavedFileError
from dqucb.envs import DiscretizedActions

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import DQN, DQNUCB, BranchingHead, DeepDQUCB, RandomPolicy, evaluation_returns, random_policy

SMALL = {"hidden": (16,), "learning_starts": 40, "buffer_size": 200, "batch_size": 8}


class Reach(gymnasium.Env):
    """One step: the reward is -|action - goal|^2, so the best action is the goal, whatever the observation."""

    observation_space = Box(-1, 1, (2,), np.float32)

    def __init__(self, low=(-1.0, 0.0, -3.0), high=(1.0, 5.0, 3.0), goal=(0.5, 1.0, -2.0)):
        self.action_space = Box(np.array(low, np.float32), np.array(high, np.float32))
        self.goal = np.array(goal)
        self.last = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.last = np.array(action)
        reward = -float((((action - self.goal) / 3) ** 2).sum())
        return np.zeros(2, np.float32), reward, True, False, {}


def test_atoms_are_equally_spaced_over_each_range():
    env = DiscretizedActions(Reach())
    assert env.action_space == MultiDiscrete([100, 100, 100])
    for row, low, high in zip(env.atoms, (-1, 0, -3), (1, 5, 3), strict=True):
        atoms = [2 * j / 99 - 1 for j in range(100)]
        np.testing.assert_allclose(row, [low + (high - low) * (atom + 1) / 2 for atom in atoms], atol=1e-6)
        assert row[0] == low
        assert row[-1] == high
    env.reset(seed=0)
    env.step(np.array([0, 99, 33]))
    np.testing.assert_allclose(env.unwrapped.last, [-1, 5, -3 + 6 * 33 / 99], atol=1e-6)


def test_bins_keep_the_shape_and_type_of_any_box():
    base = Reach()
    base.action_space = Box(np.array([[0, 0], [-2, 1]], np.float32), np.array([[1, 2], [2, 4]], np.float32))
    env = DiscretizedActions(base, bins=3)
    action = env.action(np.array([2, 1, 0, 1]))
    assert base.action_space.contains(action)
    np.testing.assert_array_equal(action, [[1, 1], [-2, 2.5]])
    check_env(DiscretizedActions(gymnasium.make("Pendulum-v1").unwrapped, bins=5), skip_render_check=True)


@pytest.mark.parametrize(
    ("space", "bins", "message"),
    [
        (Discrete(3), 5, r"env must have Box actions, got Discrete\(3\)"),
        (Box(-np.inf, 1, (2,)), 5, "env must have finite action bounds"),
        (Box(-1, 1, (2,)), 1, r"bins must be an integer >= 2, got 1"),
        (Box(-1, 1, (2,)), 2.0, r"bins must be an integer >= 2, got 2.0"),
    ],
)
def test_what_cannot_be_cut_into_bins_says_why(space, bins, message):
    base = Reach()
    base.action_space = space
    with pytest.raises(ValueError, match=message):
        DiscretizedActions(base, bins)


@pytest.mark.parametrize("action", [[0, 0], [0, 0, 5], [0, -1, 0], [0.0, 1.0, 2.0]])
def test_a_wrong_choice_is_an_error_and_not_another_action(action):
    env = DiscretizedActions(Reach(), 5)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must (be 3 integers|lie in \[0, 4\])"):
        env.step(action)


def test_the_greedy_action_and_its_value_are_those_of_enumerating_all_actions():
    head = BranchingHead(3, 4)
    q = np.random.default_rng(0).normal(size=(2, 5, 12)).astype(np.float32)
    best = head.best(q, np.zeros((2, 5, 1), np.float32))
    values = head.values(q, best)[..., 0]
    for i, j in itertools.product(range(2), range(5)):
        branches = q[i, j].reshape(3, 4)
        every = {bins: np.mean([branches[d, b] for d, b in enumerate(bins)]) for bins in np.ndindex(4, 4, 4)}
        chosen = max(every, key=every.get)
        assert tuple(head.actions(best[i])[j]) == chosen
        assert values[i, j] == pytest.approx(every[chosen], abs=1e-6)
    gradients = head.backward(np.full((2, 5, 1), 6.0, np.float32), best)
    np.testing.assert_array_equal(gradients.sum(2), 6.0)  # a third for each of the outputs chosen
    np.testing.assert_array_equal(np.take_along_axis(gradients, best, 2), 2.0)


def test_random_actions_and_their_coordinates_are_uniform_with_unit_spread():
    head, rng = BranchingHead(2, 100), np.random.default_rng(0)
    choices = np.array([head.random(rng.random(2), np.zeros(1, np.float32)) for _ in range(20_000)])
    bins = head.actions(choices)
    assert bins.min() == 0
    assert bins.max() == 99
    np.testing.assert_array_equal(choices - bins, np.broadcast_to([0, 100], choices.shape))
    np.testing.assert_allclose(head.coordinates(choices).std(0), 1.0, atol=0.02)
    np.testing.assert_array_equal(BranchingHead(**head.settings()).actions(choices), bins)


@pytest.mark.parametrize("agent", [DQN, DQNUCB, DeepDQUCB])
def test_every_agent_finds_the_best_choice_of_each_dimension(agent, tmp_path):
    learner = agent(hidden=(32,), learning_starts=300, batch_size=32, epsilon=0.3, epsilon_steps=500, n_steps=1)

    def make():
        return DiscretizedActions(Reach(), 7)

    learner.train_seeds(make, [0, 1], steps=2_500)
    returns = [learner.evaluate(make, episodes=9, trained_seed=s) for s in (0, 1)]
    best = -sum((np.abs(make().atoms - np.array(Reach().goal)[:, None]).min(1) / 3) ** 2)
    chance = evaluation_returns(random_policy(make().action_space), make, episodes=200).mean()
    # Of 343 actions the greedy one is close to the best: it has lost a tenth of what random actions lose.
    assert np.min(returns) > best + 0.1 * (chance - best), (returns, best, chance)
    learner.save(tmp_path / "agent")
    rows = np.random.default_rng(1).uniform(-1, 1, (6, 2))
    loaded = agent.load(tmp_path / "agent")
    np.testing.assert_array_equal(loaded.predict(rows, trained_seed=1), learner.predict(rows, trained_seed=1))
    assert loaded.predict(rows[0]).shape == (3,)


def test_counts_are_kept_per_state_dimension_and_bin():
    """The same bins again cost bonus in each dimension; a new bin in one of two dimensions brings half of it back."""
    from dqucb.deep import CountBonus

    bonus = CountBonus([np.random.default_rng(0)], 2, 2, scale=1.0, bits=8, table_bits=12)
    state, head = np.ones((1, 2)), BranchingHead(2, 10)
    seen = []
    for bins in ([3, 3], [3, 3], [3, 3], [3, 3], [3, 4]):
        choices = np.array([bins]) + np.array([0, 10])
        cells, likelihood = bonus.observe(np.array([0]), state, state, choices, head.coordinates(choices))
        seen.append(float(bonus.at(cells[:, None], likelihood[:, None])[0, 0]))
    np.testing.assert_allclose(seen, [1, 1 / 2**0.5, 1 / 3**0.5, 1 / 2, (1 / 5**0.5 + 1) / 2])


def test_spaces_without_a_head_say_what_to_do():
    base = Reach()
    with pytest.raises(ValueError, match=r"wrap it in dqucb.envs.DiscretizedActions"):
        DQN(**SMALL).train(lambda: base, steps=1)
    base.action_space = MultiDiscrete([2, 3])
    with pytest.raises(ValueError, match="as many choices in each action dimension"):
        DQN(**SMALL).train(lambda: base, steps=1)


def test_evaluation_is_repeatable_and_counts_whole_episodes():
    def make():
        return gymnasium.make("CartPole-v1", max_episode_steps=30)

    agent = RandomPolicy()
    agent.train(make, steps=5)
    same = [evaluation_returns(agent.predict, make, episodes=4, seed=s) for s in (3, 3, 4)]
    np.testing.assert_array_equal(same[0], same[1])
    assert len(same[0]) == 4
    by_hand = []
    for s in np.random.SeedSequence(3).generate_state(4):
        env = make()
        observation, _ = env.reset(seed=int(s))
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation))
            total, over = total + reward, terminated or truncated
        by_hand.append(total)
    np.testing.assert_array_equal(same[0], by_hand)
    np.testing.assert_array_equal(agent.evaluate(make(), episodes=4, seed=3), same[0])  # one env, one by one
    with pytest.raises(ValueError, match="episodes must be an integer >= 1, got 0"):
        evaluation_returns(agent.predict, make, episodes=0)


@pytest.mark.parametrize("action", [[5], [-1], [0.5], [float("nan")]])
def test_an_action_that_does_not_exist_is_not_learned_from(action):
    env = DiscretizedActions(gymnasium.make("Pendulum-v1"), 5)
    agent = DQN(hidden=(8,), learning_starts=2).start(env)
    state, _ = env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must be an integer in \[0, 4\], got"):
        agent.observe(state, action, 0.0, state)
    assert agent._trainer.step == 0


def test_a_file_with_actions_that_do_not_exist_is_refused(tmp_path):
    env = DiscretizedActions(gymnasium.make("Pendulum-v1"), 5)
    agent = DQN(hidden=(8,), learning_starts=2, buffer_size=50).start(env)
    state, _ = env.reset(seed=0)
    for _ in range(4):
        agent.observe(state, agent.act(state), 0.0, state)
    agent._trainer.replay.store["choices"][0, 1] = 99
    loaded = DQN.load(agent.save(tmp_path / "agent"))
    with pytest.raises(SavedFileError, match=r"action must be an integer in \[0, 4\], got 99"):
        loaded.act(state)
