"""Random sequences of public calls, with bounds checks in the compiled code.

    make sequences                                       # builds checked extensions, then runs the next line with them
    python -m benchmarks.sequences --sequences 20000

Kernels are compiled without bounds checks and reference counts; this is where an index out of bounds would show. With
NUMBA_BOUNDSCHECK=1 (set here, with a kernel cache of its own) a violation in a Numba kernel is an IndexError, and
extensions built with DQUCB_CHECKED=1 check theirs. Calls may refuse with a ValueError; nothing else may come out, and
what was learned must be finite, and come back bit for bit from a file, a copy and a pickle.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(Path(".numba_cache_checked").absolute())}


def main() -> None:
    """Run each kind of sequence its share of times, in a process with checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--steps", type=int, default=25, help="Calls of a sequence.")
    parser.add_argument("--only", default="", help="agents, densities, windows or detectors.")
    given = parser.parse_args()
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks.sequences", *sys.argv[1:]], {**os.environ, **CHECKED}
        )
    run(given.sequences, given.steps, given.only)


def run(sequences: int, steps: int, only: str = "") -> None:
    """Run the machines; an AssertionError or the foreign exception itself, with the shortest sequence, if one fails."""
    from hypothesis import HealthCheck, settings
    from hypothesis.stateful import run_state_machine_as_test

    from benchmarks.sequence_machines import MACHINES

    chosen: dict[str, Any] = {name: machine for name, machine in MACHINES.items() if not only or name == only}
    for name, machine in chosen.items():
        began = time.monotonic()
        count = max(1, sequences // len(chosen))
        quiet = settings(
            max_examples=count, stateful_step_count=steps, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(machine, settings=quiet)
        done = {"kind": name, "sequences": count, "calls": machine.calls, "seconds": round(time.monotonic() - began)}
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
