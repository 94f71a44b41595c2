"""Optimal values of a problem, by its size."""

import pytest

from benchmarks import workloads
from dqucb.problems import planning


@pytest.mark.parametrize("n_states", [49, 1_024, 10_000])
def test_optimal_values(benchmark, n_states):
    problem = workloads.square_grid(n_states, 10)
    planning.solve(problem, 0)  # compiles
    benchmark(planning.solve, problem, 0)


def test_allocation_oracle(benchmark):
    allocation = pytest.importorskip("dqucb._kernels.allocation", reason="there is no allocation oracle yet")
    import numpy as np

    values = np.sort(np.random.default_rng(workloads.SEED).random((40, 101)), axis=1)
    benchmark(allocation.allocate, values, 100)
