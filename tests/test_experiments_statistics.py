"""Statistics over seeds against obvious slow twins."""

import numpy as np
import pytest

from dqucb.experiments import statistics

VALUES = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3]


def test_bootstrap_equals_a_loop():
    rng = np.random.default_rng(5)
    means = sorted(np.mean([VALUES[i] for i in row]) for row in rng.integers(0, 7, (400, 7)))
    comp = statistics.bootstrap(VALUES, resamples=400, seed=5)
    np.testing.assert_allclose(comp, [np.mean(VALUES), *np.quantile(means, [0.025, 0.975])], rtol=1e-13)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        _, low, high = statistics.bootstrap(rng.normal(1.0, 2.0, 40), resamples=500)
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_band_is_the_bootstrap_of_each_point():
    curves = np.random.default_rng(1).random((6, 4))
    mean, low, high = statistics.band(curves)
    for point in range(4):
        ref = statistics.bootstrap(curves[:, point])
        np.testing.assert_allclose([mean[point], low[point], high[point]], ref, rtol=1e-12)


def test_one_seed_has_no_interval():
    assert statistics.bootstrap([2.0]).value == 2.0
    assert np.isnan(statistics.bootstrap([2.0]).low)
    assert np.isnan(statistics.band([[1.0, 2.0]]).high).all()


@pytest.mark.parametrize(("size", "kept"), [(3, [0, 1, 2]), (4, [1, 2]), (8, [2, 3, 4, 5]), (10, [2, 3, 4, 5, 6, 7])])
def test_interquartile_mean_cuts_a_quarter_at_each_end(size, kept):
    values = np.random.default_rng(size).random(size)
    assert statistics.interquartile_mean(values) == pytest.approx(np.mean(np.sort(values)[kept]))


def test_probability_lower_counts_pairs_and_halves_ties():
    value, low, high = statistics.probability_lower([1.0, 2.0], [2.0, 3.0])
    assert value == (1 + 1 + 0.5 + 1) / 4
    assert low <= value <= high
    mirrored = statistics.probability_lower([2.0, 3.0], [1.0, 2.0])
    assert mirrored.value == pytest.approx(1.0 - value)
    assert statistics.probability_lower([1.0, 1.1], [5.0, 6.0]) == (1.0, 1.0, 1.0)


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
        statistics.bootstrap([])
    with pytest.raises(ValueError, match="must be finite"):
        statistics.bootstrap([1.0, np.nan])
    with pytest.raises(ValueError, match="level must be > 0 and <= 1, got 95"):
        statistics.bootstrap([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="at least 2"):
        statistics.halves([1])
