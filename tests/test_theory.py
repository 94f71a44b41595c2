"""Bounds by hand, their growth, and the gaps of small problems."""

import math

import naive
import numpy as np
import pytest

from dqucb import TabularMDP, gridworld, theory


@pytest.mark.parametrize(("t", "H"), [(0, 3), (1, 3), (2, 5), (30, 10)])
def test_learning_rate_weights(t, H):
    np.testing.assert_allclose(theory.learning_rate_weights(t, H), naive.learning_rate_weights(t, H), atol=1e-15)


def test_bounds_by_hand():
    assert theory.episodic_bound(2, 3, 4, 100, 0.1) == pytest.approx(
        math.sqrt(4**5 * 6 * 100 * math.log(6 * 100 * 4 / 0.1))
    )
    assert theory.episodic_bound(2, 3, 4, 100, 0.1, epsilon=0.5) == pytest.approx(
        1.5 * theory.episodic_bound(2, 3, 4, 100, 0.1)
    )
    assert theory.episodic_bound_unaware(2, 3, 4, 100, 40) == pytest.approx(theory.episodic_bound(2, 3, 4, 40) + 240)
    assert theory.discounted_bound(2, 3, 1000, 0.5, 0.1) == pytest.approx(6 / (0.5**6 * 0.1) * math.log(6000 / 0.05))
    assert theory.discounted_bound_unaware(2, 3, 1000, 600, 0.5, 0.1) == pytest.approx(
        theory.discounted_bound(2, 3, 600, 0.5, 0.1) + 400
    )


def test_the_shift_aware_bound_wins_in_the_long_run():
    ratios = [
        theory.episodic_bound(5, 2, 4, K) / theory.episodic_bound_unaware(5, 2, 4, K, K // 2)
        for K in (10**4, 10**7, 10**10)
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 0.05


def test_gaps_of_a_bandit():
    P = np.ones((1, 3, 1))
    bandit = TabularMDP(P, np.array([[0.2, 0.9, 0.65]]), horizon=2)
    np.testing.assert_allclose(theory.suboptimality_gaps(bandit), [[[0.7, 0, 0.25]]] * 2)
    assert theory.smallest_gap(bandit) == pytest.approx(0.25)
    discounted = TabularMDP(P, np.array([[0.2, 0.9, 0.65]]), discount=0.9)
    assert theory.smallest_gap(discounted) == pytest.approx(0.25, abs=1e-6)


def test_gap_is_the_smallest_over_phases():
    grid = gridworld(rows=3, cols=3, horizon=6, change_at=(10,))
    alone = [theory.smallest_gap(phase) for phase in grid.phases]
    assert theory.smallest_gap(grid) == min(alone)
