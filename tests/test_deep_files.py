"""Deep agents that stop and go on: checkpoints, files, densities and recorders in them."""

import json
import signal

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

import saved_files
from deep_cases import CARTPOLE, KINDS, SMALL, cartpole, curves, stop_after, weights

import dqucb.running.engine
from dqucb import Agent, FourierTransitionDensity, Run, SavedFileError
from dqucb.deep import DQN, DQNUCB, CalibrationRecorder, DeepAgent, DeepDQUCB


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
    with pytest.raises(ValueError, match=r"holds another run; train a clone\(\) instead: its seeds are \[3\], not"):
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
    with pytest.raises(ValueError, match=r"loaded with a finished run of 10 episodes.*train a clone\(\) instead"):
        finished.train(CARTPOLE, seed=2, **length)
    assert curves(finished.clone().train(CARTPOLE, seed=2, **length)) == curves(whole)

    def foreign():
        return gymnasium.make("CartPole-v1")

    stopped = kind(**SMALL)
    stopped.train(foreign, stop_at=50, steps=100)
    loaded = kind.load(stopped.save(path))
    assert loaded.predict(np.zeros(4)) == stopped.predict(np.zeros(4))
    with pytest.raises(ValueError, match="its env could not be saved, so that it cannot be resumed"):
        loaded.train(foreign, steps=100)
    stopped.train(foreign, steps=100)  # in memory it can


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


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "c"
    DQN(**SMALL).train(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another run: its seeds are"):
        DQN(**SMALL).train(CARTPOLE, steps=50, seed=1, checkpoint=path)
    with pytest.raises(ValueError, match="holds a DQN, expected a DQNUCB"):
        DQNUCB(**SMALL).train(CARTPOLE, steps=50, checkpoint=path)
    with pytest.raises(ValueError, match="another agent"):
        DQN(**{**SMALL, "batch_size": 9}).train(CARTPOLE, steps=50, checkpoint=path)
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


@pytest.mark.parametrize(
    ("unit", "name", "value", "said"),
    [
        ("steps", "records.closed.0", 2.0**62, "lengths of records must add up to"),  # their sum is a negative int64
        ("steps", "records.closed.0", -5.0, "lengths of records must add up to"),
        ("steps", "records.closed.0", 1.5, "lengths of records must add up to"),
        ("episodes", "records.episodes", -(10**9), "episodes must count the"),
    ],
)
def test_a_file_whose_records_do_not_add_up_is_refused(unit, name, value, said, tmp_path):
    """Such a file made a run that never reached its length."""
    agent = DQN(**SMALL)
    length, stop = ({"steps": 60}, 50) if unit == "steps" else ({"episodes": 6}, 3)
    agent.train(CARTPOLE, **length, stop_at=stop)
    path = agent.save(tmp_path / "agent.npz")
    settings, arrays = saved_files.contents(path)
    arrays[name] = np.full_like(arrays[name], value)
    saved_files.write(path, settings, arrays)
    with pytest.raises(SavedFileError, match=said):
        DeepAgent.load(path)


def test_saved_agents_predict_the_same(tmp_path):
    agent = DeepDQUCB(**SMALL)
    agent.train_seeds(CARTPOLE, [3, 8], steps=150)
    agent.save(tmp_path / "agent")
    loaded = DeepAgent.load(tmp_path / "agent")
    assert repr(loaded) == repr(agent) == "DeepDQUCB(hidden=(16,), batch_size=8, buffer_size=300, learning_starts=60)"
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


class KilledError(Exception):
    """As if the process had ended."""


class DyingRecorder(CalibrationRecorder):
    """Dies within a run, after checkpoints were written."""

    def __call__(self, moment):
        super().__call__(moment)
        if moment.step == 90:
            raise KilledError


def test_a_recorder_lives_in_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(dqucb.running.engine, "CHECKPOINT_SECONDS", 0.0)
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
