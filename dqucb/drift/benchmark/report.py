"""The report of the benchmark: JSON, Markdown and pictures."""

import json
from pathlib import Path
from typing import Any

from dqucb import _storage
from dqucb.drift.benchmark.streams import FAMILIES

TITLES = {"rate": "False alarms, measured over asked", "delay": "Delays", "cost": "CPU time of an update"}
VERDICTS = {"kept": "#4dac26", "kept, few counts": "#b8e186", "above, few counts": "#fee08b", "broken": "#d7301f"}
NAMES = ("family", "detector", "asked")  # what names a row: a later run of the same replaces it


def merged(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an earlier report that were not run again, and the new ones.

    Parameters
    ----------
    before, now : list of dict
        A row of `now` replaces the one of the same family, detector and rate.
    """

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in NAMES)

    again = {key(row) for row in now}
    return [row for row in before if key(row) not in again] + now


def read(folder: Path) -> dict[str, Any]:
    """The results in a folder; empty where there are none."""
    path = folder / "drift.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(results: dict[str, Any], folder: Path, *, picture: bool = True) -> None:
    """Write drift.json, drift.md and, on request, the pictures.

    Parameters
    ----------
    results : dict
        Rows by part, and the command.
    folder : Path
        Created if it does not exist.
    picture : bool
        Whether pictures are drawn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _storage.write_atomically(folder / "drift.json", json.dumps(results, indent=2).encode())
    lines = ["# Change detectors: false alarms and delays", "", f"Command: `{results['command']}`", ""]
    for part, title in TITLES.items():
        if results.get(part):
            lines += [f"## {title}", "", *table(results[part]), ""]
    _storage.write_atomically(folder / "drift.md", "\n".join(lines).encode())
    if picture:
        draw_pictures(results, folder)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table with a column for every name that a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else f"{value}"

    head = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|" + "---|" * len(names)]
    return head + ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]


def draw_pictures(results: dict[str, Any], folder: Path) -> None:
    """One picture for each kind of family, drift_finite.png and drift_continuous.png: a row for each family.

    Parameters
    ----------
    results : dict
        As `read` gives them.
    folder : Path
        Where the pictures go.
    """
    for kind in ("finite", "continuous"):
        rates, delays = ([row for row in results.get(part, []) if _kind(row) == kind] for part in ("rate", "delay"))
        if rates or delays:
            _draw(rates, delays, folder / f"drift_{kind}.png")


def _kind(row: dict[str, Any]) -> str | None:
    family = FAMILIES.get(row["family"])
    return None if family is None else family.kind


def _draw(rates: list[dict[str, Any]], delays: list[dict[str, Any]], path: Path) -> None:
    """Two grids: ratios of false alarms coloured by their verdict, and delays coloured by how many were found."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    used = {row["family"] for row in [*rates, *delays]}
    names = [name for name in FAMILIES if name in used]
    left: dict[tuple[str, tuple[Any, ...]], tuple[str, Any]] = {
        (row["family"], (row["detector"], row["asked"])): (f"{row['ratio']:.2g}", VERDICTS[row["verdict"]])
        for row in rates
    }
    right: dict[tuple[str, tuple[Any, ...]], tuple[str, Any]] = {
        (row["family"], (row["detector"],)): (_delay_text(row), colormaps["RdYlGn"](row["found"] / row["streams"]))
        for row in delays
    }
    columns = [list(dict.fromkeys(column for _, column in cells)) for cells in (left, right)]
    rows = [[name for name in names if any(family == name for family, _ in cells)] for cells in (left, right)]
    width = max(len(each) for each in columns)
    figure = Figure(figsize=(3.0 + 0.85 * width, 3.5 + 0.28 * sum(map(len, rows))), layout="constrained")
    panels = figure.subplots(2, 1, height_ratios=[max(1, len(each)) for each in rows])
    titles = "false alarms over those asked for", "median delay over log(1/rate) / KL (in updates, with u)"
    for axes, cells, own, own_rows, title in zip(panels, (left, right), columns, rows, titles, strict=True):
        for (name, column), (text, color) in cells.items():
            x, y = own.index(column), own_rows.index(name)
            axes.barh(y, 1.0, height=1.0, left=x - 0.5, color=color, alpha=0.6)
            axes.text(x, y, text, ha="center", va="center", fontsize=8)
        labels = ["\n".join(f"{part:g}" if isinstance(part, float) else part for part in column) for column in own]
        axes.set(xlim=(-0.5, width - 0.5), ylim=(max(1, len(own_rows)) - 0.5, -0.5), xticks=range(len(own)))
        axes.set_xticklabels(labels, fontsize=8, rotation=30, ha="right")
        axes.set_title(title, fontsize=10)
        axes.set_yticks(range(len(own_rows)), own_rows, fontsize=8)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    legend = "above: green kept, yellow undecided, red broken; below: green found on all streams, red on none"
    figure.supxlabel(legend, fontsize=8)
    figure.savefig(path, dpi=130)


def _delay_text(row: dict[str, Any]) -> str:
    if not row["found"]:
        return "none"
    return f"{row['delay']:.0f} u" if row["over_limit"] is None else f"{row['over_limit']:.1f}"
