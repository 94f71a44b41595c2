"""`ShiftCallback`: watch the env of a Stable-Baselines3 model while it learns (extra `sb3`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb.drift.sb3_adaptation import Adaptation, Reaction
from dqucb.drift.spaces import SpaceReader, detector_or_chosen

if TYPE_CHECKING:

    class BaseCallback:
        """What we use of Stable-Baselines3's class."""

        training_env: Any
        model: Any
        logger: Any
        locals: dict[str, Any]
        num_timesteps: int
        verbose: int

        def __init__(self, verbose: int = 0) -> None: ...

else:
    try:
        from stable_baselines3.common.callbacks import BaseCallback
    except ImportError as error:
        raise ImportError(f'ShiftCallback needs Stable-Baselines3: pip install "dqucb[sb3]" ({error})') from error


class ShiftCallback(BaseCallback):
    """Logs "drift/statistic" and "drift/alarms", and acts on an alarm.

    Parameters
    ----------
    detector : DriftDetector, optional
        None: one that fits the spaces of the env, for a model that learns from nothing: with a Box of observations
        the burn-in is 20,000 transitions. `burn_in=3_000` suits a model that has learned.
    on_alarm : {"adapt"}, optional
        "adapt": the replay buffer keeps what came after the change, exploration and optimisers are reset as far as
        the change is large, and when the detector recognises an earlier environment, the policy that was saved when
        it ended is put back. For models with a replay buffer (DQN, SAC, TD3, DDPG). `reactions` holds what was done.
    on_drift : callable, optional
        Called with the callback at each alarm; returning False stops training.
    stop : bool
        Whether an alarm stops training.
    verbose : int
        1 prints each alarm.
    **options
        Go to the detector that is chosen.

    Examples
    --------
    >>> from stable_baselines3 import PPO  # doctest: +SKIP
    >>> PPO("MlpPolicy", "Pendulum-v1").learn(50_000, callback=ShiftCallback(verbose=1))  # doctest: +SKIP
    """

    def __init__(
        self,
        detector: Any = None,
        *,
        on_alarm: str | None = None,
        on_drift: "Callable[[ShiftCallback], bool | None] | None" = None,
        stop: bool = False,
        verbose: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(verbose)
        if on_alarm is not None:
            _validate.one_of("on_alarm", on_alarm, ["adapt"])
        self.on_alarm = on_alarm
        self._adaptation: Adaptation | None = None
        self._may_restore = False
        self.reports: list[str] = []  # what ``on_alarm="adapt"`` did, in words
        self.detector = detector
        self.on_drift, self.stop, self.options = on_drift, stop, options
        self.alarms: list[int] = []  # in time steps of the model

    def _on_training_start(self) -> None:
        env = self.training_env
        if self.detector is None:
            self.detector = detector_or_chosen(
                None, env.observation_space, env.action_space, self.options, learning=True
            )
        self._read = SpaceReader(env.observation_space, env.action_space)
        if self.on_alarm is not None and (self._adaptation is None or self._adaptation.model is not self.model):
            self._adaptation = Adaptation(self.model)

    @property
    def reactions(self) -> "list[Reaction]":
        """What ``on_alarm="adapt"`` did, one entry per alarm."""
        return [] if self._adaptation is None else list(self._adaptation.reactions)

    def _on_rollout_start(self) -> None:
        self._states = self._read_all(self.model._last_obs)

    def _read_all(self, observations: Any) -> list[Any]:
        return [self._read.state(observation) for observation in observations]

    def _on_step(self) -> bool:
        going_on = True
        local = self.locals
        next_states = self._read_all(local["new_obs"])
        # On-policy models clip actions to the box before the env sees them.
        actions = local.get("clipped_actions", local["actions"])
        for i, done in enumerate(local["dones"]):
            last = self._read.state(local["infos"][i]["terminal_observation"]) if done else next_states[i]
            action = self._read.action(np.asarray(actions[i]))
            self.detector.update(self._states[i], action, last, float(local["rewards"][i]))
            if self.detector.drift_detected:
                going_on = self._alarm() and going_on
        self._states = next_states
        self._restore()
        self.logger.record("drift/statistic", self.detector.statistic)
        self.logger.record("drift/alarms", len(self.alarms))
        return going_on

    def _restore(self) -> None:
        """Put back the policy of an environment that the detector recognises, once after each alarm."""
        known = getattr(self.detector, "looks_like", None)
        if self._adaptation is None or known is None or not self._may_restore:
            return
        if known < len(self._adaptation.saved):
            self._say(self._adaptation.restore(known))
        self._may_restore = False

    def _say(self, what: str) -> None:
        self.reports.append(what)
        if self.verbose:
            print(f"drift: {what}")

    def _alarm(self) -> bool:
        self.alarms.append(self.num_timesteps)
        if self.verbose:
            print(f"drift: alarm at step {self.num_timesteps}, changed at update {self.detector.changed_at}")
        if self._adaptation is not None:
            changed = self.detector.changed_at
            since = 1 if changed is None else self.detector.n_updates - changed
            reaction = self._adaptation.react(since, float(getattr(self.detector, "significance", 0.0)))
            returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            self.logger.record("drift/kept", reaction.kept)
            self.logger.record("drift/size", reaction.size)
            self.logger.record("drift/return_before", float(np.mean(returns)) if returns else float("nan"))
            self._say(str(reaction))
            self._may_restore = True
        wanted = self.on_drift(self) if self.on_drift is not None else None
        return not self.stop and wanted is not False
