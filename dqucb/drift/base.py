"""`DriftDetector`: what every detector offers, in the words of river's drift detectors."""

import math
import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dqucb import _storage
from dqucb import _validate as check


class DriftDetector:
    """Base of the detectors: feed `update` one transition at a time and look at `drift_detected`.

    After an alarm the next update begins anew, with a new burn-in, since what was learned belongs to the old world.
    Subclasses write `_begin`, which makes the tests, and set `_parameters` in `__init__`.

    Attributes
    ----------
    drift_detected : bool
        Whether the last update gave an alarm.
    statistic : float
        The largest test statistic in units of its threshold: an alarm is a value above 1.
    significance : float
        How often, per update, a still stream reaches the present statistic. The smaller, the surer.
    changed_at : int or None
        The update at which the law changed, as estimated at the last alarm; updates count from 0.
    n_updates : int
        Updates so far, over all alarms.
    """

    kind: ClassVar[str] = "drift detector"
    tests: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **parameters: Any) -> None:
        self._parameters = parameters
        self._tests: Any = None
        self._clear()

    def _clear(self) -> None:
        self.n_updates = 0
        self.drift_detected = False
        self.changed_at: int | None = None
        self.significance_at_alarm = 1.0
        self.test: str | None = None  # the test that gave the last alarm

    def _begin(self, state: Any, action: Any, next_state: Any, reward: Any) -> Any:
        """New tests that fit this transition."""
        raise NotImplementedError

    def update(self, state: ArrayLike, action: ArrayLike, next_state: ArrayLike, reward: float | None = None) -> Self:
        """Learn from one transition; `drift_detected` tells whether it gave an alarm.

        Parameters
        ----------
        state, action, next_state : int or array_like
            The transition. An invalid one raises a ValueError and leaves the detector as it was.
        reward : float, optional
            Needed only by a detector that watches the reward.

        Returns
        -------
        DriftDetector
            The detector itself.
        """
        tests = self._tests
        if tests is None or self.drift_detected:
            tests = self._begin(state, action, next_state, reward)
            alarm = tests.update(state, action, next_state, reward, self.n_updates)
            self._tests = tests
            self.drift_detected = False
        else:
            alarm = tests.update(state, action, next_state, reward, self.n_updates)
        self.n_updates += 1
        if alarm:
            self._alarm(alarm - 1)
        return self

    def _alarm(self, number: int) -> None:
        level = self._tests.levels[number]
        self.drift_detected = True
        self.test = self.tests[number]
        self.changed_at = int(level[3])
        # The threshold was set when the cycle began; the rate of now also knows what came since.
        self.significance_at_alarm = float(min(level[2], self._parameters["false_alarms"] / len(self.tests)))

    @property
    def statistic(self) -> float:
        """The largest test statistic in units of its threshold; 0 while the detector learns."""
        if self._tests is None:
            return 0.0
        ratios = [level / threshold for level, threshold, *_ in self._tests.levels if level > 0.0 < threshold]
        return float(max(ratios, default=0.0))

    @property
    def significance(self) -> float:
        """Rate, per update, at which a still stream reaches the present statistic."""
        if self.drift_detected:
            return self.significance_at_alarm
        if self._tests is None:
            return 1.0
        return float(min(1.0, *(rate for _, _, rate, *_ in self._tests.levels)))

    @property
    def warming_up(self) -> bool:
        """Whether the burn-in lasts: no alarm can come yet."""
        return self._tests is None or self._tests.seen < self._tests.burn_in

    def reset(self) -> None:
        """Forget everything, as if newly made."""
        self._tests = None
        self._clear()

    def get_params(self) -> dict[str, Any]:
        """The constructor's keywords and their values."""
        return dict(self._parameters)

    def clone(self) -> Self:
        """A new detector with the same parameters, without what was learned."""
        return type(self)(**self._parameters)

    @property
    def state(self) -> dict[str, Any]:
        """All that `from_state` needs to go on with the same bits: JSON values and arrays."""
        settings = {
            "parameters": self._parameters,
            "shape": None if self._tests is None else self._shape(),
            "n_updates": self.n_updates,
            "drift_detected": self.drift_detected,
            "changed_at": self.changed_at,
            "significance_at_alarm": self.significance_at_alarm,
            "test": self.test,
        }
        return {"settings": settings, "arrays": {} if self._tests is None else self._tests.state()}

    def _shape(self) -> list[int]:
        """What `_sized` needs to make tests of the same sizes."""
        return []

    def _sized(self, shape: list[int]) -> Any:
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """A detector that goes on from `state`."""
        settings = state["settings"]
        _check_settings(settings, sum(np.asarray(array).nbytes for array in state["arrays"].values()))
        detector = cls(**settings["parameters"])
        if settings["shape"] is not None:
            tests = detector._sized([check.integer("shape", size, 0) for size in settings["shape"]])
            _check_arrays(tests.state(), state["arrays"])
            tests.restore(state["arrays"])
            detector._tests = tests
        for name in ("n_updates", "drift_detected", "changed_at", "significance_at_alarm", "test"):
            setattr(detector, name, settings[name])
        return detector

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and what goes to other processes, carry all that was learned."""
        return type(self).from_state, (self.state,)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the detector to a file; `load` goes on with the same bits."""
        state = self.state
        return _storage.save(path, self.kind, state["settings"], **state["arrays"])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The detector that `save` wrote.

        Raises
        ------
        SavedFileError
            If the file is damaged or holds something else.
        """
        settings, arrays = _storage.load(path, cls.kind)
        try:
            return cls.from_state({"settings": settings, "arrays": arrays})
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, MemoryError) as error:
            raise _storage.SavedFileError(f"{os.fspath(path)}: not a {cls.kind} ({error})") from error

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._parameters.items())
        return f"{type(self).__name__}({values})"


def _check_settings(settings: dict[str, Any], held: int) -> None:
    """Raise a ValueError for numbers of other types, and for sizes that the `held` bytes of arrays cannot have."""
    check.integer("n_updates", settings["n_updates"], 0)
    check.flag("drift_detected", settings["drift_detected"])
    check.real("significance_at_alarm", settings["significance_at_alarm"], 0.0)
    if settings["changed_at"] is not None:
        check.integer("changed_at", settings["changed_at"], -1)
    if not isinstance(settings["test"], str | None):
        raise ValueError(f"test must be a name, got {settings['test']!r}")
    sizes = [*(settings["shape"] or []), *(settings["parameters"].get(name) for name in ("n_states", "n_actions"))]
    largest = math.prod(max(1, check.integer("sizes", size, 0)) for size in sizes if size is not None)
    if largest > held + 1_000:
        raise ValueError(f"sizes {sizes} must fit {held} bytes of arrays")


def _check_arrays(expected: dict[str, Any], found: dict[str, Any]) -> None:
    for name, array in expected.items():
        if name not in found:
            raise ValueError(f"array {name!r} is missing")
        given = np.asarray(found[name])
        if given.shape != array.shape or given.dtype != array.dtype:
            raise ValueError(f"{name} must be {array.dtype}{array.shape}, got {given.dtype}{given.shape}")
