"""Small files in the form that HHS publishes, and where the real ones are looked for."""

import csv
import gzip
import os
from datetime import date, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FACILITIES, DAILY = "tx_tsao_facility_weekly_hhs_schema.csv.gz", "tx_state_daily_hhs.csv.gz"
STEMS = (
    "all_adult_hospital_inpatient_beds_7_day",
    "all_adult_hospital_inpatient_bed_occupied_7_day",
    "total_adult_patients_hospitalized_confirmed_covid_7_day",
    "previous_day_admission_adult_covid_confirmed_7_day",
)


def real_files():
    """(by facility, state daily), or skip: the data are not part of the project."""
    for folder in (os.environ.get("DQUCB_HOSPITAL_DATA"), ROOT.parent / "shared" / "data"):
        if folder and (Path(folder) / FACILITIES).exists():
            return Path(folder) / FACILITIES, Path(folder) / DAILY
    return pytest.skip("the Texas files are not here: set DQUCB_HOSPITAL_DATA to the folder that holds them")


def rows(weeks=6, hospitals=3, first=date(2020, 8, 2)):
    """Rows as dicts: hospital i has 100 (i + 1) beds, 70 % occupied, 7 (i + 1) admissions a week."""
    found = []
    for i in range(hospitals):
        for week in range(weeks):
            row = {
                "hospital_pk": f"45000{i}" if i else "f" * 64,
                "hospital_name": f"HOSPITAL  {i}",
                "state": "TX",
                "fips_code": "48453",
                "collection_week": str(first + timedelta(days=7 * week)),
                "is_corrected": "False",
            }
            for stem, day in zip(STEMS, (100 * (i + 1), 70 * (i + 1), 5 * (i + 1), i + 1), strict=True):
                row[f"{stem}_avg"], row[f"{stem}_sum"], row[f"{stem}_coverage"] = day, 7 * day, 7
            found.append(row)
    return found


def write(path, table, columns=None):
    """A csv, gzipped if the name ends so; `columns` chooses and orders them."""
    columns = columns or list(table[0])
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)
    return path
