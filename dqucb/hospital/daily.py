"""Split weekly data into days by the state's daily totals, and fit beta to the days."""

import csv
import os
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from dqucb.hospital.facilities import HospitalDataError, checked_header, each_row, opened, parsed_day

DAILY = "a table of a state's daily totals (HHS 'COVID-19 ... by State Timeseries'), .csv or .csv.gz"
ADMISSIONS = "previous_day_admission_adult_covid_confirmed"
CENSUS = ("total_adult_patients_hospitalized_confirmed_covid", "total_hosp")  # the first one present is used
BETA_RANGE = (0.5, 0.99)
ENOUGH_PATIENTS = 100.0  # patient-days below which a hospital gets the beta fitted to all


@dataclass
class Profile:
    """The state's admissions and census per day."""

    admissions: NDArray[np.float64]
    census: NDArray[np.float64]

    @classmethod
    def flat(cls, days: int) -> "Profile":
        """A constant profile: weeks are split evenly."""
        return cls(np.ones(days), np.ones(days))


def read_profile(path: str | os.PathLike[str], first: date, days: int, state: str = "TX") -> Profile:
    """The daily totals of `days` days; missing days are interpolated."""
    with opened(path, DAILY) as text:
        reader = csv.reader(text)
        header = checked_header(path, reader, ["date", ADMISSIONS], DAILY)
        census = next((name for name in CENSUS if name in header), None)
        if census is None:
            raise HospitalDataError(f"{os.fspath(path)}: columns are missing: {' or '.join(CENSUS)}; expected {DAILY}")
        place = {name: header.index(name) for name in ("date", ADMISSIONS, census)}
        found = np.full((2, days), np.nan)

        def take(row: list[str]) -> None:
            if "state" in header and row[header.index("state")].strip().upper() != state.upper():
                return
            day = (parsed_day(row[place["date"]]) - first).days
            if 0 <= day < days:
                found[:, day] = [float(row[place[name]] or "nan") for name in (ADMISSIONS, census)]

        each_row(path, reader, header, take)
    if np.isnan(found).mean() > 0.05:
        raise HospitalDataError(
            f"{os.fspath(path)}: must hold {first} to {first + timedelta(days=days - 1)}, but "
            f"{np.isnan(found).mean():.0%} of the values are missing"
        )
    return Profile(*(np.maximum(0.0, filled(row[:, None])[:, 0]) for row in found))


def filled(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps in each column interpolated linearly, constant at the ends; a column without data is 0."""
    full, places = table.copy(), np.arange(len(table))
    for column in full.T:
        known = ~np.isnan(column)
        column[:] = np.interp(places, places[known], column[known]) if known.any() else 0.0
    return full


def straight(weekly: NDArray[np.float64]) -> NDArray[np.float64]:
    """(7 * weeks, K): linear interpolation between the weekly means, placed on the middle days."""
    days = np.arange(7 * len(weekly))
    return np.array([np.interp(days, 7 * np.arange(len(weekly)) + 3, column) for column in weekly.T]).T


def daily_census(weekly: NDArray[np.float64], profile: Profile) -> NDArray[np.float64]:
    """Daily census: a hospital's fraction of the state, interpolated linearly, times the state's daily census."""
    by_week = profile.census.reshape(-1, 7).mean(1)
    return straight(weekly / np.maximum(by_week, 1e-9)[:, None]) * profile.census[:, None]


def daily_admissions(weekly: NDArray[np.float64], profile: Profile) -> NDArray[np.float64]:
    """Daily means of each week, (weeks, K), distributed like the state's days of that week; weekly sums are kept."""
    by_week = profile.admissions.reshape(-1, 7)
    total = by_week.sum(1, keepdims=True)
    share = np.where(total > 0, by_week / np.maximum(total, 1e-9), 1 / 7)
    return (7 * weekly[:, None, :] * share[:, :, None]).reshape(-1, weekly.shape[1])


def whole_patients(daily: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integers whose cumulative sum is within half a patient of that of `daily`."""
    return np.diff(np.rint(np.cumsum(daily)), prepend=0.0).astype(np.int64)


def fitted_beta(census: NDArray[np.float64], admissions: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """beta of each hospital by least squares on y_{t+1} = beta y_t + a_{t+1}; numbers of clipped and pooled ones."""
    before, left = census[:-1], census[1:] - admissions[1:]
    pooled = np.clip((before * left).sum() / max((before**2).sum(), 1e-9), *BETA_RANGE)
    raw = (before * left).sum(0) / np.maximum((before**2).sum(0), 1e-9)
    beta = np.where(census.sum(0) < ENOUGH_PATIENTS, pooled, np.clip(raw, *BETA_RANGE))
    return beta, int((beta != raw).sum())
