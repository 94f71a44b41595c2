"""Falls of deep agents on CartPole after changes of its physics: `python -m benchmarks.deep_changes [--quick]`.

Each kind of change comes at the same step, in the middle of whatever the agents are doing. A fall is an episode that
ended before its last possible step. All seeds of an agent train in lockstep in one process. Changes of other sizes are
drawn with `--draw SEED`.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dqucb.deep import DQN, DeepDQUCB
from dqucb.envs import CartPoleEnv
from dqucb.run import Run

KINDS: dict[str, dict[str, float]] = {
    "force x -1": {"force": -1.0},
    "force x 0.5": {"force": 0.5},
    "length x 1.6": {"length": 1.6},
    "length x 2": {"length": 2.0},
    "gravity x 1.5": {"gravity": 1.5},
    "noise": {"noise": 0.15},
    "placebo": {},
}
# The second one is the first without its reaction to alarms, and the same bit for bit until the first alarm.
AGENTS: dict[str, dict[str, Any]] = {
    "DeepDQUCB": {"bonus_scale": 0.01},
    "variant='paper'": {"bonus_scale": 0.01, "variant": "paper"},
    "DQN": {},
}
SIZES = {"full": {"change": 25_000, "after": 15_000}, "quick": {"change": 1_500, "after": 500}}
QUICK: dict[str, Any] = {"hidden": (16,), "learning_starts": 100, "batch_size": 8, "buffer_size": 3_000}


def drawn(seed: int) -> dict[str, dict[str, float]]:
    """Changes of other sizes, drawn by a seed: one of each kind."""
    rng = np.random.default_rng(seed)
    factor = lambda low, high: float(np.round(np.exp(rng.uniform(np.log(low), np.log(high))), 2))  # noqa: E731
    found = {
        "force reversed": {"force": -factor(0.5, 2.0)},
        "weaker": {"force": factor(0.35, 0.8)},
        "stronger": {"force": factor(1.25, 3.0)},
        "shorter": {"length": factor(0.35, 0.8)},
        "longer": {"length": factor(1.25, 3.0)},
        "heavier": {"gravity": factor(1.25, 3.0)},
        "lighter": {"gravity": factor(0.35, 0.8)},
        "noise": {"noise": factor(0.05, 0.25)},
    }
    return {f"{kind}, {next(iter(change.values())):g}": change for kind, change in found.items()}


def falls(run: Run, change: int, max_steps: int = 200) -> int:
    """Episodes that ended by a fall after step `change`."""
    ends = np.cumsum(run.lengths)
    return int(((ends > change) & (run.lengths < max_steps))[:-1].sum())  # the last one may have been cut by the run


def measured(agent: str, change: dict[str, float], seeds: Sequence[int], size: str = "full") -> list[Run]:
    """The runs of an agent through a change."""
    sizes = SIZES[size]
    env = partial(CartPoleEnv, **{"noise": 0.0, "unit": "steps", "change_at": sizes["change"], **change})
    settings = AGENTS[agent] | (QUICK if size == "quick" else {})
    if size == "quick" and agent != "DQN":
        settings = settings | {"burn_in": 1_000}
    kind = DQN if agent == "DQN" else DeepDQUCB
    return kind(**settings).train_seeds(env, list(seeds), steps=sizes["change"] + sizes["after"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each change as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=4_100)
    parser.add_argument("--draw", type=int, default=None, help="changes drawn by this seed in place of the usual ones")
    parser.add_argument("--only", choices=list(AGENTS), default=None)
    parser.add_argument("--kinds", default=None, help="names of the changes, separated by commas; default: all")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    size = "quick" if options.quick else "full"
    changes = KINDS if options.draw is None else drawn(options.draw)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    names = list(AGENTS) if options.only is None else [options.only]
    print(f"| change | {' | '.join(f'{name}: falls (each seed)' for name in names)} | alarms at step | CPU s |")
    print("|---" * (len(names) + 3) + "|")
    for kind in changes if options.kinds is None else options.kinds.split(","):
        began, cells, alarms = time.process_time(), [], []
        for name in names:
            runs = measured(name, changes[kind], seeds, size)
            counts = [falls(run, SIZES[size]["change"]) for run in runs]
            cells.append(f"{np.mean(counts):.1f} ({', '.join(map(str, counts))})")
            alarms += [f"{', '.join(map(str, run.alarms.tolist())) or '-'}" for run in runs if name == "DeepDQUCB"]
        print(f"| {kind} | {' | '.join(cells)} | {'; '.join(alarms)} | {time.process_time() - began:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
