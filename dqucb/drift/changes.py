"""What `watch` found in a file: its changes, as text, JSON and a picture."""

import json
import os
from dataclasses import asdict, dataclass, field
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
        Where the law changed, as estimated; None if that lies too far back.
    significance : float
        How often, per row, a still stream would show as much: the smaller, the surer.
    test : str
        The test that gave the alarm.
    coordinates : dict
        Share of each column in the evidence, largest first; empty for finite states.
    """

    line: int
    time: str | None
    changed_at_line: int | None
    changed_at_time: str | None
    significance: float
    test: str
    coordinates: dict[str, float]


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
    watching : bool
        Whether the burn-in was over at the end of the file; otherwise a change could not have been found there.
    trace : list of (line, statistic)
        The largest statistic of each stretch of lines, in units of the threshold.
    hint : str or None
        What might be asked for differently.
    """

    path: str
    false_alarms: float
    columns: dict[str, Any]
    transitions: int = 0
    changes: list[Change] = field(default_factory=list)
    watching: bool = False
    trace: list[tuple[int, float]] = field(default_factory=list)
    hint: str | None = None

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The result as JSON text, also written to `path` if one is given."""
        text = json.dumps(asdict(self), indent=2, allow_nan=False)
        if path is not None:
            _storage.write_atomically(Path(path), text.encode())
        return text

    def picture(self, path: str | os.PathLike[str]) -> Path:
        """Draw the statistic and the changes into an image file (.png, .svg, .pdf)."""
        from matplotlib.figure import Figure

        path = picture_path(path)
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        axes = figure.subplots()
        axes.plot(*zip(*self.trace, strict=True) if self.trace else ([], []), lw=0.8, color="0.3", label="statistic")
        axes.axhline(1.0, color="C3", lw=0.8, ls="--", label="alarm above")
        for number, change in enumerate(self.changes):
            axes.axvline(change.line, color="C3", lw=1.2, label="alarm" if number == 0 else None)
            if change.changed_at_line is not None:
                axes.axvspan(change.changed_at_line, change.line, color="C3", alpha=0.15, lw=0)
        axes.set(xlabel="line", ylabel="statistic / threshold", title=self.summary.splitlines()[0])
        axes.legend(loc="upper left", fontsize=8)
        figure.savefig(path, dpi=120)
        return path

    @property
    def summary(self) -> str:
        """The last lines of the report: how much was read and what could not have been found."""
        changes = "1 change" if len(self.changes) == 1 else f"{len(self.changes)} changes"
        lines = [f"{self.path}: {self.transitions} transitions, {changes}"]
        if not self.watching:
            since = f"after line {self.changes[-1].line}" if self.changes else "anywhere"
            lines.append(f"  the burn-in was not over at the end: another change {since} could not have been found")
        if self.hint is not None:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)

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
    most = ", ".join(f"{name} {share:.0%}" for name, share in list(change.coordinates.items())[:3] if share >= 0.05)
    named = f"; {most}" if most else ""
    return f"alarm at line {change.line}{at}{since}; a still stream: {change.significance:.1g} per row{named}"
