"""Synthetic hospitals modelled on those of Texas from August 2020 to January 2024, without a download.

Calibrated to published figures: bed sizes, the base occupancy and its response to COVID-19, the seven waves of the
Texas census, the rhythm and noise of daily admissions, and the length of stay.
"""

from datetime import date
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.hospital.system import CHANGE_AT, DAYS, FIRST_DAY, HospitalSystem, changed_beta

BEDS = (4.37, 1.33)  # mean and standard deviation of log(beds) in Texas: median 80, 90 % below 436
SMALLEST, LARGEST = 10, 1_000  # beds; smaller hospitals are dropped from the published data as well
TEXAS_BEDS = 61_206  # mean inpatient beds of the state in that period
DISCHARGE = 0.145  # fraction of COVID-19 patients discharged per day: a stay of 7 days
BETA_SPREAD = 0.06  # standard deviation of beta between hospitals, fitted to those around Austin
BETA_RANGE = (0.6, 0.97)
BASE_OCCUPANCY = 0.80
CROWDED_OUT = 0.48  # decrease of other patients per COVID-19 patient (regression, Austin region)
OTHERS_NOISE = 0.10  # standard deviation of a hospital's other patients as a fraction of its beds, mostly slow
WEEKDAYS = (0.915, 1.045, 1.045, 1.04, 1.025, 1.005, 0.915)  # admissions, Monday to Sunday
DISPERSION = 3.0  # variance over mean of the state's daily admissions around their weekly mean
# The Texas census: peaks of the seven waves (7-day means) and the valleys between, from the state's daily totals.
CENSUS = (
    ("2020-08-02", 9_050), ("2020-09-21", 3_281), ("2021-01-13", 14_199), ("2021-06-25", 1_488),
    ("2021-09-04", 14_007), ("2021-11-22", 2_729), ("2022-01-26", 13_620), ("2022-05-10", 705),
    ("2022-07-26", 3_682), ("2022-11-03", 912), ("2023-01-06", 3_306), ("2023-06-23", 384),
    ("2023-09-08", 1_451), ("2023-11-23", 877), ("2024-01-05", 1_888), ("2024-01-29", 1_640),
)  # fmt: skip


def texas_census(days: int) -> NDArray[np.float64]:
    """COVID-19 patients in Texas hospitals on each of `days` days: half cosines between peaks and valleys, in logs."""
    start = date.fromisoformat(FIRST_DAY)
    places = np.array([(date.fromisoformat(day) - start).days for day, _ in CENSUS])
    logs = np.log([count for _, count in CENSUS])
    day = np.clip(np.arange(days), places[0], places[-1])
    left = np.clip(np.searchsorted(places, day, side="right") - 1, 0, len(places) - 2)
    way = (day - places[left]) / (places[left + 1] - places[left])
    return np.exp(logs[left] + (logs[left + 1] - logs[left]) * (1 - np.cos(np.pi * way)) / 2)


def synthetic_hospitals(
    hospitals: int = 40,
    *,
    days: int = DAYS,
    change_at: tuple[int, ...] = CHANGE_AT,
    beta_after: str | ArrayLike = "random",
    seed: int = 0,
) -> HospitalSystem:
    """A random hospital system; the same arguments give the same numbers.

    Parameters
    ----------
    hospitals, days : int
        K and T.
    change_at : tuple of int
        The day on which beta changes; () for no change.
    beta_after : str or array_like
        "random", "same", "longer" or an array; see `changed_beta`.
    seed : int
        Seed of all draws.

    Examples
    --------
    >>> synthetic_hospitals(3).capacity.shape
    (3,)
    """
    k = _validate.integer("hospitals", hospitals)
    days = _validate.integer("days", days)
    rng = np.random.default_rng(_validate.integer("seed", seed, 0))
    beds = np.sort(np.round(np.clip(rng.lognormal(*BEDS, k), SMALLEST, LARGEST)))[::-1].astype(np.float64)
    beta = np.clip(rng.normal(1 - DISCHARGE, BETA_SPREAD, k), *BETA_RANGE)
    share = texas_census(days + 1) / TEXAS_BEDS  # of all beds
    census = share * beds.sum()
    source: dict[str, Any] = {"source": "synthetic", "system_seed": seed}
    return HospitalSystem(
        names=tuple(f"Hospital {i + 1}" for i in range(k)),
        capacity=beds,
        arrivals=_admissions(rng, census),
        non_covid=_other_patients(rng, beds, share),
        initial=census[0] * beds / beds.sum(),
        beta=beta,
        beta_after=changed_beta(beta, beta_after, seed),
        change_at=change_at,
        source=source,
    )


def _admissions(rng: np.random.Generator, census: NDArray[np.float64]) -> NDArray[np.int64]:
    """Admissions per day that reproduce the census: negative binomial around census_{t+1} - beta census_t."""
    weekday = (date.fromisoformat(FIRST_DAY).weekday() + np.arange(len(census) - 1)) % 7
    mean = np.maximum(0.5, np.diff(census) + DISCHARGE * census[:-1]) * np.array(WEEKDAYS)[weekday]
    return rng.poisson(rng.gamma(mean / (DISPERSION - 1), DISPERSION - 1))


def _other_patients(
    rng: np.random.Generator, beds: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Other patients: a level per hospital, lower during a wave, with slow and daily noise."""
    days, k = len(share), len(beds)
    level = BASE_OCCUPANCY + CROWDED_OUT * share.mean() + rng.normal(0, OTHERS_NOISE / 2, k)
    slow = np.zeros((days, k))
    keep = np.exp(-1 / 45)  # correlation time of a month and a half
    steps = rng.normal(0, OTHERS_NOISE * np.sqrt(1 - keep**2), (days, k))
    slow[0] = rng.normal(0, OTHERS_NOISE, k)
    for day in range(1, days):
        slow[day] = keep * slow[day - 1] + steps[day]
    daily = rng.normal(0, 0.01, (days, k))
    occupied = level - CROWDED_OUT * share[:, None] + slow + daily
    return np.round(np.clip(occupied, 0.3, 1.0) * beds, 1)
