"""The density core: push, score and likelihood by n, dimension, kernel and scope."""

import itertools

import numpy as np
import pytest

from benchmarks.workloads import SCOPES, SEED
from dqucb import SlidingKDE
from dqucb.density import DiscreteTransitionKDE


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("n", [10, 100, 1_000])
def test_sliding_push(benchmark, n, d):
    density = SlidingKDE(window=n)
    points = np.random.default_rng(SEED).normal(size=(n, d))
    for point in points:
        density.push(point)
    benchmark(density.push, points[0])


@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "epanechnikov"])
@pytest.mark.parametrize("n", [10, 100, 1_000])
def test_sliding_score(benchmark, n, kernel):
    density = SlidingKDE(window=n, kernel=kernel, bandwidth=2.0)
    points = np.random.default_rng(SEED).normal(size=(n, 3))
    for point in points:
        density.push(point)
    benchmark(density.score, points[0])


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("n", [10, 100, 10_000])
def test_discrete_push_and_likelihood(benchmark, n, scope):
    density = DiscreteTransitionKDE(50, 4, horizon=10, window=n, scope=scope)
    rng = np.random.default_rng(SEED)
    states = rng.integers(50, size=2_000).tolist()
    for state, next_state in itertools.pairwise(states):
        density.push(state, 1, next_state)

    def step():
        density.push(8, 1, 7)
        return density.likelihood(8, 1, 7)

    benchmark(step)
