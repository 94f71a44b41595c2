"""The deep agents as a user meets them: learning, seeds in lockstep, any env, loops of one's own, errors."""

from functools import partial
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import sklearn.base

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from deep_cases import CARTPOLE, KINDS, SMALL, cartpole, curves, weights

from dqucb import AGENTS, QUCB, FourierTransitionDensity, check_agent, combination_lock
from dqucb.deep import DQN, DQNUCB, CalibrationRecorder, DeepDQUCB, RandomPolicy, TensorBoardCallback
from dqucb.envs import CartPoleEnv, ShiftWrapper


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_learns_the_same_alone_and_among_others_and_twice(kind):
    env = cartpole(change_at=5)
    together = kind(**SMALL).train_seeds(env, [4, 0, 9], episodes=12)
    again = kind(**SMALL).train_seeds(env, [4, 0, 9], episodes=12)
    for run, twin in zip(together, again, strict=True):
        assert curves(run) == curves(twin)
        alone = kind(**SMALL).train(env, episodes=12, seed=run.seed)
        np.testing.assert_array_equal(alone.lengths, run.lengths)
        np.testing.assert_allclose(alone.likelihood, run.likelihood, rtol=1e-5)
    assert len({curves(run)[0] for run in together}) == 3


def test_networks_of_a_seed_are_those_of_the_seed_alone_whatever_finishes_first():
    agent, alone = DQNUCB(**SMALL), DQNUCB(**SMALL)
    agent.train_seeds(CARTPOLE, [1, 2, 3], episodes=10)
    observations = np.random.default_rng(0).uniform(-0.2, 0.2, (200, 4))
    for i, seed in enumerate([1, 2, 3]):
        alone.train(CARTPOLE, episodes=10, seed=seed)
        np.testing.assert_array_equal(weights(alone)[0], weights(agent)[i])
        np.testing.assert_array_equal(alone.predict(observations), agent.predict(observations, trained_seed=seed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_of_ones_own_makes_the_updates_of_train(kind, tmp_path):
    trained, stepped = kind(**SMALL), kind(**SMALL)
    run = trained.train(cartpole(change_at=3), steps=300, seed=4)
    env = gymnasium.make(CARTPOLE, change_at=3)
    stepped.start(env, seed=4)
    state, _ = env.reset(seed=4)
    total, likelihood = 0.0, []
    for step in range(300):
        if step == 170:  # a file in between changes nothing
            stepped = kind.load(stepped.save(tmp_path / "agent"))
        action = stepped.act(state)
        following, reward, terminated, truncated, _ = env.step(action)
        likelihood.append(stepped.observe(state, action, reward, following, terminated=terminated)[1])
        state, total = following, total + reward
        if terminated or truncated:
            stepped.end_episode()
            state, _ = env.reset()
    assert total == run.returns.sum()
    assert np.mean(likelihood) == pytest.approx((run.likelihood * run.lengths).sum() / 300)
    np.testing.assert_array_equal(weights(stepped), weights(trained))
    with pytest.raises(ValueError, match=r"state must have 4 numbers, got shape \(3,\)"):
        stepped.observe([0.0] * 3, 0, 1.0, [0.0] * 4)
    with pytest.raises(ValueError, match="call start first"):
        trained.act(state)


def test_the_default_density_is_the_kde_and_others_are_refused():
    named = DeepDQUCB(**SMALL, density="kde", window=30).train(CARTPOLE, episodes=5)
    given = DeepDQUCB(**SMALL, density={"name": "kde", "window": 30}).train(CARTPOLE, episodes=5)
    # Scott's bandwidth follows the window of the agent.
    assert curves(named) == curves(DeepDQUCB(**SMALL, window=30).train(CARTPOLE, episodes=5))
    assert curves(given) != curves(named)
    with pytest.raises(ValueError, match="unknown density 'fourrier': did you mean fourier"):
        DeepDQUCB(density="fourrier")
    with pytest.raises(ValueError, match="density must be one of vectors, got 'counts'"):
        DeepDQUCB(density="counts")
    with pytest.raises(ValueError, match="density must be a registered name or a transition density, got 3"):
        DeepDQUCB(density=3)
    with pytest.raises(ValueError, match="state_dim=2, the problem has state_dim=4"):
        DeepDQUCB(density=FourierTransitionDensity(2, 1)).train(CARTPOLE, steps=1)


@pytest.mark.parametrize("kind", [*KINDS, RandomPolicy])
def test_the_contract_holds(kind):
    agent = kind(**SMALL) if kind is not RandomPolicy else kind(hidden=[8])
    check_agent(agent, cartpole(change_at=3, max_steps=30), episodes=9)
    twin = sklearn.base.clone(agent)
    assert twin.get_params() == agent.get_params()
    assert twin.hidden == tuple(agent.hidden)
    assert AGENTS.name_of(kind) in ("dqn", "dqn-ucb", "deep-dqucb", "random-policy")


class Spoilt(gymnasium.Wrapper):
    """NaN in the reward or in an observation at the 7th step of the third episode of seed 5."""

    def __init__(self, env, what):
        super().__init__(env)
        self.what, self.bad, self.episode, self.at = what, False, -1, 0

    def reset(self, *, seed=None, options=None):
        self.bad = self.bad or seed == 5
        self.episode, self.at = self.episode + 1, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        if self.bad and self.episode == 2 and self.at == 6:
            reward = np.nan if self.what == "reward" else reward
            observation = observation * np.nan if self.what == "observation" else observation
        self.at += 1
        return observation, reward, *rest


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_nan_is_an_error_that_says_where(what):
    with pytest.raises(ValueError, match=rf"{what} must be finite in 32 bits, got .*nan.*seed 5, episode 2, step 6"):
        DQN(**SMALL).train_seeds(lambda: Spoilt(CartPoleEnv(), what), [1, 5], episodes=6)


def shifting(unit="episodes"):
    env = gymnasium.make("CartPole-v1", max_episode_steps=40)
    return ShiftWrapper(env, [{"gravity": 30.0}], change_at=[3], unit=unit)


def test_any_gymnasium_env_will_do_and_wrappers_stay_in_force():
    runs = DQN(**SMALL).train_seeds(shifting, [0, 1], episodes=6, max_return=40)
    assert all(run.change_at == (3,) for run in runs)
    np.testing.assert_array_equal(runs[0].gaps, 40 - runs[0].returns)
    bare = DQN(**SMALL).train(CartPoleEnv, episodes=6)
    wrapped = DQN(**SMALL).train(lambda: gymnasium.Wrapper(CartPoleEnv()), episodes=6)
    assert curves(bare) == curves(wrapped)
    assert curves(bare) == curves(DQN(**SMALL).train(CartPoleEnv(), episodes=6))  # an env itself, for one seed
    assert curves(bare) == curves(DQN(**SMALL).train("cartpole", episodes=6))  # a registered name
    assert np.isnan(wrapped.gaps).all()  # the wrapper may have changed the best return
    with pytest.raises(ValueError, match="cannot be saved unless it has checkpoint_state"):
        DQN(**SMALL).train(shifting, episodes=1, checkpoint="never-written")
    with pytest.raises(ValueError, match=r"env must have Box, Dict, .* observations"):
        DQN().train("dqucb/FrozenLake-v0", episodes=1)
    with pytest.raises(ValueError, match=r"env must have Box, Dict, .* observations"):
        DQN().train(combination_lock(change_at=()), episodes=1)
    with pytest.raises(ValueError, match="env must have Discrete actions"):
        DQN().train("Pendulum-v1", episodes=1)
    with pytest.raises(ValueError, match="problem must be an id or a function that makes a new env for several seeds"):
        DQN().train_seeds(gymnasium.make("CartPole-v1"), [0, 1], episodes=1)
    with pytest.raises(ValueError, match="problem must be an env that exists, got 'NoSuch-v0'"):
        DQN().train("NoSuch-v0", episodes=1)


def test_change_points_are_those_of_the_env_in_the_unit_of_the_run():
    agent = DQN(**SMALL)
    assert agent.clone().train(partial(shifting, "steps"), steps=9).change_at == (3,)
    assert agent.clone().train(partial(shifting, "steps"), episodes=2).change_at == ()
    assert agent.clone().train(shifting, steps=9).change_at == ()
    assert agent.clone().train(shifting, steps=9, change_at=[5]).change_at == (5,)
    foreign = agent.train("CartPole-v1", episodes=6, change_at=4, max_return=500)
    assert (foreign.change_at, len(foreign.phase_regret())) == ((4,), 2)
    facts = agent.describe(partial(shifting, "steps"))
    assert (facts.unit, facts.change_at, facts.regret_known, facts.resumable) == ("steps", (3,), False, False)
    facts = agent.describe(CARTPOLE)
    assert (facts.unit, facts.change_at, facts.regret_known, facts.resumable) == ("episodes", (400,), True, True)
    with pytest.raises(ValueError, match=r"change_at must be \(3,\), as the env states, got \(4,\)"):
        agent.clone().train(shifting, episodes=9, change_at=[4])


class Pictures(gymnasium.Env):
    """Images for observations."""

    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)


def test_images_need_a_network_of_their_own():
    with pytest.raises(ValueError, match=r"network must be given for images of shape \(64, 64, 3\).*'cnn'"):
        DQN(buffer_size=10).train(Pictures, episodes=1)


def test_a_callback_sees_every_step_and_can_stop():
    seen = []

    def stop_after_40(moment):
        seen.append(moment)
        return len(seen) < 40

    agent = DQNUCB(**SMALL)
    runs = agent.train_seeds(CARTPOLE, [0, 1], steps=100, callback=stop_after_40)
    assert [moment.step for moment in seen] == list(range(1, 41))
    np.testing.assert_array_equal(seen[3].observations, seen[2].next_observations)
    for moment, after in pairwise(seen):
        ended = moment.terminated | moment.truncated
        assert ((moment.next_observations == after.observations).all(1) == ~ended).all()
    assert any(moment.terminated.any() for moment in seen)
    assert all((moment.bonus > 0).all() and (moment.bonus <= 0.1).all() for moment in seen)
    last = seen[-1]
    assert (last.agent, last.done, last.length, last.unit) == (agent, 40, 100, "steps")
    assert [curves(run) for run in last.runs()] == [curves(run) for run in runs]


def test_the_recorder_keeps_discounted_returns():
    recorder = CalibrationRecorder([(1, 3)], discount=0.5)
    run = DQNUCB(**SMALL).train(CARTPOLE, episodes=5, callback=recorder)
    visits = recorder.visits(0)
    assert len(visits.q) == run.lengths[1:3].sum()
    np.testing.assert_array_equal(run.extras["visit_returns"], visits.returns)
    np.testing.assert_array_equal(np.unique(run.extras["visit_episodes"]), [1, 2])
    first = visits.returns[: run.lengths[1]]
    np.testing.assert_allclose(first, 2 * (1 - 0.5 ** np.arange(run.lengths[1], 0, -1)))
    # A time limit ends the episode but not the task: the value of the last state stands for the rest.
    recorder = CalibrationRecorder([(0, 1)], discount=0.5)
    DQNUCB(**SMALL).train(cartpole(max_steps=3), episodes=1, callback=recorder)
    visits = recorder.visits(0)
    tail = (visits.returns[-1] - 1) / 0.5
    assert tail != 0
    np.testing.assert_allclose(visits.returns, [1.75 + tail / 8, 1.5 + tail / 4, 1 + tail / 2])


def test_tensorboard_shows_the_curves_of_any_agent(tmp_path):
    pytest.importorskip("tensorboard", reason='tensorboard is missing: pip install "dqucb[deep]"')
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = []
    with TensorBoardCallback(tmp_path, every=3) as callback:
        runs += DQN(**SMALL).train_seeds(CARTPOLE, [0, 1], episodes=7, callback=callback)
    with TensorBoardCallback(tmp_path) as callback:
        runs.append(QUCB().train(combination_lock(change_at=()), episodes=30, seed=2, callback=callback))
    for run in runs:
        events = EventAccumulator(str(tmp_path / run.agent / f"seed-{run.seed}")).Reload()
        points = events.Scalars("returns")
        assert [point.step for point in points] == run.ends.tolist()
        np.testing.assert_allclose([point.value for point in points], run.returns, rtol=1e-6)
        assert events.Scalars("regret")[-1].value == pytest.approx(run.regret[-1], rel=1e-6)


class ThreeJoints(gymnasium.Env):
    """Nothing to learn, three dimensions to choose in."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.MultiDiscrete([5, 5, 5])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("by", ["action", "dimension"])
def test_a_random_action_is_random_in_all_dimensions_or_in_each_by_itself(by):
    agent = DQN(**{**SMALL, "learning_starts": 1 << 40, "epsilon": 0.25, "epsilon_steps": 0}, explore_by=by)
    seen = []

    def keep(moment):
        greedy = agent.predict(moment.observations[0])
        seen.append(moment.choices[0] - 5 * np.arange(3) != greedy)

    agent.train(ThreeJoints, steps=400, callback=keep)
    different = np.array(seen)  # a random choice among five is the greedy one in a fifth of the cases
    np.testing.assert_allclose(different.mean(0), 0.25 * 0.8, atol=0.08)
    together = (different[:, 0] & different[:, 1]).mean()
    assert together == pytest.approx(0.25 * 0.64 if by == "action" else (0.25 * 0.8) ** 2, abs=0.04)


def test_dqn_learns_cartpole_and_a_random_policy_does_not():
    env = cartpole(change_at=())
    runs = DQN(epsilon_steps=1_000, train_every=1).train_seeds(env, [0, 1, 2], steps=5_000)
    floor = RandomPolicy().train_seeds(env, [0, 1, 2], episodes=100)
    assert all(run.returns.mean() < 35 for run in floor)
    assert np.median([run.returns[-15:-1].mean() for run in runs]) > 70


def test_mistakes_get_clear_errors():
    with pytest.raises(ValueError, match="discount must be >= 0 and <= 1, got 2"):
        DQN(discount=2)
    with pytest.raises(ValueError, match="bonus_scale must be >= 0, got -1"):
        DQNUCB(bonus_scale=-1)
    with pytest.raises(ValueError, match="density_on must be one of"):
        DeepDQUCB(density_on="nothing")
    with pytest.raises(ValueError, match="explore_by must be one of"):
        DQN(explore_by="joint")
    with pytest.raises(ValueError, match="explore_by must be 'action' for AllocationHead"):
        DQN(explore_by="dimension").train("hospital", steps=1)
    with pytest.raises(ValueError, match="exactly one of episodes and steps"):
        DQN().train(CARTPOLE)
    with pytest.raises(ValueError, match="different seeds, got"):
        DQN().train_seeds(CARTPOLE, [1, 1], steps=1)
    with pytest.raises(ValueError, match="regret must be 'realized' for a deep agent"):
        DQN().train(CARTPOLE, steps=1, regret="expected")
    with pytest.raises(ValueError, match="horizon is for tabular agents, got 5"):
        DQN().train(CARTPOLE, steps=1, horizon=5)


def test_without_scipy_parameters_work_and_training_says_how_to_install_it(run_python):
    code = """
import sys
sys.modules["scipy"] = None
import dqucb
from dqucb.deep import DeepDQUCB
print(DeepDQUCB(window=7).clone(), sorted(dqucb.AGENTS)[:3])
try:
    DeepDQUCB().train("cartpole", steps=1)
except ImportError as error:
    print(error)
"""
    printed = run_python(code)
    assert "DeepDQUCB(window=7)" in printed
    assert 'deep agents need SciPy and threadpoolctl: pip install "dqucb[deep]"' in printed
