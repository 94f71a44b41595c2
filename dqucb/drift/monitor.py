"""`ShiftMonitor` and `VectorShiftMonitor`: Gymnasium wrappers that watch an env and report in `info`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from dqucb.drift.base import DriftDetector
from dqucb.drift.spaces import SpaceReader, detector_or_chosen


def _report(detector: DriftDetector) -> dict[str, Any]:
    return {
        "drift_detected": detector.drift_detected,
        "drift_statistic": detector.statistic,
        "drift_changed_at": detector.changed_at,
    }


class ShiftMonitor(gymnasium.Wrapper, RecordConstructorArgs):
    """Watches every transition of an env, whoever acts in it.

    `info` of each step holds "drift_detected" (an alarm at this step), "drift_statistic" (an alarm is a value
    above 1) and "drift_changed_at" (the step, over all episodes, of the last change). `alarms` holds the steps
    of all alarms.

    Parameters
    ----------
    env : gymnasium.Env
        The env; observations and actions pass through unchanged.
    detector : DriftDetector, optional
        Any object with `update(state, action, next_state, reward)` and the attributes of `DriftDetector`. None: one
        that fits the spaces.
    **options
        Go to the detector that is chosen, for instance ``false_alarms=1e-5``.

    Examples
    --------
    >>> import gymnasium
    >>> from dqucb.drift import ShiftMonitor
    >>> env = ShiftMonitor(gymnasium.make("Pendulum-v1"))
    >>> observation, info = env.reset(seed=0)
    >>> info = env.step(env.action_space.sample())[-1]
    >>> info["drift_detected"]
    False
    """

    changes_transitions = False  # so that the problem behind an env of ours stays known

    def __init__(self, env: gymnasium.Env[Any, Any], detector: Any = None, **options: Any) -> None:
        RecordConstructorArgs.__init__(self, detector=detector, **options)
        gymnasium.Wrapper.__init__(self, env)
        self.detector = detector_or_chosen(detector, env.observation_space, env.action_space, options)
        self._read = SpaceReader(env.observation_space, env.action_space)
        self._state: Any = None
        self.alarms: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, as described in `gymnasium.Env.reset`; the detector continues."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._state = self._read.state(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step, watched."""
        chosen = self._read.action(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        next_state = self._read.state(observation)
        self.detector.update(self._state, chosen, next_state, float(reward))
        self._state = next_state
        if self.detector.drift_detected:
            self.alarms.append(self.detector.n_updates - 1)
        return observation, reward, terminated, truncated, {**info, **_report(self.detector)}


class VectorShiftMonitor(VectorWrapper):
    """The same for a vectorised env: all copies feed one detector, first copy first.

    `info` holds the three entries of `ShiftMonitor` for the whole; "drift_detected" tells whether any transition of the
    step gave an alarm. Updates count transitions, so `n` of them pass in one step of `n` copies.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        Copies of one env.
    detector : DriftDetector, optional
        As for `ShiftMonitor`.
    **options
        Go to the detector that is chosen.

    Examples
    --------
    >>> import gymnasium
    >>> from dqucb.drift import VectorShiftMonitor
    >>> env = VectorShiftMonitor(gymnasium.make_vec("CartPole-v1", num_envs=3))
    >>> observation, info = env.reset(seed=0)
    >>> info = env.step(env.action_space.sample())[-1]
    >>> env.detector.n_updates
    3
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], detector: Any = None, **options: Any) -> None:
        super().__init__(env)
        self.detector = detector_or_chosen(detector, env.single_observation_space, env.single_action_space, options)
        self._read = SpaceReader(env.single_observation_space, env.single_action_space)
        self._states: list[Any] = []
        self._over: NDArray[np.bool_] = np.zeros(env.num_envs, np.bool_)
        self.alarms: list[int] = []

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in the copies that are reset, as described in `gymnasium.vector.VectorEnv.reset`."""
        observations, info = self.env.reset(seed=seed, options=options)
        self._states = [self._read.state(observation) for observation in observations]
        self._over[:] = False
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of every copy, watched. Steps in which a copy only resets are no transitions and are left out."""
        chosen = [self._read.action(action) for action in actions]
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        mode = self.env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        ended = np.logical_or(terminated, truncated)
        detected = False
        next_states = [self._read.state(observation) for observation in observations]
        for i in range(self.num_envs):
            if not self._over[i]:
                last = next_states[i]
                if mode == AutoresetMode.SAME_STEP and ended[i]:
                    last = self._read.state(info["final_obs"][i])
                self.detector.update(self._states[i], chosen[i], last, float(rewards[i]))
                if self.detector.drift_detected:
                    detected = True
                    self.alarms.append(self.detector.n_updates - 1)
        self._over = ended if mode == AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        self._states = next_states
        return (
            observations,
            rewards,
            terminated,
            truncated,
            {**info, **_report(self.detector), "drift_detected": detected},
        )
