"""`compare` and `sweep`: many runs, in parallel, of which none is made twice or lost."""

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dqucb.experiments import catalog, execution
from dqucb.experiments.comparison import Comparison, Trace, tasks_of, trace
from dqucb.experiments.lockstep import Lockstep
from dqucb.experiments.settings import Agents, Variant, in_lockstep, labelled, lockstep_settings_of, settings_of
from dqucb.experiments.store import Memory, Store, code_versions
from dqucb.experiments.tasks import Task
from dqucb.run import Run, versions

log = logging.getLogger("dqucb")


def compare(
    agents: Agents,
    problem: Any,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    seeds: int | Iterable[int] = 10,
    jobs: int = -1,
    out: str | os.PathLike[str] | None = None,
    backend: str = "processes",
    scheduler: str | None = None,
    threads: int = 1,
    regret: str = "realized",
    progress: bool = False,
    env_options: dict[str, Any] | None = None,
    max_return: float | None = None,
    command: str = "dqucb.compare(...)",
) -> Comparison:
    """Train every agent with every seed on one problem.

    Parameters
    ----------
    agents : one or several agents or their names; a mapping gives them labels of your own. All tabular, or all deep:
        deep ones train all seeds of an agent in lockstep in this process, so `jobs`, `backend` and `threads` do not
        matter to them, and with `out` a run that was stopped in the middle goes on from its last checkpoint.
    problem : a problem, or the name of one ("gridworld", "two-rooms", "frozen-lake"); for deep agents a Gymnasium id or
        a function that makes an env.
    episodes, steps : how long; a problem of the catalogue knows its usual length.
    seeds : how many (0, 1, ...), or which.
    jobs : processes; -1 is one per core. The results do not depend on it.
    out : a folder that keeps every finished run, so that a sweep that was stopped goes on where it was.
    backend, scheduler : "processes", or "dask" with the address of a scheduler.
    threads : compute threads of each worker.
    regret : "realized" or "expected", as in `Agent.train`.
    progress : show a progress bar.
    env_options, max_return : of the env, as in `DeepAgent.learn`; for deep agents only.
    command : kept in the folder, so that its reports can say what made them.
    """
    variants = labelled(agents)
    workers: execution.Workers | Lockstep
    if in_lockstep(variants):
        settings = lockstep_settings_of(variants, problem, episodes, steps, seeds, env_options, max_return)
        tasks = tasks_of(settings)
        workers = Lockstep(variants, tasks, problem, env_options, max_return, out, progress)
    elif env_options is not None or max_return is not None:
        raise ValueError("env_options and max_return are for deep agents; a tabular problem states its own")
    else:
        settings, customs = settings_of(variants, problem, episodes, steps, seeds, regret)
        tasks = tasks_of(settings, customs)
        workers = execution.Workers(backend, jobs, scheduler, threads)
    store = Memory(settings, command) if out is None else Store(out)
    traces: dict[tuple[str, int], Trace] = {}
    with store.writing(settings, command):
        began = time.perf_counter()
        for place, task in tasks.items():
            if (run := store.load_or_set_aside(task)) is not None:
                traces[place] = trace(run)
        missing = {task.key: place for place, task in tasks.items() if place not in traces}
        if traces:
            log.info("%d of %d runs are in %s already, %d to make", len(traces), len(tasks), out, len(missing))
        with _progress_bar(len(tasks), len(traces), progress and workers.counts_runs) as advance:
            for key, result in workers.results([tasks[place] for place in missing.values()], pack=store.packed):
                task = tasks[missing[key]]
                store.put(task, result)
                traces[missing[key]] = trace(_there(store, task))
                advance()
        if missing:
            seconds = round(time.perf_counter() - began, 3)
            store.add_session(runs=len(missing), seconds=seconds, workers=str(workers), versions=code_versions())
    comparison = _comparison(store, tasks, {place: traces[place] for place in tasks})
    comparison.computed = len(missing)
    return comparison


def sweep(
    agents: Agents,
    problem: Any,
    values: Mapping[str, Sequence[Any]],
    episodes: int | None = None,
    **options: Any,
) -> Comparison:
    """`compare` for every combination of parameter values, such as {"bonus_scale": [0.05, 0.2, 1.0]}.

    An agent that lacks one of the parameters runs without it. `Comparison.best` then chooses each agent's values.
    The other options are those of `compare`.
    """
    return compare(varied(agents, values), problem, episodes, **options)


def varied(agents: Agents, values: Mapping[str, Sequence[Any]]) -> dict[str, Variant]:
    """A variant of each agent for every combination of the values of the parameters that it has."""
    given = labelled(agents)
    if not values:
        raise ValueError('values must name at least one parameter, such as {"bonus_scale": [0.1, 1.0]}, got none')
    everywhere = sorted({name for variant in given.values() for name in variant.agent.parameters()})
    for name, options in values.items():
        catalog.known("parameter of these agents", name, everywhere)
        if isinstance(options, str) or not list(options):
            raise ValueError(f"{name} must be a list of at least one value, got {options!r}")
    variants = {}
    for label, (agent, _, _) in given.items():
        own = {name: list(options) for name, options in values.items() if name in agent.parameters()}
        for chosen in itertools.product(*own.values()):
            settings = dict(zip(own, chosen, strict=True))
            name = " ".join([label, *(f"{key}={value}" for key, value in settings.items())])
            variants[name] = Variant(type(agent)(**{**agent.parameters(), **settings}), label, settings)
    return variants


def load_comparison(folder: str | os.PathLike[str]) -> Comparison:
    """What is there in the folder of a sweep, finished or not. Changes nothing."""
    store = Store(folder)
    tasks = tasks_of(store.manifest()["settings"])
    traces, notes = {}, []
    for place, task in tasks.items():
        try:
            run = store.load(task)
        except ValueError as error:
            notes.append(f"left out: {error}")
            continue
        if run is not None:
            traces[place] = trace(run)
    return _comparison(store, tasks, traces, notes)


def _comparison(
    store: Store | Memory,
    tasks: Mapping[tuple[str, int], Task],
    traces: dict[tuple[str, int], Trace],
    notes: Iterable[str] = (),
) -> Comparison:
    manifest = store.manifest()
    comparison = Comparison(
        settings=manifest["settings"],
        traces=traces,
        load_run=lambda label, seed: _there(store, tasks[label, seed]),
        manifest=manifest,
        folder=store.folder,
        notes=list(notes),
    )
    if comparison.missing:
        comparison.notes.append(f"unfinished: {len(comparison.missing)} of {len(tasks)} runs are missing")
    found = {name: {each.versions.get(name) for each in traces.values()} for name in versions()}
    found["kernels"] = {each["versions"].get("kernels") for each in (manifest, *manifest["sessions"])}
    comparison.notes += [
        f"the runs come from several versions of {name}: {', '.join(sorted(map(str, several)))}"
        for name, several in found.items()
        if len(several) > 1
    ]
    return comparison


def _there(store: Store | Memory, task: Task) -> Run:
    run = store.load(task)
    if run is None:
        raise FileNotFoundError(f"the run of {task.agent} with seed {task.seed} is not there")
    return run


@contextmanager
def _progress_bar(total: int, done: int, show: bool) -> Iterator[Callable[[], Any]]:
    """A function to call for each finished run."""
    if not show or done == total:
        yield lambda: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.TextColumn("runs"), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    left = (rich.TextColumn("left"), rich.TimeRemainingColumn())
    with rich.Progress(*columns, *left, console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=total, completed=done)
        yield lambda: bar.advance(task)
