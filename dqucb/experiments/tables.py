"""Tables for the terminal and for other tools."""

import inspect
import os
import sys
from pathlib import Path
from typing import Any

from dqucb import _validate
from dqucb._registry import Registry
from dqucb._storage import write_atomically
from dqucb.base import AGENTS
from dqucb.density import DENSITIES
from dqucb.envs import ENVS
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.statistics import Interval, heavy_tail, why_no_interval
from dqucb.experiments.trials import as_json
from dqucb.problems import FAMILIES, PROBLEMS
from dqucb.running import catalog

FORMATS = ("csv", "parquet")
MOST_PHASES = 6  # columns of the table in a terminal
WIDTH = 140  # width of a table that is written to a file or a pipe
TABLES = ("curves", "finals", "summary")


def write_table(
    comparison: Comparison, table: str, format: str, path: str | os.PathLike[str], points: int | None
) -> Path:
    """Write a tidy table as CSV or Parquet and return the path."""
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


def catalogue(what: str | None = None) -> dict[str, dict[str, Any]]:
    """Agents, problems, families, envs and densities with their parameters and defaults, from the registries.

    `what` is one of these kinds, or a name: then all entries of this name, with the meaning of their parameters.
    """
    kinds: dict[str, Registry[Any]] = {
        "agents": AGENTS, "problems": PROBLEMS, "families": FAMILIES, "envs": ENVS, "densities": DENSITIES,
    }  # fmt: skip
    if what is not None and what not in kinds:
        names = [name for registry in kinds.values() for name in registry]
        what = _validate.known(
            "agent, problem, family, env or density", what, [*kinds, *names], "dqucb list shows all names"
        )
        return {kind: {what: {**_entry(registry, what), "meaning": _meaning(registry[what])}}
                for kind, registry in kinds.items() if what in registry}  # fmt: skip
    return {
        kind: {name: _entry(registry, name) for name in registry}
        for kind, registry in kinds.items() if what in (None, kind)
    }  # fmt: skip


def _entry(registry: Registry[Any], name: str) -> dict[str, Any]:
    parameters = {} if registry is FAMILIES else _defaults(registry[name])  # families take those of `generated`
    return {"about": _about(registry, name), "parameters": parameters}


def _meaning(builder: Any) -> dict[str, str]:
    """Name -> text of the Parameters section in the docstring of a class and its bases, or of a function."""
    meaning: dict[str, str] = {}
    for kind in reversed(getattr(builder, "__mro__", (builder,))):
        _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")
        names: list[str] = []
        for line in section.split("\n\n", 1)[0].splitlines():
            if line.startswith(" "):
                meaning |= {name: f"{meaning.get(name, '')} {line.strip()}".strip() for name in names}
            else:
                names = line.partition(" : ")[0].split(", ")
                meaning |= dict.fromkeys(names, "")
    return {name: text for name, text in meaning.items() if name in catalog.parameters_of(builder)}


def _about(registry: Registry[Any], name: str) -> str:
    usual = None if registry is FAMILIES else catalog.usual_length(name)
    return registry.about(name) + ("" if usual is None else f" Usually {usual.number:,} {usual.unit}.")


def _defaults(builder: Any) -> dict[str, Any]:
    required = inspect.Parameter.empty
    return {
        name: "required" if default is required else _plain(default)
        for name, default in catalog.parameters_of(builder).items()
    }


def _plain(value: Any) -> Any:
    """A default as JSON, or else its repr."""
    try:
        return as_json(value)
    except (TypeError, ValueError):
        return repr(value)


def rich_summary(comparison: Comparison) -> None:
    """Print the summary to the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    frame = comparison.summary()
    phases = [name for name in frame.columns if name.startswith("regret_phase_")]
    if len(phases) > MOST_PHASES:  # all of them are in `export --table summary`
        phases = []
    settings = comparison.settings
    title = f"{settings['problem']['problem']}, {settings['length']:,} {settings['unit']}"
    table = Table(box=box.SIMPLE, title=Text(title))
    for heading in (
        "agent",
        "runs",
        comparison.measure,
        "95 % interval",
        "median",
        "worst 10 %",
        "worst",
        *(f"phase {i}" for i in range(len(phases))),
        "wall s/run",
    ):
        table.add_column(heading, justify="left" if heading == "agent" else "right", no_wrap=True)
    for label, row in frame.iterrows():
        interval = Interval(row[comparison.measure], row["low"], row["high"])
        ends = interval_text(interval, int(row["runs"]), bool(row["heavy_tail"]))
        cells = [str(int(row["runs"])), number(interval.value), ends]
        cells += [number(row[name]) for name in ("median", "worst_decile", "worst")]
        table.add_row(Text(str(label)), *cells, *(number(row[name]) for name in phases), number(row["seconds"]))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    if comparison.is_sweep and len(settings["seeds"]) > 1:
        for group, (label, chosen, reported, result) in comparison.best().items():
            seeds = f"chosen on {len(chosen)} seeds, reported on {len(reported)} others"
            heavy = heavy_tail([comparison.final(label)[seed] for seed in reported])
            ends = interval_text(result, len(reported), heavy)
            print(f"best of {group}: {label}, {comparison.measure} {number(result.value)} ({ends}; {seeds})")


def interval_text(interval: Interval, runs: int, heavy: bool = False) -> str:
    """The bounds of an interval over this number of runs, or why there is none."""
    if not interval.is_known:
        return why_no_interval(runs)
    return f"{number(interval.low)} .. {number(interval.high)}" + " (heavy tail)" * heavy


def number(value: float) -> str:
    """A number with about four significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
