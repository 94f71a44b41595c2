"""The published hospital files: their quirks, the real Texas ones, and errors that say what was expected."""

import csv
import gzip
from datetime import date

import numpy as np
import pytest

from dqucb.hospital import HospitalDataError, load_hospitals
from dqucb.hospital import daily as days_of
from dqucb.hospital.facilities import read_facilities, sunday_of
from tests.hospital_files import STEMS, real_files, rows, write

BEDS, OCCUPIED, COVID, ADMISSIONS = STEMS
SMALL = {"days": 42, "change_at": (21,)}


def same(a, b):
    for name in ("capacity", "arrivals", "non_covid", "initial", "beta"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.names == b.names


def test_a_plain_file(tmp_path):
    system, report = load_hospitals(write(tmp_path / "f.csv", rows()), hospitals=2, **SMALL)
    assert system.names == ("HOSPITAL 2", "HOSPITAL 1")  # the largest first, spaces tidied
    assert system.capacity.tolist() == [300, 200]
    assert system.arrivals.tolist() == [5] * 42
    np.testing.assert_allclose(system.non_covid, [[195.0, 130.0]] * 43)
    np.testing.assert_allclose(system.initial, [15, 10])
    np.testing.assert_allclose(system.beta, 0.8)  # 15 stay at 15 with 3 admissions a day
    assert report.dropped == {f"HOSPITAL 0 ({'f' * 64})": "not among the 2 largest"}
    assert (report.kept, report.weeks, report.imputed_share, report.suppressed_share) == (2, 6, 0.0, 0.0)
    assert "hospitals kept: 2 of 3" in str(report)


def test_suppressed_sums_are_2_and_averages_are_not_used(tmp_path):
    table = rows()
    for row in table:
        row[f"{COVID}_avg"] = -999999
    table[0][f"{ADMISSIONS}_sum"] = -999999
    found = read_facilities(write(tmp_path / "f.csv", table))
    i = found.ids.index("f" * 64)
    assert found.values["covid"][0, i] == 5
    assert found.values["admissions"][0, i] == pytest.approx(2 / 7)
    assert found.suppressed["admissions"].sum() == 1


def test_coverage_is_what_sums_are_divided_by(tmp_path):
    table = rows()
    table[0][f"{BEDS}_sum"], table[0][f"{BEDS}_coverage"] = 300, 3
    table[1][f"{BEDS}_sum"], table[1][f"{BEDS}_coverage"] = "", 0
    found = read_facilities(write(tmp_path / "f.csv", table))
    i = found.ids.index("f" * 64)
    assert found.values["beds"][0, i] == 100
    assert np.isnan(found.values["beds"][1, i])


def test_gaps_are_straight_lines_and_counted(tmp_path):
    table = rows()
    table[1][f"{COVID}_sum"], table[2][f"{COVID}_sum"] = 70, ""
    table[3][f"{COVID}_sum"] = 140
    _, report = load_hospitals(write(tmp_path / "f.csv", table), **SMALL)
    assert report.imputed["covid"] == pytest.approx(1 / 18)
    np.testing.assert_allclose(days_of.filled(np.array([[np.nan], [10.0], [np.nan], [20.0], [np.nan]]))[:, 0],
                               [10, 10, 15, 20, 20])  # fmt: skip


@pytest.mark.parametrize("variant", ["friday", "slash", "time", "gz", "columns", "no_state", "bom", "corrected"])
def test_variants_of_the_same_content_give_the_same_result(tmp_path, variant):
    expected, _ = load_hospitals(write(tmp_path / "f.csv", rows()), **SMALL)
    table, path, columns = rows(), tmp_path / "g.csv", None
    if variant == "friday":
        table = rows(first=date(2020, 7, 31))
    elif variant == "slash":
        for row in table:
            row["collection_week"] = row["collection_week"].replace("-", "/")
    elif variant == "time":
        for row in table:
            row["collection_week"] += "T00:00:00.000"
    elif variant == "gz":
        path = tmp_path / "g.csv.gz"
    elif variant == "columns":  # one more, in another order
        columns = ["extra", *reversed(table[0])]
    elif variant == "no_state":
        columns = [name for name in table[0] if name != "state"]
    elif variant == "corrected":  # an uncorrected double of another content
        table = [{**row, "is_corrected": "True"} for row in table] + [{**table[0], f"{BEDS}_sum": 9999}]
    write(path, table, columns)
    if variant == "bom":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    found, report = load_hospitals(path, **SMALL)
    same(found, expected)
    assert report.friday_weeks == (18 if variant == "friday" else 0)
    assert report.duplicates == (1 if variant == "corrected" else 0)


def test_every_weekday_goes_to_the_nearest_sunday():
    assert (
        sunday_of(date(2020, 7, 31)) == sunday_of(date(2020, 8, 2)) == sunday_of(date(2020, 8, 5)) == date(2020, 8, 2)
    )
    assert sunday_of(date(2020, 8, 6)) == date(2020, 8, 9)


def test_other_states_are_left_out_and_an_absent_one_is_an_error(tmp_path):
    table = rows()
    for row in table[:6]:
        row["state"] = "CA"
    path = write(tmp_path / "f.csv", table)
    assert len(read_facilities(path).ids) == 2
    with pytest.raises(HospitalDataError, match="no hospital of the state NY among 18 rows"):
        read_facilities(path, "NY")
    with pytest.raises(ValueError, match="state must be one of AL"):
        read_facilities(path, "Texas")


def test_a_truncated_file_says_so(tmp_path):
    path = write(tmp_path / "f.csv", rows())
    text = path.read_text()
    path.write_text(text[: len(text) - 30])
    with pytest.raises(HospitalDataError, match=r"line 19: it has \d+ fields, expected 18 \(truncated download\?\)"):
        load_hospitals(path, **SMALL)
    zipped = write(tmp_path / "f.csv.gz", rows())
    zipped.write_bytes(zipped.read_bytes()[:-60])
    with pytest.raises(HospitalDataError, match=r"truncated|cannot be read"):
        load_hospitals(zipped, **SMALL)
    short = write(tmp_path / "short.csv", rows(weeks=4))
    with pytest.raises(
        HospitalDataError, match=r"must hold the weeks of 2020-08-02 to 2020-09-06, but has .* 2020-08-23"
    ):
        load_hospitals(short, **SMALL)


def test_a_wrong_file_and_a_missing_column_say_what_was_expected(tmp_path):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("date,cases\n2020-08-02,4\n")
    with pytest.raises(HospitalDataError, match=r"not the HHS file .* its columns begin with date, cases"):
        load_hospitals(wrong)
    with pytest.raises(HospitalDataError, match="cannot be read"):
        load_hospitals(tmp_path / "absent.csv")
    picture = tmp_path / "picture.png"
    picture.write_bytes(bytes(range(256)))
    with pytest.raises(HospitalDataError, match="expected the HHS file"):
        load_hospitals(picture)
    table = rows()
    missing = write(tmp_path / "m.csv", table, [name for name in table[0] if name != f"{COVID}_sum"])
    with pytest.raises(HospitalDataError, match=f"columns are missing: {COVID}_sum"):
        load_hospitals(missing)
    table[4][f"{BEDS}_sum"] = "many"
    with pytest.raises(HospitalDataError, match="line 6: could not convert"):
        load_hospitals(write(tmp_path / "n.csv", table), **SMALL)
    with pytest.raises(ValueError, match="first_day must be a Sunday"):
        load_hospitals(wrong, first_day="2020-08-03")


def test_weeks_are_split_by_the_states_days(tmp_path):
    admissions = np.tile([1, 2, 3, 4, 3, 2, 1.0], 6)
    table = [
        {"date": str(date.fromordinal(date(2020, 8, 2).toordinal() + day)), "state": "TX",
         "previous_day_admission_adult_covid_confirmed": admissions[day], "total_hosp": 100 + day}
        for day in range(42)
    ]  # fmt: skip
    profile = write(tmp_path / "d.csv", table)
    system, _ = load_hospitals(write(tmp_path / "f.csv", rows()), state_daily=profile, **SMALL)
    assert system.arrivals.reshape(6, 7).sum(1).tolist() == [42] * 6
    assert np.abs(system.arrivals - 42 * admissions / 16).max() <= 1
    with pytest.raises(HospitalDataError, match="must hold 2020-08-02 to 2020-09-12"):
        load_hospitals(tmp_path / "f.csv", state_daily=write(tmp_path / "e.csv", table[:20]), **SMALL)
    with pytest.raises(HospitalDataError, match="not a table of a state's daily totals"):
        load_hospitals(tmp_path / "f.csv", state_daily=tmp_path / "f.csv", **SMALL)


def test_beta_is_the_least_squares_fit():
    rng = np.random.default_rng(0)
    beta = np.array([0.7, 0.9])
    admissions, census = rng.poisson(5, (200, 2)).astype(float), np.zeros((200, 2))
    for day in range(1, 200):
        census[day] = beta * census[day - 1] + admissions[day]
    np.testing.assert_allclose(days_of.fitted_beta(census, admissions)[0], beta)
    fitted, changed = days_of.fitted_beta(np.hstack([census, np.zeros((200, 1))]), np.zeros((200, 3)))
    assert changed == 3  # nobody ever came: above 0.99; and an empty hospital
    assert (fitted <= 0.99).all()


class TestRealFiles:
    def test_what_is_kept(self, capsys):
        path, daily = real_files()
        system, report = load_hospitals(path, state_daily=daily)
        print(report)
        told = capsys.readouterr().out
        assert "hospitals kept: 24 of 32" in told
        assert "days: 1274 from 2020-08-02 (182 weeks)" in told
        assert "imputed: " in told
        assert report.imputed_share < 0.01
        assert 0.03 < report.suppressed_share < 0.10
        assert len(report.dropped) == 8
        assert 0.6 < system.beta.min() < system.beta.max() <= 0.99
        assert 0.84 < np.median(system.beta) < 0.89  # a stay of about a week
        assert 100 < system.arrivals.max() < 160
        weekly = read_facilities(path).values["admissions"]
        assert np.nansum(weekly) * 7 == pytest.approx(system.arrivals.sum(), rel=0.15)

    @pytest.mark.parametrize("variant", ["friday", "slash"])
    def test_variants_give_the_same_result(self, tmp_path, variant):
        path, _ = real_files()
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        for row in table:
            if variant == "slash":
                row["collection_week"] = row["collection_week"].replace("-", "/")
            else:
                row["collection_week"] = str(
                    date.fromordinal(date.fromisoformat(row["collection_week"]).toordinal() - 2)
                )
        expected, _ = load_hospitals(path)
        same(load_hospitals(write(tmp_path / "v.csv", table))[0], expected)

    def test_a_cut_download_says_so(self, tmp_path):
        path, _ = real_files()
        cut = tmp_path / "cut.csv.gz"
        cut.write_bytes(path.read_bytes()[:100_000])
        with pytest.raises(HospitalDataError, match="truncated download"):
            load_hospitals(cut)
