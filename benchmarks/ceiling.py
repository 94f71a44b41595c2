"""The plain C loop of QUCB, compiled at benchmark time: what every other time is divided by."""

import ctypes
import hashlib
import itertools
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

SOURCE = Path(__file__).with_name("ceiling.c")
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
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
        model = problem.phases[number].model
        arrays = [getattr(model, name).ctypes.data_as(ctypes.c_void_p) for name in _ARRAYS]
        tables = [table.ctypes.data_as(ctypes.c_void_p) for table in (bounds, Q, V, visits)]
        sizes = [ctypes.c_long(size) for size in (end - begin, H, S, A, model.initial_state[0])]
        began = thread_time()
        total += loop(*sizes, ctypes.c_double(scale), *arrays, *tables, ctypes.c_uint64(seed + 1_000_003 * number))
        seconds += thread_time() - began
    return CeilingRun(total, Q, V, visits, seconds)
