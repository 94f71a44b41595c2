"""`DriftDetector`: what every detector offers, in the words of river's drift detectors."""

import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _storage
from dqucb import _validate as check

LIMIT = check.MAX_LENGTH  # updates that can be counted


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

    Examples
    --------
    >>> from dqucb import FiniteDriftDetector
    >>> isinstance(FiniteDriftDetector(3, 2), DriftDetector)
    True
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
        # The threshold was set when the cycle began; the rate of now also knows what came since. A test has half of the
        # false alarms, or less.
        self.significance_at_alarm = float(min(level[2], self._parameters["false_alarms"] / 2.0))

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
        """A detector that goes on from `state`, which may come from anywhere: all of it is checked.

        Raises
        ------
        ValueError, KeyError or TypeError
            If something is missing or does not fit. Sizes are compared with the arrays before memory is taken.
        """
        settings, arrays = state["settings"], state["arrays"]
        shape = settings["shape"]
        if shape is not None:
            shape = [check.integer("shape", size, 0) for size in shape]
        cls._check_sizes(settings["parameters"], shape, arrays)
        detector = cls(**settings["parameters"])
        if shape is not None:
            tests = detector._sized(shape)
            _check_arrays(tests.state(), arrays)
            detector._check_values(arrays)
            tests.restore(arrays)
            detector._tests = tests
        detector.n_updates = check.integer("n_updates", settings["n_updates"], 0, LIMIT)
        detector.drift_detected = check.flag("drift_detected", settings["drift_detected"])
        changed_at, test = settings["changed_at"], settings["test"]
        detector.changed_at = None if changed_at is None else check.integer("changed_at", changed_at, 0, LIMIT)
        significance = settings["significance_at_alarm"]
        detector.significance_at_alarm = check.real("significance_at_alarm", significance, 0.0, 1.0)
        detector.test = None if test is None else check.one_of("test", test, cls.tests)
        return detector

    @classmethod
    def _check_sizes(cls, parameters: dict[str, Any], shape: list[int] | None, arrays: dict[str, Any]) -> None:
        """Raise a ValueError unless the arrays are as large as a detector of these sizes makes them."""
        raise NotImplementedError

    def _check_values(self, arrays: dict[str, Any]) -> None:
        """Raise a ValueError for values that no detector writes, such as indices out of range."""
        raise NotImplementedError

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
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, MemoryError) as error:
            raise _storage.SavedFileError(f"{os.fspath(path)}: not a {cls.kind} ({error})") from error

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._parameters.items())
        return f"{type(self).__name__}({values})"


def checked_detector(given: Any, *more: str) -> Any:
    """`given`, if it has what detectors have, and `more`; else a ValueError that names what is missing."""
    if isinstance(given, type):
        raise ValueError(f"detector must be an object, got the class {given.__name__}: write {given.__name__}(...)")
    needed = ("update", "drift_detected", "statistic", "n_updates", *more)
    missing = [name for name in needed if not hasattr(given, name)]
    if missing:
        raise ValueError(
            f"detector must have {missing[0]!r}, got {given!r}; wrap a river detector in dqucb.drift.RiverDetector"
        )
    return given


def _check_arrays(expected: dict[str, Any], found: dict[str, Any]) -> None:
    for name, array in expected.items():
        if name not in found:
            raise ValueError(f"array {name!r} is missing")
        given = np.asarray(found[name])
        if given.shape != array.shape or given.dtype != array.dtype:
            raise ValueError(f"{name} must be {array.dtype}{array.shape}, got {given.dtype}{given.shape}")
        check_numbers(name, given)


def check_numbers(
    name: str, array: NDArray[Any], smallest: float | NDArray[Any] = -np.inf, largest: float | NDArray[Any] = np.inf
) -> None:
    """Raise a ValueError for NaN and for values out of the range."""
    if array.size and not ((array >= smallest) & (array <= largest)).all():
        raise ValueError(f"{name} must be in [{smallest}, {largest}], got values from {array.min()} to {array.max()}")
