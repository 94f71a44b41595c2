"""A campaign of faults: commands are disturbed at random moments, repeated, and compared with undisturbed ones.

    python -m tests.campaigns.faults --trials 1000

Each trial takes one command (`run`, `sweep`, `report`, `deep`: a batch with checkpoints), one fault and a fresh or a
half-done folder. The disturbed command may end only by the fault itself, or with an error in our own words; it may not
hang. Then the same command is given again, and every run must be bit for bit that of an undisturbed folder, `verify`
must find the folder whole, and no process may be left.

Most commands run in forks of one process that has everything loaded, so that a trial takes a fraction of a second;
faults of worker processes and of Dask clusters need processes of their own.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaigns import fault_kinds
from tests.campaigns.fault_processes import Child, HangError

CURVES = ("ends", "returns", "gaps", "likelihood", "lengths", "alarms")
WEIGHTS = {
    "kill -9": 30, "interrupt": 14, "full disk": 12, "torn write": 10, "delayed write and kill": 8,
    "read-only folder": 6, "two writers": 6, "leftover lock": 4, "clock jumps back": 4, "damaged checkpoint": 3,
    "killed parent of workers": 1.5, "killed worker": 0.5, "killed Dask worker": 0.5, "killed Dask scheduler": 0.5,
}  # fmt: skip


def problem() -> Any:
    """A small problem that changes once."""
    from dqucb.problems import gridworld

    return gridworld(noise=(0.05, 0.3), change_at=(150,), rows=2, cols=3, horizon=8)


def run(folder: Path, **options: Any) -> None:
    """Two agents, six seeds."""
    from dqucb.experiments import compare

    compare(["qucb", "random"], problem(), 300, seeds=6, out=folder, **{"jobs": 1, **options})


def sweep(folder: Path) -> None:
    """One agent with two values."""
    from dqucb.experiments import sweep as start

    start("qucb", problem(), {"bonus_scale": [0.1, 1.0]}, 300, seeds=5, jobs=1, out=folder)


def report(folder: Path) -> None:
    """A page from a folder that is filled first, if it must be."""
    from dqucb.experiments import load_comparison
    from dqucb.experiments.report import write_report

    run(folder)
    write_report(load_comparison(folder), folder / "report.html")


def deep(folder: Path) -> None:
    """Two seeds in lockstep, with a checkpoint at every look."""
    from dqucb.deep import DQN
    from dqucb.experiments import compare
    from dqucb.running import engine, lockstep

    engine.CHECKPOINT_SECONDS = lockstep.BLOCK_SECONDS = 0.0
    agent = DQN(hidden=(8,), learning_starts=20, capacity=200, batch=8)
    compare(agent, "cartpole", steps=200, seeds=2, jobs=1, regret="none", out=folder)


COMMANDS: dict[str, Callable[[Path], None]] = {"run": run, "sweep": sweep, "report": report, "deep": deep}


def contents(folder: Path) -> dict[str, bytes]:
    """What the runs of a folder hold, by key; not how long they took."""
    from dqucb import Run

    return {
        path.stem: b"".join(np.ascontiguousarray(getattr(Run.load(path), name)).tobytes() for name in CURVES)
        for path in sorted((folder / "runs").glob("*.npz"))
    }


def finished(command: str, folder: Path) -> None:
    """Give the command again, undisturbed; a damaged manifest is repaired first, as its error says."""
    from dqucb import SavedFileError
    from dqucb.experiments import repair, verify

    def again() -> None:
        if (folder / "runs").is_dir() and verify(folder).manifest != "whole":
            try:
                repair(folder)
            except SavedFileError:  # no run was finished: the folder can be begun anew
                (folder / "manifest.json").unlink(missing_ok=True)
        COMMANDS[command](folder)

    outcome = Child(again).wait(120)
    if outcome != "done":
        raise AssertionError(f"the repeated command failed: {outcome}")


def checked(command: str, folder: Path, reference: dict[str, bytes]) -> None:
    """Raise an AssertionError unless the folder is that of an undisturbed command."""
    from dqucb.experiments import verify

    found = contents(folder)
    if found.keys() != reference.keys():
        raise AssertionError(f"runs are missing or too many: {len(found)} of {len(reference)}")
    wrong = [key for key in found if found[key] != reference[key]]
    if wrong:
        raise AssertionError(f"{len(wrong)} runs have other bits")
    health = verify(folder)
    if not health.is_whole or health.missing or health.leftovers:
        raise AssertionError("; ".join(health.lines()))
    if command == "report" and "</html>" not in (folder / "report.html").read_text(encoding="utf-8"):
        raise AssertionError("the page is not whole")


def trial(number: int, references: dict[str, dict[str, bytes]], place: Path) -> dict[str, Any]:
    """One fault; what was done and, if anything was wrong, what."""
    chance = random.Random(number)
    fault = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    kind = fault_kinds.KINDS[fault]
    command = chance.choice(kind.commands)
    folder = place / f"trial-{number}"
    found: dict[str, Any] = {"trial": number, "fault": fault, "command": command}
    try:
        if chance.random() < 0.3:  # a folder that is half done
            child = Child(lambda: COMMANDS[command](folder))
            child.end_after(chance.uniform(0.02, 0.3), signal.SIGKILL)
            child.wait(60)
        found["outcome"] = kind.inflict(COMMANDS[command], folder, chance)
        finished(command, folder)
        checked(command, folder, references[command])
    except (AssertionError, HangError) as error:
        found["wrong"] = f"{type(error).__name__}: {error}"
        return found
    shutil.rmtree(folder)
    return found


def campaign(trials: int, first: int = 0, commands: tuple[str, ...] = tuple(COMMANDS)) -> list[dict[str, Any]]:
    """The trials that went wrong; prints the mix and the minutes."""
    began = time.monotonic()
    logging.getLogger("dqucb").setLevel(logging.CRITICAL)  # hundreds of damaged files are set aside
    place = Path(tempfile.mkdtemp(prefix="dqucb-faults-"))
    references = {}
    for command in commands:
        COMMANDS[command](place / command)  # also loads everything before the first fork
        references[command] = contents(place / command)
    found = [trial(number, references, place) for number in range(first, first + trials)]
    wrong = [each for each in found if "wrong" in each]
    mix = Counter(each["fault"] for each in found)
    outcomes = Counter(str(each.get("outcome", "wrong")).partition(":")[0] for each in found)
    minutes = round((time.monotonic() - began) / 60, 1)
    summary = {"trials": trials, "wrong": len(wrong), "minutes": minutes, "mix": dict(mix.most_common())}
    print(json.dumps(summary | {"outcomes": dict(outcomes.most_common())}), flush=True)
    for each in wrong:
        print(json.dumps(each), flush=True)
    if not wrong:
        shutil.rmtree(place)
    return wrong


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="Number of the first trial, to repeat one.")
    given = parser.parse_args()
    raise SystemExit(1 if campaign(given.trials, given.first) else 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
