"""`CompiledDetector`: what the detectors over compiled tests have in common: one step, states, files."""

import os
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _storage
from dqucb import _validate as check
from dqucb.drift.base import DriftDetector, Suspect

LIMIT = check.MAX_LENGTH  # updates that can be counted


class Alarm(NamedTuple):
    """What a detector says of a change."""

    test: str
    changed_at: int
    changed_between: tuple[int, int]
    significance: float
    suspects: tuple[Suspect, ...]


class CompiledDetector(DriftDetector):
    """A detector whose tests are an object of a compiled class.

    Subclasses write the methods that are abstract here. Tests have `update(state, action, next_state, reward, now)`,
    which returns 0 or the number of an alarm, and `state()` and `restore(arrays)`.
    """

    kind: ClassVar[str] = "drift detector"
    tests: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._tests: Any = None
        self._clear()

    def _clear(self) -> None:
        self.n_updates = 0
        self.drift_detected = False
        self.changed_at: int | None = None
        self.changed_between: tuple[int, int] | None = None
        self.significance_at_alarm = 1.0
        self.test: str | None = None
        self.suspects: tuple[Suspect, ...] = ()

    @abstractmethod
    def _begin(self, state: Any, action: Any, next_state: Any, reward: Any) -> Any:
        """New tests that fit this transition; after an alarm `self._tests` are those that gave it."""

    @abstractmethod
    def _described(self, alarm: int) -> Alarm:
        """What the tests say of the alarm of this number."""

    @property
    @abstractmethod
    def _present(self) -> tuple[float, float]:
        """(statistic, significance) of tests that exist."""

    def update(self, state: ArrayLike, action: ArrayLike, next_state: ArrayLike, reward: float | None = None) -> Self:
        """Learn from one transition, as described in `DriftDetector.update`."""
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
            self._ring(alarm)
        return self

    def _ring(self, number: int) -> None:
        self.drift_detected = True
        alarm = self._described(number)
        self.test, self.changed_at, self.changed_between = alarm.test, alarm.changed_at, alarm.changed_between
        self.significance_at_alarm, self.suspects = alarm.significance, alarm.suspects

    @property
    def statistic(self) -> float:
        """The largest test statistic in units of its threshold; 0 while the detector cannot tell."""
        return 0.0 if self._tests is None else self._present[0]

    @property
    def significance(self) -> float:
        """False-alarm rate, per update, of the present statistic on unchanged data."""
        if self.drift_detected:
            return self.significance_at_alarm
        return 1.0 if self._tests is None else self._present[1]

    def reset(self) -> None:
        """Forget everything, as if newly constructed."""
        self._tests = None
        self._clear()

    @property
    def state(self) -> dict[str, Any]:
        """Everything that `from_state` needs to continue bit-identically: JSON values and arrays."""
        settings = {
            "parameters": self.get_params(),
            "shape": None if self._tests is None else self._shape(),
            "n_updates": self.n_updates,
            "drift_detected": self.drift_detected,
            "changed_at": self.changed_at,
            "changed_between": self.changed_between,
            "significance_at_alarm": self.significance_at_alarm,
            "test": self.test,
            "suspects": [[suspect.where, suspect.probability] for suspect in self.suspects],
        }
        return {"settings": settings, "arrays": {} if self._tests is None else self._tests.state()}

    def _shape(self) -> list[int]:
        """What `_sized` needs to make tests of the same sizes."""
        return []

    @abstractmethod
    def _sized(self, shape: list[int]) -> Any:
        """New tests of these sizes."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """A detector that continues from `state`, which may come from anywhere: all of it is checked.

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
            detector._check_arrays(tests, arrays)
            tests.restore(arrays)
            detector._tests = tests
        detector.n_updates = check.integer("n_updates", settings["n_updates"], 0, LIMIT)
        detector.drift_detected = check.flag("drift_detected", settings["drift_detected"])
        changed_at, test, between = settings["changed_at"], settings["test"], settings.get("changed_between")
        detector.changed_at = None if changed_at is None else check.integer("changed_at", changed_at, 0, LIMIT)
        if between is not None:
            first, last = check.vector("changed_between", between, 2).tolist()
            detector.changed_between = (
                check.integer("changed_between", int(first), 0, LIMIT),
                check.integer("changed_between", int(last), 0, LIMIT),
            )
        significance = settings["significance_at_alarm"]
        detector.significance_at_alarm = check.real("significance_at_alarm", significance, 0.0, 1.0)
        detector.test = None if test is None else check.one_of("test", test, cls.tests)
        detector.suspects = tuple(_suspect(suspect) for suspect in settings.get("suspects", []))
        return detector

    @classmethod
    @abstractmethod
    def _check_sizes(cls, parameters: dict[str, Any], shape: list[int] | None, arrays: dict[str, Any]) -> None:
        """Raise a ValueError unless the arrays are as large as a detector of these sizes makes them."""

    @abstractmethod
    def _check_arrays(self, tests: Any, arrays: dict[str, Any]) -> None:
        """Raise a ValueError for arrays that new tests cannot take over, and for values that no detector writes."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, also in other processes, hold all that was learned."""
        return type(self).from_state, (self.state,)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the detector to a file; resuming with `load` is bit-identical."""
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


def _suspect(given: Any) -> Suspect:
    """One of a file: a number or several, and a probability."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ValueError(f"suspects must be pairs (where, probability), got {given!r}")
    where, probability = given
    if isinstance(where, list | tuple):
        where = tuple(check.integer("suspects", index, 0) for index in where)
    else:
        where = check.integer("suspects", where, 0)
    return Suspect(where, check.real("suspects", probability, 0.0, 1.0))


def check_shapes(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise a ValueError unless all arrays that are expected were found, with their shapes and types, and no NaN.

    Parameters
    ----------
    expected : dict
        Arrays by name; their values do not matter.
    found : dict
        What came from a file.
    """
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
    """Raise a ValueError for NaN and for values out of the range.

    Parameters
    ----------
    name : str
        For messages.
    array : ndarray
        What is checked.
    smallest, largest : float or ndarray
        The range, ends included.
    """
    if array.size and not ((array >= smallest) & (array <= largest)).all():
        raise ValueError(f"{name} must be in [{smallest}, {largest}], got values from {array.min()} to {array.max()}")
