"""What a user waits for on a fresh installation: import, the first `train` of an agent, and all agents.

`python -m benchmarks.start --fresh` builds a wheel, installs it into a new virtual environment and measures there;
without `--fresh` it measures the environment that it runs in. Each figure is a process of its own. "shipped": an empty
cache folder, so only what the installation brought along; "compiled": the same without that; "kept": what "compiled"
left in its cache, which is what a user has on the second run where nothing is shipped. `--shipped` leaves out what
compiles, minutes of CPU time; "kept" is then the second use in one process, which is stricter. Seconds of CPU time, the
least of some rounds, because waiting on a shared machine says nothing; the wall clock is in the JSON file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
AGENTS = ("DQUCB", "QUCB", "UCBVI", "PlanningDQUCB")
IMPORT_RATIO, ALL_AGENTS_SECONDS, WHEEL_MB = 0.8, 10.0, 15.0

_TIMED = """
import json, time
import numba, dqucb, dqucb.agents
from dqucb._kernels._cache import progress
{before}
wall, cpu = time.perf_counter(), time.process_time()
{code}
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, progress.begun]))
"""
_TRAIN = "dqucb.{agent}().train(dqucb.gridworld(noise=0.1), episodes=1_000)"


class Measured(NamedTuple):
    """Seconds of one process, and the kernels that it compiled."""

    cpu: float
    wall: float
    compiled: int


def _plain_environment() -> dict[str, str]:
    """This one without what would choose other code."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHONPATH"))}


class Place:
    """A Python to measure, away from the checkout so that it finds the installed package."""

    def __init__(self, python: str, folder: Path, path: str | None) -> None:
        self.python, self.folder, self.path = python, folder, path

    def run(self, code: str, cache: Path, **environment: str) -> str:
        """The standard output of a fresh process."""
        paths = {"PYTHONPATH": self.path} if self.path else {}
        settings = {**_plain_environment(), **paths, "NUMBA_CACHE_DIR": str(cache), **environment}
        return subprocess.run(
            [self.python, "-c", code], cwd=self.folder, env=settings, check=True, capture_output=True, text=True
        ).stdout

    def time(self, code: str, cache: Path, before: str = "", **environment: str) -> Measured:
        """How long `code` takes once dqucb and its agents are imported, and `before` has run."""
        timed = _TIMED.format(before=before, code=code)
        return Measured(*json.loads(self.run(timed, cache, **environment).splitlines()[-1]))

    def imported(self, name: str) -> Measured:
        """How long an import takes in a fresh process."""
        code = f"import time; w, c = time.perf_counter(), time.process_time()\nimport {name}\n"
        code += "print(time.process_time() - c, time.perf_counter() - w, 0)"
        cpu, wall, _ = self.run(code, self.folder / "unused").split()
        return Measured(float(cpu), float(wall), 0)


def fresh_place(folder: Path, wheel: Path | None) -> tuple[Place, float]:
    """A new virtual environment with a wheel, which is built if there is none, and the wheel's megabytes."""
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    outside: dict[str, Any] = {"check": True, "cwd": folder, "env": _plain_environment()}
    if wheel is None:
        with_kernels = {**outside, "env": {**outside["env"], "DQUCB_AOT": "1"}}
        command = [sys.executable, *pip, "wheel", "--no-deps", "-w", str(folder / "dist"), str(ROOT)]
        subprocess.run(command, **with_kernels)
        (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    subprocess.run([python, *pip, "install", str(wheel.resolve())], **outside)
    return Place(python, folder, None), wheel.stat().st_size / 1e6


def host_cpu(place: Place) -> dict[str, str]:
    """Asking Numba for the very CPU that it would choose anyway leaves shipped kernels out and changes nothing else."""
    code = "import llvmlite.binding as b; print(b.get_host_cpu_name())"
    return {"NUMBA_CPU_NAME": place.run(code, place.folder / "unused").strip()}


def least(times: list[Measured]) -> Measured:
    """The round with the least CPU time."""
    return min(times, key=lambda measured: measured.cpu)


def measure(place: Place, rounds: int, compiling: bool) -> dict[str, Any]:
    """Everything but the wheel."""
    host = host_cpu(place)
    imports = {name: least([place.imported(name) for _ in range(2 * rounds)]) for name in ("numba", "dqucb")}
    rows: dict[str, dict[str, Measured]] = {}
    codes = {name: _TRAIN.format(agent=name) for name in AGENTS} | {"all agents": "dqucb.warmup()"}
    for name, code in codes.items():
        with tempfile.TemporaryDirectory(dir=place.folder) as caches:
            row = rows[name] = {}
            if compiling:
                row["compiled"] = place.time(code, Path(caches, "own"), **host)
                row["kept"] = least([place.time(code, Path(caches, "own"), **host) for _ in range(rounds)])
            else:
                row["kept"] = least([place.time(code, Path(caches, f"twice-{i}"), code) for i in range(rounds)])
            row["shipped"] = least([place.time(code, Path(caches, f"empty-{i}")) for i in range(rounds)])
        print(f"{name}: measured", file=sys.stderr, flush=True)
    return {
        "imports": {name: measured._asdict() for name, measured in imports.items()},
        "start": {name: {kind: found._asdict() for kind, found in row.items()} for name, row in rows.items()},
    }


def verdicts(report: dict[str, Any]) -> list[tuple[str, float, float]]:
    """(what, measured, at most) for each bar."""
    imports = {name: entry["cpu"] for name, entry in report["imports"].items()}
    found = [("import dqucb / import numba", imports["dqucb"] / imports["numba"], IMPORT_RATIO)]
    for name, row in report["start"].items():
        shipped, warm = row["shipped"]["cpu"], row["kept"]["cpu"]
        limit = ALL_AGENTS_SECONDS if name == "all agents" else 2 * warm + 1
        found.append((f"first use, {name}, s", shipped, limit))
    if report["wheel_mb"] is not None:
        found.append(("wheel, MB", report["wheel_mb"], WHEEL_MB))
    return found


def table(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "| first use in a fresh process | compiled, s | kept, s | shipped, s | kernels compiled |",
        "|---|---|---|---|---|",
    ]
    for name, row in report["start"].items():
        kinds = ("compiled", "kept", "shipped")
        times = " | ".join(f"{row[kind]['cpu']:.2f}" if kind in row else "-" for kind in kinds)
        compiled = [str(row[kind]["compiled"]) for kind in ("compiled", "shipped") if kind in row]
        lines.append(f"| {name} | {times} | {' / '.join(compiled)} |")
    lines += ["", "| bar | measured | at most | holds |", "|---|---|---|---|"]
    for what, measured, limit in verdicts(report):
        lines.append(f"| {what} | {measured:.2f} | {limit:.2f} | {'yes' if measured <= limit else 'NO'} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and write a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="build a wheel and measure it in a new environment")
    parser.add_argument("--wheel", type=Path, help="with --fresh: a wheel that is there already")
    parser.add_argument("--shipped", action="store_true", help="measure nothing that compiles")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="end with an error if a bar is missed")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "start")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        place, wheel = (
            fresh_place(folder, arguments.wheel)
            if arguments.fresh
            else (Place(sys.executable, folder, str(ROOT)), None)
        )
        report = {
            "wheel_mb": wheel,
            "at": time.strftime("%Y-%m-%d %H:%M"),
            **measure(place, arguments.rounds, not arguments.shipped),
        }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "start.json").write_text(json.dumps(report, indent=1))
    print(table(report))
    return int(arguments.check and any(measured > limit for _, measured, limit in verdicts(report)))


if __name__ == "__main__":
    sys.exit(main())
