"""`RunWatch`: the detectors of a training run, one for each of its seeds; `Agent.train(detector=...)` makes it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb.drift.spaces import SpaceReader, check_fits


class RunWatch:
    """Clones of one detector, fed with the transitions of a run, and the alarms that they gave.

    Parameters
    ----------
    detector : DriftDetector or RiverDetector
        It is cloned, and stays as it is.
    identity : dict
        JSON that must agree for the run to go on.
    restarts : bool
        Whether an alarm restarts the agent.
    observation_space, action_space : gymnasium.spaces.Space
        Of the env.
    n_seeds : int
        Detectors that are needed.
    """

    def __init__(
        self,
        detector: Any,
        identity: dict[str, Any] | None,
        restarts: bool,
        observation_space: Any,
        action_space: Any,
        n_seeds: int = 1,
    ) -> None:
        check_fits(detector, observation_space, action_space)
        self.identity = identity
        self.restarts = restarts
        self.detectors = [detector.clone() for _ in range(n_seeds)]
        self._read = SpaceReader(observation_space, action_space)
        self._alarms: list[list[int]] = [[] for _ in range(n_seeds)]

    def update(self, state: Any, action: Any, next_state: Any, reward: float, now: int, seed: int = 0) -> bool:
        """Whether this transition of seed number `seed`, in episode or step `now`, gave an alarm."""
        read, detector = self._read, self.detectors[seed]
        detector.update(read.state(state), read.action(action), read.state(next_state), reward)
        if detector.drift_detected:
            self._alarms[seed].append(now)
        return bool(detector.drift_detected)

    def alarms(self, seed: int = 0) -> NDArray[np.int64]:
        """The episodes or steps of the alarms of seed number `seed`."""
        return np.array(self._alarms[seed], np.int64)

    def packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) for `restore`. The state of a detector of river has no form but pickle and is left out."""
        settings: dict[str, Any] = {"identity": self.identity, "detectors": []}
        arrays: dict[str, NDArray[Any]] = {}
        for i, detector in enumerate(self.detectors):
            state = getattr(detector, "state", {"settings": None, "arrays": {}})
            settings["detectors"].append(state["settings"])
            arrays |= {f"{i}.{name}": array for name, array in state["arrays"].items()}
            arrays[f"{i}:alarms"] = self.alarms(i)
        return settings, arrays

    def restore(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]], finished: bool) -> None:
        """Go on from `packed()` of the same run. Raises ValueError, KeyError or TypeError for what does not fit."""
        if len(settings["detectors"]) != len(self.detectors):
            raise ValueError(f"there must be {len(self.detectors)} detectors, got {len(settings['detectors'])}")
        for i, own in enumerate(settings["detectors"]):
            alarms = arrays[f"{i}:alarms"]
            if alarms.ndim != 1 or alarms.dtype != np.int64 or (np.diff(alarms, prepend=0) < 0).any():
                raise ValueError("alarms of the detector must be int64 and in order")
            self._alarms[i] = alarms.tolist()
            if own is not None:
                kind = type(self.detectors[i])
                if own["parameters"] != self.detectors[i].get_params():
                    raise ValueError(f"the detector must be {self.detectors[i]!r}, got {own['parameters']}")
                below = {k.removeprefix(f"{i}."): array for k, array in arrays.items() if k.startswith(f"{i}.")}
                self.detectors[i] = kind.from_state({"settings": own, "arrays": below})
            elif not finished:
                raise ValueError(f"the run cannot go on: {self.detectors[i]!r} could not be saved; clone() trains anew")
