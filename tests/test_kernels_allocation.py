"""The allocation oracle against every possible split, and its concave short cut against dynamic programming."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqucb._kernels import allocation
from tests.naive_allocation import best_split


def programmed(values, patients):
    amounts = np.zeros(len(values), np.int64)
    allocation.allocate_by_programming(values, patients, np.empty((len(values), patients + 1)), amounts)
    return amounts


def total(values, amounts):
    return sum(values[k, a] for k, a in enumerate(amounts))


@pytest.mark.parametrize("kind", ["real", "tied", "concave", "monotone"])
def test_equals_brute_force_on_thousands_of_small_matrices(kind):
    rng = np.random.default_rng(7)
    for _ in range(1_000):
        hospitals, patients = int(rng.integers(1, 5)), int(rng.integers(0, 9))
        values = rng.normal(size=(hospitals, patients + 1 + int(rng.integers(3))))
        if kind == "tied":
            values = rng.integers(0, 3, values.shape).astype(float)
        elif kind == "concave":
            values = np.cumsum(-np.sort(rng.integers(0, 4, values.shape), axis=1), axis=1).astype(float)
        elif kind == "monotone":
            values = np.cumsum(np.abs(values), axis=1)
        expected, largest = best_split(values.tolist(), patients)
        found = allocation.allocate(values, patients)
        if kind in ("tied", "concave"):  # small integers: sums are exact, so ties are ties
            assert tuple(found) == expected
        assert found.sum() == patients
        assert total(values, found) == pytest.approx(largest, abs=1e-12)
        assert tuple(programmed(values, patients)) == expected


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), hospitals=st.integers(1, 12), patients=st.integers(0, 60))
def test_the_short_cut_agrees_with_programming_on_concave_rows(seed, hospitals, patients):
    rng = np.random.default_rng(seed)
    gains = -np.sort(rng.integers(-5, 20, (hospitals, patients + 1)), axis=1)
    values = np.cumsum(gains, axis=1).astype(float)
    assert allocation.is_concave(values, patients)
    by_gain = np.zeros(hospitals, np.int64)
    allocation.allocate_by_gain(values, patients, by_gain)
    np.testing.assert_array_equal(by_gain, programmed(values, patients))


def test_the_short_cut_would_be_wrong_without_concavity_and_is_not_taken():
    values = np.array([[0.0, 0.0, 5.0], [0.0, 1.0, 1.0]])
    assert not allocation.is_concave(values, 2)
    by_gain = np.zeros(2, np.int64)
    allocation.allocate_by_gain(values, 2, by_gain)
    assert by_gain.tolist() == [1, 1]
    assert allocation.allocate(values, 2).tolist() == [2, 0]


def test_concavity_is_only_asked_up_to_the_patients():
    values = np.array([[0.0, 1.0, 9.0], [0.0, 0.5, 9.0]])
    assert allocation.is_concave(values, 1)
    assert allocation.allocate(values, 1).tolist() == [1, 0]


def test_many_rows_at_once_equal_one_by_one():
    rng = np.random.default_rng(3)
    values, patients = rng.normal(size=(20, 6, 16)), rng.integers(0, 16, 20)
    amounts, scratch = np.zeros((20, 6), np.int64), np.empty((2, 6, 16))
    left = np.minimum(np.arange(16), 14)  # every number is a knot
    allocation.allocate_between_knots(values, left, np.arange(16.0) - left, patients, *scratch, amounts)
    for row in range(20):
        np.testing.assert_array_equal(amounts[row], allocation.allocate(values[row], int(patients[row])))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), by_share=st.booleans())
def test_filling_by_room_has_the_least_overflow(seed, by_share):
    rng = np.random.default_rng(seed)
    load, capacity = rng.uniform(0, 12, 4), rng.uniform(1, 12, 4)
    patients = int(rng.integers(0, 9))
    amounts = np.zeros(4, np.int64)
    allocation.allocate_by_room(load, capacity, patients, by_share, amounts)
    values = -np.maximum(0.0, load[:, None] + np.arange(patients + 1) - capacity[:, None])
    assert amounts.sum() == patients
    assert total(values, amounts) == pytest.approx(best_split(values.tolist(), patients)[1], abs=1e-9)


@pytest.mark.nojit
def test_the_same_allocations_without_jit(same_bits_without_jit):
    same_bits_without_jit(
        "import numpy as np; from dqucb._kernels.allocation import allocate; rng = np.random.default_rng(1);"
        "values = rng.normal(size=(30, 5, 13));"
        "print([allocate(v, n).tolist() for v, n in zip(values, rng.integers(0, 13, 30).tolist())])"
    )
