"""The shifting CartPole: Gymnasium's physics, the noise, the phases, and the vectorised form bit for bit."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import dqucb.envs
from dqucb.envs import CartPoleEnv, CartPoleVector


def play(env, seed, episodes, policy):
    """Observations, rewards, ends and infos of a run with actions policy(observation)."""
    seen = []
    for episode in range(episodes):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        seen.append((observation, 0.0, False, False, info))
        while not (seen[-1][2] or seen[-1][3]):
            seen.append(env.step(policy(seen[-1][0])))
    return seen


def balance(observation):
    return int(observation[2] + 0.5 * observation[3] + 0.05 * observation[0] > 0)


def test_it_passes_gymnasiums_checker():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*Box observation space m.* value is -?infinity")  # velocities
        check_env(gymnasium.make("dqucb/CartPole-v0").unwrapped)


def test_before_the_shift_it_moves_as_gymnasiums_cartpole():
    ours, theirs = CartPoleEnv(), gymnasium.make("CartPole-v1", max_episode_steps=200)
    mine, other = play(ours, 3, 5, balance), play(theirs, 3, 5, balance)
    assert len(mine) == len(other) > 300
    for (a, r, terminated, truncated, _), (b, q, ended, cut, _) in zip(mine, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert (r, terminated, truncated) == (q, ended, cut) or r == 0.0


def test_each_cart_of_the_vector_is_the_single_env_bit_for_bit():
    seeds = [5, 0, 11]
    settings = {"change_at": (2,), "max_steps": 60}
    carts = CartPoleVector(seeds, **settings)
    logs = [[] for _ in seeds]
    observations = np.array([carts.reset(i) for i in range(3)])
    for i in range(3):
        logs[i].append(observations[i].tobytes())
    while (carts.episodes < 4).any():
        rows = np.flatnonzero(carts.episodes < 4)
        moved, _, terminated, truncated = carts.step(np.array([balance(o) for o in observations[rows]]), rows)
        observations[rows] = moved
        for i, done in zip(rows, terminated | truncated, strict=True):
            logs[i].append(observations[i].tobytes())
            if done:
                observations[i] = carts.reset(i)
                if carts.episodes[i] < 4:
                    logs[i].append(observations[i].tobytes())
    for log, seed in zip(logs, seeds, strict=True):
        single = play(CartPoleEnv(**settings), seed, 4, balance)
        assert log == [step[0].tobytes() for step in single]


def residuals(**settings):
    """Observed velocities minus those of a noiseless step, one row per transition of 20 episodes."""
    rows = []
    env = CartPoleEnv(**settings)
    quiet = CartPoleVector([0], change_at=())
    for observation, follower in zip(log := play(env, 0, 20, balance), log[1:], strict=False):
        if follower[1] == 0.0:
            continue
        quiet.states[0] = observation[0]
        rows.append(follower[0] - quiet.step(np.array([balance(observation[0])]), np.array([0]))[0][0])
    return np.array(rows)


@pytest.mark.parametrize(("noise_is", "spread"), [("std", 0.15), ("variance", 0.15**0.5)])
def test_noise_is_on_both_velocities_with_the_stated_spread(noise_is, spread):
    noise = residuals(change_at=(0,), noise=0.15, noise_is=noise_is)
    assert len(noise) > 300
    np.testing.assert_allclose(noise[:, 1::2].std(0), spread, rtol=0.12)
    np.testing.assert_allclose(noise[:, 1::2].mean(0), 0.0, atol=4 * spread / len(noise) ** 0.5)
    assert np.abs(np.corrcoef(noise[:, 1::2].T)[0, 1]) < 0.15
    np.testing.assert_allclose(noise[:, 0::2], 0.0, atol=1e-6)
    np.testing.assert_allclose(residuals(change_at=()), 0.0, atol=1e-5)


def test_phase_and_episode_count_across_resets_and_start_again_with_a_seed():
    env = CartPoleEnv(change_at=(2,))
    log = play(env, 1, 4, lambda _: 0)
    assert {(info["episode_number"], info["phase"]) for *_, info in log} == {(0, 0), (1, 0), (2, 1), (3, 1)}
    env.reset()
    assert env.reset()[1] == {"phase": 1, "episode_number": 4}  # no step was taken: the same episode
    assert env.reset(options={"restart": True})[1] == {"phase": 0, "episode_number": 0}
    assert env.reset(seed=1)[0].tobytes() == log[0][0].tobytes()
    assert CartPoleVector([0], change_at=(2,)).change_at == (2,)


def test_state_and_restore_go_on_bit_for_bit():
    carts = CartPoleVector([1, 2], change_at=(0,))
    for i in (0, 1):
        carts.reset(i)
    both = np.array([0, 1])
    carts.step(np.array([0, 1]), both)
    saved = carts.state()
    ahead = [carts.step(np.array([1, 0]), both)[0].tobytes() for _ in range(5)]
    twin = CartPoleVector([1, 2], change_at=(0,))
    twin.restore(saved)
    assert [twin.step(np.array([1, 0]), both)[0].tobytes() for _ in range(5)] == ahead


def test_mistakes_get_clear_errors():
    with pytest.raises(ValueError, match=r"change_at must hold at most one change, got \(3, 5\)"):
        CartPoleEnv(change_at=(3, 5))
    with pytest.raises(ValueError, match=r"noise must be >= 0, got -0\.1"):
        CartPoleEnv(noise=-0.1)
    with pytest.raises(ValueError, match="did you mean 'variance'"):
        CartPoleEnv(noise_is="varianc")
    env = dqucb.envs.CartPoleEnv()
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must be 0 or 1, got 2"):
        env.step(2)


@pytest.mark.parametrize("change", [{"force": -1.0}, {"force": 0.5}, {"length": 1.6}, {"gravity": 1.5}])
def test_physics_changes_to_that_of_gymnasium_with_other_parameters(change):
    theirs = gymnasium.make("CartPole-v1", max_episode_steps=200)
    base = theirs.unwrapped
    base.force_mag *= change.get("force", 1.0)
    base.gravity *= change.get("gravity", 1.0)
    base.length *= change.get("length", 1.0)
    base.polemass_length = base.masspole * base.length
    ours = CartPoleEnv(noise=0.0, change_at=0, **change)
    np.testing.assert_array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for t in range(8):
        mine, other = ours.step(t % 2), theirs.step(t % 2)
        np.testing.assert_allclose(mine[0], other[0], rtol=1e-5, atol=1e-7)
        assert mine[2:4] == other[2:4]


def test_a_change_at_a_step_comes_in_the_middle_of_an_episode_and_survives_a_checkpoint():
    settings = {"noise": 0.0, "change_at": 15, "unit": "steps", "force": -1.0}
    carts, plain = CartPoleVector([1, 2], **settings), CartPoleVector([1, 2], noise=0.0, change_at=())
    phases = []
    for each in (carts, plain):
        for i in range(2):
            each.reset(i)
    for t in range(18):
        phases.append(carts.phase(0))
        actions = np.full(2, t % 2)
        moved, _, over, _ = carts.step(actions, np.arange(2))
        expected, *_ = plain.step(actions if t < 15 else 1 - actions, np.arange(2))
        np.testing.assert_allclose(moved, expected, rtol=1e-6)
        assert not over.any()
        if t == 13:
            saved = carts.state()
            carts = CartPoleVector([1, 2], **settings)
            carts.restore(saved)
    assert phases == [0] * 15 + [1] * 3
    env = CartPoleEnv(**settings)
    assert env.unit == "steps"
    assert CartPoleEnv(**env.describe()).describe() == env.describe() == env.lockstep([0]).describe()
    env.reset(seed=0)
    for t in range(16):
        _, _, over, _, info = env.step(t % 2)
        if over:
            env.reset()
    assert info["phase"] == 1
    assert env.reset(seed=0)[1]["phase"] == 0  # a new run
    with pytest.raises(ValueError, match="unit must be one of 'episodes', 'steps', got 'days'"):
        CartPoleEnv(unit="days")
    with pytest.raises(ValueError, match="length must be"):
        CartPoleEnv(length=0.0)
