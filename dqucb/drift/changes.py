"""What `watch` found in a file: its changes, as text, JSON and a picture."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from dqucb import _storage


@dataclass(frozen=True)
class Change:
    """One alarm.

    Attributes
    ----------
    line, time : int, str or None
        Where the alarm came: the line of the file (the header is line 1) and its time.
    changed_at_line, changed_at_time : int, str or None
        Where the process changed, as estimated; None if that lies too far back.
    changed_between_lines : (int, int) or None
        Lines between which it changed, with a probability of 0.9.
    significance : float
        False-alarm rate, per row, of this statistic on unchanged data: the smaller, the surer.
    test : str
        The test that gave the alarm.
    coordinates : dict
        What changed, the most probable first: columns, or pairs of state and action.
    """

    line: int
    time: str | None
    changed_at_line: int | None
    changed_at_time: str | None
    changed_between_lines: tuple[int, int] | None
    significance: float
    test: str
    coordinates: dict[str, float]


@dataclass(frozen=True)
class BurnIn:
    """Lines in which no alarm could come, with their times."""

    first_line: int
    last_line: int
    first_time: str | None
    last_time: str | None


@dataclass
class WatchResult:
    """What `watch` found.

    Attributes
    ----------
    path : str
        The file.
    transitions : int
        How many were read.
    changes : list of Change
        The alarms, in order.
    false_alarms : float
        The rate that was asked for.
    columns : dict
        Which columns were read as what.
    skipped : int
        Rows that were left out since a value was missing.
    watching : bool
        Whether the burn-in was over at the end of the file; otherwise a change could not have been found there.
    burn_in : int
        Rows of a burn-in.
    burn_ins : list of BurnIn
        Where no alarm could come.
    trace : list of (line, statistic, time)
        The largest statistic of each block of lines, in units of the threshold.
    hint : str or None
        What might be asked for differently.
    """

    path: str
    false_alarms: float
    columns: dict[str, Any]
    transitions: int = 0
    changes: list[Change] = field(default_factory=list)
    skipped: int = 0
    watching: bool = False
    burn_in: int = 0
    burn_ins: list[BurnIn] = field(default_factory=list)
    trace: list[tuple[int, float, str | None]] = field(default_factory=list)
    hint: str | None = None

    @property
    def too_few(self) -> str | None:
        """Why nothing could have been found, in a sentence; None if something could."""
        if self.changes or (self.watching and self.transitions > 0):
            return None
        if self.transitions == 0:
            return f"{self.path}: no transitions: a change cannot be found without rows"
        return (
            f"{self.path}: {self.transitions} transitions are too few: no alarm can come in the burn-in of "
            f"{self.burn_in}; give more rows or a shorter burn_in (--burn-in)"
        )

    def to_json(self, path: str | os.PathLike[str] | None = None, *, trace: bool = False) -> str:
        """The result as JSON text, also written to `path` if one is given; with the trace only if it is asked for.

        Parameters
        ----------
        path : path-like, optional
            Where to write it.
        trace : bool
            Whether the statistic over the lines is part of it.
        """
        content = asdict(self)
        if not trace:
            del content["trace"]
        text = json.dumps(content, indent=2, allow_nan=False)
        if path is not None:
            _storage.write_atomically(Path(path), text.encode())
        return text

    def picture(self, path: str | os.PathLike[str]) -> Path:
        """Draw the statistic, changes and burn-ins into an image file (.png, .svg, .pdf), over time if it is known."""
        from matplotlib.figure import Figure

        path = picture_path(path)
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        axes = figure.subplots()
        place, label = self._axis()
        points = [(place(line, time), value) for line, value, time in self.trace]
        axes.plot(*zip(*points, strict=True) if points else ([], []), lw=0.8, color="0.3", label="statistic")
        axes.axhline(1.0, color="C3", lw=0.8, ls="--", label="alarm above")
        for number, span in enumerate(self.burn_ins):
            first, last = place(span.first_line, span.first_time), place(span.last_line, span.last_time)
            axes.axvspan(first, last, color="0.85", lw=0, label="burn-in" if number == 0 else None)
        for number, change in enumerate(self.changes):
            at = place(change.line, change.time)
            axes.axvline(at, color="C3", lw=1.2, label="alarm" if number == 0 else None)
            if change.changed_at_line is not None:
                since = place(change.changed_at_line, change.changed_at_time)
                axes.axvspan(since, at, color="C3", alpha=0.15, lw=0)
        axes.set(xlabel=label, ylabel="statistic / threshold", title=self._headline(Path(self.path).name))
        figure.legend(loc="outside lower center", ncols=4, fontsize=8)
        figure.savefig(path, dpi=120)
        return path

    def _axis(self) -> tuple[Callable[[int, str | None], Any], str]:
        """(what gives the place of a line or its time on the axis, the name of the axis)."""
        times = [time for *_, time in self.trace]
        if not times or None in times:
            return (lambda line, time: line), "line"
        name = str(self.columns["time"])
        try:
            [float(str(time)) for time in times]
        except ValueError:
            return (lambda line, time: datetime.fromisoformat(str(time))), name
        return (lambda line, time: float(str(time))), name

    @property
    def summary(self) -> str:
        """The last lines of the report: how much was read and what could not have been found."""
        lines = [self._headline(self.path)]
        if not self.watching:
            since = f"after line {self.changes[-1].line}" if self.changes else "anywhere"
            lines.append(f"  the burn-in was not over at the end: another change {since} could not have been found")
        if self.hint is not None:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)

    def _headline(self, name: str) -> str:
        changes = "1 change" if len(self.changes) == 1 else f"{len(self.changes)} changes"
        skipped = f", {self.skipped} rows skipped" if self.skipped else ""
        return f"{name}: {self.transitions} transitions, {changes}{skipped}"

    def __str__(self) -> str:
        first, *rest = self.summary.splitlines()
        return "\n".join([first, *(f"  {describe(change)}" for change in self.changes), *rest])


def picture_path(path: str | os.PathLike[str]) -> Path:
    """The path of an image that can be written, else a ValueError: asked before a long file is read."""
    from matplotlib.backend_bases import FigureCanvasBase

    given, known = Path(path), sorted(FigureCanvasBase.get_supported_filetypes())
    if given.suffix.lower().removeprefix(".") not in known:
        raise ValueError(f"picture must end in one of .{', .'.join(known)}, got {str(path)!r}")
    if not given.parent.is_dir():
        raise ValueError(f"picture must be in a folder that exists, got {str(path)!r}")
    return given


def describe(change: Change) -> str:
    """One change in one line."""
    at = f" ({change.time})" if change.time is not None else ""
    since = ""
    if change.changed_at_line is not None:
        since = f", changed at line {change.changed_at_line}"
        since += f" ({change.changed_at_time})" if change.changed_at_time is not None else ""
        if change.changed_between_lines is not None:
            since += " (lines {} to {})".format(*change.changed_between_lines)
    most = ", ".join(f"{name} {share:.0%}" for name, share in list(change.coordinates.items())[:3] if share >= 0.05)
    named = f"; {most}" if most else ""
    return f"alarm at line {change.line}{at}{since}; false-alarm rate {change.significance:.1g} per row{named}"
