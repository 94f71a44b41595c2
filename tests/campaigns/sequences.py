"""Random sequences of public calls, with bounds checks in the compiled code.

    make sequences                                       # builds checked extensions, then runs the next line with them
    python -m tests.campaigns.sequences --sequences 20000 --out out/sequences.jsonl
    python -m tests.campaigns.sequences --only agents --slice 7 --sequences 250      # one slice again

Kernels are compiled without bounds checks and reference counts; this is where an index out of bounds would show. With
NUMBA_BOUNDSCHECK=1 (set here, with a kernel cache of its own) a violation in a Numba kernel is an IndexError, and
extensions built with DQUCB_CHECKED=1 check theirs. Calls may refuse with a ValueError; nothing else may come out, and
what was learned must be finite, and come back bit for bit from a file, a copy and a pickle.

The work is cut into slices of 250 sequences, whose number is their seed. `--out` keeps a line for each, and the same
command goes on after the last one; a slice with a violation is written down with the shortest sequence that shows it.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(Path(".numba_cache_checked").absolute())}
SLICE = 250
SHARES = {"windows": 0.2, "densities": 0.2, "detectors": 0.2, "agents": 0.3, "sessions": 0.1}
ignored: list[str] = []  # exceptions in functions of extensions that cannot raise


def main() -> None:
    """Run each kind of sequence its share of times, in a process with checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--steps", type=int, default=25, help="Calls of a sequence.")
    parser.add_argument("--only", default="", help=f"One of {', '.join(SHARES)}.")
    parser.add_argument("--slice", type=int, default=0, help="Number of the first slice, to repeat one.")
    parser.add_argument("--out", type=Path, help="A file of results; slices that it holds are not run again.")
    given = parser.parse_args()
    if os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        command = [sys.executable, "-m", "tests.campaigns.sequences", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **CHECKED})
    check_checks()
    raise SystemExit(0 if campaign(given.sequences, given.steps, given.only, given.slice, given.out) else 1)


def check_checks() -> None:
    """Leave with a message unless kernels and extensions check their indices; kernels are asked for one beyond the end."""
    import numpy as np

    from dqucb._kernels import continuous
    from dqucb._kernels._jit import kernel

    @kernel
    def beyond(array: Any, place: int) -> Any:
        return array[place]

    short = np.zeros(1, np.int32)
    asked: dict[str, Callable[[], Any]] = {
        "kernels are compiled without bounds checks: NUMBA_BOUNDSCHECK=1 has no effect": lambda: beyond(short, 1),
    }
    if "checked" not in Path(continuous.__file__).parts:  # where `make sequences` builds them; their own doors are shut
        raise SystemExit(f"{continuous.__file__} has no bounds checks; `make sequences` builds and finds those that do")
    for otherwise, ask in asked.items():
        try:
            ask()
        except IndexError:
            continue
        raise SystemExit(otherwise)


def campaign(sequences: int, steps: int, only: str = "", first: int = 0, out: Path | None = None) -> bool:
    """Run all slices that are not done; whether none found anything. Prints what was done of each kind."""
    known = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out and out.exists() else []
    done = {(each["kind"], each["slice"]) for each in known}
    for kind, number, count in slices(sequences, only, first):
        if (kind, number) in done:
            continue
        found = run_slice(kind, number, count, steps)
        known.append(found)
        print(json.dumps(found), flush=True)
        if out:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
    totals: dict[str, Counter[str]] = {}
    for each in known:
        counted = totals.setdefault(each["kind"], Counter())
        counted.update({name: each[name] for name in ("sequences", "calls", "seconds")})
        counted["slices with violations"] += "violation" in each
    for kind, counted in totals.items():
        print(json.dumps({"kind": kind, **counted, "seconds": round(counted["seconds"])}), flush=True)
    total = sum(counted["sequences"] for counted in totals.values())
    wrong = sum(counted["slices with violations"] for counted in totals.values())
    minutes = round(sum(counted["seconds"] for counted in totals.values()) / 60, 1)
    print(json.dumps({"sequences": total, "slices with violations": wrong, "minutes": minutes}), flush=True)
    return not wrong


def slices(sequences: int, only: str, first: int) -> Iterator[tuple[str, int, int]]:
    """(kind, number, sequences) of the slices, one of each kind in turn."""
    left = {kind: max(1, round(sequences * (share if not only else 1))) for kind, share in SHARES.items()}
    left = {kind: count for kind, count in left.items() if only in ("", kind)}
    number = first
    while left:
        for kind in list(left):
            count = min(SLICE, left[kind])
            yield kind, number, count
            left[kind] -= count
            if not left[kind]:
                del left[kind]
        number += 1


def run_slice(kind: str, number: int, count: int, steps: int) -> dict[str, Any]:
    """What became of a slice: how many sequences and calls in how many seconds, and the violation if there is one."""
    from hypothesis import HealthCheck, seed, settings
    from hypothesis.stateful import run_state_machine_as_test

    if kind in ("agents", "sessions"):
        from tests.campaigns.sequence_agents import AGENT_MACHINES as MACHINES
    else:
        from tests.campaigns.sequence_machines import MACHINES
    machine: Any = MACHINES[kind]
    machine.calls = 0
    began = time.monotonic()
    quiet = settings(
        max_examples=count, stateful_step_count=steps, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    found: dict[str, Any] = {"kind": kind, "slice": number, "sequences": count}
    ignored.clear()
    previous, sys.unraisablehook = sys.unraisablehook, _note
    try:
        run_state_machine_as_test(seed(number)(machine), settings=quiet)
        if ignored:
            found["violation"] = f"ignored exceptions in compiled code: {ignored[:3]}"
    except Exception as error:
        found["violation"] = "".join(traceback.format_exception(error))[-6_000:]
    finally:
        sys.unraisablehook = previous
    return {**found, "calls": machine.calls, "seconds": round(time.monotonic() - began, 1)}


def _note(what: Any) -> None:
    ignored.append(f"{what.exc_value!r} in {what.object!r}")


if __name__ == "__main__":
    main()
