"""Seconds and memory of a summary, a report and a resumed run of a folder with many runs.

    python -m benchmarks.large_store --runs 100000 --agents 2 --episodes 100
    python -m benchmarks.large_store --runs 2000 --agents 2 --episodes 5000

The runs are copies of one real run with noise in their regret; making them is not timed. Each figure is that of a new
process, with its imports. `--no-index` is what a folder costs whose index was deleted.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

ACTIONS = {
    "summary": "from dqucb.experiments import load_comparison; print(load_comparison(FOLDER).summary().shape)",
    "report": "from dqucb.cli import app; app(['report', FOLDER, '--quiet'], standalone_mode=False)",
    "resume": "import json; from dqucb.cli import app; "
    "app(['run', 'gridworld', '--agents', AGENTS, '--seeds', SEEDS, '--episodes', EPISODES, "
    "'--out', FOLDER, '--quiet'], standalone_mode=False)",
}
MEASURE = """
import resource, time
began = time.perf_counter()
{action}
print("seconds", time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def fill(folder: Path, agents: list[str], seeds: int, episodes: int, index: bool) -> None:
    """Write a folder as a session would have left it."""
    from dqucb.base import make_agent
    from dqucb.experiments import make_problem
    from dqucb.experiments.comparison import trace
    from dqucb.experiments.design import designed
    from dqucb.experiments.index import SHARD
    from dqucb.experiments.store import Store

    problem = make_problem("gridworld", length=episodes)
    settings, trials = designed([make_agent(name) for name in agents], problem, episodes, None, seeds)
    rng = np.random.default_rng(0)
    with Store(folder).writing(settings, "benchmarks.large_store") as store:
        fresh = {}
        for trial in trials.values():
            run = trial.live.agent.clone().train(problem, episodes=episodes, seed=0)
            for seed in range(seeds):
                other = replace(run, seed=seed, gaps=run.gaps + rng.normal(0.0, 0.1, len(run)))
                key = trial.key(seed)
                (store.runs / f"{key}.npz").write_bytes(other.to_bytes())  # not synced: 100,000 files
                fresh[key] = trace(other)
                if index and len(fresh) >= SHARD:
                    store.index.add(fresh)
                    fresh = {}
        if index and fresh:
            store.index.add(fresh)


def measured(action: str, **words: str) -> tuple[float, float]:
    """(seconds, peak MB) of one of `ACTIONS` in a process of its own."""
    for name, value in words.items():
        action = action.replace(name, repr(value))
    code = MEASURE.format(action=action)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    _, seconds, memory = answer.stdout.splitlines()[-1].split()
    return float(seconds), float(memory)


def main() -> None:
    """Fill a folder, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--agents", type=int, default=2, choices=[1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--no-index", action="store_true")
    parser.add_argument("--actions", default="summary,report,resume")
    given = parser.parse_args()
    names = ["qucb", "random", "q-learning", "ucbb"][: given.agents]
    seeds = given.runs // given.agents
    folder = Path(tempfile.mkdtemp(prefix="dqucb-large-"))
    try:
        fill(folder, names, seeds, given.episodes, not given.no_index)
        words = {"FOLDER": str(folder), "AGENTS": ",".join(names), "SEEDS": str(seeds), "EPISODES": str(given.episodes)}
        for action in given.actions.split(","):
            seconds, memory = measured(ACTIONS[action], **words)
            result = {"runs": seeds * given.agents, "action": action, "seconds": round(seconds, 1), "MB": round(memory)}
            print(json.dumps(result), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
