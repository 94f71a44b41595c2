"""Drift detectors where people work: Gymnasium wrappers, river, Stable-Baselines3."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode

from dqucb import QUCB, frozen_lake
from dqucb.drift import (
    ContinuousDriftDetector,
    FiniteDriftDetector,
    RiverDetector,
    ShiftMonitor,
    VectorShiftMonitor,
    detector_for,
)


def test_a_monitored_env_gives_the_alarm_in_info():
    env = ShiftMonitor(gymnasium.make("Pendulum-v1", g=10.0))
    rng = np.random.default_rng(0)
    env.reset(seed=3)
    found = []
    for t in range(4_400):
        if t == 4_000:
            env.unwrapped.g = 15.0
        _, _, ended, cut, info = env.step(rng.uniform(-2, 2, 1).astype(np.float32))
        assert set(info) >= {"drift_detected", "drift_statistic", "drift_changed_at"}
        if info["drift_detected"]:
            found.append(t)
        if ended or cut:
            env.reset()
    assert len(found) == 1
    assert 4_000 <= found[0] < 4_300
    assert env.alarms == found
    assert env.detector.n_updates == 4_400


def test_observations_rewards_and_spaces_pass_through():
    plain, watched = gymnasium.make("FrozenLake-v1"), ShiftMonitor(gymnasium.make("FrozenLake-v1"))
    assert isinstance(watched.detector, FiniteDriftDetector)
    first, second = plain.reset(seed=1), watched.reset(seed=1)
    assert first == second
    for action in (0, 1, 2, 1):
        expected, seen = plain.step(action), watched.step(action)
        assert seen[:4] == expected[:4]
        if expected[2]:
            break


def test_vectorised_envs_feed_one_detector():
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        env = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode)
        seen = []
        detector = ContinuousDriftDetector(n_actions=2)
        watched = VectorShiftMonitor(env, _Recorder(detector, seen))
        watched.reset(seed=0)
        watched.action_space.seed(0)
        for _ in range(100):
            *_, info = watched.step(watched.action_space.sample())
            assert not info["drift_detected"]
        assert len(seen) == detector.n_updates
        assert (len(seen) == 300) == (mode == AutoresetMode.SAME_STEP)  # in the other mode resets take a step
        # A transition across a reset would move the cart back to the middle at once.
        assert max(abs(following[2] - state[2]) for state, _, following, _ in seen) < 0.12


class _Recorder:
    def __init__(self, detector, seen):
        self.detector, self.seen = detector, seen

    def update(self, *transition):
        self.seen.append(transition)
        return self.detector.update(*transition)

    def __getattr__(self, name):
        return getattr(self.detector, name)


def test_the_detector_fits_the_spaces():
    assert isinstance(detector_for(Box(-1, 1, (2,)), Box(-1, 1, (1,))), ContinuousDriftDetector)
    learning = detector_for(Box(-1, 1, (2,)), Discrete(3), learning=True)
    assert learning.get_params()["burn_in"] == 20_000
    assert detector_for(Box(-1, 1, (2,)), Discrete(3), learning=True, burn_in=500).get_params()["burn_in"] == 500
    assert isinstance(detector_for(Discrete(5), Discrete(3), learning=True), FiniteDriftDetector)
    assert detector_for(Discrete(5), Discrete(3), false_alarms=1e-4).get_params()["false_alarms"] == 1e-4
    with pytest.raises(ValueError, match="no detector fits observations Dict"):
        detector_for(Dict({"a": Discrete(2)}), Discrete(2))
    with pytest.raises(ValueError, match="detector= is given, and also"):
        ShiftMonitor(gymnasium.make("FrozenLake-v1"), FiniteDriftDetector(16, 4), burn_in=100)
    with pytest.raises(ValueError, match=r"detector must have 'n_updates'|detector must have 'statistic'"):
        ShiftMonitor(gymnasium.make("FrozenLake-v1"), type("Odd", (), {"update": 0, "drift_detected": 0})())


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (FiniteDriftDetector(8, 4), "detector must be for at least 16 states, got n_states=8"),
        (FiniteDriftDetector(16, 2), "detector must be for at least 4 actions, got n_actions=2"),
        (FiniteDriftDetector, r"got the class FiniteDriftDetector: write FiniteDriftDetector\(...\)"),
        ("auto", "detector must be a detector, or None for the one that fits the spaces, got 'auto'"),
    ],
)
def test_a_detector_that_cannot_watch_the_env_is_refused_at_once(detector, message):
    with pytest.raises(ValueError, match=message):
        ShiftMonitor(gymnasium.make("FrozenLake-v1"), detector)


def test_a_finite_detector_cannot_watch_vectors():
    with pytest.raises(ValueError, match="detector must be for states in Box"):
        ShiftMonitor(gymnasium.make("CartPole-v1"), FiniteDriftDetector(4, 2))


def test_an_agent_refuses_a_detector_that_is_too_small_before_it_trains():
    with pytest.raises(ValueError, match="detector must be for at least 16 states, got n_states=8"):
        QUCB().train(frozen_lake(slip=(0.1,), change_at=(), horizon=5), episodes=1, detector=FiniteDriftDetector(8, 4))


def test_a_river_detector_takes_the_place_of_ours():
    drift = pytest.importorskip("river.drift")
    env = ShiftMonitor(gymnasium.make("Pendulum-v1"), RiverDetector(drift.ADWIN(), on="residual"))
    env.reset(seed=0)
    for _ in range(50):
        info = env.step(np.zeros(1, np.float32))[-1]
    assert env.detector.n_updates == 50
    assert isinstance(info["drift_detected"], bool)


def test_a_detector_of_single_numbers_sees_what_it_is_asked_to():
    class Threshold:
        drift_detected = False

        def update(self, x):
            self.drift_detected = x > 5.0

        def clone(self):
            return Threshold()

    rng = np.random.default_rng(0)
    residual, reward = RiverDetector(Threshold(), on="residual"), RiverDetector(Threshold(), on="reward")
    for t in range(500):
        x = rng.normal(size=2)
        residual.update(x, [0.0], 0.5 * x + 0.1 * rng.normal(size=2))
        assert t < 50 or not residual.drift_detected  # the linear model learns
        assert not reward.update(x, [0.0], x, 1.0).drift_detected
    assert residual.update(np.zeros(2), [0.0], np.full(2, 2.0)).drift_detected
    assert residual.changed_at == 500
    assert reward.update(np.zeros(2), [0.0], np.zeros(2), 6.0).drift_detected
    residual.reset()
    assert residual.n_updates == 0
    with pytest.raises(ValueError, match="on must be one of 'reward', 'residual', 'next_state', got 'rewards'"):
        RiverDetector(Threshold(), on="rewards")
    with pytest.raises(ValueError, match="detector must have 'update'"):
        RiverDetector(3)


def test_the_callback_of_stable_baselines3_stops_at_an_alarm():
    sb3 = pytest.importorskip("stable_baselines3")
    from dqucb.drift import ShiftCallback

    env = gymnasium.make("Pendulum-v1", g=10.0)

    class Change(gymnasium.Wrapper):
        steps = 0

        def step(self, action):
            self.steps += 1
            if self.steps == 1_500:
                self.unwrapped.g = 20.0
            return self.env.step(action)

    for model, stops in ((sb3.PPO, 1), (sb3.SAC, 0)):
        kwargs = {"n_steps": 256} if model is sb3.PPO else {"learning_starts": 10_000}
        callback = ShiftCallback(burn_in=600, stop=bool(stops))
        learner = model("MlpPolicy", Change(env), seed=0, device="cpu", **kwargs)
        env.unwrapped.g = 10.0
        learner.learn(2_048, callback=callback)
        assert len(callback.alarms) >= 1
        assert 1_500 <= callback.alarms[0] < 1_800
        assert (learner.num_timesteps < 2_000) == bool(stops)


def test_the_callback_says_what_to_install(monkeypatch):
    import sys

    import dqucb.drift

    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.callbacks", None)
    monkeypatch.delitem(sys.modules, "dqucb.drift.sb3", raising=False)
    monkeypatch.delitem(dqucb.drift.__dict__, "ShiftCallback", raising=False)
    with pytest.raises(ImportError, match=r"pip install \"dqucb\[sb3\]\""):
        _ = dqucb.drift.ShiftCallback
