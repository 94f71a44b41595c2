"""A regression check: every time as a ratio to the C ceiling of the same round, against a saved baseline.

python -m benchmarks.compare            fails if a ratio grew more than 1.3 times
python -m benchmarks.compare --save     makes the present ratios the baseline
"""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.sweeps import ceiling_step
from dqucb import SlidingKDE
from dqucb.density import DiscreteTransitionKDE
from dqucb.problems import planning

BASELINE = Path(__file__).with_name("baseline.json")
LIMIT = 1.3
ROUNDS = 5
TRIES = 3  # an entry beyond the limit is timed again: a regression stays, a busy neighbour goes


def agent_entry(name: str, episodes: int, problem: Callable[[int], Any], **settings: Any) -> Callable[[], float]:
    """Seconds per step of an agent on a workload."""
    built = problem(episodes)
    return lambda: workloads.train(workloads.agent(name, **settings), built, episodes).per_step


def entries() -> dict[str, Callable[[], float]]:
    """What is watched: name -> a function that returns seconds per unit of work."""
    grid, lake = workloads.grid_problem, workloads.lake_problem
    return {
        "QUCB, GridWorld": agent_entry("QUCB", workloads.GRID_EPISODES, grid),
        "DQUCB n=10, GridWorld": agent_entry("DQUCB", workloads.GRID_EPISODES, grid, window=10),
        "DQUCB n=100, GridWorld": agent_entry("DQUCB", workloads.GRID_EPISODES, grid),
        "DQUCB n=10000, GridWorld": agent_entry("DQUCB", workloads.GRID_EPISODES, grid, window=10_000),
        "DQUCB step n=100, GridWorld": agent_entry("DQUCB", 1_000, grid, scope="step"),
        "DQUCB shared n=100, GridWorld": agent_entry("DQUCB", 1_000, grid, scope="shared"),
        "DQUCB n=100, FrozenLake": agent_entry("DQUCB", 6_000, lake),
        "UCBVI, GridWorld": agent_entry("UCBVI", 500, grid),
        "UCBVI real time, GridWorld": agent_entry("UCBVI real time", 2_000, grid),
        "UCBMQ, GridWorld": agent_entry("UCBMQ", 5_000, grid),
        "planning, 1,024 states": solve,
        "SlidingKDE push and score, n=100, d=3": sliding,
        "DiscreteTransitionKDE push and likelihood": discrete,
    }


def solve() -> float:
    """Seconds to plan a square GridWorld of 1,024 states."""
    problem = workloads.square_grid(1_024, 10)
    began = thread_time()
    planning.solve(problem, 0)
    return thread_time() - began


def sliding() -> float:
    """Seconds of a push and a score, from Python."""
    points = np.random.default_rng(0).normal(size=(2_000, 3))
    density = SlidingKDE(window=100)
    began = thread_time()
    for point in points:
        density.push(point)
        density.score(point)
    return (thread_time() - began) / len(points)


def discrete() -> float:
    """Seconds of a push and a likelihood, from Python."""
    density = DiscreteTransitionKDE(50, 4, window=100)
    states = np.random.default_rng(0).integers(50, size=1_001).tolist()
    began = thread_time()
    for state, next_state in itertools.pairwise(states):
        density.push(state, 1, next_state)
        density.likelihood(state, 1, next_state)
    return (thread_time() - began) / 1_000


def ratios(watched: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, float]:
    """Fastest round of each entry over the fastest round of the ceiling, all interleaved."""
    for entry in watched.values():
        entry()  # compiles
    times: dict[str, list[float]] = {name: [] for name in watched}
    units = []
    for _ in range(rounds):
        for name, entry in watched.items():
            units.append(ceiling_step())
            times[name].append(entry())
    return {name: min(found) / min(units) for name, found in times.items()}


def regressions(found: Mapping[str, float], baseline: Mapping[str, float], limit: float = LIMIT) -> dict[str, float]:
    """The entries that became slower than `limit` times their baseline, and by how much."""
    growth = {name: found[name] / baseline[name] for name in found if name in baseline}
    return {name: grown for name, grown in growth.items() if grown > limit}


def check(
    watched: Mapping[str, Callable[[], float]],
    baseline: Mapping[str, float],
    rounds: int = ROUNDS,
    limit: float = LIMIT,
) -> tuple[dict[str, float], dict[str, float]]:
    """(ratios, regressions): what seems slower is timed again before it counts."""
    found = ratios(watched, rounds)
    for _ in range(TRIES - 1):
        slow = regressions(found, baseline, limit)
        if not slow:
            break
        again = ratios({name: watched[name] for name in slow}, 2 * rounds)
        found.update({name: min(found[name], again[name]) for name in slow})
    return found, regressions(found, baseline, limit)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.split("\n")[0])
    parser.add_argument("--save", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--only", default="", help="watch only entries whose name contains this")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    watched = {name: entry for name, entry in entries().items() if options.only in name}
    if not watched:
        parser.error(f"--only must be part of a name, got {options.only!r}")
    with workloads.one_core():
        if options.save:
            saved = {name: round(ratio, 3) for name, ratio in ratios(watched, 2 * options.rounds).items()}
            options.baseline.write_text(json.dumps(saved, indent=1) + "\n")
            print(f"saved {len(saved)} ratios to {options.baseline}")
            return 0
        if not options.baseline.exists():
            parser.error(f"no baseline at {options.baseline}: make one with --save")
        baseline = json.loads(options.baseline.read_text())
        found, slow = check(watched, baseline, options.rounds, options.limit)
    print(f"{'time in units of one step of the C loop':44} {'now':>10} {'baseline':>10}")
    for name, ratio in found.items():
        mark = f"  SLOWER {slow[name]:.2f} times" if name in slow else ""
        print(f"{name:44} {ratio:10.2f} {baseline.get(name, float('nan')):10.2f}{mark}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
