"""Probes of PlanningDQUCB: prizes and shortcuts that appear off its path, and what probing costs where nothing changes.

    python -m benchmarks.probes [--seeds 10] [--first-seed 600] [--quick]

Problems are drawn from the seed: grids of 4 to 7 rows and 6 to 11 columns in which a better prize appears where a
greedy agent does not go; and grids with a wall, in which a door opens that makes the way shorter. The oracle is the
same agent, restarted at the change: it runs each phase alone. The cost is the share of the return that is lost, after
the first tenth of the run, on generated problems that do not change.
"""

import argparse
import statistics
from collections.abc import Callable, Iterable

import numpy as np

from dqucb import PlanningDQUCB
from dqucb.problems import Problem, ShiftingMDP, TabularMDP, generated, gridworld, new_prize

SHARES = (0.0, 0.005, 0.01, 0.02)
EPISODES, QUICK_EPISODES = 20_000, 400
STILL_FAMILIES = ("grid", "garnet-sparse", "dirichlet", "chain", "bandit-sure", "graph")


def drawn_prize(seed: int, change_at: Iterable[int]) -> ShiftingMDP:
    """A grid with a prize on each side, one of which appears later."""
    rng = np.random.default_rng([seed, 1])
    rows, cols, horizon = int(rng.integers(4, 8)), int(rng.integers(6, 12)), int(rng.integers(40, 80))
    noise, usual = float(rng.uniform(0.02, 0.25)), float(rng.uniform(0.2, 0.7))
    return as_shifting(new_prize((0.0, 1.0), change_at, usual, noise, rows, cols, horizon))


def drawn_shortcut(seed: int, change_at: Iterable[int]) -> ShiftingMDP:
    """A grid with a wall and a door at its far end, in which another door opens beside start and goal."""
    rng = np.random.default_rng([seed, 2])
    rows, cols = int(rng.integers(5, 9)), int(rng.integers(5, 10))
    noise, column = float(rng.uniform(0.02, 0.15)), int(rng.integers(1, cols - 1))
    around = 2 * (rows - 1) + cols - 1  # steps to the goal through the far door
    horizon, shortcut = int(around * rng.uniform(1.5, 2.5)), int(rng.integers(0, rows // 2))

    def phase(*doors: int) -> TabularMDP:
        walls = [(row, column) for row in range(rows) if row not in doors]
        grid = gridworld((noise,), (), rows=rows, cols=cols, horizon=horizon, goal=(0, cols - 1), walls=walls)
        return grid.phases[0]

    return ShiftingMDP([phase(rows - 1), phase(rows - 1, shortcut)], change_at)


def as_shifting(problem: Problem) -> ShiftingMDP:
    """A problem that is known to have phases."""
    assert isinstance(problem, ShiftingMDP)
    return problem


def regret(agent: PlanningDQUCB, problem: Problem, episodes: int, seed: int) -> float:
    """The realized regret of a run."""
    return float(agent.train(problem, episodes=episodes, seed=seed).regret[-1])


def with_oracle(problem: ShiftingMDP, episodes: int, seed: int) -> float:
    """The regret of the agent that starts again at the change."""
    return sum(regret(PlanningDQUCB(), phase, episodes // 2, seed) for phase in problem.phases)


def lost(family: str, share: float, episodes: int, seeds: Iterable[int]) -> float:
    """The share of the return that probes cost on still problems, a mean over seeds."""
    shares = []
    for seed in seeds:
        returns = [
            PlanningDQUCB(probes=probes)
            .train(generated(family, seed, change="none"), episodes=episodes, seed=seed)
            .returns[episodes // 10 :]
            .mean()
            for probes in (0.0, share)
        ]
        shares.append((returns[0] - returns[1]) / max(abs(returns[0]), 1e-9))
    return statistics.fmean(shares)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=600, help="Of the problems and the runs.")
    parser.add_argument("--quick", action="store_true", help="Short runs, to see that it works.")
    given = parser.parse_args()
    episodes = QUICK_EPISODES if given.quick else EPISODES
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    half = (episodes // 2,)
    cases: dict[str, Callable[[int], ShiftingMDP]] = {
        "new-prize": lambda seed: as_shifting(new_prize(change_at=half)),
        "drawn prizes": lambda seed: drawn_prize(seed, half),
        "drawn shortcuts": lambda seed: drawn_shortcut(seed, half),
    }
    for name, make in cases.items():
        oracle = np.array([with_oracle(make(seed), episodes, seed) for seed in seeds])
        print(f"{name}: oracle {oracle.mean():,.0f}", flush=True)
        for share in SHARES:
            found = np.array([regret(PlanningDQUCB(probes=share), make(seed), episodes, seed) for seed in seeds])
            print(
                f"  probes={share:g}: regret {found.mean():,.0f}, worst {found.max():,.0f}; over the oracle's: "
                f"median {np.median(found / oracle):.1f}, worst {(found / oracle).max():.1f}",
                flush=True,
            )
    print(f"lost where nothing changes, with probes of {', '.join(f'{share:g}' for share in SHARES[1:])}")
    for family in STILL_FAMILIES:
        costs = [lost(family, share, episodes // 4, seeds) for share in SHARES[1:]]
        print(f"  {family}: {', '.join(f'{cost:.2%}' for cost in costs)}", flush=True)


if __name__ == "__main__":
    main()
