"""Other people's programs beside ours, in one run: `python -m benchmarks.peers --out DIR`.

Peers live in a virtual environment of their own, made on the first run, because rlberry-scool needs Gymnasium 0.29.
The same work for each pair: a 5x10 grid with a horizon of 100 for UCBVI, with tables by step and with steps that learn
together (rlberry's own default), FrozenLake 4x4 for the environment (where ours also learns).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import workloads

PACKAGES = ("rlberry-scool==0.7.3", "gymnasium==0.29.1")
ROUNDS = 3
WORK = Path(__file__).with_name("peers_work.py")
OURS = {
    "rlberry-scool UCBVI, as shipped": ("UCBVI", {}, workloads.grid_problem, 200),
    "rlberry-scool UCBVI, shared steps": ("UCBVI", {"stage_dependent": False}, workloads.grid_problem, 10_000),
    "rlberry-scool UCBVI, real-time planning": ("UCBVI real time", {}, workloads.grid_problem, 1_000),
    "Gymnasium FrozenLake, environment only": ("DQUCB", {}, workloads.lake_problem, 6_000),
}


def environment(folder: Path, packages: Iterable[str] = PACKAGES) -> Path:
    """The interpreter of the peers' environment, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "complete").touch()
    return python


def measure(python: Path, rounds: int) -> list[dict[str, Any]]:
    """The fastest round of each peer and of ours, in turn."""
    theirs: dict[str, list[Any]] = {name: [] for name in OURS}
    ours: dict[str, list[float]] = {name: [] for name in OURS}
    for agent, given, problem, episodes in OURS.values():
        workloads.train(workloads.agent(agent, **given), problem(episodes), episodes)  # compiles
    for _ in range(rounds):
        done = subprocess.run([str(python), str(WORK)], check=True, capture_output=True, text=True)
        for name, speed in json.loads(done.stdout.strip().splitlines()[-1]).items():
            theirs[name].append(speed)
        for name, (agent, given, problem, episodes) in OURS.items():
            timed = workloads.train(workloads.agent(agent, **given), problem(episodes), episodes)
            ours[name].append(1.0 / timed.per_step)
    rows = []
    for name, (agent, given, _, _) in OURS.items():
        speeds = [speed for speed in theirs[name] if not isinstance(speed, str)]
        row: dict[str, Any] = {
            "peer": name,
            "ours": agent + " shared steps" * bool(given),
            "our_steps_per_second": max(ours[name]),
        }
        if speeds:
            row |= {"peer_steps_per_second": max(speeds), "ratio": max(ours[name]) / max(speeds)}
        else:
            row["failed"] = theirs[name][0]
        rows.append(row)
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table of ratios."""
    lines = ["| peer | steps/s | ours | steps/s | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        mine = f"{row['ours']} | {row['our_steps_per_second']:,.0f}"
        if "failed" in row:
            lines.append(f"| {row['peer']} | failed: {row['failed']} | {mine} | - |")
        else:
            speed, ratio = row["peer_steps_per_second"], row["ratio"]
            lines.append(f"| {row['peer']} | {speed:,.0f} | {mine} | {ratio:,.{0 if ratio >= 10 else 1}f} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/peers"))
    parser.add_argument("--venv", type=Path, default=Path(".venv-peers"), help="the peers' virtual environment")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    with workloads.one_core():
        rows = measure(environment(options.venv.resolve()), options.rounds)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "peers.json").write_text(json.dumps(rows, indent=1) + "\n")
    (options.out / "peers.md").write_text(markdown(rows))
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
