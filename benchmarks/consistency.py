"""Which agents end at the second best on the simplest problems: `python -m benchmarks.consistency --runs 100`.

Each run has a problem of its own, drawn from its number: two- and three-armed bandits with Bernoulli rewards, with
sure ones, and with a Bernoulli arm that is better than the sure ones; and chains of two states, in which the better
path pays only at its second step. All agents run at their defaults. A run ends at the second best if its expected
regret over the last tenth of the episodes is more than half of the gap between the best policy and the second best.
The table goes to docs/consistency.md with `--write`.

`--drawn 20` keeps so many of these problems and runs each with many seeds (`--runs`, of the runs), for 20,000 episodes:
the share of runs that end at the second best, and the mean regret over that of Thompson sampling (PSRL), per problem.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dqucb import AGENTS, Agent, Run, TabularAgent, TabularMDP, make_agent

PAGE = Path(__file__).parent.parent / "docs" / "consistency.md"
EPISODES, LONG_EPISODES = 2_000, 20_000
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


def is_stuck(run: Run, gap: float) -> bool:
    """Whether a run ends at the second best."""
    return bool(run.gaps[-(len(run) // 10) :].mean() > 0.5 * gap)


def share_stuck(agent: Agent, world: str, runs: int, episodes: int = EPISODES) -> float:
    """The share of runs of an agent that end at the second best."""
    stuck = 0
    for number in range(FIRST_RUN, FIRST_RUN + runs):
        problem, gap = WORLDS[world](np.random.default_rng([number, list(WORLDS).index(world)]))
        run = agent.clone().train(problem, episodes=episodes, seed=number, regret="expected")
        stuck += is_stuck(run, gap)
    return stuck / runs


def drawn_table(names: list[str], problems: int, first_seed: int, runs: int, episodes: int) -> list[str]:
    """A row for each drawn problem, and for all: share of runs that end at the second best, regret over PSRL's."""
    titles = " | ".join(f"{name}: second best | regret / PSRL" for name in names)
    lines = [f"| {runs} runs of {episodes:,} episodes | gap | {titles} |", f"|---|---|{'---|---|' * len(names)}"]
    shares: dict[str, list[float]] = {name: [] for name in names}
    quotients: dict[str, list[float]] = {name: [] for name in names}
    for number in range(problems):
        world = list(WORLDS)[number % len(WORLDS)]
        problem, gap = WORLDS[world](np.random.default_rng([first_seed + number, number % len(WORLDS)]))
        cells, sampling = "", 1.0
        for name in dict.fromkeys(["psrl", *names]):
            found = [
                AGENTS[name]().train(problem, episodes=episodes, seed=first_seed + seed, regret="pseudo")
                for seed in range(runs)
            ]
            regret = float(np.mean([run.regret[-1] for run in found]))
            if name == "psrl":
                sampling = regret
            if name in names:
                shares[name].append(float(np.mean([is_stuck(run, gap) for run in found])))
                quotients[name].append(regret / max(sampling, gap))
                cells += f" {shares[name][-1]:.1%} | {quotients[name][-1]:.2f} |"
        lines.append(f"| {world}, seed {first_seed + number} | {gap:.2f} |{cells}")
        print(lines[-1], flush=True)
    total = "".join(
        f" {np.mean(shares[name]):.2%}, worst {max(shares[name]):.1%} | "
        f"{np.exp(np.mean(np.log(np.maximum(quotients[name], 1e-3)))):.2f}, worst {max(quotients[name]):.2f} |"
        for name in names
    )
    return [*lines, f"| all (geometric mean of quotients) | |{total}"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--episodes", type=int, help=f"{EPISODES} by default, {LONG_EPISODES} with --drawn")
    parser.add_argument("--drawn", type=int, default=0, help="so many problems, each with all runs")
    parser.add_argument("--first-seed", type=int, default=9_700, help="of the drawn problems and their runs")
    parser.add_argument("--agents", help="names, separated by commas")
    parser.add_argument("--write", action="store_true", help="put the table into docs/consistency.md")
    given = parser.parse_args()
    tabular = [name for name, kind in AGENTS.items() if issubclass(kind, TabularAgent)]
    names = given.agents.split(",") if given.agents else [name for name in tabular if name not in AIDED]
    if given.drawn:
        names = given.agents.split(",") if given.agents else ["planning-dqucb"]
        rows = drawn_table(names, given.drawn, given.first_seed, given.runs, given.episodes or LONG_EPISODES)
        return publish(rows, "drawn", given.write)
    episodes = given.episodes or EPISODES
    lines = [f"| agent | {' | '.join(WORLDS)} |", f"|---|{'---|' * len(WORLDS)}"]
    agents = [AGENTS[name]() for name in names]
    agents += [make_agent(name, bonus="theory", bonus_scale=1.0) for name in names if name in THEORY]
    for agent in agents:
        shares = [share_stuck(agent, world, given.runs, episodes) for world in WORLDS]
        lines.append(f"| {str(agent).removesuffix('()')} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |")
        print(lines[-1], flush=True)
    return publish(lines, "table", given.write)


def publish(lines: list[str], name: str, is_written: bool) -> int:
    """Print a table, and put it into the page after its mark if asked for."""
    table = "\n".join(lines)
    print(table)
    if is_written:
        before, _, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("<!-- end -->\n")
        PAGE.write_text(f"{before}<!-- {name} -->\n{table}\n<!-- end -->\n{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
