"""The `dqucb` command, a thin layer over `dqucb.experiments`. Heavy modules load inside the commands that need them.

Exit codes: 0 done; 1 a failure while running; 2 a wrong call, found before anything ran; 130 interrupted.
"""

import inspect
import json
import logging
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dqucb._cli_options import (
    PATH,
    Agents,
    Backend,
    Config,
    Episodes,
    Folder,
    Jobs,
    Json,
    MaxSeeds,
    Out,
    Problem,
    Quiet,
    Scheduler,
    Seeds,
    Settings,
    Steps,
    complete_entry,
    path,
    train_flags,
)
from dqucb.drift._cli import watch_command

if TYPE_CHECKING:
    from dqucb.experiments import Comparison

app = typer.Typer(
    name="dqucb",
    help="Reinforcement learning in environments that change: compare agents over seeds, settings and problems.",
    epilog="Exit codes: 0 done, 1 failure while running, 2 wrong call (nothing ran), 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

LINE = 100  # characters of an explanation in the terminal

RUN_EXAMPLES = """[bold]Examples[/bold]

dqucb run frozen-lake --agents planning-dqucb,dqucb,qucb,ucbvi --seeds 10 --out results

dqucb run gridworld --episodes 5000 --seeds 20-29 --set dqucb.window=50 --set problem.noise=[0.01,0.3] --out short

dqucb run cartpole --agents dqn,dqn-ucb,deep-dqucb --seeds 5 --out cartpole

dqucb run --config study.toml --out results --json
"""
SWEEP_EXAMPLES = """[bold]Examples[/bold]

dqucb sweep gridworld --bonus-scale 0.05,0.2,1 --seeds 10 --out scales

dqucb sweep frozen-lake --agents dqucb --vary window=20,100,500 --vary bandwidth=0.5,1 --out windows
"""


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        from dqucb import __version__

        typer.echo(f"dqucb {__version__}")
        raise typer.Exit


def _shared(
    problem: Problem = None,
    agents: Agents = None,
    seeds: Seeds = None,
    max_seeds: MaxSeeds = None,
    out: Out = None,
    episodes: Episodes = None,
    steps: Steps = None,
    jobs: Jobs = None,
    settings: Settings = None,
    config: Config = None,
    backend: Backend = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """The options of both `run` and `sweep`."""


def _with_shared(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has the options of `_shared` and of `Agent.train` beside its own; it takes them as `flags`."""
    own = [p for name, p in inspect.signature(command).parameters.items() if name != "flags"]
    first = [*inspect.signature(_shared).parameters.values(), *train_flags()]
    parameters = [*first, *own]

    def call(**given: Any) -> None:
        command(flags={p.name: given[p.name] for p in first}, **{p.name: given[p.name] for p in own})

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


@app.command(epilog=RUN_EXAMPLES)
@_with_shared
def run(
    flags: dict[str, Any], bonus_scale: Annotated[float | None, typer.Option(help="c of every agent with one.")] = None
) -> None:
    """Train several agents with several seeds on one problem."""
    _compare(flags | {"bonus_scale": bonus_scale}, values=None)


@app.command(epilog=SWEEP_EXAMPLES)
@_with_shared
def sweep(
    flags: dict[str, Any],
    bonus_scale: Annotated[str | None, typer.Option(help="Values of c, as 0.05,0.2,1.")] = None,
    vary: Annotated[list[str] | None, typer.Option(help="PARAMETER=VALUE,VALUE,...; repeat for a grid.")] = None,
) -> None:
    """Train every agent with every value of some parameters, the bonus scale above all."""
    from dqucb.experiments.options import grid

    with _errors():
        values = grid([*(vary or []), *([f"bonus_scale={bonus_scale}"] if bonus_scale else [])])
    _compare(flags, values)


def _compare(flags: dict[str, Any], values: dict[str, list[Any]] | None) -> None:
    """What `run` and `sweep` share: read the options, run, say what came out."""
    from dqucb.experiments.options import Options

    quiet, as_json = flags.pop("quiet"), flags.pop("as_json")
    _listen(logging.WARNING if quiet or as_json else logging.INFO)
    command = shlex.join(["dqucb", *sys.argv[1:]])
    with _errors():
        options = Options.read(flags)
        options.values |= values or {}
        options.check_sweep(values is not None)
    with _errors(on_interrupt=lambda: _how_to_go_on(options.out, command)):
        comparison = options.start(progress=not (quiet or as_json), command=command)
    if as_json:
        typer.echo(json.dumps(_summary_json(comparison), indent=2))
    elif not quiet:
        _print_summary(comparison)


@app.command()
def plot(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(**PATH, help="Folder for the pictures. Default: FOLDER/plots.")] = None,
    visits: Annotated[bool, typer.Option(help="Also train one run per agent again and draw where it went.")] = False,
    quiet: Quiet = False,
) -> None:
    """Draw the results of a run or sweep, each picture as PNG and SVG.

    [bold]Example[/bold]: dqucb plot results --visits
    """
    with _errors():
        from dqucb.experiments import load_comparison, plots

        for picture in plots.draw_all(load_comparison(folder), out or folder / "plots", visits=visits):
            if not quiet:
                typer.echo(picture)


@app.command()
def report(
    folder: Annotated[
        Path | None, typer.Argument(parser=path, metavar="FOLDER", help="The folder of a run or sweep.")
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            "--from",
            **PATH,
            help="Logs that other libraries made, in place of FOLDER: a CSV table with the columns agent, seed, step "
            "(or episode) and return, or a folder with monitor.csv files of Stable-Baselines3 or TensorBoard files.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(**PATH, help="The page. Default: report.html in the folder.")] = None,
    change_at: Annotated[
        str | None, typer.Option(help="With --from: where the environment changed, as 5e4,1e5.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="With --from: the TensorBoard series.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page: settings, summary, curves to explore. It needs no network.

    [bold]Examples[/bold]: dqucb report results, dqucb report --from logs --change-at 50000
    """
    with _errors():
        from dqucb.experiments import load_comparison, load_logs
        from dqucb.experiments.options import literal
        from dqucb.experiments.report import write_report

        if (folder is None) == (logs is None):
            raise ValueError("give either the FOLDER of a run or sweep, or --from with logs of another library")
        if logs is None and (change_at is not None or tag is not None):
            raise ValueError("--change-at and --tag belong to --from: a folder of dqucb knows its changes")
        if logs is not None:
            changes = [literal(part) for part in change_at.split(",")] if change_at else []
            comparison = load_logs(logs, change_at=changes, **({} if tag is None else {"tag": tag}))
            home = logs if logs.is_dir() else logs.parent
        elif folder is not None:
            comparison, home = load_comparison(folder), folder
        page = write_report(comparison, out or home / "report.html")
    if not quiet:
        typer.echo(page)


@app.command()
def aggregate(
    folders: Annotated[list[Path], typer.Argument(parser=path, metavar="FOLDER...", help="Folders of runs.")],
    out: Annotated[Path | None, typer.Option(**PATH, help="Also write the picture there, as PNG and SVG.")] = None,
    as_json: Json = False,
) -> None:
    """Compare the same agents over several problems: interquartile mean, worst decile, probability of improvement.

    [bold]Example[/bold]: dqucb aggregate lake grid taxi --out profiles
    """
    with _errors():
        from dqucb.experiments import aggregate as combined
        from dqucb.experiments import load_comparison

        over = combined({str(folder): load_comparison(folder) for folder in folders})
        table = over.table()
        if out is not None:
            over.plot(out)
    if as_json:
        typer.echo(json.dumps(json.loads(table.reset_index().to_json(orient="records")), indent=2))
    else:
        typer.echo(f"{over}: scores are relative to the best agent of each problem; lower is better")
        typer.echo(table.round(3).to_string())


@app.command()
def export(
    folder: Folder,
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    out: Annotated[Path | None, typer.Option(**PATH, help="The file. Default: FOLDER/TABLE.FORMAT.")] = None,
    table: Annotated[str, typer.Option(help="curves, finals (one row per run) or summary.")] = "curves",
    points: Annotated[int, typer.Option(help="Points of each curve; 0 is every episode.")] = 500,
) -> None:
    """Write tidy tables for other tools.

    [bold]Example[/bold]: dqucb export results --format parquet --points 0
    """
    with _errors():
        from dqucb.experiments import load_comparison
        from dqucb.experiments.tables import write_table

        target = out or folder / f"{table}.{format}"
        typer.echo(write_table(load_comparison(folder), table, format, target, points or None))


@app.command()
def verify(folder: Folder, quiet: Quiet = False) -> None:
    """Read every file of an experiment's folder and say what is whole, damaged or missing. Changes nothing.

    Exit code 0 if nothing is damaged, else 1. [bold]Example[/bold]: dqucb verify results
    """
    with _errors():
        from dqucb.experiments import verify as look

        health = look(folder)
    if not quiet:
        typer.echo("\n".join(health.lines()))
    raise typer.Exit(0 if health.is_whole else 1)


@app.command()
def repair(folder: Folder, quiet: Quiet = False) -> None:
    """Set damaged files aside in corrupt/, and write a lost manifest again from the runs. Nothing is deleted.

    [bold]Example[/bold]: dqucb repair results
    """
    with _errors():
        from dqucb.experiments import repair as put_in_order

        health = put_in_order(folder)
    if not quiet:
        typer.echo("\n".join(health.lines()))


@app.command("list")
def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            help="agents, problems, families, envs or densities, or one of their names.", autocompletion=complete_entry
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List agents, problems, families, envs and densities with their parameters; a name alone: what they mean.

    [bold]Examples[/bold]: dqucb list agents, dqucb list planning-dqucb
    """
    from dqucb.experiments.tables import catalogue

    with _errors():
        known = catalogue(what)
    if as_json:
        typer.echo(json.dumps(known, indent=2))
        return
    for title, entries in known.items():
        typer.secho(title, bold=True)
        for name, entry in entries.items():
            typer.echo(f"  {name}: {entry['about']}")
            defaults = {key: f"{key}={value}" for key, value in entry["parameters"].items()}
            if what != name or not defaults:
                typer.echo(f"      {', '.join(defaults.values()) or 'no parameters'}")
                continue
            for key, default in defaults.items():
                typer.echo(f"      {default}")
                for line in textwrap.wrap(entry["meaning"].get(key, ""), LINE - 10):
                    typer.echo(f"          {line}")


@app.command()
def warmup(quiet: Quiet = False) -> None:
    """Make every kernel ready now: nothing to do unless this machine or Numba differ from what was installed."""
    with _errors():
        from dqucb.experiments import warmup as compile_all

        seconds = compile_all((lambda name: None) if quiet else lambda name: typer.echo(name, err=True))
    if not quiet:
        typer.echo(f"ready after {seconds:.1f} s")


app.command("watch")(watch_command)


def _summary_json(comparison: "Comparison") -> dict[str, Any]:
    rows = json.loads(comparison.summary().reset_index().to_json(orient="records", double_precision=15))
    folder = None if comparison.folder is None else str(comparison.folder)
    facts: dict[str, Any] = {
        "computed": comparison.computed,
        "runs": len(comparison.traces),
        "out": folder,
        "notes": comparison.notes,
    }
    if comparison.is_sweep and len(comparison.settings["seeds"]) > 1:
        facts["best"] = {group: choice.value for group, choice in comparison.best().items()}
    return {"summary": rows, **facts, "settings": comparison.settings}


def _print_summary(comparison: "Comparison") -> None:
    from dqucb.experiments.tables import rich_summary

    rich_summary(comparison)
    for note in comparison.notes:
        typer.echo(f"note: {note}", err=True)
    if comparison.folder is None:
        typer.echo("the results were not saved: use --out DIR to save them, for dqucb report and dqucb plot", err=True)
    else:
        counts = f"{comparison.computed} runs made, {len(comparison.traces) - comparison.computed} reused"
        folder = shlex.quote(str(comparison.folder))
        typer.echo(f"{counts}: {folder}\nnext: dqucb report {folder}   or   dqucb plot {folder}")


def _how_to_go_on(out: Path | None, command: str) -> str:
    if out is None:
        return "interrupted; nothing is saved without --out"
    saved = sum(1 for _ in (out / "runs").glob("*.npz"))
    return f"interrupted; {saved} finished runs are saved in {out}. To go on, repeat: {command}"


@contextmanager
def _errors(on_interrupt: Any = lambda: "interrupted") -> Iterator[None]:
    """Errors as one line and an exit code that scripts can use."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(on_interrupt(), err=True)
        raise typer.Exit(130) from None
    except ValueError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except (FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        typer.echo(f"error: cannot write {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    except Exception as error:
        typer.echo(f"error: {type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _listen(level: int) -> None:
    """Send what the experiments say to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("dqucb")
    logger.handlers[:] = [handler]
    logger.setLevel(level)


def main() -> None:
    """The entry point of the `dqucb` script."""
    app()


if __name__ == "__main__":
    main()
