"""Instructions, wrong guesses and cache misses of a step, counted by Valgrind: on a busy machine as on an idle one.

Each agent trains on GridWorld twice, long and short, in a simulated processor (32 kB of first-level cache), and the
difference leaves out everything but the steps. Needs `valgrind`; takes about two minutes for each agent.

python -m benchmarks.instructions --agents QUCB,DQUCB
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from benchmarks import workloads

SHORT, LONG = 2_000, 42_000  # episodes
COUNTS = {
    "instructions": r"I +refs: +([\d,]+)",
    "memory accesses": r"D +refs: +([\d,]+)",
    "cache misses": r"D1 +misses: +([\d,]+)",
    "wrong guesses": r"Mispredicts: +[\d,]+ +\( *([\d,]+) cond",
}
TRAIN = """
from benchmarks import workloads
workloads.agent({agent!r}).train(workloads.grid_problem({episodes}), episodes={episodes}, seed=0)
"""
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=/dev/null",
            "--D1=32768,8,64", "--LL=1048576,16,64")  # fmt: skip


def counted(agent: str, episodes: int, tool: tuple[str, ...] = VALGRIND) -> str:
    """What the tool writes about a process that trains an agent."""
    # Valgrind knows no instructions beyond AVX2.
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}
    command = [*tool, sys.executable, "-c", TRAIN.format(agent=agent, episodes=episodes)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stderr


def counts_in(report: str) -> dict[str, int]:
    """The numbers of Cachegrind's summary. Raises ValueError where one is missing."""
    found = {name: re.search(pattern, report) for name, pattern in COUNTS.items()}
    missing = [name for name, match in found.items() if match is None]
    if missing:
        raise ValueError(f"no {missing[0]} in what valgrind wrote: {report[-500:]}")
    return {name: int(match.group(1).replace(",", "")) for name, match in found.items() if match}


def per_step(agent: str) -> dict[str, float]:
    """Counts of one step of an agent."""
    counted(agent, 10, tool=())  # compiles, so that no counted process need
    with ThreadPoolExecutor(2) as pool:
        short, long = map(counts_in, pool.map(counted, [agent, agent], [SHORT, LONG]))
    return {name: (long[name] - short[name]) / (workloads.GRID["horizon"] * (LONG - SHORT)) for name in COUNTS}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__.split("\n")[0])
    parser.add_argument("--agents", default="QUCB,DQUCB", help="names, with commas between them")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is missing: install it, on Debian with apt-get install valgrind")
    print(f"{'of one step on GridWorld':26}" + "".join(f"{name:>18}" for name in COUNTS))
    for agent in options.agents.split(","):
        print(f"{agent:26}" + "".join(f"{value:18.2f}" for value in per_step(agent).values()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
