"""Simulation of a hospital system day by day, and the daily optimum of an oracle that knows the next day."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb._kernels.allocation import allocate_by_room
from dqucb.hospital.system import HospitalSystem


class HospitalState(NamedTuple):
    """An agent's observation in the morning: present patients and arrivals.

    Parameters
    ----------
    covid, non_covid : array
        Present patients y and d of each hospital, (K,).
    patients : int
        Arrivals N.
    """

    covid: NDArray[np.float64]
    non_covid: NDArray[np.float64]
    patients: int


class Outcome(NamedTuple):
    """The result of a day's allocation.

    Parameters
    ----------
    overflow, admitted, discharged : array
        Patients of each hospital, (K,).
    """

    overflow: NDArray[np.float64]
    admitted: NDArray[np.int64]
    discharged: NDArray[np.float64]

    @property
    def reward(self) -> float:
        """Minus the total overflow."""
        return -float(self.overflow.sum())


class Simulation:
    """The hospitals of one run.

    Parameters
    ----------
    system : HospitalSystem
        The hospitals and their data.
    arrivals : array of int, optional
        Replaces the arrivals of the system.
    start_day : int
        The first day.
    """

    def __init__(self, system: HospitalSystem, arrivals: NDArray[np.int64] | None = None, start_day: int = 0) -> None:
        self.system = system
        self.arrivals = system.arrivals if arrivals is None else arrivals
        self.day = _validate.integer("start_day", start_day, 0, system.days - 1)
        self.covid = system.initial.copy()

    @property
    def over(self) -> bool:
        """Whether all days have passed."""
        return self.day >= self.system.days

    @property
    def state(self) -> HospitalState:
        """The current morning; after the last day there are no arrivals."""
        patients = 0 if self.over else int(self.arrivals[self.day])
        return HospitalState(self.covid.copy(), self.system.non_covid[self.day], patients)

    def checked(self, allocation: ArrayLike) -> NDArray[np.int64]:
        """The allocation as integers; a ValueError unless it sums to today's arrivals."""
        given = np.asarray(allocation)
        k, patients = len(self.system.names), self.state.patients
        wanted = f"{k} whole numbers >= 0 that sum to today's {patients} patients"
        if given.shape != (k,) or given.dtype.kind not in "iuf" or not np.isfinite(given).all():
            raise ValueError(f"action must be {wanted}, got {allocation!r}")
        amounts = given.astype(np.int64)
        if (amounts != given).any() or (amounts < 0).any() or amounts.sum() != patients:
            raise ValueError(f"action must be {wanted}, got {given.tolist()} with the sum {given.sum()}")
        return amounts

    def step(self, allocation: ArrayLike) -> Outcome:
        """Apply today's allocation and advance to the next morning."""
        amounts = self.checked(allocation)
        before = self.covid
        self.covid = staying(self.system, self.day, before) + amounts
        discharged = before + amounts - self.covid
        self.day += 1
        overflow = np.maximum(0.0, self.covid + self.system.non_covid[self.day] - self.system.capacity)
        return Outcome(overflow, amounts, discharged)


def staying(system: HospitalSystem, day: int, covid: NDArray[np.float64]) -> NDArray[np.float64]:
    """beta y: COVID-19 patients who stay to the next day."""
    return system.beta_at(day) * covid


def clairvoyant_allocation(system: HospitalSystem, day: int, state: HospitalState) -> NDArray[np.int64]:
    """Return the allocation with the least overflow of the day, given beta and tomorrow's other patients.

    Ties: each patient goes to the hospital with the largest fraction of free beds.

    Parameters
    ----------
    system : HospitalSystem
        The hospitals.
    day : int
        The day.
    state : HospitalState
        Its morning.
    """
    amounts = np.zeros(len(system.names), np.int64)
    load = staying(system, day, state.covid) + system.non_covid[day + 1]
    allocate_by_room(load, system.capacity, state.patients, True, amounts)
    return amounts


def clairvoyant_rewards(system: HospitalSystem, arrivals: NDArray[np.int64] | None = None,
                        start_day: int = 0) -> NDArray[np.float64]:  # fmt: skip
    """Return the rewards, (T,), of the daily optimum along its own path; 0 before `start_day`.

    Each day is optimal given the path so far; the path as a whole is not, so an agent can end with less overflow.

    Parameters
    ----------
    system, arrivals, start_day
        As in `Simulation`.
    """
    simulation = Simulation(system, arrivals, start_day)
    rewards = np.zeros(system.days)
    while not simulation.over:
        day = simulation.day
        rewards[day] = simulation.step(clairvoyant_allocation(system, day, simulation.state)).reward
    return rewards


def by_largest_remainders(weights: NDArray[np.float64], patients: int) -> NDArray[np.int64]:
    """Allocate whole patients in proportion to weights, by the largest remainders; ties go to the first hospital.

    Parameters
    ----------
    weights : array
        At least 0; if all are 0 the allocation is equal.
    patients : int
        How many.
    """
    total = weights.sum()
    exact = patients * (weights / total if total > 0 else np.full(len(weights), 1 / len(weights)))
    amounts = np.floor(exact).astype(np.int64)
    left = patients - int(amounts.sum())
    amounts[np.argsort(amounts - exact, kind="stable")[:left]] += 1
    return amounts


def described(system: HospitalSystem) -> dict[str, Any]:
    """The system as JSON values, for runs and `info`; `sha256` distinguishes systems that differ only in data."""
    digest = hashlib.sha256()
    for values in (system.capacity, system.arrivals, system.non_covid, system.beta, system.beta_after):
        digest.update(np.ascontiguousarray(values).tobytes())
    return {
        "hospitals": len(system.names),
        "beds": float(system.capacity.sum()),
        "days": system.days,
        "first_day": system.first_day,
        "patients": int(system.arrivals.sum()),
        "change_at": list(system.change_at),
        **system.source,
        "sha256": digest.hexdigest()[:16],
    }
