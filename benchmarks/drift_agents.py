"""False alarms of the finite detector while agents learn: `python -m benchmarks.drift_agents [--seeds N] [--rate R]`.

QLearning, DQUCB and PlanningDQUCB learn on drawn problems that do not change, and a detector watches them without
acting. Their policies depend on what they have seen, which no proof covers: every alarm is false and is counted.
Step-dependent problems are left out, because a pair of state and action does not have one distribution there.
"""

import argparse
import json

from dqucb import DQUCB, PlanningDQUCB, QLearning
from dqucb.drift import FiniteDriftDetector
from dqucb.drift.benchmark.measure import poisson_interval
from dqucb.problems import FAMILIES, generated

AGENTS = (QLearning, DQUCB, PlanningDQUCB)


def alarms_and_updates(kind: type, family: str, seed: int, rate: float, steps: int) -> tuple[int, int]:
    """False alarms and updates of one run.

    Parameters
    ----------
    kind : type
        The class of the agent.
    family : str
        Of the problem.
    seed : int
        Of problem and run.
    rate : float
        False alarms per update that are asked for.
    steps : int
        Length of the run, rounded up to whole episodes of full length.
    """
    problem = generated(family, seed, change="none")
    agent = kind()
    detector = FiniteDriftDetector(problem.n_states, problem.n_actions, false_alarms=rate, watch_reward=True)
    episodes = -(-steps // problem.horizon)
    run = agent.train(problem, episodes=episodes, seed=seed, detector=detector, on_alarm="note")
    return len(agent.detector_alarms_), int(run.lengths.sum())


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print a JSON row for each agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4, help="problems of each family")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8_000, help="of each run")
    parser.add_argument("--rate", type=float, default=1e-3, help="false alarms per update that are asked for")
    parser.add_argument("--families", type=int, default=None, help="only so many, for a test")
    options = parser.parse_args(arguments)
    families = [name for name in FAMILIES if "step-dependent" not in name][: options.families]
    rows: list[dict[str, object]] = []
    for kind in AGENTS:
        alarms = updates = 0
        for family in families:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                found, seen = alarms_and_updates(kind, family, seed, options.rate, options.steps)
                alarms, updates = alarms + found, updates + seen
        low, high = (bound / (updates * options.rate) for bound in poisson_interval(alarms))
        rows.append({"agent": kind.__name__, "asked": options.rate, "alarms": alarms, "updates": updates,
                     "ratio": alarms / (updates * options.rate), "from": low, "to": high})  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
