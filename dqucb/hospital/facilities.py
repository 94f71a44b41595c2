"""Read the file "COVID-19 Reported Patient Impact and Hospital Capacity by Facility" as HHS publishes it.

A row is a hospital and a week. -999999 means 1 to 3 and is read as 2. Averages are suppressed below 4 even where the
sum is published, so a day's mean is sum / coverage, coverage being the days that were reported. Ids are text. Weeks
begin on Friday in older files and on Sunday in newer ones, with dates as 2020/08/02 or 2020-08-02; each week is taken
as the Sunday week that it overlaps most. Columns beyond those below are ignored, whether there are 44, 127 or 128.
"""

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUPPRESSED = -999999
SUPPRESSED_IS = 2.0  # the middle of 1 to 3
QUANTITIES = {  # name of a quantity -> prefix of its columns
    "beds": "all_adult_hospital_inpatient_beds_7_day",
    "occupied": "all_adult_hospital_inpatient_bed_occupied_7_day",
    "covid": "total_adult_patients_hospitalized_confirmed_covid_7_day",
    "admissions": "previous_day_admission_adult_covid_confirmed_7_day",
}
WHAT = "the HHS file 'COVID-19 Reported Patient Impact and Hospital Capacity by Facility' (.csv or .csv.gz)"
_CODES = (  # state -> first two digits of fips_code, for files without a column `state`
    "AL01 AK02 AZ04 AR05 CA06 CO08 CT09 DE10 DC11 FL12 GA13 HI15 ID16 IL17 IN18 IA19 KS20 KY21 LA22 ME23 MD24 MA25 "
    "MI26 MN27 MS28 MO29 MT30 NE31 NV32 NH33 NJ34 NM35 NY36 NC37 ND38 OH39 OK40 OR41 PA42 RI44 SC45 SD46 TN47 TX48 "
    "UT49 VT50 VA51 WA53 WV54 WI55 WY56 PR72"
)
STATE_FIPS = {code[:2]: code[2:] for code in _CODES.split()}


class HospitalDataError(ValueError):
    """A file of hospital data is missing, damaged or of another kind."""


@dataclass
class Facilities:
    """Daily means by hospital and week of one state, NaN where nothing was reported."""

    ids: list[str]
    names: list[str]
    weeks: list[date]  # Sundays
    values: dict[str, NDArray[np.float64]]  # (weeks, hospitals) of each of QUANTITIES
    suppressed: dict[str, NDArray[np.bool_]]
    counts: dict[str, int] = field(default_factory=dict)  # counts of irregularities in the file
    notes: list[str] = field(default_factory=list)


@contextmanager
def opened(path: str | os.PathLike[str], what: str) -> Iterator[Any]:
    """Open a plain or gzipped text file; any error is a `HospitalDataError`."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with (
            gzip.open(name, "rt", encoding="utf-8-sig", newline="")
            if zipped
            else open(name, encoding="utf-8-sig", newline="") as text
        ):
            yield text
    except EOFError as error:
        raise HospitalDataError(f"{name}: the file ends early (truncated download?); expected {what}") from error
    except (OSError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise HospitalDataError(f"{name}: cannot be read ({error}); expected {what}") from error


def checked_header(path: str | os.PathLike[str], reader: Any, needed: list[str], what: str) -> list[str]:
    """The column names; a `HospitalDataError` if one of `needed` is missing."""
    header = [column.strip() for column in next(reader, [])]
    missing = [column for column in needed if column not in header]
    if len(missing) == len(needed):
        shown = ", ".join(header[:4]) or "nothing"
        raise HospitalDataError(f"{os.fspath(path)}: not {what}: its columns begin with {shown}")
    if missing:
        raise HospitalDataError(f"{os.fspath(path)}: columns are missing: {', '.join(missing)}; expected {what}")
    return header


def each_row(path: str | os.PathLike[str], reader: Any, header: list[str], take: Callable[[list[str]], None]) -> None:
    """Call `take` with each row that is not empty; a row of another length, or a ValueError, names its line."""
    for row in filter(None, reader):
        try:
            if len(row) != len(header):
                raise ValueError(f"it has {len(row)} fields, expected {len(header)} (truncated download?)")
            take(row)
        except ValueError as error:
            raise HospitalDataError(f"{os.fspath(path)}: line {reader.line_num}: {error}") from error


def parsed_day(text: str) -> date:
    """A date written 2020-08-02 or 2020/08/02, with or without a time after it."""
    return date.fromisoformat(text.strip()[:10].replace("/", "-"))


def sunday_of(day: date) -> date:
    """The Sunday nearest to the first day of a week: that week overlaps the Sunday week most."""
    after = (day.weekday() + 1) % 7  # days since Sunday
    return day - timedelta(days=after if after <= 3 else after - 7)


def read_facilities(path: str | os.PathLike[str], state: str = "TX") -> Facilities:
    """Read all hospitals of a state, and count the irregular rows."""
    state = state.upper()
    if state not in STATE_FIPS:
        raise ValueError(f"state must be one of {', '.join(STATE_FIPS)}, got {state!r}")
    sums = {name: f"{stem}_sum" for name, stem in QUANTITIES.items()}
    needed = ["hospital_pk", "hospital_name", "collection_week", *sums.values()]
    needed += [f"{QUANTITIES[name]}_coverage" for name in ("beds", "occupied", "covid")]
    with opened(path, WHAT) as text:
        reader = csv.reader(text)
        header = checked_header(path, reader, needed, WHAT)
        if "state" not in header and "fips_code" not in header:
            raise HospitalDataError(f"{os.fspath(path)}: columns are missing: state or fips_code; expected {WHAT}")
        rows = _Rows(header, state)
        each_row(path, reader, header, rows.add)
    if not rows.kept:
        raise HospitalDataError(f"{os.fspath(path)}: no hospital of the state {state} among {rows.counts['rows']} rows")
    return rows.table()


class _Rows:
    """Collects the rows of one state; of several for one (hospital, week) the last or the corrected one."""

    def __init__(self, header: list[str], state: str) -> None:
        self.state = state
        self.place = {column: i for i, column in enumerate(header)}
        self.counts = dict.fromkeys(("rows", "rows_of_state", "friday_weeks", "duplicates", "occupied_above_beds"), 0)
        self.kept: dict[tuple[str, date], tuple[bool, dict[str, tuple[float, bool]]]] = {}
        self.names: dict[str, str] = {}
        self.notes = [
            f"no column {QUANTITIES[name]}_coverage: every week of {name} counted as fully reported"
            for name in QUANTITIES
            if f"{QUANTITIES[name]}_coverage" not in self.place
        ]

    def add(self, row: list[str]) -> None:
        self.counts["rows"] += 1
        if not self._of_state(row):
            return
        self.counts["rows_of_state"] += 1
        hospital, day = row[self.place["hospital_pk"]].strip(), parsed_day(row[self.place["collection_week"]])
        self.counts["friday_weeks"] += day.weekday() == 4
        corrected = row[self.place["is_corrected"]].strip().lower() == "true" if "is_corrected" in self.place else False
        values = {name: self._daily_mean(row, stem) for name, stem in QUANTITIES.items()}
        self.counts["occupied_above_beds"] += values["occupied"][0] > values["beds"][0]
        key = (hospital, sunday_of(day))
        if key in self.kept:
            self.counts["duplicates"] += 1
            if self.kept[key][0] and not corrected:
                return
        self.kept[key] = (corrected, values)
        self.names[hospital] = " ".join(row[self.place["hospital_name"]].split())

    def _of_state(self, row: list[str]) -> bool:
        if "state" in self.place:
            return row[self.place["state"]].strip().upper() == self.state
        code = row[self.place["fips_code"]].strip().removesuffix(".0")
        return code != "" and code.zfill(5)[:2] == STATE_FIPS[self.state]

    def _daily_mean(self, row: list[str], stem: str) -> tuple[float, bool]:
        """(sum / coverage, whether the sum was suppressed); NaN if nothing was reported."""
        total = _number(row[self.place[f"{stem}_sum"]])
        days = _number(row[self.place[f"{stem}_coverage"]]) if f"{stem}_coverage" in self.place else 7.0
        hidden = total == SUPPRESSED
        if hidden:
            total = SUPPRESSED_IS
        if np.isnan(total) or not days > 0:
            return np.nan, False
        if total < 0:
            raise ValueError(f"{stem}_sum must be >= 0 or {SUPPRESSED}, got {total:g}")
        return total / days, hidden

    def table(self) -> Facilities:
        ids, weeks = sorted(self.names), sorted({week for _, week in self.kept})
        weeks = [weeks[0] + timedelta(days=7 * i) for i in range((weeks[-1] - weeks[0]).days // 7 + 1)]
        column, line = {name: i for i, name in enumerate(ids)}, {week: i for i, week in enumerate(weeks)}
        values = {name: np.full((len(weeks), len(ids)), np.nan) for name in QUANTITIES}
        suppressed = {name: np.zeros((len(weeks), len(ids)), np.bool_) for name in QUANTITIES}
        for (hospital, week), (_, found) in self.kept.items():
            for name, (value, hidden) in found.items():
                values[name][line[week], column[hospital]] = value
                suppressed[name][line[week], column[hospital]] = hidden
        return Facilities(ids, [self.names[i] for i in ids], weeks, values, suppressed, self.counts, self.notes)


def _number(text: str) -> float:
    text = text.strip().replace(",", "")
    return float(text) if text and text.lower() not in ("nan", "na", "null") else np.nan
