"""The command `dqucb watch`; `dqucb.cli` registers `watch_command`."""

import sys
from dataclasses import asdict
from json import dumps as to_json
from pathlib import Path
from typing import Annotated, Any

import typer

from dqucb.drift._reading import WatchError
from dqucb.drift.changes import Change, describe, picture_path

Names = Annotated[str | None, typer.Option(help="Columns, separated by commas.")]


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def watch_command(
    file: Annotated[Path, typer.Argument(help="CSV or parquet file of transitions.")],
    state: Names = None,
    action: Names = None,
    next_state: Names = None,
    reward: Annotated[str | None, typer.Option(help="Column of the reward.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time: numbers or ISO dates.")] = None,
    episode: Annotated[str | None, typer.Option(help="Column of the episode.")] = None,
    n_states: Annotated[int | None, typer.Option(help="States are the integers below this.")] = None,
    n_actions: Annotated[int | None, typer.Option(help="Actions are the integers below this.")] = None,
    watch_reward: Annotated[bool, typer.Option(help="A changed reward is a change.")] = False,
    false_alarms: Annotated[float, typer.Option(help="Accepted alarms per row of a still stream.")] = 1e-6,
    burn_in: Annotated[int | None, typer.Option(help="Rows before the first alarm.")] = None,
    skip_missing: Annotated[bool, typer.Option(help="Leave out rows with missing values.")] = False,
    follow: Annotated[bool, typer.Option(help="Wait for more rows, also of a rotated file; Ctrl-C ends it.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; with --follow one line for each change.")
    ] = False,
    trace: Annotated[bool, typer.Option(help="With --json: also the statistic along the file.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Draw the statistic into this file.")] = None,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
) -> None:
    """Report where a stream of transitions changed. Exit code 2: the file cannot be read; 3: too few rows."""
    showing = not quiet and sys.stderr.isatty()

    def progress(line: int, share: float) -> None:
        if showing:
            print(f"\r{file}: line {line:,} ({share:.0%})", end="", file=sys.stderr, flush=True)

    from dqucb.drift.files import watch  # loads compiled code, which --help does without

    def on_change(change: Change) -> Any:
        if not json:
            typer.echo(("\r" if showing else "") + describe(change))
        elif follow:  # a reader that waits for alarms cannot wait for the end
            typer.echo(to_json(asdict(change)))

    try:
        if picture is not None:
            picture_path(picture)
        result = watch(
            file, state=_names(state), action=_names(action), next_state=_names(next_state), reward=reward, time=time,
            episode=episode, n_states=n_states, n_actions=n_actions, watch_reward=watch_reward,
            false_alarms=false_alarms, burn_in=burn_in, skip_missing=skip_missing, follow=follow, progress=progress,
            on_change=on_change,
        )  # fmt: skip
    except (WatchError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    if showing:
        print(file=sys.stderr)
    if picture is not None:
        result.picture(picture)
    if not json:
        typer.echo(result.summary)
    elif not follow:
        typer.echo(result.to_json(trace=trace))
    if result.too_few is not None:
        typer.echo(f"error: {result.too_few}", err=True)
        raise typer.Exit(3)
