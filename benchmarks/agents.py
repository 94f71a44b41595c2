"""The cost of a step of every agent as a ratio to QUCB's, all in one run.

python -m benchmarks.agents [--rounds 5] [--episodes 3000]
"""

import argparse

from benchmarks import workloads
from dqucb import AGENTS, QUCB, UCBVI, Agent
from dqucb.agents import TabularAgent

SLOW = {"UCBVI": 10}  # plans after each episode: so many times fewer episodes


def entrants() -> dict[str, Agent]:
    """Every agent of the registry with its defaults, and UCBVI's other planning."""
    tabular = {cls.__name__: cls() for cls in AGENTS.values() if issubclass(cls, TabularAgent)}
    return {**tabular, "UCBVI real time": UCBVI(planning="real_time")}


def ratios(rounds: int, episodes: int) -> dict[str, float]:
    """Fastest round of each agent over QUCB's fastest, on GridWorld; rounds go through all agents in turn."""
    times: dict[str, list[float]] = {name: [] for name in entrants()}
    for _ in range(rounds + 1):  # the first round compiles
        for name, agent in entrants().items():
            length = max(2, episodes // SLOW.get(name, 1))
            times[name].append(workloads.train(agent, workloads.grid_problem(length), length).per_step)
    fastest = {name: min(found[1:]) for name, found in times.items()}
    return {name: seconds / fastest[QUCB.__name__] for name, seconds in fastest.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=3_000)
    options = parser.parse_args(arguments)
    with workloads.one_core():
        found = ratios(options.rounds, options.episodes)
    print("GridWorld 5x10, H=100: a step in units of QUCB's")
    for name, ratio in sorted(found.items(), key=lambda item: item[1]):
        print(f"{name:20} {ratio:8.2f}")


if __name__ == "__main__":
    main()
