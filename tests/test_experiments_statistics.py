"""Statistics over seeds against obvious slow twins."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage
from dqucb.experiments import statistics

VALUES = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3]


def naive_interval(values):
    """Student's t with Johnson's skewness term on the side of the longer tail, number by number."""
    n, mean = len(values), sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / (n - 1)) ** 0.5
    third = sum((v - mean) ** 3 for v in values) * n / ((n - 1) * (n - 2))
    q = stats.t.ppf(0.975, n - 1)
    shift = third * (1 + 2 * q**2) / (6 * spread**2 * n)
    half = q * spread / n**0.5
    return mean, mean - half + min(shift, 0), mean + half + max(shift, 0)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 199, 200, 20_001])
@pytest.mark.parametrize("tail", [0.25, 0.025, 5e-5])
def test_quantiles_of_students_t(freedom, tail):
    expected = stats.t.isf(tail, freedom)  # 2e-9 off in SciPy 1.11
    assert statistics.student_quantile(freedom, tail) == pytest.approx(expected, rel=1e-8)


def test_the_interval_of_a_mean_equals_its_formula():
    np.testing.assert_allclose(statistics.mean_interval(VALUES), naive_interval(VALUES), rtol=1e-8)  # as above
    mirrored = statistics.mean_interval([-v for v in VALUES])
    np.testing.assert_allclose([-mirrored.high, -mirrored.low], statistics.mean_interval(VALUES)[1:], rtol=1e-12)


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("population", coverage.PROMISED)
def test_intervals_of_a_mean_cover_what_they_say(population, seeds):
    found = coverage.mean_coverage("dqucb", coverage.POPULATIONS[population], seeds, 20_000)
    assert coverage.BOUNDS[0] <= found <= coverage.BOUNDS[1]


def test_the_interval_before_did_not_cover_what_it_said():
    assert coverage.mean_coverage("percentile", coverage.POPULATIONS["normal"], 5, 300) < 90


@pytest.mark.parametrize("shape", coverage.SHAPES)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.97])
def test_intervals_of_a_probability_cover_what_they_say(shape, p):
    found = coverage.probability_coverage(shape, p, 10, 800)
    assert 92 <= found <= 99  # ranks take few values, so that no interval can be exact


def test_real_runs_are_covered():
    values = coverage.real_runs(30)["QUCB"]
    assert 92 <= coverage.mean_coverage("dqucb", coverage.drawn_from(values), 5, 5_000) <= 98


def test_band_is_the_interval_of_each_point():
    curves = np.random.default_rng(1).random((6, 4))
    mean, low, high = statistics.band(curves)
    for point in range(4):
        ref = statistics.mean_interval(curves[:, point])
        np.testing.assert_allclose([mean[point], low[point], high[point]], ref, rtol=1e-12)


def test_below_five_seeds_a_word_stands_in_place_of_an_interval():
    interval = statistics.mean_interval([2.0, 3.0, 4.0, 5.0])
    assert (interval.value, interval.is_known) == (3.5, False)
    assert statistics.why_no_interval(4) == "fewer than 5 runs"
    assert np.isnan(statistics.band(np.eye(4)).high).all()
    assert interval.rounded(1) == [3.5, None, None]
    assert not statistics.probability_of_improvement([1.0, 2.0, 3.0, 4.0], range(9)).is_known


@pytest.mark.parametrize("value", [0.0, 0.1, 1e150, -3.7])
def test_equal_runs_have_no_interval_of_no_width(value):
    interval = statistics.mean_interval([value] * 7)
    assert interval.value == pytest.approx(value)
    assert not interval.is_known
    assert statistics.why_no_interval(7) == "all runs equal"
    low, high = statistics.band(np.array([[value, 1.0 + k] for k in range(7)]))[1:]
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] < 4.0 < high[1]


def test_huge_values_do_not_overflow():
    _, low, high = statistics.mean_interval(np.array(VALUES) * 1e150)
    np.testing.assert_allclose([low, high], np.array(naive_interval(VALUES)[1:]) * 1e150, rtol=1e-8)


@pytest.mark.parametrize(("size", "kept"), [(3, [0, 1, 2]), (4, [1, 2]), (8, [2, 3, 4, 5]), (10, [2, 3, 4, 5, 6, 7])])
def test_interquartile_mean_cuts_a_quarter_at_each_end(size, kept):
    values = np.random.default_rng(size).random(size)
    assert statistics.interquartile_mean(values) == pytest.approx(np.mean(np.sort(values)[kept]))


def test_probability_of_improvement_counts_pairs_and_halves_ties():
    assert statistics.probability_of_improvement([1.0, 2.0], [2.0, 3.0]).value == (1 + 1 + 0.5 + 1) / 4
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 12, 7).astype(float), rng.integers(3, 15, 30).astype(float)
    wins = [(a < b) + 0.5 * (a == b) for a in x for b in y]
    value, low, high = statistics.probability_of_improvement(x, y)
    assert value == pytest.approx(np.mean(wins))
    assert 0 < low < value < high < 1
    mirrored = statistics.probability_of_improvement(y, x)
    np.testing.assert_allclose(mirrored, [1 - value, 1 - high, 1 - low], rtol=1e-9)


def test_groups_that_do_not_overlap_leave_a_doubt():
    value, low, high = statistics.probability_of_improvement(range(5), range(10, 15))
    assert (value, high) == (1.0, 1.0)
    assert 0.5 < low < 0.8  # Newcombe's method 5, 5 against 5
    assert low < statistics.probability_of_improvement(range(50), range(100, 150)).low < 1.0
    assert statistics.probability_of_improvement([1.0] * 5, [1.0] * 5)[1:] == pytest.approx([0.22, 0.78], abs=0.02)


def test_the_best_value_is_chosen_on_some_seeds_and_reported_on_others():
    results = {"a": {0: 1.0, 1: 1.0, 2: 9.0, 3: 11.0}, "b": {0: 2.0, 1: 2.0, 2: 2.0, 3: 2.0}}
    choice = statistics.best_parameter(results, choose_on=[0, 1], report_on=[2, 3])
    assert (choice.value, choice.result.value) == ("a", 10.0)
    with pytest.raises(ValueError, match="without overlap"):
        statistics.best_parameter(results, choose_on=[0, 1], report_on=[1, 2])
    with pytest.raises(ValueError, match=r"got none for \[7\]"):
        statistics.best_parameter(results, choose_on=[0], report_on=[7])


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="values must hold at least one number"):
        statistics.mean_interval([])
    with pytest.raises(ValueError, match="must be finite"):
        statistics.mean_interval([1.0, np.nan])
    with pytest.raises(ValueError, match=r"level must be > 0 and <= 0\.9999, got 95"):
        statistics.mean_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="at least 2"):
        statistics.halves([1])


# ---- failures ---------------------------------------------------------------------------------------------


def naive_outliers(values, level=0.01):
    """Rosner's generalised ESD test, step by step."""
    left, n, found = list(map(float, values)), len(values), 0
    for i in range(1, max(1, n // 4) + 1):
        deviations = [abs(x - np.mean(left)) for x in left]
        spread = np.std(left, ddof=1)
        if spread == 0:
            break
        t = stats.t.ppf(1 - level / (2 * (n - i + 1)), n - i - 1)
        if max(deviations) / spread > (n - i) * t / np.sqrt((n - i - 1 + t * t) * (n - i + 1)):
            found = i
        left.pop(int(np.argmax(deviations)))
    return found


def test_heavy_tails_are_those_that_rosners_test_finds():
    rng = np.random.default_rng(0)
    for _ in range(300):
        values = rng.normal(size=rng.integers(5, 25))
        values[: rng.integers(0, 4)] += rng.choice([3.0, 6.0, 100.0])
        assert statistics.heavy_tail(values) == (naive_outliers(values) > 0)
        assert statistics.heavy_tail(1e150 * values) == (naive_outliers(values) > 0)


def test_a_failure_is_found_and_so_are_several_that_hide_each_other():
    runs = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.0, 1.01]
    assert not statistics.heavy_tail(runs)
    assert statistics.heavy_tail([*runs, 100.0])
    assert statistics.heavy_tail([*runs, 100.0, 101.0])
    assert not statistics.heavy_tail([3.0] * 10)
    assert not statistics.heavy_tail([1.0, 1.0, 1.0, 100.0])  # four runs tell nothing


def test_the_interval_of_a_mean_misses_failures_that_no_run_shows():
    """What the docstring says of it: 41, 65 and 88 % of cases."""
    for n, wanted in ((5, 41.0), (10, 65.0), (20, 88.0)):
        found = coverage.mean_coverage("dqucb", coverage.POPULATIONS["1 in 10 fails"], n, 10_000)
        assert found == pytest.approx(wanted, abs=2.0)


def test_one_normal_sample_in_a_hundred_is_said_to_have_a_heavy_tail():
    rng = np.random.default_rng(1)
    for n in (5, 10, 20):
        share = np.mean([statistics.heavy_tail(rng.normal(size=n)) for _ in range(4_000)])
        assert share < 0.02


@pytest.mark.parametrize("n", [5, 6, 10, 20, 101])
def test_the_interval_of_the_median_is_that_of_the_binomial_distribution(n):
    values = np.random.default_rng(n).permutation(np.arange(n, dtype=float))
    value, low, high = statistics.median_interval(values)
    k = max(1, int(stats.binom.ppf(0.025, n, 0.5)))
    assert (value, low, high) == (float(np.median(values)), k - 1.0, float(n - k))
    assert 2 * stats.binom.cdf(k - 1, n, 0.5) <= (0.0626 if n == 5 else 0.05)


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_interval_of_the_median_covers_whatever_the_results_are(n):
    rng, trials = np.random.default_rng(n), 3_000
    shape = (trials, n)
    failing = np.where(rng.random(shape) < 0.1, 100.0, 0.0) + rng.normal(size=shape)
    populations = {
        "normal": (rng.normal(size=shape), 0.0),
        "skewed": (rng.lognormal(0.0, 1.0, shape), 1.0),
        "one in ten fails": (failing, float(stats.norm.ppf(0.5 / 0.9))),
    }
    for name, (samples, truth) in populations.items():
        ends = [statistics.median_interval(sample)[1:] for sample in samples]
        covered = np.mean([low <= truth <= high for low, high in ends])
        assert covered > 0.92, name


def test_how_many_failures_may_hide():
    for n in (5, 10, 20):
        share = statistics.unseen_share(n)
        assert (1 - share) ** n == pytest.approx(0.05)
