"""Errors and seeds of ``compare(seeds="auto")`` on simulated results whose truth is known.

    python -m benchmarks.sequential --trials 500

An error is a trial in which two agents with equal distributions were told apart, or two different ones in the wrong
order. "Fixed" is Wilcoxon's rank-sum test of every pair with the largest number of seeds at once and Holm's correction.
"""

import argparse
from itertools import combinations
from typing import Any

import numpy as np

from dqucb.experiments.sequential import LEVEL, SequentialTest

LOOKS = 6


def normal(random: np.random.Generator, size: int) -> Any:
    """Normal results."""
    return random.normal(size=size)


def failing(random: np.random.Generator, size: int) -> Any:
    """Normal results, of which one in ten is a failure of size 100."""
    return random.normal(size=size) + 100.0 * (random.random(size) < 0.1)


def rounded(random: np.random.Generator, size: int) -> Any:
    """Small whole numbers."""
    return random.binomial(3, 0.5, size).astype(float)


CASES: dict[str, tuple[Any, list[float]]] = {
    "2 equal agents": (normal, [0.0, 0.0]),
    "3 equal agents": (normal, [0.0, 0.0, 0.0]),
    "3 equal agents that sometimes fail": (failing, [0.0, 0.0, 0.0]),
    "6 equal agents": (normal, [0.0] * 6),
    "3 equal agents with many ties": (rounded, [0.0, 0.0, 0.0]),
    "2 agents, 1 standard deviation apart": (normal, [0.0, 1.0]),
    "2 agents, 2 standard deviations apart": (normal, [0.0, 2.0]),
    "3 agents, the third 2 apart": (normal, [0.0, 0.0, 2.0]),
    "3 agents that sometimes fail, the third 2 apart": (failing, [0.0, 0.0, 2.0]),
    "4 agents, two groups 2 apart": (normal, [0.0, 0.0, 2.0, 2.0]),
}


def sequential(draw: Any, shifts: list[float], random: np.random.Generator) -> tuple[list[tuple[int, int]], float]:
    """The ordered pairs that the test decided, and the mean number of seeds of an agent."""
    names = [str(number) for number in range(len(shifts))]
    results: dict[str, list[float]] = {name: [] for name in names}
    test = SequentialTest(names, LOOKS)
    while not test.is_over:
        for name in test.active:
            results[name] += list(draw(random, test.block) + shifts[int(name)])
        test.look({name: results[name] for name in test.active})
    decided = [(int(each.better), int(each.worse)) for each in test.decisions]
    return decided, float(np.mean([len(values) for values in results.values()]))


def fixed(draw: Any, shifts: list[float], random: np.random.Generator, seeds: int) -> list[tuple[int, int]]:
    """The ordered pairs that Wilcoxon's test with Holm's correction decides."""
    from scipy.stats import mannwhitneyu

    results = [draw(random, seeds) + shift for shift in shifts]
    pairs = list(combinations(range(len(shifts)), 2))
    values = [mannwhitneyu(results[a], results[b]).pvalue for a, b in pairs]
    decided = []
    for rank, place in enumerate(np.argsort(values)):
        if values[place] > LEVEL / (len(pairs) - rank):
            break
        a, b = pairs[place]
        decided.append((a, b) if np.median(results[a]) < np.median(results[b]) else (b, a))
    return decided


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    print("| truth | seeds per agent | errors | pairs found | fixed at 30: errors | pairs found |")
    print("|---|---|---|---|---|---|")
    for name, (draw, shifts) in CASES.items():
        different = [(a, b) for a, b in combinations(range(len(shifts)), 2) if shifts[a] < shifts[b]]
        rows = []
        for seed in range(given.first_seed, given.first_seed + given.trials):
            ours, seeds = sequential(draw, shifts, np.random.default_rng(seed))
            theirs = fixed(draw, shifts, np.random.default_rng(seed), LOOKS * 5)
            found = [(bool(set(each) - set(different)), len(set(each) & set(different))) for each in (ours, theirs)]
            rows.append((seeds, *found[0], *found[1]))
        seeds, error, hits, fixed_error, fixed_hits = np.mean(rows, axis=0)
        share = [f"{hit / len(different):.0%}" if different else "" for hit in (hits, fixed_hits)]
        print(f"| {name} | {seeds:.1f} | {error:.1%} | {share[0]} | {fixed_error:.1%} | {share[1]} |", flush=True)


if __name__ == "__main__":
    main()
