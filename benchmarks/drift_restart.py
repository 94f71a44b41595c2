"""Does it help an agent to begin anew on an alarm? `python -m benchmarks.drift_restart [--seeds 10] [--out DIR]`.

QUCB and Q-learning, each with and without a detector, on the lake with two shifts of the slip and on the grid whose
goal moves once (there the detector watches the reward). Final regret, mean with a 95 % interval, and alarms.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from dqucb import QUCB, QLearning, compare, frozen_lake, moving_goal
from dqucb.drift import FiniteDriftDetector

PROBLEMS = {
    "lake": (frozen_lake((0.0, 0.5, 2 / 3), (700, 1_400), horizon=100), 2_100, FiniteDriftDetector(16, 4)),
    "moving goal": (moving_goal(change_at=(500,)), 1_000, FiniteDriftDetector(50, 4, watch_reward=True)),
}
AGENTS = {
    "QUCB": QUCB(bonus_scale=0.05, stage_dependent=False),
    "QLearning": QLearning(stage_dependent=False),
}


def table(seeds: range, out: Path | None) -> list[str]:
    """The rows of a Markdown table; `out` keeps the runs, and what is there is not run again."""
    lines = ["| problem | agent | without | restart on the alarm | alarms per run |", "|---|---|---|---|---|"]
    for problem, (world, episodes, detector) in PROBLEMS.items():
        agents = {**AGENTS, **{f"{name}, watched": agent for name, agent in AGENTS.items()}}
        detectors = {f"{name}, watched": detector for name in AGENTS}
        folder = None if out is None else out / problem.replace(" ", "_")
        made = compare(agents, world, episodes, seeds=list(seeds), jobs=1, out=folder, detector=detectors)
        for name in AGENTS:
            watched = f"{name}, watched"
            alarms = np.mean([len(times) for times in made.alarms_of(watched).values()])
            cells = [_shown(np.array(list(made.final_regret(label).values()))) for label in (name, watched)]
            lines.append(f"| {problem} | {name} | {cells[0]} | {cells[1]} | {alarms:.1f} |")
    return lines


def _shown(values: np.ndarray) -> str:
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():,.0f} ± {half:,.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1_500)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    began = time.process_time()
    print("\n".join(table(range(options.first_seed, options.first_seed + options.seeds), options.out)))
    print(f"{time.process_time() - began:.0f} CPU seconds")


if __name__ == "__main__":
    main()
