"""From a fresh clone to the first picture: CPU and wall seconds of each phase of `make run`.

`python -m benchmarks.start_clone` clones this repository into an empty folder and does what `make run` does, phase by
phase, with an empty kernel cache and a virtual environment of its own. CPU seconds are those of all processes that a
phase starts. How long a download takes depends on the network. The table ends with `make run` in a second fresh clone,
as a user would type it, `make run` again there with nothing left to do, and `pip install .` into an empty environment.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
AGENTS = "planning-dqucb,dqucb,qucb,ucbvi,ucbmq"
BARS = {"make run": (150.0, 100.0), "pip install .": (80.0, None)}  # at most: CPU seconds, wall seconds


class Phase(NamedTuple):
    """Seconds of one phase, and the longest silence of its output."""

    cpu: float
    wall: float
    silence: float


def run(command: list[str], folder: Path, **environment: str) -> Phase:
    """Run a command to its end and measure it with all that it starts."""
    ours = ("NUMBA_", "PYTHONPATH", "VIRTUAL")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    last = silence = 0.0
    with subprocess.Popen(
        command, cwd=folder, env=plain | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            now = time.monotonic() - began
            last, silence = now, max(silence, now - last)
    wall = time.monotonic() - began
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{''.join(lines[-20:])}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Phase(cpu, wall, max(silence, wall - last))


def clone(folder: Path, name: str) -> Path:
    """A fresh clone of the repository as it is committed."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / name)], check=True)
    return folder / name


def phases(folder: Path) -> dict[str, Phase]:
    """Every phase of `make run` by itself."""
    here = clone(folder, "phases")
    python, dqucb = (str(here / ".venv" / "bin" / name) for name in ("python", "dqucb"))
    pins = {"PIP_CONSTRAINT": str(here / "constraints.txt"), "PIP_BUILD_CONSTRAINT": str(here / "constraints.txt")}
    pip = [python, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--quiet"]
    needed = tomllib.loads((here / "pyproject.toml").read_text())["project"]["dependencies"]
    lake = [dqucb, "run", "frozen-lake", "--agents", AGENTS]
    cache = {"NUMBA_CACHE_DIR": str(here / ".numba_cache")}
    steps: dict[str, Callable[[], Phase]] = {
        "virtual environment": lambda: run([sys.executable, "-m", "venv", str(here / ".venv")], here),
        "packages: download and unpack": lambda: run([*pip, *needed], here, **pins),
        "Cython and the C compiler": lambda: run([*pip, "--no-deps", "-e", "."], here, **pins),
        "imports, compiled to bytecode": lambda: run([dqucb, "list"], here, **cache),
        "kernels of five agents": lambda: run([*lake, "--episodes", "3", "--seeds", "1", "--out", "x"], here, **cache),
        "50 runs": lambda: run([*lake, "--seeds", "10", "--out", "out/lake"], here, **cache),
        "pictures": lambda: run([dqucb, "plot", "out/lake"], here, **cache),
        "report": lambda: run([dqucb, "report", "out/lake"], here, **cache),
    }
    return {name: _measured(name, step) for name, step in steps.items()}


def whole(folder: Path) -> dict[str, Phase]:
    """The commands of a user."""
    here = clone(folder, "whole")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "plain")], check=True)
    pip = [str(folder / "plain" / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "."]
    steps = {
        "make run": lambda: run(["make", "run"], here),
        "make run again": lambda: run(["make", "run"], here),
        "pip install .": lambda: run(pip, clone(folder, "installed")),
    }
    return {name: _measured(name, step) for name, step in steps.items()}


def _measured(name: str, step: Callable[[], Phase]) -> Phase:
    print(f"{name} ...", file=sys.stderr, flush=True)
    return step()


def table(found: dict[str, Phase]) -> str:
    """The report as Markdown."""
    lines = ["| phase | CPU, s | wall, s | longest silence, s | at most |", "|---|---|---|---|---|"]
    for name, phase in found.items():
        cpu, wall = BARS.get(name, (None, None))
        limits = ", ".join(f"{limit:.0f} s {kind}" for limit, kind in ((cpu, "CPU"), (wall, "wall")) if limit)
        kept = (cpu is None or phase.cpu <= cpu) and (wall is None or phase.wall <= wall)
        verdict = f"{limits}: {'holds' if kept else 'MISSED'}" if limits else ""
        lines.append(f"| {name} | {phase.cpu:.1f} | {phase.wall:.1f} | {phase.silence:.1f} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", choices=["phases", "whole", "both"], default="both")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "start")
    arguments = parser.parse_args()
    found: dict[str, Phase] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for part, measure in (("phases", phases), ("whole", whole)):
            if arguments.parts in (part, "both"):
                found |= measure(Path(scratch))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "start_clone.json").write_text(json.dumps({n: p._asdict() for n, p in found.items()}, indent=1))
    print(table(found))


if __name__ == "__main__":
    main()
