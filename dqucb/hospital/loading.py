"""Build a `HospitalSystem` from the published files, with a report on dropped, interpolated and imputed data."""

import os
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dqucb import _validate
from dqucb.hospital import daily
from dqucb.hospital.facilities import WHAT, Facilities, HospitalDataError, read_facilities
from dqucb.hospital.system import CHANGE_AT, DAYS, FIRST_DAY, HospitalSystem, changed_beta

COMPLETE = 0.95  # fraction of weeks in which a hospital must have reported beds and occupied beds
FEWEST_BEDS = 10.0  # median


@dataclass
class QualityReport:
    """The quality of the data that `load_hospitals` read, for printing.

    Parameters
    ----------
    file, state : str
        The file, and the state whose hospitals were read.
    asked, kept : int
        Hospitals asked for, and used.
    rows, rows_of_state, hospitals_of_state : int
        Rows of the file, rows of the state, and its hospitals.
    weeks, days, first_day : int, int, str
        The period.
    dropped : dict
        Hospital -> why it was not used.
    suppressed, imputed : dict
        Hospital -> fraction of its weeks with a suppressed sum of 1 to 3, and without a report (interpolated).
    friday_weeks, duplicates, occupied_above_beds : int
        Rows of weeks that begin on Friday, duplicate rows, and rows with more occupied beds than beds.
    beta_clipped : int
        Hospitals whose beta was clipped or pooled.
    profile : str
        How weekly sums were divided into days.
    notes : list of str
        Further remarks.
    """

    file: str
    state: str
    asked: int
    rows: int
    rows_of_state: int
    hospitals_of_state: int
    kept: int
    weeks: int
    days: int
    first_day: str
    dropped: dict[str, str]
    suppressed: dict[str, float]
    imputed: dict[str, float]
    friday_weeks: int
    duplicates: int
    occupied_above_beds: int
    beta_clipped: int
    profile: str
    notes: list[str]

    @property
    def imputed_share(self) -> float:
        """Of all values that were used."""
        return float(np.mean(list(self.imputed.values())))

    @property
    def suppressed_share(self) -> float:
        """Of all values that were used."""
        return float(np.mean(list(self.suppressed.values())))

    def __str__(self) -> str:
        reasons: dict[str, int] = {}
        for reason in self.dropped.values():
            reasons[reason] = reasons.get(reason, 0) + 1
        shares = [
            f"  {name}: {self.suppressed[name]:.1%} suppressed (1 to 3, taken as 2), {self.imputed[name]:.1%} imputed"
            for name in self.imputed
        ]
        return "\n".join(
            [
                f"{self.file}: {self.rows} rows, {self.rows_of_state} of {self.state}",
                f"hospitals kept: {self.kept} of {self.hospitals_of_state} (asked for {self.asked})",
                *(f"  dropped {count}: {reason}" for reason, count in reasons.items()),
                f"days: {self.days} from {self.first_day} ({self.weeks} weeks); days of a week: {self.profile}",
                f"imputed: {self.imputed_share:.2%} of the values, suppressed: {self.suppressed_share:.2%}",
                *shares,
                f"rows of weeks that begin on Friday: {self.friday_weeks}; duplicates: {self.duplicates}; "
                f"more beds occupied than there are: {self.occupied_above_beds}",
                f"beta clipped to {daily.BETA_RANGE} or pooled: {self.beta_clipped} hospitals",
                *self.notes,
            ]
        )


def load_hospitals(
    path: str | os.PathLike[str],
    *,
    state: str = "TX",
    hospitals: int = 40,
    state_daily: str | os.PathLike[str] | None = None,
    first_day: str = FIRST_DAY,
    days: int = DAYS,
    change_at: tuple[int, ...] = CHANGE_AT,
    beta_after: str | ArrayLike = "random",
    seed: int = 0,
) -> tuple[HospitalSystem, QualityReport]:
    """The largest hospitals of a state that reported throughout, and the quality of the data.

    Weeks without a report are interpolated linearly between the hospital's neighbouring weeks. Capacity is the median
    of the weekly adult beds; beta is fitted by least squares and clipped to [0.5, 0.99].

    Parameters
    ----------
    path : path
        The HHS file by facility, .csv or .csv.gz.
    state : str
        Abbreviation of the state.
    hospitals : int
        How many of the largest hospitals by median adult beds to keep; fewer if the file has fewer. A hospital must
        have reported beds and occupied beds in 95 % of the weeks and have a median of 10 adult beds.
    state_daily : path, optional
        The state's daily totals, by which weeks are split into days; evenly without it.
    first_day, days : date, int
        A Sunday, and a multiple of 7.
    change_at, beta_after, seed : tuple of int, str or array_like, int
        The change of beta; see `changed_beta`.

    Returns
    -------
    (HospitalSystem, QualityReport)
    """
    wanted = _validate.integer("hospitals", hospitals)
    first = date.fromisoformat(first_day)
    if first.weekday() != 6 or _validate.integer("days", days) % 7:
        raise ValueError(f"first_day must be a Sunday and days a multiple of 7, got {first_day} and {days}")
    table = _weeks(read_facilities(path, state), first, days // 7, path)
    keep, dropped = _chosen(table, wanted)
    if not keep:
        raise HospitalDataError(
            f"{os.fspath(path)}: no hospital reported in {COMPLETE:.0%} of the weeks from {first_day} on with at least "
            f"{FEWEST_BEDS:g} adult beds; expected {WHAT}"
        )
    values = {name: array[:, keep] for name, array in table.values.items()}
    weekly = {name: daily.filled(array) for name, array in values.items()}
    profile = daily.Profile.flat(days) if state_daily is None else daily.read_profile(state_daily, first, days, state)
    census = daily.daily_census(weekly["covid"], profile)
    admissions = daily.daily_admissions(weekly["admissions"], profile)
    beta, clipped = daily.fitted_beta(census, admissions)
    others = daily.straight(np.maximum(0.0, weekly["occupied"] - weekly["covid"]))
    report = QualityReport(
        file=Path(path).name, state=state.upper(), asked=wanted, rows=table.counts["rows"],
        rows_of_state=table.counts["rows_of_state"], hospitals_of_state=len(table.ids), kept=len(keep),
        weeks=days // 7, days=days, first_day=first_day, dropped=dropped,
        suppressed={name: float(array[:, keep].mean()) for name, array in table.suppressed.items()},
        imputed={name: float(np.isnan(array).mean()) for name, array in values.items()},
        friday_weeks=table.counts["friday_weeks"], duplicates=table.counts["duplicates"],
        occupied_above_beds=table.counts["occupied_above_beds"], beta_clipped=clipped,
        profile="evenly" if state_daily is None else f"by {Path(state_daily).name}", notes=table.notes,
    )  # fmt: skip
    source: dict[str, Any] = {"source": Path(path).name, "state": state.upper(), "quality": asdict(report)}
    system = HospitalSystem(
        names=tuple(table.names[i] for i in keep),
        capacity=np.rint(np.median(weekly["beds"], axis=0)),
        arrivals=daily.whole_patients(admissions.sum(1)),
        non_covid=np.vstack([others, others[-1:]]),
        initial=census[0],
        beta=beta,
        beta_after=changed_beta(beta, beta_after, seed),
        change_at=change_at,
        first_day=first_day,
        source=source,
    )
    return system, report


def _weeks(table: Facilities, first: date, weeks: int, path: str | os.PathLike[str]) -> Facilities:
    """The table restricted to the given weeks."""
    last = first + timedelta(days=7 * (weeks - 1))
    if table.weeks[0] > first or table.weeks[-1] < last:
        raise HospitalDataError(
            f"{os.fspath(path)}: must hold the weeks of {first} to {last}, but has {table.weeks[0]} to "
            f"{table.weeks[-1]} (truncated download, or an older release?)"
        )
    at = (first - table.weeks[0]).days // 7
    table.weeks = table.weeks[at : at + weeks]
    table.values = {name: array[at : at + weeks] for name, array in table.values.items()}
    table.suppressed = {name: array[at : at + weeks] for name, array in table.suppressed.items()}
    return table


def _chosen(table: Facilities, wanted: int) -> tuple[list[int], dict[str, str]]:
    """Indices of the hospitals to keep, largest first, and name -> why each of the others is dropped."""
    reported = ~np.isnan(table.values["beds"]) & ~np.isnan(table.values["occupied"])
    good: list[tuple[float, str, int]] = []
    dropped: dict[str, str] = {}
    for i, identity in enumerate(table.ids):
        label = f"{table.names[i]} ({identity})"
        if reported[:, i].mean() < COMPLETE:
            dropped[label] = f"reported in less than {COMPLETE:.0%} of the weeks"
            continue
        beds = float(np.nanmedian(table.values["beds"][:, i]))
        if beds < FEWEST_BEDS:
            dropped[label] = f"fewer than {FEWEST_BEDS:g} adult beds"
        else:
            good.append((-beds, identity, i))
    for _, identity, i in sorted(good)[wanted:]:
        dropped[f"{table.names[i]} ({identity})"] = f"not among the {wanted} largest"
    return [i for _, _, i in sorted(good)[:wanted]], dropped
