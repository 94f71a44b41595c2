"""Shared by all tests: a Numba cache inside the checkout, and a way to run code without the JIT."""

import os

# Before NumPy loads: two workers whose BLAS takes both cores each wait for one another, up to a hundred times as long.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache"))

settings.register_profile("dqucb", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dqucb")


@pytest.fixture(scope="session")
def run_python():
    """Run a Python snippet in a fresh process and return its standard output."""

    def run(code: str, **environment: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run


@pytest.fixture(scope="session")
def same_bits_without_jit(run_python):
    """Assert that a snippet prints the same text compiled and as plain Python."""

    def check(code: str) -> None:
        compiled = run_python(code)
        assert compiled.strip(), "the snippet must print something to compare"
        assert run_python(code, NUMBA_DISABLE_JIT="1") == compiled

    return check
