"""Measure change detectors on generated families: `python -m dqucb.drift.benchmark [--quick] [--out DIR]`.

Parts: `rate` (false alarms per armed update on streams without a change, and on policy placebos), `delay` (the same
families with their change) and `cost` (CPU time of an update). Rows are added to DIR/drift.json as soon as they are
measured. A run that was stopped continues with the same command: rows of the same code and settings are not measured
again.
"""

import argparse
import difflib
import hashlib
import importlib
import json
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import dqucb.drift
from dqucb import _validate as check
from dqucb._fingerprint import UnidentifiedError, fingerprint
from dqucb._kernels._cache import SOURCES
from dqucb.drift.benchmark import ADAPTERS, FAMILIES, Adapter, delays, draw, false_alarms, report
from dqucb.drift.benchmark.adapters import calibrate

CALIBRATION_SEED = 1_000_000  # settings of others are calibrated on seeds from here on
CALIBRATION_STREAMS = 5
PARTS = ("rate", "delay", "cost")


def cost(repeats: int) -> list[dict[str, Any]]:
    """CPU time of an update of ours, the best of several runs."""
    rng = np.random.default_rng(0)
    rows: list[tuple[str, Any, Any, Any]] = []
    for dimensions, actions in ((1, 1), (3, 1), (10, 2)):
        X, U = rng.standard_normal((4_000, dimensions)), rng.standard_normal((4_000, actions))
        Y = 0.9 * X + 0.1 * rng.standard_normal(X.shape)
        detector = dqucb.drift.ContinuousDriftDetector(burn_in=500)
        rows.append((f"continuous, {dimensions} + {actions} dimensions", _one_by_one, detector, (X, U, Y)))
    s, a = rng.integers(0, 16, 200_000), rng.integers(0, 4, 200_000)
    columns = s, a, (s + a + (rng.random(s.size) < 0.1)) % 16
    lists = tuple(column[:20_000].tolist() for column in columns)
    rows.append(("finite, from Python", _one_by_one, dqucb.drift.FiniteDriftDetector(16, 4), lists))
    rows.append(("finite, update_many", _together, dqucb.drift.FiniteDriftDetector(16, 4), columns))
    return [
        {"family": name, "detector": "ours", "microseconds": 1e6 * min(run(detector, data) for _ in range(repeats))}
        for name, run, detector, data in rows
    ]


def _one_by_one(detector: Any, columns: tuple[Any, Any, Any]) -> float:
    began = time.process_time()
    for transition in zip(*columns, strict=True):
        detector.update(*transition)
    return (time.process_time() - began) / len(columns[0])


def _together(detector: Any, columns: tuple[Any, Any, Any]) -> float:
    began = time.process_time()
    used = detector.update_many(*columns)
    return (time.process_time() - began) / int(used)


@cache
def setting_of(adapter: Adapter, name: str) -> float | None:
    """The calibrated setting of a detector that has a grid, on seeds of its own; None if it is asked for a rate.

    Parameters
    ----------
    adapter : Adapter
        The detector.
    name : str
        The family on whose streams without a change it is calibrated.
    """
    if adapter.grid is None:
        return None
    seeds = range(CALIBRATION_SEED, CALIBRATION_SEED + CALIBRATION_STREAMS)
    return calibrate(adapter, [draw(name, seed, changes=False) for seed in seeds])


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m dqucb.drift.benchmark",
        description=__doc__,
        epilog="families:\n  " + "\n  ".join(FAMILIES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="two families, two seeds: a test of the benchmark itself")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by ',' (default: all)")
    parser.add_argument("--families", default="", help="only names that contain one of these, separated by ';'")
    parser.add_argument("--kind", choices=("finite", "continuous"), default=None, help="only families of this kind")
    parser.add_argument(
        "--detectors", default="ours", help=f"of {', '.join(ADAPTERS)}, separated by ','; or 'all' (default: ours)"
    )
    parser.add_argument(
        "--adapter", action="append", default=[], metavar="MODULE:NAME", help="an Adapter of your own; may be repeated"
    )
    parser.add_argument("--seeds", type=int, default=20, help="streams of each family (default: 20)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20_000, help="length of the streams that measure false alarms")
    parser.add_argument("--rates", default="1e-3,1e-4", help="false alarms per update that are asked for")
    parser.add_argument("--delay-rate", type=float, default=1e-6, help="the same for delays (default: 1e-6)")
    parser.add_argument("--visits", type=int, default=None, help="updates per pair before the change of finite streams")
    parser.add_argument("--again", action="store_true", help="measure rows again that are in DIR/drift.json")
    parser.add_argument("--out", type=Path, default=Path("out/drift"), metavar="DIR")
    return parser.parse_args(arguments)


def chosen_families(options: argparse.Namespace) -> list[str]:
    """The names that the options ask for; a ValueError if there are none."""
    parts = [part.strip() for part in options.families.split(";") if part.strip()]
    names = [
        name for name, family in FAMILIES.items()
        if options.kind in (None, family.kind) and (not parts or any(part in name for part in parts))
    ]  # fmt: skip
    if not names:
        kept = [name for name, family in FAMILIES.items() if options.kind in (None, family.kind)]
        near = difflib.get_close_matches(options.families, kept, 3, 0.4) or kept
        raise ValueError(f"families must be parts of names such as {'; '.join(near)}, got {options.families!r}")
    return names


def chosen_adapters(options: argparse.Namespace) -> list[Adapter]:
    """The detectors that the options ask for, those of the user's own last."""
    names = list(ADAPTERS) if options.detectors == "all" else [name for name in options.detectors.split(",") if name]
    found = [ADAPTERS[check.one_of("detectors", name, tuple(ADAPTERS))] for name in names]
    for given in options.adapter:
        module, _, name = given.partition(":")
        adapter = getattr(importlib.import_module(module), name, None) if name else None
        if not isinstance(adapter, Adapter):
            raise ValueError(f"adapter must be MODULE:NAME of an Adapter, got {given!r}")
        found.append(adapter)
    return found


def code_of(adapter: Adapter) -> str | None:
    """A digest of the code behind a row; None if the adapter cannot be identified, and its rows not be reused."""
    files = sorted(Path(dqucb.drift.__file__).parent.rglob("*.py"))
    try:
        parts = [SOURCES, fingerprint(adapter), *(path.read_text(encoding="utf-8") for path in files)]
    except UnidentifiedError:
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the parts that are asked for and write the report."""
    options = parsed(arguments)
    try:
        names, adapters = chosen_families(options), chosen_adapters(options)
        parts = [check.one_of("parts", part, PARTS) for part in options.parts.split(",")]
        rates = [check.real("rates", float(text), 0.0, 0.1, open_left=True) for text in options.rates.split(",")]
    except ValueError as error:
        if arguments is None:
            sys.exit(f"error: {error}")
        raise
    if options.quick:
        names, options.seeds, options.steps = ["linear 1-3, mean", "finite, sparse rows"], 2, 6_000
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    results = report.read(options.out)
    results["command"] = "python -m dqucb.drift.benchmark " + " ".join(sys.argv[1:] if arguments is None else arguments)

    def add(part: str, row: dict[str, Any]) -> None:
        print(json.dumps(row), flush=True)
        results[part] = report.merged(results.get(part, []), [row])
        report.write(results, options.out, picture=False)  # a long run keeps what is done

    asked = [("rate", rate) for rate in rates] + [("delay", options.delay_rate)]
    codes = {adapter.name: code_of(adapter) for adapter in adapters}
    for name, adapter, (part, rate) in product(names, adapters, asked):
        if part not in parts or (part == "delay" and FAMILIES[name].placebo):
            continue
        request = {"family": name, "detector": adapter.name, "asked": rate, "streams": len(seeds)}
        request |= {"first_seed": seeds.start, "steps": options.steps if part == "rate" else FAMILIES[name].steps}
        request |= {"code": codes[adapter.name]} | ({"visits": options.visits} if part == "delay" else {})
        known = any(request.items() <= row.items() for row in results.get(part, []))
        if known and request["code"] is not None and not options.again:
            continue
        setting = setting_of(adapter, name)
        if part == "rate":
            row = false_alarms(adapter, name, seeds, rate, steps=options.steps, setting=setting)
        else:
            row = delays(adapter, name, seeds, rate, visits=options.visits, setting=setting)
        add(part, row | request)
    if "cost" in parts:
        for row in cost(1 if options.quick else 5):
            add("cost", row)
    report.write(results, options.out)
    return results


if __name__ == "__main__":
    main()
