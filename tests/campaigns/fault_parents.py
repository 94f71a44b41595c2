"""Parents of worker processes that are killed at every stage of a command: nobody may be left.

    python -m tests.campaigns.fault_parents --parents 50

Each parent fills a folder with three worker processes and writes a report. It is killed with SIGKILL in one of the
stages of `STAGES`, at a random moment after the stage began; ten seconds later no process of its session may live.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaigns.fault_processes import nobody_left, session_of

ROOT = Path(__file__).resolve().parents[2]
RUNS = 24
CODE = f"""
from pathlib import Path
from tests.campaigns.faults import problem
from dqucb.experiments import compare
from dqucb.experiments.report import write_report

if __name__ == "__main__":
    folder = Path(FOLDER)
    found = compare(["qucb", "random"], problem(), 60_000, seeds={RUNS // 2}, out=folder, jobs=3)
    (folder / "report has begun").touch()
    write_report(found, folder / "report.html")
"""


def _workers(parent: Any, folder: Path, n: int) -> bool:
    return len(session_of(parent.pid)) > n


def _runs(parent: Any, folder: Path, n: int) -> bool:
    return len(list((folder / "runs").glob("[!.]*.npz"))) >= n


# Name -> (when it begins, seconds after that within which the parent is killed)
STAGES: dict[str, tuple[Callable[[Any, Path], bool], float]] = {
    "start": (lambda parent, folder: True, 1.5),
    "workers begin": (lambda parent, folder: _workers(parent, folder, 1), 0.5),
    "first task": (lambda parent, folder: _workers(parent, folder, 3), 1.5),
    "middle": (lambda parent, folder: _runs(parent, folder, RUNS // 3), 0.3),
    "end of the runs": (lambda parent, folder: _runs(parent, folder, RUNS - 1), 0.1),
    "report": (lambda parent, folder: (folder / "report has begun").exists(), 0.5),
}


def killed(stage: str, chance: random.Random, folder: Path) -> dict[str, Any]:
    """Kill one parent in a stage; how many processes it had, and what was wrong if anything."""
    begins, within = STAGES[stage]
    script = folder / "parent.py"
    script.write_text(CODE.replace("FOLDER", repr(str(folder))), encoding="utf-8")
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])  # it imports `tests`
    environment = {**os.environ, "PYTHONPATH": paths}
    parent = subprocess.Popen([sys.executable, str(script)], start_new_session=True, env=environment, **silent)
    limit = time.monotonic() + 120
    while parent.poll() is None and not begins(parent, folder) and time.monotonic() < limit:
        time.sleep(0.005)
    time.sleep(chance.uniform(0.0, within))
    found: dict[str, Any] = {
        "stage": stage,
        "processes": len(session_of(parent.pid)),
        "ended": parent.poll() is not None,
    }
    parent.kill()
    parent.wait()
    began = time.monotonic()
    try:
        nobody_left(parent.pid)
    except AssertionError as error:
        found["wrong"] = str(error)
    return {**found, "seconds": round(time.monotonic() - began, 2)}


def campaign(parents: int, first: int = 0) -> list[dict[str, Any]]:
    """The parents whose children outlived them; prints the mix and the longest wait."""
    stages = list(STAGES)
    found = []
    for number in range(first, first + parents):
        folder = Path(tempfile.mkdtemp(prefix="dqucb-parents-"))
        try:
            found.append({"parent": number, **killed(stages[number % len(stages)], random.Random(number), folder)})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    wrong = [each for each in found if "wrong" in each]
    summary = {
        "parents": parents,
        "children left": len(wrong),
        "killed with living workers": sum(each["processes"] > 1 for each in found),
        "ended before the kill": sum(each["ended"] for each in found),
        "longest wait, seconds": max(each["seconds"] for each in found),
        "stages": dict(Counter(each["stage"] for each in found)),
    }
    print(json.dumps(summary), flush=True)
    for each in wrong:
        print(json.dumps(each), flush=True)
    return wrong


def main() -> None:
    """Kill parents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parents", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="Number of the first parent, to repeat one.")
    given = parser.parse_args()
    raise SystemExit(1 if campaign(given.parents, given.first) else 0)


if __name__ == "__main__":
    main()
