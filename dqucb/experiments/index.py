"""The index of a large folder: subsampled curves of its runs in a few files, so that 100,000 need not be opened.

    DIR/index/<name>.npz    the traces of up to `SHARD` runs, and size and time stamp of each of their files

Experiments with many runs write it while they run. It is derived from the runs and may be deleted. An entry is valid
only while the file of its run keeps its size and time stamp. A damaged part is ignored: its runs are read one by one.
"""

import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage
from dqucb._storage import SavedFileError
from dqucb.experiments.comparison import Trace

log = logging.getLogger("dqucb")

SHARD = 4_096  # runs per file
WORTH_WHILE = 1_000  # number of runs from which on an experiment is indexed
KIND = "Traces"
_CURVES = ("regret", "returns", "likelihood")
_NONE = -1  # a change that was not detected


class Index:
    """The traces of the runs in a folder, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder / "index", folder / "runs"

    def traces(self) -> dict[str, Trace]:
        """The traces of all runs whose files have not changed."""
        shards = sorted(self.folder.glob("*.npz"))
        if not shards:
            return {}
        stamps = _stamps(self.runs)
        found: dict[str, Trace] = {}
        for path in shards:
            try:
                found |= {key: trace for key, stamp, trace in _shard(path) if stamps.get(key) == stamp}
            except SavedFileError as error:
                log.warning("%s: its runs are read one by one", error)
        return found

    def problem_with(self, path: Path) -> str | None:
        """What is wrong with a part of the index."""
        try:
            for _ in _shard(path):
                pass
        except SavedFileError as error:
            return str(error)
        return None

    def add(self, traces: Mapping[str, Trace]) -> None:
        """Add finished runs, by key."""
        stamps = {key: _stamp(os.stat(self.runs / f"{key}.npz")) for key in traces}
        try:
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"{secrets.token_hex(8)}.npz"
            _storage.write_atomically(path, _storage.pack(KIND, *_packed(traces, stamps)))
        except OSError as error:  # a full disk: the runs themselves are stored
            log.warning("the index was not written: %s", error)


def _shard(path: Path) -> Iterator[tuple[str, tuple[int, int], Trace]]:
    """(key, stamp, trace) of each run in a part of the index; a `SavedFileError` if it is damaged."""
    try:
        yield from _unpacked(*_storage.load(path, KIND))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SavedFileError(f"{path}: not a readable index ({error})") from error


def _stamp(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    with os.scandir(folder) as entries:
        return {entry.name.removesuffix(".npz"): _stamp(entry.stat(follow_symlinks=False)) for entry in entries}


def _packed(
    traces: Mapping[str, Trace], stamps: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    each = list(traces.values())
    versions: list[Mapping[str, str]] = []
    for trace in each:
        if trace.versions not in versions:
            versions.append(trace.versions)
    delays = [[_NONE if delay is None else delay for delay in trace.delays] for trace in each]
    arrays: dict[str, NDArray[Any]] = {
        "keys": np.frombuffer(bytes.fromhex("".join(traces)), np.uint8).reshape(-1, 32),
        "stamps": np.array([stamps[key] for key in traces], np.int64),
        "points": np.array([len(trace.ends) for trace in each], np.int64),
        "ends": np.concatenate([trace.ends for trace in each]),
        **{name: np.concatenate([getattr(trace, name) for trace in each]) for name in _CURVES},
        "phase_regret": np.array([trace.phase_regret for trace in each], np.float64),
        "delays": np.array(delays, np.int64).reshape(len(each), -1),
        "numbers": np.array([(trace.mean_return, trace.seconds) for trace in each], np.float64),
        "counts": np.array([(trace.false_alarms, trace.steps, len(trace.alarms)) for trace in each], np.int64),
        "alarms": np.array([alarm for trace in each for alarm in trace.alarms], np.int64),
        "version": np.array([versions.index(trace.versions) for trace in each], np.int64),
    }
    return {"versions": [dict(found) for found in versions]}, arrays


def _unpacked(
    settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Iterator[tuple[str, tuple[int, int], Trace]]:
    """(key, stamp, trace) of each run. Invalid content is a ValueError, KeyError, TypeError or IndexError."""
    n, points = len(arrays["keys"]), arrays["points"]
    last, last_alarm = np.cumsum(points), np.cumsum(arrays["counts"][:, 2])
    whole = {"ends": int(last[-1]), **dict.fromkeys(_CURVES, int(last[-1])), "alarms": int(last_alarm[-1])}
    rows = ("stamps", "points", "phase_regret", "delays", "numbers", "counts", "version")
    for name, size in {**whole, **dict.fromkeys(rows, n)}.items():
        if len(arrays[name]) != size:
            raise ValueError(f"{name} must have {size} rows, got {len(arrays[name])}")
    if (points < 1).any() or (arrays["counts"] < 0).any() or arrays["keys"].shape[1:] != (32,):
        raise ValueError("points must be at least 1, counts at least 0, and keys of 32 bytes")
    versions = [dict(found) for found in settings["versions"]]
    keys, stamps = arrays["keys"].tobytes().hex(), arrays["stamps"].tolist()
    phase_regret, delays = arrays["phase_regret"].tolist(), arrays["delays"].tolist()
    numbers, counts, version = arrays["numbers"].tolist(), arrays["counts"].tolist(), arrays["version"].tolist()
    alarms = arrays["alarms"].tolist()
    first, first_alarm = (last - points).tolist(), (last_alarm - arrays["counts"][:, 2]).tolist()
    for i in range(n):
        place = slice(first[i], first[i] + int(points[i]))
        false_alarms, steps, n_alarms = counts[i]
        size, time = stamps[i]
        yield keys[64 * i : 64 * (i + 1)], (size, time), Trace(
            ends=arrays["ends"][place],
            **{name: arrays[name][place] for name in _CURVES},
            phase_regret=tuple(phase_regret[i]),
            mean_return=numbers[i][0],
            alarms=tuple(alarms[first_alarm[i] : first_alarm[i] + n_alarms]),
            delays=tuple(None if delay == _NONE else delay for delay in delays[i]),
            false_alarms=false_alarms,
            steps=steps,
            seconds=numbers[i][1],
            versions=versions[version[i]],
        )  # fmt: skip
