"""The report of the benchmark: JSON, Markdown and a picture."""

import json
from pathlib import Path
from typing import Any

from dqucb import _storage

TITLES = {"rate": "False alarms, measured over asked", "delay": "Delays", "cost": "CPU time of an update"}
NAMES = ("family", "detector", "asked")  # what names a row: a later run of the same replaces it


def merged(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an earlier report that were not run again, and the new ones."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in NAMES)

    again = {key(row) for row in now}
    return [row for row in before if key(row) not in again] + now


def read(folder: Path) -> dict[str, Any]:
    """The results in a folder; empty where there are none."""
    path = folder / "drift.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(results: dict[str, Any], folder: Path, *, picture: bool = True) -> None:
    """Write drift.json, drift.md and, on request, drift.png."""
    folder.mkdir(parents=True, exist_ok=True)
    _storage.write_atomically(folder / "drift.json", json.dumps(results, indent=2).encode())
    lines = ["# Change detectors: false alarms and delays", "", f"Command: `{results['command']}`", ""]
    for part, title in TITLES.items():
        if results.get(part):
            lines += [f"## {title}", "", *table(results[part]), ""]
    _storage.write_atomically(folder / "drift.md", "\n".join(lines).encode())
    if picture:
        _draw(results, folder / "drift.png")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table with a column for every name that a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else f"{value}"

    head = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|" + "---|" * len(names)]
    return head + ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]


def _draw(results: dict[str, Any], path: Path) -> None:
    """Ratios with their intervals on the left, delays over the limit on the right."""
    from matplotlib.figure import Figure

    rates, delays = results.get("rate", []), [r for r in results.get("delay", []) if r["over_limit"] is not None]
    names = sorted({row["family"] for row in [*rates, *delays]})
    figure = Figure(figsize=(12, 1.5 + 0.22 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    detectors = sorted({row["detector"] for row in [*rates, *delays]})
    place = {name: i for i, name in enumerate(names)}
    for number, detector in enumerate(detectors):
        color = f"C{number}"
        own = [row for row in rates if row["detector"] == detector]
        left.errorbar(
            [max(row["ratio"], 1e-2) for row in own], [place[row["family"]] for row in own],
            xerr=[[max(row["ratio"] - max(row["from"], 1e-2), 0.0) for row in own],
                  [row["to"] - row["ratio"] for row in own]],
            fmt="o", ms=3, lw=0.6, color=color, label=detector,
        )  # fmt: skip
        own = [row for row in delays if row["detector"] == detector]
        right.plot([r["over_limit"] for r in own], [place[r["family"]] for r in own], "o", ms=4, color=color)
    left.axvline(1.0, color="0.5", lw=0.8)
    left.set(xscale="log", xlabel="false alarms, measured over asked", yticks=range(len(names)), yticklabels=names)
    right.axvline(1.0, color="0.5", lw=0.8)
    right.set(xscale="log", xlabel="median delay over log(1/rate) / KL")
    if detectors:
        figure.legend(loc="outside lower center", ncols=min(len(detectors), 7), fontsize=8)
    figure.savefig(path, dpi=110)
