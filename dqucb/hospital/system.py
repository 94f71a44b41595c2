"""`HospitalSystem`: the daily data of hospitals that share arriving COVID-19 patients."""

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate

DAYS = 1274
CHANGE_AT = (637,)
FIRST_DAY = "2020-08-02"
LONGER = 1.5  # a longer stay in units of the stay before the change
BEFORE_A_WAVE = (340,)  # start of the second large wave in Texas, which peaks on day 398


@dataclass(frozen=True, kw_only=True, eq=False)
class HospitalSystem:
    """K hospitals over T days. With y the COVID-19 patients in beds, d the others and a the day's allocation,

        y_{t+1} = beta y_t + a_t,   overflow_t = sum_k max(0, y_{t+1} + d_{t+1} - capacity).

    Parameters
    ----------
    names : sequence of str
        Names of the K hospitals.
    capacity : array (K,)
        Beds.
    arrivals : array of int (T,)
        Patients to allocate on each day.
    non_covid : array (T + 1, K)
        d, including the day after the last one.
    initial : array (K,)
        y on the first day.
    beta, beta_after : array (K,)
        Fraction of COVID-19 patients who stay to the next day, before `change_at` and from then on.
    change_at : tuple of int
        The first day on which `beta_after` holds, as a tuple of one; () for no change.
    first_day : str
        An ISO date.
    source : dict
        Where the numbers come from, as JSON values.
    """

    names: tuple[str, ...]
    capacity: NDArray[np.float64]
    arrivals: NDArray[np.int64]
    non_covid: NDArray[np.float64]
    initial: NDArray[np.float64]
    beta: NDArray[np.float64]
    beta_after: NDArray[np.float64]
    change_at: tuple[int, ...] = CHANGE_AT
    first_day: str = FIRST_DAY
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        k = len(self.names)
        put = object.__setattr__
        put(self, "names", tuple(str(name) for name in self.names))
        for name in ("capacity", "initial", "beta", "beta_after"):
            put(self, name, _validate.vector(name, getattr(self, name), k))
        put(self, "non_covid", _validate.finite_array("non_covid", self.non_covid, 2))
        arrivals = _validate.finite_array("arrivals", self.arrivals, 1)
        if (arrivals < 0).any() or (arrivals != np.floor(arrivals)).any():
            raise ValueError(f"arrivals must be whole numbers >= 0, got {arrivals.min()} to {arrivals.max()}")
        put(self, "arrivals", arrivals.astype(np.int64))
        if self.non_covid.shape != (len(arrivals) + 1, k):
            raise ValueError(f"non_covid must have shape {(len(arrivals) + 1, k)}, got {self.non_covid.shape}")
        for name in ("non_covid", "initial", "beta", "beta_after"):
            if (getattr(self, name) < 0).any():
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name).min()}")
        if (self.capacity <= 0).any():
            raise ValueError(f"capacity must be > 0, got {self.capacity.min()}")
        for name in ("beta", "beta_after"):
            if (getattr(self, name) > 1).any():
                raise ValueError(f"{name} must be <= 1, got {getattr(self, name).max()}")
        put(self, "change_at", _validate.increasing("change_at", self.change_at, 0))
        if len(self.change_at) > 1:
            raise ValueError(f"change_at must hold at most one day, got {self.change_at}")
        date.fromisoformat(self.first_day)

    @property
    def days(self) -> int:
        """T."""
        return len(self.arrivals)

    def phase_at(self, day: int) -> int:
        """0 before the change, 1 from then on."""
        return sum(change <= day for change in self.change_at)

    def beta_at(self, day: int) -> NDArray[np.float64]:
        """beta on a day, counted from 0."""
        return self.beta_after if self.phase_at(day) else self.beta

    def date_of(self, day: int) -> str:
        """The ISO date of a day, counted from 0."""
        return str(date.fromisoformat(self.first_day) + timedelta(days=day))

    def shortened(self, days: int, change_at: tuple[int, ...]) -> "HospitalSystem":
        """The first `days` days, with the change at another day."""
        days = _validate.integer("days", days, 1, self.days)
        return replace(self, arrivals=self.arrivals[:days], non_covid=self.non_covid[: days + 1], change_at=change_at)

    def __repr__(self) -> str:
        return (
            f"HospitalSystem({len(self.names)} hospitals, {self.capacity.sum():g} beds, {self.days} days from "
            f"{self.first_day}, {self.arrivals.sum()} patients, change_at={self.change_at})"
        )


def changed_beta(beta: NDArray[np.float64], how: str | ArrayLike, seed: int = 0) -> NDArray[np.float64]:
    """beta after the change.

    Parameters
    ----------
    beta : array (K,)
        beta before the change.
    how : str or array_like
        "random" and "same" are two readings of the paper's "beta becomes uniform": drawn uniformly from [0, 1] for each
        hospital, or the mean of `beta` for all. "longer": every stay becomes half as long again. An array is used as it
        is.
    seed : int
        Seed of "random".
    """
    if not isinstance(how, str):
        return _validate.vector("beta_after", how, len(beta))
    _validate.one_of("beta_after", how, ["random", "same", "longer"])
    if how == "longer":  # a stay lasts 1 / (1 - beta) days on average
        return 1.0 - (1.0 - beta) / LONGER
    if how == "same":
        return np.full(len(beta), beta.mean())
    return np.random.default_rng([_validate.integer("seed", seed, 0), 637]).uniform(size=len(beta))
