"""Options of the `dqucb` command: their types, parsers, help and completion."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer


def path(text: str) -> Path:
    """A non-empty path: an empty one would mean the current folder."""
    if not text:
        raise typer.BadParameter("a path, not an empty word")
    return Path(text)


def count(text: str) -> int:
    """An integer, also as 1e5 or 100_000."""
    try:
        number = float(text)
        if number == int(number):
            return int(text.replace("_", "")) if text.replace("_", "").lstrip("+-").isdigit() else int(number)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number, as 100000 or 1e5")


def complete_problem(incomplete: str) -> list[str]:
    """Problems and envs with this prefix."""
    from dqucb.envs import ENVS
    from dqucb.problems.base import PROBLEMS

    return [name for name in (*PROBLEMS, *ENVS) if name.startswith(incomplete)]


def complete_agents(incomplete: str) -> list[str]:
    """Complete the last of several names separated by commas."""
    from dqucb.base import AGENTS

    *before, last = incomplete.split(",")
    return [",".join([*before, name]) for name in AGENTS if name.startswith(last) and name not in before]


def complete_entry(incomplete: str) -> list[str]:
    """Arguments of `dqucb list`."""
    from dqucb.experiments.tables import catalogue

    known = catalogue()
    return [
        name for name in (*known, *(name for each in known.values() for name in each)) if name.startswith(incomplete)
    ]


PATH: dict[str, Any] = {"parser": path, "metavar": "PATH"}
Problem = Annotated[
    str | None,
    typer.Argument(
        help="gridworld, frozen-lake, cartpole, ... (see dqucb list), or a Gymnasium id.",
        autocompletion=complete_problem,
    ),
]
Out = Annotated[Path | None, typer.Option(**PATH, help="Folder for the results; a stopped run continues there.")]
Agents = Annotated[
    str | None,
    typer.Option(
        help="Names with commas between them. Default: planning-dqucb,dqucb,qucb,ucbvi.", autocompletion=complete_agents
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        help="How many (10), which (3,5,7 or 10-19), or auto: until a test tells the agents apart. Default: 10."
    ),
]
MaxSeeds = Annotated[int | None, typer.Option(help="Most seeds of each agent with --seeds auto. Default: 30.")]
COUNT: dict[str, Any] = {"parser": count, "metavar": "NUMBER"}
Episodes = Annotated[
    int | None,
    typer.Option(**COUNT, help="Length of each run, as 60000 or 6e4; change points move along in proportion."),
]
Steps = Annotated[int | None, typer.Option(**COUNT, help="The same for problems that are counted in steps.")]
Jobs = Annotated[int | None, typer.Option(help="Processes; -1 is one per core. Default: -1.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="AGENT.PARAMETER=VALUE or problem.PARAMETER=VALUE; repeat for more."),
]
Config = Annotated[Path | None, typer.Option(help="TOML file with these options; flags win over it.")]
Backend = Annotated[str | None, typer.Option(help="processes, threads or dask. Default: processes.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of the Dask scheduler, as tcp://host:8786.")]


def train_flags() -> list[inspect.Parameter]:
    """The options of `Agent.train` that are the same for all runs, as flags of a command."""
    from dqucb.running.options import SHARED

    return [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=Annotated[option.flag | None, typer.Option(help=_MORE.get(name, "{}").format(option.help))],
        )
        for name, option in SHARED.items()
        if option.flag is not None
    ]


# What the command line adds to the meaning of an option.
_MORE = {
    "regret": "{} none compares returns.",
    "on_alarm": 'A drift detector ("auto") sees every transition. {}',
}
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else, to stdout.")]
Folder = Annotated[Path, typer.Argument(parser=path, metavar="FOLDER", help="The folder of a run or sweep.")]
