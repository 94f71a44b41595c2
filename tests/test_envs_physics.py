"""MuJoCo tasks whose physics shifts at set steps, and runs on them that survive a stop bit for bit."""

import json
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from dqucb.envs import PhysicsShift, locomotion
from tests.waiting import wait_for

TASKS = ("Hopper", "HalfCheetah", "Walker2d")


def test_without_the_extra_the_message_says_what_to_install(run_python):
    code = """
import sys
sys.modules["mujoco"] = None
from dqucb.envs import locomotion
try:
    locomotion("Hopper")
except ImportError as error:
    print(error)
"""
    assert 'Hopper needs MuJoCo: pip install "dqucb[mujoco]"' in run_python(code)


mujoco = pytest.importorskip("mujoco", reason='mujoco is missing: pip install "dqucb[mujoco]"')


def walk(env, steps, seed=None, actions=0):
    """Observations, rewards and phases under random actions, resets included."""
    rng = np.random.default_rng(actions)
    seen = [] if seed is None else [env.reset(seed=seed)[0]]
    rewards, phases = [], []
    for _ in range(steps):
        action = rng.integers(env.action_space.nvec)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        rewards.append(reward)
        phases.append(info["phase"])
        if terminated or truncated:
            seen.append(env.reset()[0])
    return np.array(seen), np.array(rewards), phases


@pytest.mark.parametrize("task", TASKS)
def test_bins_drive_the_task_as_its_own_actions_do(task, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where MuJoCo leaves its log when Gymnasium loads a task by itself
    env, plain = locomotion(task, bins=5), gymnasium.make(f"{task}-v5")
    env.reset(seed=3)
    plain.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        bins = rng.integers(5, size=plain.action_space.shape)
        mine = env.step(bins)
        theirs = plain.step((bins / 2 - 1).astype(np.float32))
        np.testing.assert_array_equal(mine[0], theirs[0])
        assert mine[1] == theirs[1]


PARTS = {
    "gravity": lambda model: model.opt.gravity,
    "mass": lambda model: np.concatenate([model.body_mass, model.body_inertia.ravel()]),
    "friction": lambda model: model.geom_friction,
}


@pytest.mark.parametrize("kind", PARTS)
def test_each_kind_changes_its_own_part_of_the_physics_at_its_steps_and_a_new_run_undoes_it(kind):
    env = locomotion("Hopper", kind=kind, change_at=(10, 25), values=(1.5, 0.5))
    model = env.unwrapped.model
    before = {name: np.copy(part(model)) for name, part in PARTS.items()}
    derived = model.body_subtreemass.copy()
    *_, phases = walk(env, 40, seed=0)
    assert phases == [0] * 10 + [1] * 15 + [2] * 15
    for name, part in PARTS.items():
        np.testing.assert_allclose(part(model), before[name] * (0.5 if name == kind else 1.0))
    if kind == "mass":  # what MuJoCo derives from the masses has followed
        np.testing.assert_allclose(model.body_subtreemass, derived / 2)
    _, info = env.reset(seed=0)
    assert info["phase"] == 0
    for name, part in PARTS.items():
        np.testing.assert_array_equal(part(model), before[name])
    np.testing.assert_allclose(model.body_subtreemass, derived)


@pytest.mark.parametrize("kind", [*PARTS, "observation_noise"])
def test_the_change_is_felt_from_its_step_on_and_not_before(kind):
    still = locomotion("HalfCheetah", kind=kind)
    shifting = locomotion("HalfCheetah", kind=kind, change_at=(30,), values=(0.3,))
    one, other = walk(still, 45, seed=5), walk(shifting, 45, seed=5)
    np.testing.assert_array_equal(one[0][:31], other[0][:31])
    assert (one[0][32:] != other[0][32:]).all(axis=1).all()
    if kind == "observation_noise":  # what is seen is noisy, what happens is not
        np.testing.assert_array_equal(one[1], other[1])
        assert (other[0][31:] - one[0][31:]).std() == pytest.approx(0.3, rel=0.15)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["mass", "observation_noise"])
def test_a_restored_env_goes_on_bit_for_bit(task, kind):
    def make():
        return locomotion(task, bins=7, kind=kind, change_at=(20, 90), values=(1.5, 0.5), max_episode_steps=60)

    first = make()
    walk(first, 50, seed=1)
    state = first.checkpoint_state()
    packed = {
        name: np.array(value) if isinstance(value, np.ndarray) else json.loads(json.dumps(value))
        for name, value in state.items()
    }
    ahead = walk(first, 100, actions=2)  # changes, ends of episodes and resets in between
    second = make()
    second.reset(seed=9)
    second.restore_state(packed)
    again = walk(second, 100, actions=2)
    for mine, other in zip(ahead, again, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert {1, 2} == set(ahead[2])


def test_wrong_settings_are_errors():
    hopper = gymnasium.make("Hopper-v5")
    with pytest.raises(ValueError, match=r"kind must be one of \['gravity', 'mass', .*, got 'friction'"):
        PhysicsShift(gymnasium.make("Pendulum-v1"), "friction")
    with pytest.raises(ValueError, match=r"kind must be one of .* got 'gravitty'; did you mean 'gravity'"):
        PhysicsShift(hopper, "gravitty")
    with pytest.raises(ValueError, match="change_at must increase strictly"):
        PhysicsShift(hopper, change_at=(20, 10))
    with pytest.raises(ValueError, match="values must be 2, one for each of change_at"):
        PhysicsShift(hopper, values=(1.0,))
    with pytest.raises(ValueError, match="each of values must be >= 0, got -1"):
        PhysicsShift(hopper, values=(1.0, -1))


pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import DeepDQUCB, RandomPolicy  # noqa: E402


def test_a_stopped_run_goes_on_bit_for_bit_whatever_evaluation_came_between(tmp_path):
    def make():
        return locomotion("Hopper", bins=9, change_at=(150, 220), max_episode_steps=40)

    settings = {"hidden": (16,), "learning_starts": 60, "freeze_after": 60, "buffer_size": 200, "batch_size": 8}
    whole = DeepDQUCB(**settings).train_seeds(make, [0, 1], steps=300)
    for stop in (110, 215, None):
        agent = DeepDQUCB(**settings)
        parts = agent.train_seeds(make, [0, 1], steps=300, checkpoint=tmp_path / "c", stop_at=stop)
        agent.evaluate(make, episodes=2)
    for mine, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(mine.returns, other.returns)
        np.testing.assert_array_equal(mine.likelihood, other.likelihood)
        assert mine.likelihood.min() < 1
        assert mine.change_at == (150, 220)  # of the wrapper, so that the report has phases
    elsewhere = DeepDQUCB(**settings)
    with pytest.raises(ValueError, match="is of another run: its problem is"):  # the shift is part of the problem
        elsewhere.train_seeds(lambda: locomotion("Hopper", bins=9, change_at=(150, 221), max_episode_steps=40), [0, 1],
                              steps=300, checkpoint=tmp_path / "c")  # fmt: skip


def test_random_policy_runs_in_lockstep_on_every_task():
    for task in TASKS:
        runs = RandomPolicy().train_seeds(lambda task=task: locomotion(task, max_episode_steps=20), [0, 1], steps=60)
        assert all(run.steps == 60 for run in runs)
        assert runs[0].returns[0] != runs[1].returns[0]


TRAINING = """
import os, sys, time
from functools import partial
import dqucb.running.engine
from dqucb.deep import DeepDQUCB
from dqucb.envs import locomotion
dqucb.running.engine.CHECKPOINT_SECONDS = 0.05
env = partial(locomotion, "Hopper", bins=9, change_at=(180, 240), max_episode_steps=25)
agent = DeepDQUCB(hidden=(16,), learning_starts=50, freeze_after=50, buffer_size=300, batch_size=8)

def train(checkpoint, callback=None):
    return agent.clone().train_seeds(env, [0, 1], steps=360, checkpoint=checkpoint, callback=callback)
"""


def test_a_killed_run_goes_on_from_its_checkpoint_with_the_same_numbers(tmp_path):
    names = {}
    exec(TRAINING, names)
    whole, path = names["train"](None), tmp_path / "checkpoint"
    # Once there is a checkpoint the run waits in its callback, so that the kill falls inside it.
    held = f"path = {str(path)!r}\ntrain(path, lambda moment: os.path.exists(path) and time.sleep(3600))"
    process = subprocess.Popen([sys.executable, "-c", TRAINING + held])
    wait_for(path.exists, "a checkpoint was written", poll=0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL, "the kill must fall inside the run"
    for run, other in zip(whole, names["train"](path), strict=True):
        np.testing.assert_array_equal(run.returns, other.returns)
        np.testing.assert_array_equal(run.likelihood, other.likelihood)
