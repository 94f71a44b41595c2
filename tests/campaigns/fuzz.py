"""Changed files against everything that is loaded.

    python -m tests.campaigns.fuzz --files 100000
    python -m tests.campaigns.fuzz --files 500 --only agent --first 1200

Every file is a whole one with something changed (see fuzz_mutations.py), most of them under a checksum that agrees.
Loading it, and using what was loaded, may succeed or end in a ValueError of ours (`SavedFileError` for saved files);
anything else is a finding: another exception, a crash, a hang, or memory far beyond the file. Work is done in forks, so
that a crash is seen; the number of a file repeats it.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.campaigns.fuzz_targets import Target, targets

BATCH = 500  # files of one fork
SECONDS = 20  # of CPU time for one file; thirty times as long by the clock, as a busy machine may need
MEGABYTES = 300  # that one file may add to the memory of the process


def one(name: str, target: Target, number: int, place: Path) -> str:
    """What became of one file: "loaded", "refused", or a finding."""
    chance = random.Random(f"{name} {number}")
    sample = chance.choice(target.samples)
    data = target.mutate(sample, chance, chance.choice(target.samples))
    path = place / f"file{target.suffix}"
    path.write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(30 * SECONDS)
    try:
        target.load(path)
        outcome = "loaded"
    except ValueError:
        outcome = "refused"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:100]}"
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown > MEGABYTES:
        outcome = f"{grown:.0f} MB for {len(data)} bytes"
    return outcome


def batch(name: str, target: Target, numbers: range, place: Path) -> list[tuple[int, str]]:
    """The outcomes of some files, from a fork; a fork that dies is a finding of the file it was at."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        for ending in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(ending, signal.SIG_DFL)  # a hang ends the fork
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        for number in numbers:
            os.write(writing, f"{number}\t".encode())
            try:
                outcome = one(name, target, number, place)
            except BaseException as error:
                outcome = f"the campaign itself failed: {error!r}"
            os.write(writing, " ".join(outcome.split())[:300].encode("utf-8", "replace") + b"\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    found = []
    for line in said.splitlines():
        number, _, outcome = line.partition("\t")
        found.append((int(number), outcome or f"died: status {status}"))
    return found


def campaign(files: int, only: tuple[str, ...] = (), first: int = 0) -> list[dict[str, Any]]:
    """The findings; prints how many files of each loader were loaded and refused."""
    findings = []
    place = Path(tempfile.mkdtemp(prefix="dqucb-fuzz-"))
    known = targets(only)
    share = files // len(known)
    for name, target in known.items():
        began, counts = time.monotonic(), Counter[str]()
        for sample in target.samples:  # whole files must load, or nothing is proven; this also compiles kernels
            (place / f"whole{target.suffix}").write_bytes(sample)
            target.load(place / f"whole{target.suffix}")
        number = first
        while number < first + share:
            outcomes = batch(name, target, range(number, min(first + share, number + BATCH)), place)
            number = outcomes[-1][0] + 1
            for at, outcome in outcomes:
                counts[outcome if outcome in ("loaded", "refused") else "finding"] += 1
                if outcome not in ("loaded", "refused"):
                    findings.append({"loader": name, "file": at, "finding": outcome})
        seconds = round(time.monotonic() - began)
        print(json.dumps({"loader": name, "files": share, **counts, "seconds": seconds}), flush=True)
    # Changed files are loaded in forks. The peak of this process itself may be that of a larger one which started it.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"files": share * len(known), "findings": len(findings), "peak MB": round(peak)}), flush=True)
    kinds = Counter((each["loader"], each["finding"][:70]) for each in findings)
    for (loader, kind), count in kinds.most_common(40):
        example = next(each["file"] for each in findings if (each["loader"], each["finding"][:70]) == (loader, kind))
        print(json.dumps({"loader": loader, "times": count, "finding": kind, "for instance": example}), flush=True)
    return findings


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--only", default="", help="Names of loaders, with commas between them.")
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    only = tuple(name for name in given.only.split(",") if name)
    raise SystemExit(1 if campaign(given.files, only, given.first) else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
