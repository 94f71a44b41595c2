"""Digests of short runs of every agent: an edit that changes a bit of an unchanged algorithm fails `test_golden.py`.

`python tests/golden.py` writes `golden.json` anew; do that only when an algorithm is meant to change, and say so.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from agent_cases import CASES, IDS, SIZE, copy, task

from dqucb import AGENTS
from dqucb.agents.confidence import NeedsHorizonError
from dqucb.problems import combination_lock, frozen_lake, gridworld, random_mdp

FILE = Path(__file__).with_name("golden.json")
CURVES = ("returns", "gaps", "likelihood", "lengths")


def problems():
    """Name -> (problem, length) of the problems on which every agent of the registry runs with its defaults."""
    return {
        "lake": (frozen_lake(change_at=(100, 200)), {"episodes": 300}),
        "grid": (gridworld(rows=3, cols=4, horizon=12, change_at=(100,)), {"episodes": 200}),
        "lock": (combination_lock(change_at=(100, 200)), {"episodes": 300}),
        "random": (random_mdp(change_at=(100,)), {"episodes": 200}),
        "discounted": (frozen_lake(discount=0.9, change_at=(1_000, 2_000)), {"steps": 3_000}),
    }


def digest(run):
    """Curve -> the first digits of the SHA-256 of its bytes."""
    return {name: hashlib.sha256(getattr(run, name).tobytes()).hexdigest()[:16] for name in CURVES}


def tabular():
    """Name -> digest of each run that can be made."""
    found = {}
    for name, (problem, length) in problems().items():
        for agent, cls in AGENTS.items():
            with suppress(NeedsHorizonError):
                found[f"{agent} on {name}"] = digest(cls().train(problem, seed=3, **length))
    for name, (agent, kind) in zip(IDS, CASES, strict=True):
        for regret in ("realized", "expected"):
            run = copy(agent).train(task(kind), seed=1, regret=regret, **SIZE[kind])
            found[f"{name}, {regret}"] = digest(run)
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(tabular(), indent=1, sort_keys=True) + "\n")
    print(f"wrote {FILE}")
