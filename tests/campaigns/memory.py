"""Resident memory of long runs: it must not grow with their length.

    python -m tests.campaigns.memory                                 # 10^9 tabular steps, 10^7 updates of each detector
    python -m tests.campaigns.memory --only qucb --scale 0.001

Every run is cut into ten parts, each of which prints the memory of the process. A tabular run is stopped, saved, loaded
and resumed between them; a detector is saved and loaded. A run is flat if the second half never holds more than
`--allowed` MB above the most that the first half held. The exit code is 1 if one is not.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

PARTS = 10
BLOCK = 100_000  # transitions that are made at a time for a detector


def resident() -> float:
    """MB of this process that are in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def tabular(kind: str, length: int, file: Path) -> Iterator[int]:
    """Train for so many steps; yields the steps done after each part."""
    from dqucb import Agent, gridworld
    from dqucb.base import make_agent

    problem = gridworld((0.1, 0.4), change_at=(length // 2,), rows=3, cols=4, discount=0.9)
    agent = make_agent(kind)
    for part in range(1, PARTS + 1):
        done = part * length // PARTS
        agent.train(problem, steps=length, stop_at=done)
        agent = Agent.load(agent.save(file))
        yield done


def stepped(kind: str, length: int, file: Path) -> Iterator[int]:
    """A loop of one's own over so many steps."""
    from dqucb import Agent
    from dqucb.base import make_agent

    rng = np.random.default_rng(0)
    agent: Any = make_agent(kind).start(12, 4, horizon=10, length=length)  # type: ignore[attr-defined]
    for part in range(PARTS):
        state = 0
        for step, jump in enumerate(rng.integers(1 + part % 3, size=length // PARTS).tolist()):
            action = agent.act(state, step % 10)
            reached = (state + action + jump) % 12
            agent.observe(state, action, float(reached == 11), reached, step % 10)
            state = reached
            if step % 10 == 9:
                agent.end_episode()
                state = 0
        agent = Agent.load(agent.save(file))
        yield (part + 1) * (length // PARTS)


def finite(how: str, length: int, file: Path) -> Iterator[int]:
    """Watch a chain of 20 states, from arrays of rows or one update at a time; the law changes in every part."""
    from dqucb.drift import FiniteDriftDetector

    rng = np.random.default_rng(0)
    detector = FiniteDriftDetector(n_states=20, n_actions=3)
    for part in range(PARTS):
        for _ in range(max(1, length // PARTS // BLOCK)):
            s, a = rng.integers(20, size=BLOCK), rng.integers(3, size=BLOCK)
            following = (s + a + rng.integers(1 + part % 3, size=BLOCK)) % 20
            if how == "rows":
                used = 0
                while used < BLOCK:  # it stops at an alarm
                    used += detector.update_many(s[used:], a[used:], following[used:])
            else:
                for transition in zip(s.tolist(), a.tolist(), following.tolist(), strict=True):
                    detector.update(*transition)
        detector = FiniteDriftDetector.load(detector.save(file))
        yield detector.n_updates


def continuous(length: int, file: Path) -> Iterator[int]:
    """Watch a noisy linear system of three coordinates, whose law changes in every part."""
    from dqucb.drift import ContinuousDriftDetector

    rng = np.random.default_rng(0)
    detector = ContinuousDriftDetector()
    for part in range(PARTS):
        for _ in range(max(1, length // PARTS // BLOCK)):
            states, actions = rng.normal(size=(BLOCK, 3)), rng.normal(size=(BLOCK, 1))
            following = 0.9 * states + (1 + part % 3) * actions + 0.1 * rng.normal(size=(BLOCK, 3))
            for state, action, reached in zip(states, actions, following, strict=True):
                detector.update(state, action, reached)
        detector = ContinuousDriftDetector.load(detector.save(file))
        yield detector.n_updates


# Name -> (length, parts)
RUNS: dict[str, tuple[int, Callable[[int, Path], Iterator[int]]]] = {
    "qucb": (10**9, partial(tabular, "qucb")),
    "dqucb": (10**8, partial(tabular, "dqucb")),
    "planning-dqucb": (10**7, partial(tabular, "planning-dqucb")),
    "planning-dqucb, stepped": (10**6, partial(stepped, "planning-dqucb")),
    "finite detector, rows": (10**8, partial(finite, "rows")),
    "finite detector": (10**7, partial(finite, "one by one")),
    "continuous detector": (10**7, continuous),
}


def measured(name: str, scale: float, allowed: float) -> dict[str, Any]:
    """Do a run and print its memory after each part; what was found."""
    length, parts = RUNS[name]
    began, memory, done = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for done in parts(max(PARTS, round(length * scale)), Path(folder) / "file.npz"):
            memory.append(round(resident(), 1))
            print(json.dumps({"run": name, "done": done, "MB": memory[-1]}), flush=True)
    seconds = round(time.monotonic() - began, 1)
    halves = max(memory[: PARTS // 2]), max(memory[PARTS // 2 :])
    return {"run": name, "done": done, "seconds": seconds, "most MB in the first half": halves[0],
            "in the second": halves[1], "flat": halves[1] - halves[0] <= allowed}  # fmt: skip


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"One of {', '.join(RUNS)}.")
    parser.add_argument("--scale", type=float, default=1.0, help="Of all lengths.")
    parser.add_argument("--allowed", type=float, default=2.0, help="MB.")
    given = parser.parse_args()
    found = [measured(name, given.scale, given.allowed) for name in RUNS if given.only in ("", name)]
    for each in found:
        print(json.dumps(each), flush=True)
    raise SystemExit(0 if all(each["flat"] for each in found) else 1)


if __name__ == "__main__":
    main()
