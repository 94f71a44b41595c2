"""The deep agents as a user meets them: learning, seeds in lockstep, resuming, saving, and clear errors."""

import json
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='torch is missing: pip install "dqucb[deep]"')

from dqucb import Run, SavedFileError  # noqa: E402
from dqucb.deep import DQN, DQNUCB, CalibrationRecorder, DeepAgent, DeepDQUCB, RandomPolicy  # noqa: E402
from dqucb.envs import CartPoleEnv, ShiftWrapper  # noqa: E402

CARTPOLE = "dqucb/CartPole-v0"
SMALL = {"hidden": (16,), "learning_starts": 60, "capacity": 300, "batch": 8}
KINDS = [DQN, DQNUCB, DeepDQUCB]


def curves(run):
    return [getattr(run, name).tobytes() for name in ("returns", "likelihood", "lengths", "ends")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_learns_the_same_alone_and_among_others_and_twice(kind):
    options = {"shift_at": 5}
    together = kind(**SMALL).learn(CARTPOLE, episodes=12, seeds=[4, 0, 9], env_options=options)
    again = kind(**SMALL).learn(CARTPOLE, episodes=12, seeds=[4, 0, 9], env_options=options)
    for run, twin in zip(together, again, strict=True):
        assert curves(run) == curves(twin)
        alone = kind(**SMALL).train(CARTPOLE, episodes=12, seed=run.seed, env_options=options)
        np.testing.assert_array_equal(alone.lengths, run.lengths)
        np.testing.assert_allclose(alone.likelihood, run.likelihood, rtol=1e-5)
    assert len({curves(run)[0] for run in together}) == 3


def test_networks_of_a_seed_are_those_of_the_seed_alone_whatever_finishes_first():
    agent, alone = DQNUCB(**SMALL), DQNUCB(**SMALL)
    agent.learn(CARTPOLE, episodes=10, seeds=[1, 2, 3])
    observations = np.random.default_rng(0).uniform(-0.2, 0.2, (200, 4))
    for i, seed in enumerate([1, 2, 3]):
        alone.learn(CARTPOLE, episodes=10, seeds=seed)
        np.testing.assert_allclose(alone._policy.network.flat[0], agent._policy.network.flat[i], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(alone.predict(observations), agent.predict(observations, seed=seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["episodes", "steps"])
def test_a_resumed_run_equals_the_uninterrupted_one(kind, unit, tmp_path):
    length = {unit: 14 if unit == "episodes" else 400}
    kwargs = {**length, "seeds": [0, 5], "env_options": {"shift_at": 6}}
    whole = kind(**SMALL)
    runs = whole.learn(CARTPOLE, **kwargs)
    path = tmp_path / "checkpoint"
    for stop in (30, 150, 290):  # before learning starts, in the middle, and with a full buffer soon after
        kind(**SMALL).learn(CARTPOLE, **kwargs, checkpoint=path, stop_at=stop)
    last = kind(**SMALL)
    parts = last.learn(CARTPOLE, **kwargs, checkpoint=path, checkpoint_every=7)
    for run, part in zip(runs, parts, strict=True):
        assert curves(run) == curves(part)
    assert torch.equal(whole._policy.network.flat, last._policy.network.flat)
    finished = kind(**SMALL).learn(CARTPOLE, **kwargs, checkpoint=path)
    assert [curves(run) for run in finished] == [curves(run) for run in runs]


def test_density_on_next_states_resumes_too(tmp_path):
    agent, kwargs = DeepDQUCB(**SMALL, density_on="next_state", freeze_after=90), {"steps": 200, "seeds": [3]}
    [run] = agent.learn(CARTPOLE, **kwargs)
    agent.learn(CARTPOLE, **kwargs, checkpoint=tmp_path / "c", stop_at=80)
    [part] = agent.learn(CARTPOLE, **kwargs, checkpoint=tmp_path / "c")
    assert curves(run) == curves(part)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "c"
    DQN(**SMALL).learn(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another run: its seeds is"):
        DQN(**SMALL).learn(CARTPOLE, steps=50, seeds=1, checkpoint=path)
    with pytest.raises(ValueError, match="another run: its agent is 'DQN', not 'DQNUCB'"):
        DQNUCB(**SMALL).learn(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another run: its parameters"):
        DQN(**{**SMALL, "batch": 9}).learn(CARTPOLE, steps=50, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SavedFileError, match="not a readable"):
        DQN(**SMALL).learn(CARTPOLE, steps=50, checkpoint=path)


def test_runs_are_those_of_the_tabular_agents(tmp_path):
    runs = DeepDQUCB(**SMALL).learn(CARTPOLE, episodes=8, seeds=[0, 1], env_options={"shift_at": 4})
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
    [by_steps] = DQN(**SMALL).learn(CARTPOLE, steps=333, seeds=7)
    assert (by_steps.steps, by_steps.ends[-1], by_steps.unit) == (333, 333, "steps")
    np.testing.assert_array_equal(by_steps.likelihood, 1.0)


def test_saved_agents_predict_the_same(tmp_path):
    agent = DeepDQUCB(**SMALL)
    agent.learn(CARTPOLE, steps=150, seeds=[3, 8])
    agent.save(tmp_path / "agent")
    loaded = DeepAgent.load(tmp_path / "agent")
    assert repr(loaded) == repr(agent) == "DeepDQUCB(hidden=(16,), batch=8, capacity=300, learning_starts=60)"
    observations = np.random.default_rng(0).uniform(-0.3, 0.3, (300, 4))
    for seed in (3, 8):
        actions = agent.predict(observations, seed=seed)
        np.testing.assert_array_equal(loaded.predict(observations, seed=seed), actions)
        assert actions[5] == loaded.predict(observations[5], seed=seed)
    with pytest.raises(SavedFileError, match="holds a DeepDQUCB, expected a DQN"):
        DQN.load(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"one of the seeds that were trained, \[3, 8\], got 4"):
        agent.predict(observations, seed=4)
    with pytest.raises(ValueError, match="observation must have 4 numbers"):
        agent.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="learned nothing yet"):
        DQN().predict(np.zeros(4))


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
        DQN(**SMALL).learn(lambda: Spoilt(CartPoleEnv(), what), episodes=6, seeds=[1, 5])


def test_any_gymnasium_env_will_do_and_wrappers_stay_in_force():
    def shifting():
        return ShiftWrapper(gymnasium.make("CartPole-v1", max_episode_steps=40), {3: {"gravity": 30.0}})

    runs = DQN(**SMALL).learn(shifting, episodes=6, seeds=[0, 1], max_return=40)
    assert all(run.change_at == (3,) for run in runs)
    np.testing.assert_array_equal(runs[0].gaps, 40 - runs[0].returns)
    [bare] = DQN(**SMALL).learn(CartPoleEnv, episodes=6)
    [wrapped] = DQN(**SMALL).learn(lambda: gymnasium.Wrapper(CartPoleEnv()), episodes=6)
    assert curves(bare) == curves(wrapped)
    assert np.isnan(wrapped.gaps).all()  # the wrapper may have changed the best return
    with pytest.raises(ValueError, match="cannot be saved; give it checkpoint_state"):
        DQN(**SMALL).learn(shifting, episodes=1, checkpoint="never-written")
    with pytest.raises(ValueError, match="env must have Box observations"):
        DQN().learn("dqucb/FrozenLake-v0", episodes=1)
    with pytest.raises(ValueError, match="env must have Discrete actions"):
        DQN().learn("Pendulum-v1", episodes=1)
    with pytest.raises(ValueError, match="env must be an id or a function"):
        DQN().learn(CartPoleEnv(), episodes=1)


def test_a_callback_sees_every_step_and_can_stop():
    seen = []

    def stop_after_40(moment):
        seen.append(moment)
        return len(seen) < 40

    DQNUCB(**SMALL).learn(CARTPOLE, steps=100, seeds=[0, 1], callback=stop_after_40)
    assert [moment.step for moment in seen] == list(range(1, 41))
    np.testing.assert_array_equal(seen[3].observations, seen[2].next_observations)
    for moment, after in pairwise(seen):
        ended = moment.terminated | moment.truncated
        assert ((moment.next_observations == after.observations).all(1) == ~ended).all()
    assert any(moment.terminated.any() for moment in seen)
    assert all((moment.bonus > 0).all() and (moment.bonus <= 0.1).all() for moment in seen)


def test_the_recorder_keeps_discounted_returns():
    recorder = CalibrationRecorder([(1, 3)], discount=0.5)
    [run] = DQNUCB(**SMALL).learn(CARTPOLE, episodes=5, callback=recorder)
    visits = recorder.visits(0)
    assert len(visits.q) == run.lengths[1:3].sum()
    first = visits.returns[: run.lengths[1]]
    np.testing.assert_allclose(first, 2 * (1 - 0.5 ** np.arange(run.lengths[1], 0, -1)))
    # A time limit ends the episode but not the task: the value of the last state stands for the rest.
    recorder = CalibrationRecorder([(0, 1)], discount=0.5)
    DQNUCB(**SMALL).learn(CARTPOLE, episodes=1, callback=recorder, env_options={"max_steps": 3})
    visits = recorder.visits(0)
    tail = (visits.returns[-1] - 1) / 0.5
    assert tail != 0
    np.testing.assert_allclose(visits.returns, [1.75 + tail / 8, 1.5 + tail / 4, 1 + tail / 2])


def test_dqn_learns_cartpole_and_a_random_policy_does_not():
    options = {"shift_at": None}
    runs = DQN(epsilon_steps=1_000, train_every=1).learn(CARTPOLE, steps=5_000, seeds=[0, 1, 2], env_options=options)
    floor = RandomPolicy().learn(CARTPOLE, episodes=100, seeds=[0, 1, 2], env_options=options)
    assert all(run.returns.mean() < 35 for run in floor)
    assert np.median([run.returns[-15:-1].mean() for run in runs]) > 70


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="discount must be >= 0 and <= 1, got 2"):
        DQN(discount=2)
    with pytest.raises(ValueError, match="bonus_scale must be >= 0, got -1"):
        DQNUCB(bonus_scale=-1)
    with pytest.raises(ValueError, match="density_on must be one of"):
        DeepDQUCB(density_on="nothing")
    with pytest.raises(ValueError, match="exactly one of episodes and steps"):
        DQN().learn(CARTPOLE)
    with pytest.raises(ValueError, match="seeds must be different integers"):
        DQN().learn(CARTPOLE, steps=1, seeds=[1, 1])


def test_without_torch_the_library_works_and_deep_says_how_to_install_it(run_python):
    code = """
import sys
sys.modules["torch"] = None
import dqucb
try:
    import dqucb.deep
except ImportError as error:
    print(error)
"""
    assert 'pip install "dqucb[deep]"' in run_python(code)
