"""`RunWatch`: the detector of one run; `Agent.train(detector=...)` makes one for each seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb.drift.spaces import SpaceReader, check_fits


class RunWatch:
    """A clone of a detector that sees every transition of a run, and the alarms that it gave.

    Parameters
    ----------
    detector : DriftDetector or RiverDetector
        It is cloned, and stays as it is.
    identity : dict
        JSON that must agree for the run to continue.
    restarts : bool
        Whether an alarm restarts the agent.
    observation_space, action_space : gymnasium.spaces.Space
        Of the env.
    """

    def __init__(
        self, detector: Any, identity: dict[str, Any], restarts: bool, observation_space: Any, action_space: Any
    ) -> None:
        check_fits(detector, observation_space, action_space)
        self.identity = identity
        self.restarts = restarts
        self.detector = detector.clone()
        self._read = SpaceReader(observation_space, action_space)
        self._alarms: list[int] = []

    def update(self, state: Any, action: Any, next_state: Any, reward: float, now: int) -> bool:
        """Whether this transition, in episode or step `now`, gave an alarm.

        Parameters
        ----------
        state, action, next_state : object
            As the env has them.
        reward : float
            Of the transition.
        now : int
            The number of the episode or step.
        """
        read, detector = self._read, self.detector
        detector.update(read.state(state), read.action(action), read.state(next_state), reward)
        if detector.drift_detected:
            self._alarms.append(now)
        return bool(detector.drift_detected)

    def alarms(self) -> NDArray[np.int64]:
        """The episodes or steps of the alarms."""
        return np.array(self._alarms, np.int64)

    def packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) for `restore`. The state of a detector of river has no form but pickle and is left out."""
        state = getattr(self.detector, "state", {"settings": None, "arrays": {}})
        return {"identity": self.identity, "detector": state["settings"]}, {"alarms": self.alarms(), **state["arrays"]}

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]], finished: bool) -> None:
        """Continue from `packed()` of the same run. Raises ValueError, KeyError or TypeError for what does not fit.

        Parameters
        ----------
        settings, arrays : dict
            What `packed` gave.
        finished : bool
            Whether the run has ended, so that the detector is not needed any more.
        """
        alarms = arrays["alarms"]
        if alarms.ndim != 1 or alarms.dtype != np.int64 or (np.diff(alarms, prepend=0) < 0).any():
            raise ValueError("alarms of the detector must be int64 and in order")
        self._alarms = alarms.tolist()
        own = settings["detector"]
        if own is not None:
            if own["parameters"] != self.detector.get_params():
                raise ValueError(f"the detector must be {self.detector!r}, got {own['parameters']}")
            state = {name: array for name, array in arrays.items() if name != "alarms"}
            self.detector = type(self.detector).from_state({"settings": own, "arrays": state})
        elif not finished:
            raise ValueError(f"the run cannot continue: {self.detector!r} could not be saved; clone() starts again")
