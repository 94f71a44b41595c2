"""The deep agents as a user meets them: learning, seeds in lockstep, going on, files, loops of one's own, errors."""

import json
import signal
from functools import partial
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import sklearn.base

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

import dqucb.session
from dqucb import (
    AGENTS,
    QUCB,
    Agent,
    FourierTransitionDensity,
    Run,
    SavedFileError,
    check_agent,
    combination_lock,
)
from dqucb.deep import (
    DQN,
    DQNUCB,
    CalibrationRecorder,
    DeepAgent,
    DeepDQUCB,
    RandomPolicy,
    TensorBoardCallback,
)
from dqucb.envs import CartPoleEnv, ShiftWrapper

CARTPOLE = "dqucb/CartPole-v0"
SMALL = {"hidden": (16,), "learning_starts": 60, "capacity": 300, "batch": 8}
KINDS = [DQN, DQNUCB, DeepDQUCB]


def cartpole(**options):
    return partial(gymnasium.make, CARTPOLE, **options)


def curves(run):
    return [getattr(run, name).tobytes() for name in ("returns", "likelihood", "lengths", "ends")]


def weights(agent):
    """The networks that act, one row per trained seed."""
    return agent._greedy().network.flat


def stop_after(steps):
    return lambda moment: moment.step < steps


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
        np.testing.assert_allclose(weights(alone)[0], weights(agent)[i], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(alone.predict(observations), agent.predict(observations, trained_seed=seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["episodes", "steps"])
def test_a_resumed_run_equals_the_uninterrupted_one(kind, unit, tmp_path):
    length = {unit: 14 if unit == "episodes" else 400}
    env, seeds, path = cartpole(change_at=6), [0, 5], tmp_path / "checkpoint"
    whole = kind(**SMALL)
    runs = whole.train_seeds(env, seeds, **length)
    for stop in (30, 150, 290):  # before learning starts, in the middle, and with a full buffer soon after
        kind(**SMALL).train_seeds(env, seeds, **length, checkpoint=path, callback=stop_after(stop))
    last = kind(**SMALL)
    parts = last.train_seeds(env, seeds, **length, checkpoint=path)
    for run, part in zip(runs, parts, strict=True):
        assert curves(run) == curves(part)
    np.testing.assert_array_equal(weights(whole), weights(last))
    finished = kind(**SMALL).train_seeds(env, seeds, **length, checkpoint=path)
    assert [curves(run) for run in finished] == [curves(run) for run in runs]


@pytest.mark.parametrize("unit", ["episodes", "steps"])
def test_stop_at_counts_in_the_unit_of_the_run_and_the_same_agent_goes_on(unit):
    length, stop = ({"episodes": 9}, 4) if unit == "episodes" else ({"steps": 300}, 130)
    whole = DQNUCB(**SMALL).train(CARTPOLE, seed=3, **length)
    agent = DQNUCB(**SMALL)
    part = agent.train(CARTPOLE, seed=3, stop_at=stop, **length)
    assert part.ends[-1] == stop if unit == "episodes" else part.steps <= stop
    with pytest.raises(ValueError, match=r"holds another run \(clone\(\) trains anew\): its seeds is \[3\], not \[4\]"):
        agent.train(CARTPOLE, seed=4, **length)
    with pytest.raises(ValueError, match="its problem is"):
        agent.train(cartpole(change_at=2), seed=3, **length)
    assert curves(agent.train(CARTPOLE, seed=3, **length)) == curves(whole)
    # A finished run in memory is followed by a new one.
    assert curves(agent.train(CARTPOLE, seed=3, **length)) == curves(whole)


@pytest.mark.parametrize("kind", [DQN, DeepDQUCB])
def test_a_loaded_agent_goes_on_bit_for_bit_or_refuses_in_words(kind, tmp_path):
    path, length = tmp_path / "agent", {"episodes": 10}
    whole = kind(**SMALL).train(CARTPOLE, seed=2, **length)
    stopped = kind(**SMALL)
    stopped.train(CARTPOLE, seed=2, callback=stop_after(100), **length)
    stopped.save(path)
    loaded = Agent.load(path)
    assert type(loaded) is kind
    again = Agent.load(loaded.save(tmp_path / "again"))  # saved before it went on
    for agent in (loaded, again):
        assert curves(agent.train(CARTPOLE, seed=2, **length)) == curves(whole)
    finished = Agent.load(loaded.save(path))
    with pytest.raises(ValueError, match=r"loaded with a finished run of 10 episodes.*clone\(\) trains anew"):
        finished.train(CARTPOLE, seed=2, **length)
    assert curves(finished.clone().train(CARTPOLE, seed=2, **length)) == curves(whole)

    def foreign():
        return gymnasium.make("CartPole-v1")

    stopped = kind(**SMALL)
    stopped.train(foreign, stop_at=50, steps=100)
    loaded = kind.load(stopped.save(path))
    assert loaded.predict(np.zeros(4)) == stopped.predict(np.zeros(4))
    with pytest.raises(ValueError, match="its env could not be saved, so that it cannot go on"):
        loaded.train(foreign, steps=100)
    stopped.train(foreign, steps=100)  # in memory it can


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
    with pytest.raises(ValueError, match="state must have 4 numbers, got 3"):
        stepped.observe([0.0] * 3, 0, 1.0, [0.0] * 4)
    with pytest.raises(ValueError, match="call start first"):
        trained.act(state)


def test_density_on_next_states_resumes_too(tmp_path):
    agent, length = DeepDQUCB(**SMALL, density_on="next_state", freeze_after=90), {"steps": 200, "seed": 3}
    run = agent.train(CARTPOLE, **length)
    agent.clone().train(CARTPOLE, **length, checkpoint=tmp_path / "c", stop_at=80)
    assert curves(agent.clone().train(CARTPOLE, **length, checkpoint=tmp_path / "c")) == curves(run)


@pytest.mark.parametrize(
    "density",
    [
        "fourier",
        {"name": "fourier", "features": 64, "window": 40, "bandwidth": 0.8},
        FourierTransitionDensity(4, 1, window=40, bandwidth=0.8, features=64),
    ],
    ids=["name", "mapping", "object"],
)
def test_any_density_of_vectors_can_be_used_and_is_kept_in_files(density, tmp_path):
    agent, length = DeepDQUCB(**SMALL, density=density), {"episodes": 8, "seed": 3}
    run = agent.train(CARTPOLE, **length)
    assert (run.likelihood < 1).any()
    assert not np.array_equal(run.likelihood, DeepDQUCB(**SMALL).train(CARTPOLE, **length).likelihood)
    assert curves(agent.clone().train(CARTPOLE, **length)) == curves(run)  # each seed has an empty one of its own
    stopped = agent.clone()
    stopped.train(CARTPOLE, stop_at=4, **length)
    loaded = Agent.load(stopped.save(tmp_path / "agent"))
    assert loaded.parameters() == agent.parameters()
    assert curves(loaded.train(CARTPOLE, **length)) == curves(run)


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


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "c"
    DQN(**SMALL).train(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another run: its seeds is"):
        DQN(**SMALL).train(CARTPOLE, steps=50, seed=1, checkpoint=path)
    with pytest.raises(ValueError, match="holds a DQN, expected a DQNUCB"):
        DQNUCB(**SMALL).train(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another agent"):
        DQN(**{**SMALL, "batch": 9}).train(CARTPOLE, steps=50, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SavedFileError, match="cut short"):
        DQN(**SMALL).train(CARTPOLE, steps=50, checkpoint=path)


def test_runs_are_those_of_the_tabular_agents(tmp_path):
    runs = DeepDQUCB(**SMALL).train_seeds(cartpole(change_at=4), [0, 1], episodes=8)
    for seed, run in enumerate(runs):
        assert (run.seed, run.agent, run.unit, run.change_at, len(run)) == (seed, "DeepDQUCB", "episodes", (4,), 8)
        np.testing.assert_array_equal(run.gaps, 200 - run.returns)
        np.testing.assert_array_equal(run.returns, run.lengths)  # a reward of 1 a step
        assert len(run.phase_regret()) == 2
        assert (run.likelihood < 1).any()
        assert ((run.likelihood > 0) & (run.likelihood <= 1)).all()
        run.save(tmp_path / "run.npz")
        assert curves(Run.load(tmp_path / "run.npz")) == curves(run)
        assert json.dumps(run.parameters)
    by_steps = DQN(**SMALL).train(CARTPOLE, steps=333, seed=7)
    assert (by_steps.steps, by_steps.ends[-1], by_steps.unit) == (333, 333, "steps")
    assert by_steps.change_at == ()  # the env counts episodes
    np.testing.assert_array_equal(by_steps.likelihood, 1.0)


def test_saved_agents_predict_the_same(tmp_path):
    agent = DeepDQUCB(**SMALL)
    agent.train_seeds(CARTPOLE, [3, 8], steps=150)
    agent.save(tmp_path / "agent")
    loaded = DeepAgent.load(tmp_path / "agent")
    assert repr(loaded) == repr(agent) == "DeepDQUCB(hidden=(16,), batch=8, capacity=300, learning_starts=60)"
    observations = np.random.default_rng(0).uniform(-0.3, 0.3, (300, 4))
    for seed in (3, 8):
        actions = agent.predict(observations, trained_seed=seed)
        np.testing.assert_array_equal(loaded.predict(observations, trained_seed=seed), actions)
        assert actions[5] == loaded.predict(observations[5], trained_seed=seed)
    returns = agent.evaluate(CARTPOLE, episodes=3, trained_seed=8)
    np.testing.assert_array_equal(loaded.evaluate(CARTPOLE, episodes=3, trained_seed=8), returns)
    with pytest.raises(SavedFileError, match="holds a DeepDQUCB, expected a DQN"):
        DQN.load(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"trained_seed must be one of \[3, 8\], got 4"):
        agent.predict(observations, trained_seed=4)
    with pytest.raises(ValueError, match="observation must have 4 numbers"):
        agent.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="learned nothing yet"):
        DQN().predict(np.zeros(4))


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
    with pytest.raises(ValueError, match=rf"{what} must be finite, got .*nan.*seed 5, episode 2, step 6"):
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
    with pytest.raises(ValueError, match="env must have Box observations"):
        DQN().train("dqucb/FrozenLake-v0", episodes=1)
    with pytest.raises(ValueError, match="env must have Box observations"):
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
        agent.clone().train(shifting, episodes=4, change_at=[4])


class Pictures(gymnasium.Env):
    """Images for observations."""

    observation_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)


def test_images_are_refused_in_words():
    with pytest.raises(ValueError, match=r"got images of shape \(64, 64, 3\).*features"):
        DQN().train(Pictures, episodes=1)


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


def test_ctrl_c_falls_between_two_steps_and_the_run_goes_on(tmp_path):
    whole = DQN(**SMALL).train(CARTPOLE, steps=200)
    agent = DQN(**SMALL)

    def interrupt(moment):
        if moment.step == 77:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.train(CARTPOLE, steps=200, callback=interrupt, checkpoint=tmp_path / "c")
    assert curves(agent.train(CARTPOLE, steps=200)) == curves(whole)
    assert curves(DQN(**SMALL).train(CARTPOLE, steps=200, checkpoint=tmp_path / "c")) == curves(whole)


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


class KilledError(Exception):
    """As if the process had ended."""


class DyingRecorder(CalibrationRecorder):
    """Dies within a run, after checkpoints were written."""

    def __call__(self, moment):
        super().__call__(moment)
        if moment.step == 90:
            raise KilledError


def test_a_recorder_lives_in_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(dqucb.session, "CHECKPOINT_SECONDS", 0.0)
    agent, path, length = DQNUCB(**SMALL), tmp_path / "c", {"episodes": 8, "seed": 1}
    whole = agent.train(CARTPOLE, **length, callback=CalibrationRecorder([(0, 8)], 0.9))
    with pytest.raises(KilledError):
        agent.clone().train(CARTPOLE, **length, checkpoint=path, callback=DyingRecorder([(0, 8)], 0.9))
    part = agent.clone().train(CARTPOLE, **length, checkpoint=path, callback=CalibrationRecorder([(0, 8)], 0.9))
    finished = agent.clone().train(CARTPOLE, **length, checkpoint=path, callback=CalibrationRecorder([(0, 8)], 0.9))
    for run in (part, finished):
        assert run.extras.keys() == whole.extras.keys()
        for name, values in whole.extras.items():
            np.testing.assert_array_equal(run.extras[name], values)


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
