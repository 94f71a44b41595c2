"""The likelihood ratio of two samples against its definition, and how often it is wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqucb._kernels import two_samples


def naive_log_ratio(older, newer):
    """The largest log-likelihood of each sample alone, minus that of both together."""

    def best(counts):
        n = sum(counts)
        return sum(c * math.log(c / n) for c in counts if c)

    return best(older) + best(newer) - best([a + b for a, b in zip(older, newer, strict=True)])


def log_ratio(older, newer):
    """The library's."""
    both = older + newer
    return two_samples.log_ratio_within(both, newer, int(both.sum()), int(newer.sum()), len(both))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5))
def test_the_ratio_is_that_of_the_definition(counts):
    older, newer = (np.array(column, np.int32) for column in zip(*counts, strict=True))
    n0, n1 = int(older.sum()), int(newer.sum())
    ref = naive_log_ratio(older.tolist(), newer.tolist()) if n0 and n1 else 0.0
    assert log_ratio(older, newer) == pytest.approx(ref, abs=1e-9)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.99, 0.01), (0.5, 0.25, 0.25), (0.97, 0.01, 0.01, 0.01)])
def test_false_alarms_are_as_rare_as_stated(shares):
    """A level of ln(1 / alpha) gives fewer than alpha false alarms in 20,000 pairs of samples."""
    rng, k = np.random.default_rng(7), len(shares)
    for n0, n1 in ((1000, 2), (1000, 32), (200, 50), (64, 16)):
        older, newer = rng.multinomial(n0, shares, 20_000), rng.multinomial(n1, shares, 20_000)
        limit = two_samples.threshold(math.log(1 / 0.01), k, n0 + n1)
        rate = np.mean([log_ratio(a, b) > limit for a, b in zip(older, newer, strict=True)])
        assert rate <= 0.01


def test_a_real_change_is_found():
    older, newer = np.array([900, 50, 50]), np.array([10, 11, 11])
    assert log_ratio(older, newer) > two_samples.threshold(math.log(1e4), 3, 1032)


def test_powers_of_two():
    assert [n for n in range(70) if two_samples.is_power_of_two(n)] == [1, 2, 4, 8, 16, 32, 64]
