"""The report of the drift harness: Markdown, JSON and a picture."""

import json
from pathlib import Path
from typing import Any

TITLES = {
    "detect": "Changes and placebos",
    "policy": "The policy changes, the world does not",
    "rate": "False alarms, measured against asked",
    "peers": "Others, calibrated on placebos",
    "peer-policy": "Others where the policy changes alone",
}
ROW = ("stream", "detector", "asked", "first_seed")  # what names a row: a later run of the same replaces it


def merged(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an earlier report that were not run again, and those of now."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ROW)

    made = {key(row) for row in now}
    return [row for row in before if key(row) not in made] + now


def report(results: dict[str, Any], out: Path) -> None:
    """Markdown, JSON and a picture."""
    (out / "drift.json").write_text(json.dumps(results, indent=2))
    lines = ["# Drift detection: delay against false alarms", ""]
    lines += [
        f"Asked: {results['false_alarms']:g} false alarms per update. Command: `python -m benchmarks.drift`.",
        "",
    ]
    for part, title in TITLES.items():
        if results.get(part):
            lines += [f"## {title}", "", *table(results[part]), ""]
    if results.get("cost"):
        lines += ["## Cost of an update (CPU time)", "", "| what | ns |", "|---|---|"]
        lines += [f"| {name} | {seconds * 1e9:,.0f} |" for name, seconds in results["cost"].items()]
    (out / "drift.md").write_text("\n".join(lines) + "\n")
    if results.get("detect"):
        _draw(results, out / "drift.png")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table with a column for every name that a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else f"{value}"

    head = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|" + "---|" * len(names)]
    return head + ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]


def _draw(results: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = [row for row in results["detect"] if row["median_delay"] is not None]
    left.barh([row["stream"] for row in rows], [max(row["median_delay"], 1) for row in rows], color="C0")
    left.set(xscale="log", xlabel="median delay (updates)", title="ours, by stream")
    for row in results.get("peers", []):
        if row["median_delay"] is not None:
            right.scatter(row["placebo_alarms"] / row["seeds"], row["found"] / row["seeds"], s=20, color="0.6")
    for row in results["detect"]:
        if row["placebo_alarms"] is not None:
            right.scatter(row["placebo_alarms"] / row["seeds"], row["found"] / row["seeds"], s=30, color="C0")
    right.set(xlabel="placebo alarms (share)", ylabel="found (share)", title="ours (blue), others (grey)")
    figure.savefig(path, dpi=120)
