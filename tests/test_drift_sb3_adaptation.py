"""`ShiftCallback(on_alarm="adapt")`: what an alarm does to a model of Stable-Baselines3."""

import copy

import gymnasium as gym
import numpy as np
import pytest

sb3 = pytest.importorskip("stable_baselines3")

from dqucb.drift import ShiftCallback  # noqa: E402
from dqucb.drift.sb3_adaptation import Adaptation, _Restarted, _trim  # noqa: E402


class Clock:
    """A detector that gives alarms at set updates, `late` updates after the change."""

    def __init__(self, alarms, late):
        self.alarms, self.late = alarms, late
        self.n_updates, self.statistic, self.drift_detected, self.changed_at = 0, 0.0, False, None
        self.significance = 1e-6

    def update(self, state, action, next_state, reward=None):
        self.n_updates += 1
        self.drift_detected = self.n_updates in self.alarms
        if self.drift_detected:
            self.changed_at = self.n_updates - self.late
        return self


class Flipped(gym.ActionWrapper):
    """Actions change places from a step on."""

    def __init__(self, env, at):
        super().__init__(env)
        self.at, self.steps = at, 0

    def action(self, action):
        self.steps += 1
        return action if self.steps < self.at else 1 - action


def dqn(env, **options):
    settings = {
        "learning_starts": 50,
        "buffer_size": 1000,
        "seed": 0,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [16]},
    }
    return sb3.DQN("MlpPolicy", env, **settings | options)


def test_the_buffer_keeps_what_came_after_the_change():
    model = dqn(gym.make("CartPole-v1"))
    callback = ShiftCallback(Clock([300], late=40), on_alarm="adapt")
    callback.on_drift = lambda callback: False  # stop right after the reaction
    model.learn(400, callback=callback)
    (reaction,) = callback.reactions
    # The transition of the alarm itself is stored after the callback.
    assert (reaction.kept, reaction.of) == (40, 299)
    assert model.replay_buffer.pos in (40, 41)
    assert "kept 40 of 299 transitions" in str(reaction)


@pytest.mark.parametrize("pos", [30, 7])
def test_trimming_keeps_the_newest_in_order(pos):
    """Also where the buffer has wrapped around."""
    model = dqn(gym.make("CartPole-v1"), buffer_size=50)
    buffer = model.replay_buffer
    for number in range(50 + pos):
        observation = np.full((1, 4), number, np.float32)
        buffer.add(observation, observation, np.array([0]), np.array([number]), np.array([False]), [{}])
    order = (buffer.pos - 50 + np.arange(50)) % 50
    _trim(buffer, order[-12:])
    assert (buffer.pos, buffer.full) == (12, False)
    np.testing.assert_array_equal(buffer.rewards[:12, 0], np.arange(38 + pos, 50 + pos))
    np.testing.assert_array_equal(buffer.observations[:12, 0, 0], np.arange(38 + pos, 50 + pos))


@pytest.mark.parametrize("kind", ["SAC", "TD3", "DDPG"])
def test_actor_critics(kind):
    options = {"learning_starts": 50, "seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [16]}}
    model = getattr(sb3, kind)("MlpPolicy", gym.make("Pendulum-v1"), **options)
    callback = ShiftCallback(Clock([200], late=60), on_alarm="adapt")
    model.learn(210, callback=callback)
    (reaction,) = callback.reactions
    assert reaction.kept == 60
    assert 0.0 <= reaction.size <= 1.0


def test_a_real_change_is_answered():
    """Flipped actions, a real detector: an alarm soon after the change, and exploration goes up."""
    model = dqn(Flipped(gym.make("CartPole-v1"), 3000), buffer_size=10_000, exploration_fraction=0.1)
    rates = []
    callback = ShiftCallback(
        burn_in=1500, on_alarm="adapt", on_drift=lambda each: rates.append(each.model.exploration_rate)
    )
    model.learn(3300, callback=callback)
    assert [alarm for alarm in callback.alarms if 3000 <= alarm < 3300]
    reaction = next(each for each in callback.reactions if each.step >= 3000)
    assert reaction.size > 0.2
    assert reaction.kept <= 300
    assert model.exploration_rate > rates[0]


def test_the_policy_of_a_recognised_environment_is_put_back():
    class Returning(Clock):
        """Recognises environment 0 fifty updates after its second alarm."""

        @property
        def looks_like(self):
            return 0 if self.n_updates >= 450 else None

    model = dqn(gym.make("CartPole-v1"))
    seen = {}

    def remember(callback):
        seen[len(callback.alarms)] = copy.deepcopy(callback.model.get_parameters()["policy"])

    callback = ShiftCallback(Returning([200, 400], late=20), on_alarm="adapt", on_drift=remember)
    model.learn(449, callback=callback)
    assert not _same(model, seen[1])
    model.learn(1, callback=callback, reset_num_timesteps=False)
    assert len(callback.reports) == 3
    assert "environment 0 is back" in callback.reports[2]


def _same(model, parameters):
    return all((value == parameters[name]).all() for name, value in model.get_parameters()["policy"].items())


def test_a_saved_policy_is_put_back_whole():
    model = dqn(gym.make("CartPole-v1"))
    model.learn(100)
    adaptation = Adaptation(model)
    saved = copy.deepcopy(model.get_parameters()["policy"])
    adaptation.react(20, 1e-6)
    for parameter in model.q_net.parameters():
        parameter.data.normal_()
    assert not _same(model, saved)
    adaptation.restore(0)
    assert _same(model, saved)


def test_exploration_starts_again_by_the_size_of_the_change():
    schedule = _Restarted(lambda remaining: 0.05, 0.6, progress=0.5, fraction=0.1)
    assert schedule(0.5) == pytest.approx(0.6)
    assert schedule(0.45) == pytest.approx(0.3)
    assert schedule(0.3) == 0.05


def test_models_without_a_replay_buffer_are_refused():
    model = sb3.PPO("MlpPolicy", gym.make("CartPole-v1"), device="cpu", n_steps=32, batch_size=32)
    with pytest.raises(ValueError, match="needs a model with a replay buffer"):
        model.learn(32, callback=ShiftCallback(Clock([], 1), on_alarm="adapt"))


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="on_alarm must be one of 'adapt', got 'adpat'"):
        ShiftCallback(on_alarm="adpat")
