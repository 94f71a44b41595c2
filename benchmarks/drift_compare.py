"""Our detectors among others on the same streams, each of the others calibrated on placebos of other seeds."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import drift_peers as peers
from benchmarks.drift_streams import Stream, length_of, still, still_name, stored

Series = NDArray[np.float64]


def compare(names: list[str], seeds: range, calibration: range, asked: float, folder: Path) -> list[dict[str, Any]]:
    """Rows for each family and detector.

    `folder` holds a file for each family and number that is done; it is not run again.
    """
    out = []
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for number in ("ours", *peers.NUMBERS):
            path = folder / f"{name}, {number}, {seeds.start} to {seeds.stop}.json".replace(" ", "_")
            if not path.exists():
                rows = _ours(name, seeds, asked) if number == "ours" else _others(name, number, seeds, calibration)
                path.write_text(json.dumps(rows, indent=2))
            out += json.loads(path.read_text())
    return out


@lru_cache(maxsize=2)  # families that differ in the change alone share their still streams
def _still_values(name: str, number: str, seeds: range, steps: int) -> list[Series]:
    return [peers.NUMBERS[number](still(name, seed, steps)) for seed in seeds]


def _others(name: str, number: str, seeds: range, calibration: range) -> list[dict[str, Any]]:
    steps, change = length_of(name)
    twin = still_name(name)
    quiet, placebo = (_still_values(twin, number, chosen, steps) for chosen in (calibration, seeds))
    changed = [peers.NUMBERS[number](stored(name, seed, change, steps)) for seed in seeds]
    out = []
    for rival in peers.peers():
        if rival.number == number:
            sensitivity = peers.calibrate(rival, quiet)
            first = [[rival.run(values, sensitivity) for values in series] for series in (changed, placebo)]
            out.append(_row(name, label_of(rival), sensitivity, first[0], first[1], change, seeds))
    return out


def on_other_policies(rows: list[dict[str, Any]], names: list[str], seeds: range) -> list[dict[str, Any]]:
    """The others, as sensitive as in `rows` (of `compare`), where the policy changes and the world does not."""
    out = []
    for name in names:
        steps, change = length_of(name)
        streams = [stored(name, seed, change, steps) for seed in seeds]
        known = {row["detector"]: row for row in rows if row["stream"].split()[0] == name.split(",")[0]}
        for rival in peers.peers():
            if label_of(rival) in known:
                sensitivity = known[label_of(rival)]["sensitivity"]
                first = [rival.run(peers.NUMBERS[rival.number](stream), sensitivity) for stream in streams]
                row = {
                    "stream": name, "detector": label_of(rival), "sensitivity": sensitivity, "first_seed": seeds.start,
                    "seeds": len(seeds), "alarms": sum(alarm is not None and alarm >= change for alarm in first),
                    "early_alarms": sum(alarm is not None and alarm < change for alarm in first),
                }  # fmt: skip
                print(json.dumps(row), flush=True)
                out.append(row)
    return out


def label_of(rival: peers.Peer) -> str:
    """How a detector is named in the tables."""
    return rival.name if rival.number == "our significance" else f"{rival.name} on {rival.number}"


def _ours(name: str, seeds: range, asked: float) -> list[dict[str, Any]]:
    steps, change = length_of(name)

    def first(stream: Stream) -> int | None:
        return next((alarm for alarm, _ in peers.alarms_of(stream, peers.ours(stream, asked))), None)

    changed = [first(stored(name, seed, change, steps)) for seed in seeds]
    placebo = [first(still(name, seed, steps)) for seed in seeds]
    return [_row(name, "ours", asked, changed, placebo, change, seeds)]


def _row(name: str, detector: str, sensitivity: float, changed: list[int | None], placebo: list[int | None],
         change: int, seeds: range) -> dict[str, Any]:  # fmt: skip
    """What the first alarms of one detector on one family come to."""
    delays = [alarm - change for alarm in changed if alarm is not None and alarm >= change]
    row = {
        "stream": name, "detector": detector, "sensitivity": sensitivity, "first_seed": seeds.start,
        "seeds": len(seeds), "found": len(delays), "median_delay": float(np.median(delays)) if delays else None,
        "early_alarms": sum(alarm is not None and alarm < change for alarm in changed),
        "placebo_alarms": sum(alarm is not None for alarm in placebo),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row
