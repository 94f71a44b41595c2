"""What a user waits for before the first step: import, a cold start that compiles, a warm one that does not."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST_RUN = "import dqucb; dqucb.DQUCB().train(dqucb.problems.gridworld(noise=0.1), episodes=1)"


def python(code, cache=None):
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": str(cache)} if cache else {})}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True)


def test_import(benchmark):
    benchmark.pedantic(python, args=("import dqucb",), rounds=5, warmup_rounds=1)


def test_cold_start(benchmark, tmp_path):
    benchmark.pedantic(python, args=(FIRST_RUN, tmp_path), rounds=1)


def test_warm_start(benchmark, tmp_path):
    benchmark.pedantic(python, args=(FIRST_RUN, tmp_path), rounds=3, warmup_rounds=1)
