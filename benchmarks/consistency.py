"""Which agents end at the second best on the simplest problems: `python -m benchmarks.consistency --runs 100`.

Each run has a problem of its own, drawn from its number: two- and three-armed bandits with Bernoulli rewards, with
sure ones, and with a Bernoulli arm that is better than the sure ones; and chains of two states, in which the better
path pays only at its second step. All agents run at their defaults. A run ends at the second best if its expected
regret over the last tenth of the episodes is more than half of the gap between the best policy and the second best.
The table goes to docs/consistency.md with `--write`.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dqucb import AGENTS, Agent, TabularAgent, TabularMDP, make_agent

PAGE = Path(__file__).parent.parent / "docs" / "consistency.md"
EPISODES = 2_000
LEAST_GAP = 0.1  # of means that are drawn: a smaller one cannot be told apart in so few episodes
FIRST_RUN = 10_000  # the numbers of the runs are the seeds, other ones than tests have
THEORY = ("qucb", "ucbvi")  # are also run with the bonus of the theory
AIDED = ("oracle-restart", "oracle-ucbvi", "random")  # know the problem, or learn nothing


def arms(count: int, kind: str) -> Callable[[np.random.Generator], tuple[TabularMDP, float]]:
    """Bandits whose means are drawn; (problem, gap between the best arm and the second)."""

    def draw(rng: np.random.Generator) -> tuple[TabularMDP, float]:
        while True:
            means = rng.random(count)
            second, best = np.sort(means)[-2:]
            if best - second >= LEAST_GAP:
                break
        # Bernoulli: state 1 is a win that pays 1, state 2 a loss. Sure: always state 1, which pays the mean.
        is_sure = np.full(count, kind == "sure") | (kind == "mixed") & (means < best)
        P, R = np.zeros((3, count, 3)), np.zeros((3, count, 3))
        P[0, :, 1] = np.where(is_sure, 1.0, means)
        P[0, :, 2] = 1.0 - P[0, :, 1]
        P[1:, :, 1] = 1.0
        R[0, :, 1] = np.where(is_sure, means, 1.0)
        return TabularMDP(P, R, horizon=1, terminal=[1, 2], initial=0), best - second

    return draw


def chain(sure: bool) -> Callable[[np.random.Generator], tuple[TabularMDP, float]]:
    """State 0 pays a little for staying; moving on pays nothing now, and more in state 1."""

    def draw(rng: np.random.Generator) -> tuple[TabularMDP, float]:
        stay = rng.uniform(0.1, 0.3)
        later = rng.uniform(2 * stay + LEAST_GAP, 1.0)
        P, R = np.zeros((3, 2, 3)), np.zeros((3, 2, 3))
        P[0, 0, 0], R[0, 0, 0] = 1.0, stay
        P[0, 1, 1] = 1.0
        win = 1.0 if sure else later
        P[1, :, 2], P[1, :, 0] = win, 1.0 - win
        R[1, :, 2] = later if sure else 1.0
        P[2, :, 2] = 1.0
        return TabularMDP(P, R, horizon=2, terminal=[2], initial=0), later - 2 * stay

    return draw


WORLDS = {
    "2 arms, Bernoulli": arms(2, "Bernoulli"),
    "2 arms, sure": arms(2, "sure"),
    "2 arms, mixed": arms(2, "mixed"),
    "3 arms, Bernoulli": arms(3, "Bernoulli"),
    "3 arms, sure": arms(3, "sure"),
    "3 arms, mixed": arms(3, "mixed"),
    "chain, Bernoulli": chain(sure=False),
    "chain, sure": chain(sure=True),
}


def share_stuck(agent: Agent, world: str, runs: int, episodes: int = EPISODES) -> float:
    """The share of runs of an agent that end at the second best."""
    stuck = 0
    for number in range(FIRST_RUN, FIRST_RUN + runs):
        problem, gap = WORLDS[world](np.random.default_rng([number, list(WORLDS).index(world)]))
        run = agent.clone().train(problem, episodes=episodes, seed=number, regret="expected")
        stuck += bool(run.gaps[-episodes // 10 :].mean() > 0.5 * gap)
    return stuck / runs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--agents", help="names, separated by commas")
    parser.add_argument("--write", action="store_true", help="put the table into docs/consistency.md")
    given = parser.parse_args()
    tabular = [name for name, kind in AGENTS.items() if issubclass(kind, TabularAgent)]
    names = given.agents.split(",") if given.agents else [name for name in tabular if name not in AIDED]
    lines = [f"| agent | {' | '.join(WORLDS)} |", f"|---|{'---|' * len(WORLDS)}"]
    agents = [AGENTS[name]() for name in names]
    agents += [make_agent(name, bonus="theory", bonus_scale=1.0) for name in names if name in THEORY]
    for agent in agents:
        shares = [share_stuck(agent, world, given.runs, given.episodes) for world in WORLDS]
        lines.append(f"| {str(agent).removesuffix('()')} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |")
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(table)
    if given.write:
        before, _, rest = PAGE.read_text().partition("<!-- table -->\n")
        _, _, after = rest.partition("<!-- end -->\n")
        PAGE.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->\n{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
