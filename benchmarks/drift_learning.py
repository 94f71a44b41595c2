"""Alarms while an agent learns: `python -m benchmarks.drift_learning [--seeds N] [--first-seed S] [--out DIR]`.

Other streams change their policy once. Here DQN learns a MuJoCo task from nothing, in the setting that tab03_mujoco
recommends, and a detector with the burn-in for learning agents watches without acting. In worlds that stay as they are
every alarm is false; in others gravity or mass grows by half after half of the steps. Settings were chosen on seeds 100
to 105. Needs the extras deep and mujoco; a run of 200,000 steps takes two minutes.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import make_agent
from dqucb.drift import ContinuousDriftDetector
from dqucb.drift.benchmark.adapters import armed
from dqucb.drift.benchmark.measure import poisson_interval
from dqucb.drift.benchmark.report import table
from dqucb.drift.continuous import LEARNING_BURN_IN
from reproduce.tab03_mujoco import SETTINGS, as_recommended, training_env

FALSE_ALARMS = 1e-6

TASKS = ("HalfCheetah", "Hopper", "Walker2d")
WORLDS = ("still", "gravity", "mass")
FACTOR = 1.5


def watched(task: str, world: str, seed: int, steps: int, burn_in: int) -> list[int]:
    """The steps at which the detector gives an alarm while DQN learns."""
    settings = as_recommended(SETTINGS)
    change: tuple[int, ...] = ()
    if world != "still":
        settings, change = {**settings, "shift": world}, (steps // 2,)
    env = training_env(task, settings, change, (FACTOR,) * len(change))
    agent = make_agent("dqn", **settings["agent"])
    detector = ContinuousDriftDetector(false_alarms=FALSE_ALARMS, burn_in=burn_in)
    return agent.train(env, steps=steps, seed=seed, detector=detector, on_alarm="note").alarms.tolist()  # type: ignore[no-any-return]


def since(change: int, alarms: list[int], burn_in: int) -> tuple[int | None, int, list[int]]:
    """(delay, from when alarms are false, these alarms) of one stream; no delay if no alarm came within a burn-in."""
    later = [alarm for alarm in alarms if alarm >= change]
    if later and later[0] < change + burn_in:
        return later[0] - change, later[0] + 1, later[1:]
    return None, change, later


def measured(rows: list[dict[str, Any]], steps: int, burn_in: int) -> list[dict[str, Any]]:
    """By task and world: false alarms, the updates at which one could come, and changes that were found.

    Up to the change a stream is that of the still world with the same seed, so that its alarms count there alone. An
    alarm within a burn-in of the change has found it. All others are false, also later ones where it was not found.
    """
    out = []
    for task, world in dict.fromkeys((row["task"], row["world"]) for row in rows):
        own = [row["alarms"] for row in rows if (row["task"], row["world"]) == (task, world)]
        out.append({"task": task, "world": world, "streams": len(own)})
        false = [(0, alarms) for alarms in own]
        if world != "still":
            parts = [since(steps // 2, alarms, burn_in) for alarms in own]
            delays = [delay for delay, *_ in parts if delay is not None]
            out[-1] |= {"found": len(delays), "median_delay": float(np.median(delays)) if delays else None}
            false = [(begin, alarms) for _, begin, alarms in parts]
        counted = [armed([alarm - begin for alarm in alarms], steps - begin, burn_in) for begin, alarms in false]
        out[-1] |= {"false_alarms": sum(len(alarms) for _, alarms in false), "updates": sum(counted)}
    return out


def report(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown, with all false alarms against those asked for."""
    lines = table(rows)
    count, updates = sum(row["false_alarms"] for row in rows), sum(row["updates"] for row in rows)
    if updates:
        ratio, low, high = (number / (updates * FALSE_ALARMS) for number in (count, *poisson_interval(count)))
        interval = f"{ratio:.2g} [{low:.2g}, {high:.2g}]"
        lines += ["", f"{count} false alarms in {updates:,} updates: {interval} times those asked for."]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run what is asked for and add it to the runs in --out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--burn-in", type=int, default=LEARNING_BURN_IN)
    parser.add_argument("--out", type=Path, default=Path("out/drift_learning"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"alarms_{options.steps}_{options.burn_in}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for seed, task, world in product(seeds, options.tasks.split(","), options.worlds.split(",")):
        name = {"task": task, "world": world, "seed": seed}
        if any(name.items() <= row.items() for row in rows):
            continue
        rows.append({**name, "alarms": watched(task, world, seed, options.steps, options.burn_in)})
        print(json.dumps(rows[-1]), flush=True)
        path.write_text(json.dumps(rows))
    found = measured(rows, options.steps, options.burn_in)
    print(report(found))
    return found


if __name__ == "__main__":
    main()
