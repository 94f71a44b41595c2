"""The complexity report: time and bytes by n, S, K and seeds, with fitted exponents and targets."""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import plots, workloads
from benchmarks.fits import Exponent, fit_exponent
from benchmarks.sweeps import (
    QUICK,
    REFIT,
    SWEEPS,
    Record,
    Settings,
    ceiling_step,
    curve_bytes,
    peak_memory,
    run_series,
)  # fmt: skip
from dqucb.run import versions

REFIT_FROM = 1_000  # below this window a refit costs the overhead of scikit-learn, not of the window


def measure(settings: Settings, sweeps: list[str]) -> list[Record]:
    """Every cell of the chosen sweeps, on one core."""
    records: list[Record] = []
    with workloads.one_core():
        for sweep in sweeps:
            for series in SWEEPS[sweep](settings):
                began = time.perf_counter()
                records += run_series(series, settings, ceiling_step)
                print(
                    f"{sweep:5} {series.workload:18} {series.name:16} {time.perf_counter() - began:6.1f} s", flush=True
                )
    return records


def exponents(records: list[Record]) -> list[dict[str, Any]]:
    """The fitted exponent of time per step and of bytes for each series."""
    found = []
    keys = dict.fromkeys((record.sweep, record.workload, record.series) for record in records)
    for sweep, workload, series in keys:
        cells = [r for r in records if (r.sweep, r.workload, r.series) == (sweep, workload, series) and not r.skipped]
        if sweep == "n" and series == REFIT:
            cells = [cell for cell in cells if cell.x >= REFIT_FROM]
        x = [cell.x for cell in cells]
        fits = {
            "time": fit_exponent(x, [cell.seconds_per_step or 0.0 for cell in cells]),
            "bytes": fit_exponent(x, [cell.nbytes or 0 for cell in cells]),
        }
        found.append(
            {
                "sweep": sweep,
                "workload": workload,
                "series": series,
                "from": x[0] if x else None,
                "to": x[-1] if x else None,
                **{what: fit._asdict() if fit else None for what, fit in fits.items()},
            }
        )
    return found


def targets(records: list[Record], fitted: list[dict[str, Any]], memory: dict[str, int]) -> list[dict[str, Any]]:
    """What the report must show, each with the figure behind it and whether it holds."""
    found = []

    def check(target: str, measured: float | None, holds: bool) -> None:
        found.append({"target": target, "measured": measured, "holds": bool(holds)})

    limits = {"DQUCB pair": 0.15, "DQUCB step": 0.6, "DQUCB shared": 0.6}
    for fit in fitted:
        limit = limits.get(fit["series"]) if fit["sweep"] == "n" else None
        if fit["sweep"] == "S" and fit["series"] == "DQUCB pair":
            limit = 0.2
        if limit is not None and fit["time"]:
            value = fit["time"]["value"]
            check(
                f"{fit['series']}, time per step in {fit['sweep']} on {fit['workload']}: exponent at most {limit}",
                value,
                value <= limit,
            )
    grid = {(r.series, r.x): r.seconds_per_step for r in records if r.sweep == "n" and r.workload == "GridWorld"}
    ours, refit = grid.get(("DQUCB pair", 100)), grid.get((REFIT, 100))
    if ours and refit:
        check("DQUCB n=100 on GridWorld at least 10,000 times the refit reference", refit / ours, refit / ours >= 1e4)
    short, long = grid.get(("DQUCB pair", 10)), grid.get(("DQUCB pair", 10_000))
    if short and long:
        check("DQUCB n=10,000 within 1.5 times n=10 on GridWorld", long / short, long <= 1.5 * short)
    if memory:
        extra = memory["peak_of_many"] - memory["peak_of_few"]
        check(
            f"peak memory of K={memory['many']:,} above K={memory['few']:,}: at most the stored curves (MB)",
            extra / 1e6,
            extra <= memory["curves_of_many"] * 1.05,  # 5 % for pages and the allocator
        )
    return found


def markdown(fitted: list[dict[str, Any]], checks: list[dict[str, Any]]) -> str:
    """The table for the README and the list of targets."""
    lines = [
        "| grows | workload | series | range | time per step ~ | bytes ~ |",
        "|---|---|---|---|---|---|",
    ]
    for fit in fitted:
        cells = [str(Exponent(**fit[what])) if fit[what] else "-" for what in ("time", "bytes")]
        span = f"{fit['from']:,} to {fit['to']:,}" if fit["from"] is not None else "-"
        variable = fit["sweep"]
        powers = [f"{variable}^{cell}" if cell != "-" else "-" for cell in cells]
        lines.append(f"| {variable} | {fit['workload']} | {fit['series']} | {span} | {powers[0]} | {powers[1]} |")
    lines += ["", "| target | measured | holds |", "|---|---|---|"]
    for item in checks:
        lines.append(f"| {item['target']} | {item['measured']:.3g} | {'yes' if item['holds'] else 'NO'} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.complexity", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/complexity"), help="folder for JSON, Markdown and plots")
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds: a check that the command works")
    parser.add_argument("--sweeps", default=",".join(SWEEPS), help="comma-separated: n, S, K, seeds")
    options = parser.parse_args(arguments)
    sweeps = options.sweeps.split(",")
    unknown = set(sweeps) - set(SWEEPS)
    if unknown:
        parser.error(f"--sweeps must be among {', '.join(SWEEPS)}, got {', '.join(sorted(unknown))}")
    settings = QUICK if options.quick else Settings()
    options.out.mkdir(parents=True, exist_ok=True)

    began = time.perf_counter()
    records = measure(settings, sweeps)
    memory: dict[str, int] = {}
    if not options.quick and "K" in sweeps:
        few, many = 10_000, 1_000_000
        peak_memory(100)  # a process that compiles has a higher peak: let the disk cache be warm
        memory = {
            "few": few,
            "many": many,
            "peak_of_few": peak_memory(few),
            "peak_of_many": peak_memory(many),
            "curves_of_many": curve_bytes(many) - curve_bytes(few),
        }
    fitted = exponents(records)
    checks = targets(records, fitted, memory)
    report = {
        "settings": asdict(settings),
        "versions": versions(),
        "seconds": time.perf_counter() - began,
        "records": [record.as_dict() for record in records],
        "exponents": fitted,
        "memory": memory,
        "targets": checks,
    }
    (options.out / "complexity.json").write_text(json.dumps(report, indent=1) + "\n")
    table = markdown(fitted, checks)
    (options.out / "complexity.md").write_text(table)
    for sweep in sweeps:
        plots.draw_sweep(records, sweep, options.out / f"complexity_{sweep}")
    print(table)
    for record in records:
        if record.skipped:
            print(f"skipped: {record.sweep}={record.x:,} {record.series} on {record.workload}: {record.skipped}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
