"""`DriftDetector`: the contract of every detector, in the words of river's detectors; `DETECTORS`: their names."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

from numpy.typing import ArrayLike

from dqucb._parameters import HasParameters
from dqucb._registry import Registry

FINITE, VECTORS = "finite", "vectors"  # what states are: ids 0, 1, ... or numbers


class Suspect(NamedTuple):
    """A part of the environment that may have changed.

    Parameters
    ----------
    where : tuple of int or int
        (state, action) of a finite detector, the index of a coordinate otherwise.
    probability : float
        That it changed.

    Examples
    --------
    >>> Suspect((3, 1), 0.98).where
    (3, 1)
    """

    where: Any
    probability: float


class DriftDetector(HasParameters, ABC):
    """Base of the detectors: feed `update` one transition at a time and read `drift_detected`.

    After an alarm the next update starts learning again, since what was learned describes the environment before the
    change. Subclasses write `update` and `reset`, keep the keywords of `__init__` under the same names and register
    themselves in `DETECTORS`; `dqucb.check_detector` checks the rest.

    Attributes
    ----------
    drift_detected : bool
        Whether the last update gave an alarm.
    n_updates : int
        Updates so far, over all alarms; they count from 0.
    statistic : float
        The largest test statistic in units of its threshold: an alarm is a value above 1.
    changed_at : int or None
        The update at which the process changed, as estimated at the last alarm.
    changed_between : (int, int) or None
        The first and last update of an interval around `changed_at` that holds the change with a probability of 0.9.
    significance : float
        False-alarm rate, per update, of the present statistic on unchanged data. The smaller, the surer.
    test : str or None
        The test that gave the last alarm.
    suspects : tuple of Suspect
        What changed at the last alarm, the most probable part first; empty if the detector cannot tell.
    looks_like : int or None
        The earlier environment, numbered from 0, that the transitions since the last alarm look like; None if it is a
        new one or not yet known.

    Examples
    --------
    >>> from dqucb import FiniteDriftDetector
    >>> isinstance(FiniteDriftDetector(3, 2), DriftDetector)
    True
    """

    states: ClassVar[str] = VECTORS

    n_updates: int = 0
    drift_detected: bool = False
    changed_at: int | None = None
    changed_between: tuple[int, int] | None = None
    test: str | None = None
    suspects: tuple[Suspect, ...] = ()
    looks_like: int | None = None

    @abstractmethod
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

    @abstractmethod
    def reset(self) -> None:
        """Forget everything, as if newly constructed."""

    @property
    @abstractmethod
    def statistic(self) -> float:
        """The largest test statistic in units of its threshold; 0 while the detector cannot tell."""

    @property
    def significance(self) -> float:
        """False-alarm rate, per update, of the present statistic on unchanged data; 1 if it is not known."""
        return 1.0

    @property
    def warming_up(self) -> bool:
        """Whether a burn-in lasts, in which no alarm can come."""
        return False

    def __repr__(self) -> str:  # all parameters: this text is part of the identity of a run
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({values})"


DETECTORS: Registry[type[DriftDetector]] = Registry(
    "detector", ("dqucb.drift.finite", "dqucb.drift.continuous", "dqucb.drift.adapters")
)


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
