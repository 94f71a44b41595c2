"""The growth figures of benchmarks/README.md, written from a complexity report: `python -m benchmarks.readme`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.fits import WIDEST, Exponent
from benchmarks.sweeps import REFIT

BEGIN = "<!-- growth: written by `python -m benchmarks.readme` -->"
END = "<!-- end of growth -->"
ROWS = {
    "DQUCB pair": "in the window n, {span}, a window per (step, state, action)",
    "DQUCB step": "the same, a window per step",
    "DQUCB shared": "the same, one window for all",
    REFIT: "refitting two scikit-learn estimators every step, n from {first} on",
}
STATES = {
    "square GridWorlds": ("DQUCB pair", "QUCB", "UCBVI", "UCBMQ", "QUCB shared steps", "DQUCB shared steps",
                          "UCBVI shared steps", "PlanningDQUCB", "QUCB in C"),
    "GridWorlds without episodes": ("DQUCB", "QUCB", "PlanningDQUCB"),
}  # fmt: skip


def power(variable: str, fit: dict[str, Any] | None) -> str:
    """The fitted power of a variable; words where points are few or their interval says nothing."""
    if fit is None:
        return "too few points"
    exponent = Exponent(**fit)
    return f"{variable}^{exponent}" if exponent.high - exponent.low <= WIDEST else "no power law"


def growth(report: dict[str, Any]) -> str:
    """The tables of exponents in n and in S, and the speed-up over the refit reference."""
    fits = {(fit["sweep"], fit["workload"], fit["series"]): fit for fit in report["exponents"]}
    lines = ["| time per step | GridWorld 5x10 | FrozenLake 4x4 |", "|---|---|---|"]
    for series, text in ROWS.items():
        cells = [fits["n", workload, series] for workload in ("GridWorld", "FrozenLake")]
        words = text.format(span=f"{cells[0]['from']:,} to {cells[0]['to']:,}", first=f"{cells[0]['from']:,}")
        lines.append(f"| {words} | " + " | ".join(power("n", cell["time"]) for cell in cells) + " |")
    lines += ["", "| in the number of states S | states | time per step | bytes |", "|---|---|---|---|"]
    for workload, names in STATES.items():
        for name in names:
            fit = fits["S", workload, name]
            powers = [power("S", fit[what]) for what in ("time", "bytes")]
            lines.append(f"| {name}, {workload} | {fit['from']:,} to {fit['to']:,} | {powers[0]} | {powers[1]} |")
    grid = {
        (record["series"], record["x"]): record["seconds_per_step"]
        for record in report["records"]
        if (record["sweep"], record["workload"]) == ("n", "GridWorld")
    }
    ratio = grid[REFIT, 100] / grid["DQUCB pair", 100]
    lines += [
        "",
        f"With n = 100 DQUCB is {ratio:,.0f} times as fast as the refit reference on GridWorld.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("out/complexity/complexity.json"))
    parser.add_argument("--readme", type=Path, default=Path("benchmarks/README.md"))
    options = parser.parse_args(arguments)
    if not options.report.exists():
        parser.error(f"--report {options.report} is not there: run python -m benchmarks.complexity first")
    text = options.readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        parser.error(f"--readme {options.readme} must hold the lines {BEGIN} and {END} once each")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    table = growth(json.loads(options.report.read_text()))
    options.readme.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
