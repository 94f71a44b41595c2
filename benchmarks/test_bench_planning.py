"""Optimal values of a problem, by its size."""

import numpy as np
import pytest

from benchmarks import workloads
from dqucb._kernels import allocation
from dqucb.problems import planning


@pytest.mark.parametrize("n_states", [49, 1_024, 10_000])
def test_optimal_values(benchmark, n_states):
    problem = workloads.square_grid(n_states, 10)
    planning.solve(problem, 0)  # compiles
    benchmark(planning.solve, problem, 0)


@pytest.mark.parametrize("patients", [100, 300])
def test_allocation_oracle(benchmark, patients):
    """40 hospitals, rows that are not concave; 300 patients must take less than 5 ms."""
    values = np.sort(np.random.default_rng(workloads.SEED).random((40, patients + 1)), axis=1)
    allocation.allocate(values, patients)  # compiles
    benchmark(allocation.allocate, values, patients)
    if benchmark.stats is not None and patients == 300:
        assert benchmark.stats.stats.median < 5e-3


def test_allocation_oracle_where_gains_fall(benchmark):
    """The same size with concave rows, where the short cut is taken."""
    gains = -np.sort(np.random.default_rng(workloads.SEED).random((40, 301)), axis=1)
    values = np.cumsum(gains, axis=1)
    allocation.allocate(values, 300)
    benchmark(allocation.allocate, values, 300)
