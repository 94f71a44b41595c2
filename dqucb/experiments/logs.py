"""`load_logs`: runs that other libraries made, as a `Comparison` with the same tables, statistics, pictures and report.

It reads three kinds of files:

- Stable-Baselines3's `monitor.csv`: a line of JSON after "#", then r, l, t (return, length, seconds) of each episode.
  Files 0.monitor.csv, 1.monitor.csv, ... of one folder are the copies of one vectorised environment: one run.
- Event files of TensorBoard (`events.out.tfevents.*`), by the package tensorboard: the series `rollout/ep_rew_mean`, or
  the one that `tag` names.
- A table with a heading: agent, seed, step or episode, and return; in any order, other columns are passed over.

In a folder, the first folder below it names the agent (`logs/dqn/run_1/monitor.csv` is a run of dqn); for files that
lie in the folder itself, it is their name without the number at its end (`dqn_1.monitor.csv`).
"""

import csv
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.experiments import manifest
from dqucb.experiments.comparison import Comparison, trace
from dqucb.run import Run, versions

TAG = "rollout/ep_rew_mean"  # of Stable-Baselines3's event files
UNITS = {"step": "steps", "episode": "episodes"}  # the column of a table -> what it counts
_UNEQUAL = 1.1  # lengths of runs that differ by more are mentioned


class _Curve(NamedTuple):
    """Returns of one run, the step or episode at which each was known, and the seconds that the run took."""

    ends: NDArray[np.int64]
    returns: NDArray[np.float64]
    seconds: float


def load_logs(
    source: str | os.PathLike[str] | Mapping[str, Iterable[str | os.PathLike[str]]],
    *,
    problem: str | None = None,
    change_at: Iterable[int] = (),
    tag: str = TAG,
) -> Comparison:
    """Runs that other libraries made.

    Parameters
    ----------
    source : path or mapping of str to list of path
        A CSV table, a folder of logs, or agent -> one log file (or folder of a vectorised environment) per seed.
    problem : str, optional
        What to call the problem; by default the name of the environment in monitor files, or of the source.
    change_at : list of int
        Where the environment changed, in the unit of the logs (steps, or episodes for a table by episode).
    tag : str
        The series of TensorBoard files.

    Returns
    -------
    Comparison
        Compared by mean return. Seeds are numbered from 0 in the order of the files' names.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "mine.csv"
    ...     size = table.write_text("agent,seed,episode,return\\nmine,0,1,3\\nmine,0,2,5\\n")
    ...     load_logs(table).final("mine")
    {0: 4.0}
    """
    found: dict[tuple[str, int], _Curve]
    unit, name = "steps", problem
    if isinstance(source, Mapping):
        files = {str(label): [Path(path) for path in paths] for label, paths in source.items()}
        found = _curves(files, tag)
    elif (path := Path(source)).is_dir():
        files = _files(path)
        found = _curves(files, tag)
    elif path.is_file() and not _is_log(path):
        files = {}
        found, unit = _table(path)
    elif path.is_file():
        files = {_agent_name(path.name): [path]}
        found = _curves(files, tag)
    else:
        raise ValueError(f"source must be a CSV table, a log file or a folder of logs, got {str(source)!r}: not there")
    name = name or _env_of(files) or (Path(source).stem if not isinstance(source, Mapping) else "logs")
    return _comparison(found, unit, name, tuple(change_at))


def _comparison(
    found: dict[tuple[str, int], _Curve], unit: str, problem: str, change_at: tuple[int, ...]
) -> Comparison:
    labels = list(dict.fromkeys(label for label, _ in found))
    seeds = {label: [seed for each, seed in found if each == label] for label in labels}
    last = {place: int(curve.ends[-1]) for place, curve in found.items()}
    length = max(last.values())
    changes = _validate.increasing("change_at", change_at)
    if len(changes) and changes[-1] >= length:
        raise ValueError(f"change_at must be below the length of the runs, {length:,}, got {int(changes[-1])}")
    settings: dict[str, Any] = {
        "problem": {"problem": problem}, "length": length, "unit": unit, "regret": "none",
        "change_at": [int(each) for each in changes],
        "seeds": sorted({seed for numbers in seeds.values() for seed in numbers}),
        "agents": {label: {"agent": label, "parameters": {}, "seeds": seeds[label]} for label in labels},
    }  # fmt: skip
    runs = {
        (label, seed): Run(
            returns=curve.returns,
            gaps=np.full(len(curve.ends), np.nan),
            likelihood=np.ones(len(curve.ends)),
            lengths=np.diff(curve.ends, prepend=0) if unit == "steps" else np.ones(len(curve.ends), np.int64),
            ends=curve.ends,
            seconds=curve.seconds,
            seed=seed,
            agent=label,
            parameters={},
            problem={"problem": problem},
            unit=unit,
            change_at=tuple(settings["change_at"]),
            regret_form="realized",
            versions=versions(),
        )
        for (label, seed), curve in found.items()
    }
    notes = ["these runs were made elsewhere and read from log files: they are compared by their mean return"]
    if length > _UNEQUAL * min(last.values()):
        notes.append(
            f"the runs end between {min(last.values()):,} and {length:,} {unit}: curves go on at their last value"
        )
    return Comparison(
        settings=settings,
        traces={place: trace(run) for place, run in runs.items()},
        trials={},
        load_run=lambda label, seed: runs[label, seed],
        manifest=manifest.new(settings, "dqucb.experiments.load_logs(...)"),
        notes=notes,
    )


# ---- which files -----------------------------------------------------------------------------------------


def _is_monitor(path: Path) -> bool:
    return path.name == "monitor.csv" or path.name.endswith(".monitor.csv")


def _is_log(path: Path) -> bool:
    return _is_monitor(path) or ".tfevents." in path.name


def _agent_name(name: str) -> str:
    """`dqn_1.monitor.csv` and `dqn-01.monitor.csv` as `dqn`."""
    stem = name.partition(".")[0]
    return re.sub(r"[-_ ]?\d+$", "", stem) or stem


def _files(folder: Path) -> dict[str, list[Path]]:
    """Agent -> its logs below a folder; numbered copies of a vectorised environment are one log: their folder."""
    found: dict[str, dict[Path, None]] = defaultdict(dict)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and _is_log(path)):
        parts = path.relative_to(folder).parts
        copy = re.fullmatch(r"\d+\.monitor\.csv", path.name)
        log = path.parent if copy and len(parts) > 1 else path
        found[parts[0] if len(parts) > 1 else _agent_name(path.name)][log] = None
    if not found:
        raise ValueError(f"{folder} must hold monitor.csv or TensorBoard files, got none")
    # A run with both kinds of file is read from the monitor file, which has every episode.
    kinds = {_is_monitor(log) or log.is_dir() for logs in found.values() for log in logs}
    return {
        label: [log for log in logs if len(kinds) == 1 or _is_monitor(log) or log.is_dir()]
        for label, logs in found.items()
    }


def _env_of(files: Mapping[str, list[Path]]) -> str | None:
    """The environment that the first monitor file names."""
    for log in (log for logs in files.values() for log in logs):
        paths = sorted(log.glob("*.monitor.csv")) if log.is_dir() else [log] if _is_monitor(log) else []
        for path in paths[:1]:
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            try:
                return str(json.loads(first.removeprefix("#"))["env_id"])
            except (ValueError, KeyError, TypeError):
                return None
    return None


def _curves(files: Mapping[str, list[Path]], tag: str) -> dict[tuple[str, int], _Curve]:
    found = {}
    for label in _validate.labels("agents", files):
        for seed, path in enumerate(files[label]):
            if not path.exists():
                raise ValueError(f"source must name files that exist, got {str(path)!r}")
            if path.is_dir() or _is_monitor(path):
                found[label, seed] = _monitor(sorted(path.glob("*.monitor.csv")) if path.is_dir() else [path])
            else:
                found[label, seed] = _events(path, tag)
    if not found:
        raise ValueError("source must name at least one log, got none")
    return found


# ---- the three kinds of files ----------------------------------------------------------------------------


def _monitor(paths: list[Path]) -> _Curve:
    """A run from Stable-Baselines3's monitor files; those of several copies of an environment are merged by time."""
    rows: list[tuple[float, float, int]] = []
    for path in paths:
        lines = _text(path).splitlines()
        head = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
        table = csv.DictReader(lines[head:])
        if not {"r", "l", "t"} <= set(table.fieldnames or ()):
            raise ValueError(f"{path}: a monitor file needs the columns r, l and t, got {table.fieldnames}")
        for number, row in enumerate(table, head + 2):
            place = f"line {number} of {path}"
            length = _number(row["l"], "l", place)
            if length < 1 or length != int(length):
                raise ValueError(f"{place}: l must be a number of steps, got {row['l']!r}")
            rows.append((_number(row["t"], "t", place), _number(row["r"], "r", place), int(length)))
    if not rows:
        raise ValueError(f"{', '.join(map(str, paths)) or 'the folder'} must hold at least one finished episode")
    rows.sort(key=lambda row: row[0])
    seconds, returns, lengths = zip(*rows, strict=True)
    return _Curve(np.cumsum(np.array(lengths, np.int64)), np.array(returns, np.float64), float(max(seconds)))


def _events(path: Path, tag: str) -> _Curve:
    """A run from an event file of TensorBoard."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise ValueError(f"{path} needs the package tensorboard: pip install tensorboard") from None
    events = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
    known = events.Tags()["scalars"]
    if tag not in known:
        raise ValueError(f"tag must be a series of {path} ({', '.join(known) or 'it has none'}), got {tag!r}")
    by_step = {event.step: event for event in events.Scalars(tag) if event.step >= 1}
    if not by_step:
        raise ValueError(f"{path}: {tag} has no values")
    ordered = [by_step[step] for step in sorted(by_step)]
    returns = _validate.finite_array(f"{tag} of {path}", [event.value for event in ordered], 1)
    seconds = max(0.0, ordered[-1].wall_time - ordered[0].wall_time)
    return _Curve(np.array([event.step for event in ordered], np.int64), returns, seconds)


def _table(path: Path) -> tuple[dict[tuple[str, int], _Curve], str]:
    """All runs of a CSV table, and what it counts."""
    table = csv.DictReader(io.StringIO(_text(path)))
    names = {str(name).strip().lower(): name for name in table.fieldnames or ()}
    counted = [name for name in UNITS if name in names]
    if len(counted) != 1 or not {"agent", "seed", "return"} <= set(names):
        raise ValueError(
            f"{path} must have the columns agent, seed, return and one of step and episode, got {list(names)}"
        )
    points: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for number, row in enumerate(table, 2):
        place = f"line {number} of {path}"
        end, seed = (_number(row[names[name]], name, place) for name in (counted[0], "seed"))
        if seed < 0 or seed != int(seed) or end < 0 or end != int(end):
            raise ValueError(f"{place}: seed and {counted[0]} must be whole numbers of at least 0, got {row}")
        run = points[str(row[names["agent"]]), int(seed)]
        if int(end) in run:
            raise ValueError(f"{place}: {counted[0]} {int(end)} stands twice for one agent and seed")
        run[int(end)] = _number(row[names["return"]], "return", place)
    if not points:
        raise ValueError(f"{path} must hold at least one row, got none")
    from_zero = any(0 in run for run in points.values())  # counted from 0: the first episode ends at 1
    curves = {}
    for key, run in points.items():
        ends = np.array(sorted(run), np.int64)
        curves[key] = _Curve(ends + from_zero, np.array([run[end] for end in ends.tolist()]), 0.0)
    return curves, UNITS[counted[0]]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _number(text: str | None, column: str, place: str) -> float:
    try:
        value = float(text if text is not None and "_" not in text else "")
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(f"{place}: {column} must be a finite number, got {text!r}")
    return value
