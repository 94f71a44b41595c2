"""Measure change detectors on generated families: `python -m dqucb.drift.benchmark [--quick] [--out DIR]`.

Parts: `rate` (false alarms per armed update on streams without a change, and on policy placebos), `delay` (the same
families with their change) and `cost` (CPU time of an update). A run adds its rows to those in DIR/drift.json.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.drift.benchmark import ADAPTERS, FAMILIES, Adapter, delays, draw, false_alarms, report
from dqucb.drift.benchmark.adapters import calibrate

CALIBRATION_SEED = 1_000_000  # settings of others are calibrated on seeds from here on


def cost(repeats: int) -> list[dict[str, Any]]:
    """CPU time of an update of ours, the best of several runs."""
    from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

    rng = np.random.default_rng(0)
    rows = []
    for dimensions, actions in ((1, 1), (3, 1), (10, 2)):
        X, U = rng.standard_normal((4_000, dimensions)), rng.standard_normal((4_000, actions))
        Y = 0.9 * X + 0.1 * rng.standard_normal(X.shape)
        detector = ContinuousDriftDetector(burn_in=500)
        seconds = min(_seconds(detector, (X, U, Y)) for _ in range(repeats))
        rows.append({"family": f"continuous, {dimensions} + {actions} dimensions", "detector": "ours",
                     "microseconds": 1e6 * seconds})  # fmt: skip
    s, a = rng.integers(0, 16, 20_000).tolist(), rng.integers(0, 4, 20_000).tolist()
    following = [(x + y + int(rng.random() < 0.1)) % 16 for x, y in zip(s, a, strict=True)]
    seconds = min(_seconds(FiniteDriftDetector(16, 4), (s, a, following)) for _ in range(repeats))
    rows.append({"family": "finite, from Python", "detector": "ours", "microseconds": 1e6 * seconds})
    return rows


def _seconds(detector: Any, columns: tuple[Any, Any, Any]) -> float:
    began = time.process_time()
    for transition in zip(*columns, strict=True):
        detector.update(*transition)
    return (time.process_time() - began) / len(columns[0])


def setting_of(adapter: Adapter, name: str, streams: int) -> float | None:
    """The calibrated setting of a detector that has a grid, on seeds of its own."""
    if adapter.grid is None:
        return None
    seeds = range(CALIBRATION_SEED, CALIBRATION_SEED + streams)
    return calibrate(adapter, [draw(name, seed, changes=False) for seed in seeds])


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two families, two seeds: a test of the benchmark itself")
    parser.add_argument("--parts", default="rate,delay,cost")
    parser.add_argument("--families", default="", help="only names that contain one of these, separated by ';'")
    parser.add_argument("--kind", choices=("finite", "continuous"), default=None)
    parser.add_argument("--detectors", default="ours", help=f"of {', '.join(ADAPTERS)}, separated by ','; or 'all'")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20_000, help="length of the streams that measure false alarms")
    parser.add_argument("--rates", default="1e-3,1e-4", help="false alarms per update that are asked for")
    parser.add_argument("--delay-rate", type=float, default=1e-6)
    parser.add_argument("--out", type=Path, default=Path("out/drift"))
    return parser.parse_args(arguments)


def chosen_families(options: argparse.Namespace) -> list[str]:
    """The names that the options ask for; a ValueError if there are none."""
    parts = [part.strip() for part in options.families.split(";") if part.strip()]
    names = [
        name for name, family in FAMILIES.items()
        if options.kind in (None, family.kind) and (not parts or any(part in name for part in parts))
    ]  # fmt: skip
    if not names:
        raise ValueError(f"families must match one of {', '.join(FAMILIES)}, got {options.families!r}")
    return names


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the parts that are asked for and write the report."""
    options = parsed(arguments)
    names = chosen_families(options)
    if options.quick:
        names, options.seeds, options.steps = ["linear 1-3, mean", "finite, sparse rows"], 2, 6_000
    detectors = list(ADAPTERS) if options.detectors == "all" else options.detectors.split(",")
    adapters = [ADAPTERS[check.one_of("detectors", name, tuple(ADAPTERS))] for name in detectors]
    parts = [check.one_of("parts", part, ("rate", "delay", "cost")) for part in options.parts.split(",")]
    rates = [check.real("rates", float(text), 0.0, 0.1, open_left=True) for text in options.rates.split(",")]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    results = report.read(options.out)
    results["command"] = "python -m dqucb.drift.benchmark " + " ".join(sys.argv[1:] if arguments is None else arguments)

    def add(part: str, row: dict[str, Any]) -> None:
        row["first_seed"] = options.first_seed
        print(json.dumps(row), flush=True)
        results[part] = report.merged(results.get(part, []), [row])

    for name in names:
        for adapter in adapters:
            setting = setting_of(adapter, name, 5) if {"rate", "delay"} & set(parts) else None
            if "rate" in parts:
                for rate in rates:
                    add("rate", false_alarms(adapter, name, seeds, rate, steps=options.steps, setting=setting))
            if "delay" in parts and not FAMILIES[name].placebo:
                add("delay", delays(adapter, name, seeds, options.delay_rate, setting=setting))
        report.write(results, options.out, picture=False)  # a long run keeps what is done
    if "cost" in parts:
        for row in cost(1 if options.quick else 5):
            add("cost", row)
    report.write(results, options.out)
    return results


if __name__ == "__main__":
    main()
