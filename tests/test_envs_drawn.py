"""Changes drawn from a seed: every kind on every task, what it changes and when, and files that go on bit for bit."""

import json

import gymnasium
import numpy as np
import pytest

from dqucb.envs import DiscretizedActions, PhysicsShift, changing_env, drawn_change
from dqucb.envs.drawn import PATTERNS, RANGES, SIZES, TASKS, drawn_env, drawn_kinds, task_env
from dqucb.envs.making import env_identity
from dqucb.envs.physics import NEUTRAL

CLASSIC = [task for task, (name, _) in TASKS.items() if name[-1].isdigit()]
CASES = [(task, kind) for task in CLASSIC for kind in drawn_kinds(task)]


def walk(env, steps, seed=None, actions=0):
    """Observations, rewards and phases under random actions, resets included."""
    rng = np.random.default_rng(actions)
    seen = [] if seed is None else [env.reset(seed=seed)[0]]
    rewards, phases = [], []
    for _ in range(steps):
        space = env.action_space
        action = int(rng.integers(space.n)) if hasattr(space, "n") else rng.integers(space.nvec)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        rewards.append(reward)
        phases.append(info["phase"])
        if terminated or truncated:
            seen.append(env.reset()[0])
    return np.array(seen), np.array(rewards), phases


@pytest.mark.parametrize(("task", "kind"), CASES)
def test_every_kind_changes_the_run_from_its_step_on_and_a_placebo_nothing(task, kind):
    change = drawn_change(1, task, kind, size="large", pattern="once", change_at=30)
    placebo = drawn_change(1, task, kind, size="large", pattern="placebo", change_at=30)
    assert change.keywords["values"] != placebo.keywords["values"] == (NEUTRAL[change.keywords["kind"]],)
    plain, changed, same = (walk(env, 60, seed=5) for env in (task_of(task), change(), placebo()))
    for part in (0, 1):
        np.testing.assert_array_equal(plain[part], same[part])
        np.testing.assert_array_equal(plain[part][:30], changed[part][:30])
    observed = any(not np.array_equal(a, b) for a, b in zip(plain[:2], changed[:2], strict=True))
    assert observed
    assert changed[2] == [0] * 30 + [1] * 30


def task_of(task):
    """The task with a phase in `info`."""
    return PhysicsShift(task_env(task), "delay", ())


@pytest.mark.parametrize(("task", "kind"), CASES)
def test_a_restored_env_goes_on_bit_for_bit(task, kind):
    make = drawn_change(2, task, kind, pattern="several", change_at=20, every=40)
    first = make()
    walk(first, 37, seed=1)
    state = {
        name: np.array(value) if isinstance(value, np.ndarray) else json.loads(json.dumps(value))
        for name, value in first.checkpoint_state().items()
    }
    ahead = walk(first, 80, actions=2)
    second = make()
    second.reset(seed=9)
    second.restore_state(state)
    for mine, other in zip(ahead, walk(second, 80, actions=2), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_new_run_restores_the_original_task():
    env = changing_env("cartpole", "mass", change_at=(3, 6), values=(3.0, 1.0))
    first = walk(env, 5, seed=0)[0]
    assert env.unwrapped.masspole == pytest.approx(0.3)
    assert env.unwrapped.total_mass == pytest.approx(1.3)
    assert env.unwrapped.polemass_length == pytest.approx(0.15)
    np.testing.assert_array_equal(walk(env, 5, seed=0)[0], first)
    walk(env, 8, seed=0)
    assert (env.phase, env.unwrapped.masspole) == (2, 0.1)


def test_each_part_does_what_its_name_says():
    plain = task_env("cartpole")
    plain.reset(seed=0)
    plain.unwrapped.state = np.array([0.1, 0.2, 0.03, 0.4])

    def moved(kind, value, action=1, coordinate=0, task="cartpole", before=()):
        env = changing_env(task, kind, (len(before),), (value,), coordinate)
        env.reset(seed=0)
        for each in before:
            env.step(each)
        env.unwrapped.state = np.array([0.1, 0.2, 0.03, 0.4])
        return env.step(action)

    still = plain.step(1)
    opposite = moved("force", -1.0, action=0)
    np.testing.assert_array_equal(opposite[0], still[0])
    np.testing.assert_array_equal(moved("delay", 2.0, action=0, before=(1, 0))[0], still[0])  # of two steps ago
    np.testing.assert_allclose(moved("damping", 0.25)[0], still[0] * [1.0, 0.75, 1.0, 0.75], rtol=1e-6)
    bias = moved("sensor_bias", 0.5, coordinate=2)
    np.testing.assert_allclose(bias[0] - still[0], [0.0, 0.0, 0.05, 0.0], atol=1e-7)
    stuck = moved("stuck_sensor", 1.0, coordinate=1)
    assert stuck[0][1] == pytest.approx(task_of("cartpole").reset(seed=0)[0][1])
    np.testing.assert_array_equal(stuck[0][[0, 2, 3]], still[0][[0, 2, 3]])
    paid = moved("reward", -0.5, coordinate=1)
    assert paid[1] == pytest.approx(1.0 - 0.5 * still[0][1])
    noisy = moved("process_noise", 0.3)
    assert (noisy[0][[0, 2]] == still[0][[0, 2]]).all()
    assert (noisy[0][[1, 3]] != still[0][[1, 3]]).all()


@pytest.mark.parametrize("factor", [-1.0, 0.5, 2.0])
def test_the_force_of_a_pendulum_is_that_of_its_bins(factor):
    env = changing_env("pendulum", "force", (0,), (factor,))
    plain = gymnasium.make("Pendulum-v1")
    plain.unwrapped.max_torque = 4.0
    env.reset(seed=3)
    plain.reset(seed=3)
    for choice in (0, 4, 1):
        mine, theirs = env.step([choice]), plain.step([factor * (choice - 2.0)])
        np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6)
    env.reset(seed=3)  # within the run
    assert isinstance(env.env, DiscretizedActions)


def test_draws_depend_on_the_seed_and_their_names_alone():
    drawn = [drawn_change(seed).keywords for seed in range(40)]
    assert drawn == [drawn_change(seed).keywords for seed in range(40)]
    assert {each["task"] for each in drawn} == set(TASKS)
    assert len({each["kind"] for each in drawn}) >= 8
    assert {len(each["values"]) for each in drawn} == {1, 2}
    cases = [drawn_change(3, task, kind).keywords for task in CLASSIC for kind in ("force", "flip", "delay")]
    assert {len(each["values"]) for each in cases} == {1, 2}  # one seed draws other patterns for other cases
    assert len({each["values"] for each in cases}) > 6
    returning = drawn_change(4, "cartpole", "mass", pattern="returning").keywords
    assert returning["values"][1] == 1.0 != returning["values"][0]
    assert returning["change_at"] == (25_000, 40_000)
    for kind in set(RANGES) & set(drawn_kinds("acrobot")):
        for size, (low, high) in zip(SIZES, RANGES[kind], strict=True):
            for seed in range(20):
                (value,) = drawn_change(seed, "acrobot", kind, size=size, pattern="once").keywords["values"]
                magnitude = max(abs(value), 1 / abs(value)) if RANGES[kind] is RANGES["mass"] else abs(value)
                assert low - 1e-3 <= magnitude <= high + 1e-3
                assert (value < 0) <= (kind in ("flip", "sensor_bias", "reward"))


def test_a_drawn_env_is_identified_by_what_was_drawn():
    one, other = (drawn_change(seed, "cartpole", "mass", pattern="once") for seed in (0, 1))
    assert env_identity(one, one())[1] is None
    assert env_identity(one, one())[0] == env_identity(one, one())[0] != env_identity(other, other())[0]
    assert drawn_env(0, task="cartpole", kind="mass", pattern="once").values == one.keywords["values"]


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="unknown task 'cartpol': did you mean cartpole"):
        drawn_change(0, "cartpol")
    with pytest.raises(ValueError, match=r"kind must be one of .*, got 'friction'"):
        drawn_change(0, "cartpole", "friction")
    for name, words in (("size", SIZES), ("pattern", PATTERNS)):
        with pytest.raises(ValueError, match=f"{name} must be one of .*{words[0]}"):
            drawn_change(0, "cartpole", **{name: "?"})
    with pytest.raises(ValueError, match=r"values must be whole steps for a delay, got \(1.5,\)"):
        changing_env("cartpole", "delay", (3,), (1.5,))
    with pytest.raises(ValueError, match="coordinate must be"):
        changing_env("cartpole", "sensor_bias", (3,), (1.5,), 4)


def test_mujoco_tasks_have_drawn_changes_too():
    pytest.importorskip("mujoco", reason='mujoco is missing: pip install "dqucb[mujoco]"')
    for task in ("half-cheetah", "hopper"):
        for kind in drawn_kinds(task):
            env = drawn_change(1, task, kind, size="large", pattern="once", change_at=10)()
            plain, changed = walk(task_of(task), 40, seed=5), walk(env, 40, seed=5)
            np.testing.assert_array_equal(plain[0][:10], changed[0][:10])
            if kind != "friction":  # felt only on contact
                assert not (np.array_equal(plain[0], changed[0]) and np.array_equal(plain[1], changed[1]))
