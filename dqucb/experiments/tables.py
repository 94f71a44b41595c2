"""Tables for the terminal and for other tools."""

import os
import sys
from pathlib import Path
from typing import Any

from dqucb import _validate
from dqucb.base import AGENTS
from dqucb.experiments import catalog
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.store import write_atomically

FORMATS = ("csv", "parquet")
WIDTH = 140  # of a table that goes to a file or a pipe
TABLES = ("curves", "finals", "summary")


def write_table(
    comparison: Comparison, table: str, format: str, path: str | os.PathLike[str], points: int | None
) -> Path:
    """Write a tidy table as CSV or parquet and return the path."""
    _validate.one_of("table", table, TABLES)
    _validate.one_of("format", format, FORMATS)
    if table == "curves":
        frame = comparison.frame(points)
    else:
        frame = comparison.finals() if table == "finals" else comparison.summary().reset_index()
    target = Path(path)
    if format == "csv":
        write_atomically(target, frame.to_csv(index=False).encode())
        return target
    try:
        data = frame.to_parquet(index=False)
    except ImportError as error:
        raise ValueError("format=parquet needs the package pyarrow: pip install pyarrow, or use csv") from error
    write_atomically(target, data)
    return target


def catalogue() -> dict[str, dict[str, Any]]:
    """Agents and problems with their parameters and defaults."""
    agents = {
        name: {"about": _first_line(cls), "parameters": catalog.agent_parameters(cls)} for name, cls in AGENTS.items()
    }
    problems = {
        name: {
            "about": f"{_first_line(entry.build)} Usually {entry.episodes:,} episodes.",
            "parameters": catalog.problem_parameters(name),
        }
        for name, entry in catalog.PROBLEMS.items()
    }
    return {"agents": agents, "problems": problems}


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


def rich_summary(comparison: Comparison) -> None:
    """Print the summary to the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    frame = comparison.summary()
    phases = [name for name in frame.columns if name.startswith("regret_phase_")]
    settings = comparison.settings
    title = f"{settings['problem']['problem']}, {settings['length']:,} {settings['unit']}"
    table = Table(box=box.SIMPLE, title=title)
    for heading in ("agent", "runs", "regret", "95 % interval", *(f"phase {i}" for i in range(len(phases))), "s/run"):
        table.add_column(heading, justify="left" if heading == "agent" else "right", no_wrap=True)
    for label, row in frame.iterrows():
        interval = "one run" if row["low"] != row["low"] else f"{number(row['low'])} .. {number(row['high'])}"
        cells = [str(label), str(int(row["runs"])), number(row["regret"]), interval]
        table.add_row(*cells, *(number(row[name]) for name in phases), number(row["seconds"]))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    if comparison.is_sweep and len(settings["seeds"]) > 1:
        for group, (label, chosen, reported, result) in comparison.best().items():
            seeds = f"chosen on {len(chosen)} seeds, reported on {len(reported)} others"
            print(f"best of {group}: {label}, regret {number(result.value)} ({seeds})")


def number(value: float) -> str:
    """A number for people: four digits or so."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
