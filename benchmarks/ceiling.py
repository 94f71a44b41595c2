"""The plain C loop of QUCB, compiled at benchmark time: what every other time is divided by.

`python -m benchmarks.ceiling` prints the step of our agents on the 50,000-episode GridWorld in units of its step. All
are timed in turn, each after the C loop, and the fastest round counts.
"""

import argparse
import ctypes
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks import workloads

SOURCE = Path(__file__).with_name("ceiling.c")
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
BARS = {"QUCB": 1.2, "DQUCB": 2.0, "PlanningDQUCB": 3.0}  # steps of the C loop, at most
_ARRAYS = ("row_start", "successor", "cumulative", "reward", "terminal")


class CeilingRun(NamedTuple):
    """What the C loop learned, and how long it took."""

    total: float  # of all rewards
    Q: np.ndarray
    V: np.ndarray
    visits: np.ndarray
    seconds: float


def compiler() -> str | None:
    """The C compiler, or None where there is none."""
    return shutil.which(os.environ.get("CC", "cc"))


@cache
def library() -> Any:
    """The compiled loop; built once per source and compiler in the temporary folder."""
    cc = compiler()
    if cc is None:
        raise RuntimeError("the ceiling needs a C compiler: set CC or install one")
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join([cc, *FLAGS]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"dqucb-ceiling-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    built = folder / f"{digest}.so"
    if not built.exists():
        fresh = built.with_suffix(f".{os.getpid()}")
        subprocess.run([cc, *FLAGS, "-o", str(fresh), str(SOURCE), "-lm"], check=True)
        fresh.replace(built)
    loaded = ctypes.CDLL(str(built))
    loaded.qucb.restype = ctypes.c_double
    return loaded


def run_ceiling(problem: Any, episodes: int, scale: float = 0.2, seed: int = 0) -> CeilingRun:
    """QUCB with the root bonus through all phases of `problem`; the clock runs only while C does."""
    H, S, A = problem.horizon, problem.n_states, problem.n_actions
    bounds = problem.value_bounds
    Q = np.ascontiguousarray(np.broadcast_to(bounds[:H, None, None], (H, S, A)))
    V = np.ascontiguousarray(np.broadcast_to(bounds[:, None], (H + 1, S)))
    visits = np.zeros((H, S, A), np.int32)
    edges = [0, *(c for c in problem.change_at if c < episodes), episodes]
    loop = library().qucb
    total = seconds = 0.0
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        model = problem.phases[number].model.written_out()  # plain C has a law for each row
        arrays = [getattr(model, name).ctypes.data_as(ctypes.c_void_p) for name in _ARRAYS]
        tables = [table.ctypes.data_as(ctypes.c_void_p) for table in (bounds, Q, V, visits)]
        sizes = [ctypes.c_long(size) for size in (end - begin, H, S, A, model.initial_state[0])]
        began = thread_time()
        total += loop(*sizes, ctypes.c_double(scale), *arrays, *tables, ctypes.c_uint64(seed + 1_000_003 * number))
        seconds += thread_time() - began
    return CeilingRun(total, Q, V, visits, seconds)


def ratios(rounds: int, episodes: int) -> dict[str, list[float]]:
    """Agent -> its step in units of the C loop's, in each round: each over the faster of the C loops around it."""
    problem = workloads.grid_problem(episodes)
    found: dict[str, list[float]] = {name: [] for name in BARS}
    for name in BARS:
        workloads.train(workloads.agent(name), workloads.grid_problem(4), 4)  # compiles
    for _ in range(rounds):
        before = run_ceiling(problem, episodes).seconds
        for name in BARS:
            seconds = workloads.train(workloads.agent(name), problem, episodes).seconds
            after = run_ceiling(problem, episodes).seconds
            found[name].append(seconds / min(before, after))
            before = after
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ceiling", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="500 episodes, two rounds")
    options = parser.parse_args(arguments)
    with workloads.one_core():
        found = ratios(*((2, 500) if options.quick else (options.rounds, workloads.GRID_EPISODES)))
    print("| agent | step over the C loop's: smallest | median | largest | bar |\n|---|---|---|---|---|")
    for name, bar in BARS.items():
        low, middle, high = np.quantile(found[name], (0.0, 0.5, 1.0))
        print(f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} | {bar:g} {'holds' if low <= bar else 'MISSED'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
