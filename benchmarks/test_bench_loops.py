"""The fused loops: a run of each agent, by S, H and n. `extra_info` holds steps per second and the ratio to C."""

import pytest

from benchmarks import workloads
from benchmarks.sweeps import ceiling_step

EPISODES = 2_000


def timed(benchmark, name, problem, episodes=EPISODES, **settings):
    workloads.train(workloads.agent(name, **settings), problem, episodes)  # compiles
    unit = ceiling_step()
    result = benchmark.pedantic(
        lambda: workloads.train(workloads.agent(name, **settings), problem, episodes), rounds=5, iterations=1
    )
    benchmark.extra_info["steps_per_second"] = 1.0 / result.per_step
    benchmark.extra_info["to_ceiling"] = result.per_step / unit


@pytest.mark.parametrize("name", ["DQUCB", "QUCB", "UCBVI", "UCBVI real time", "UCBMQ"])
def test_agents_on_gridworld(benchmark, name):
    timed(benchmark, name, workloads.grid_problem(EPISODES))


@pytest.mark.parametrize("name", ["DQUCB", "QUCB"])
def test_agents_on_frozen_lake(benchmark, name):
    timed(benchmark, name, workloads.lake_problem(EPISODES))


@pytest.mark.parametrize("scope", workloads.SCOPES)
@pytest.mark.parametrize("n", [10, 100, 10_000])
def test_window(benchmark, n, scope):
    timed(benchmark, "DQUCB", workloads.grid_problem(500), 500, window=n, scope=scope)


@pytest.mark.parametrize("n_states", [49, 1_024, 10_000])
def test_states(benchmark, n_states):
    timed(benchmark, "DQUCB", workloads.square_grid(n_states, EPISODES))


@pytest.mark.parametrize("horizon", [10, 100, 1_000])
def test_horizon(benchmark, horizon):
    timed(benchmark, "DQUCB", workloads.grid_problem(EPISODES, horizon=horizon))
