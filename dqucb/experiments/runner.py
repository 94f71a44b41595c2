"""`compare` and `sweep`: many runs in parallel; finished runs are kept and never repeated."""

import inspect
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack

from dqucb import _progress, _validate
from dqucb.experiments.comparison import Comparison, Trace, trace
from dqucb.experiments.design import Agents, Design, designed, trials_of, varied
from dqucb.experiments.execution import Workers, split
from dqucb.experiments.index import SHARD, WORTH_WHILE
from dqucb.experiments.sequential import BLOCK, SequentialTest, findings
from dqucb.experiments.store import Memory, Store
from dqucb.experiments.trials import Evaluation, Trial
from dqucb.run import Run, is_outdated, versions
from dqucb.running.options import OPTIONS, SHARED, SharedOptions, signature

log = logging.getLogger("dqucb")
AUTO = "auto"  # as many seeds as a sequential test needs


def compare(
    agents: Agents,
    problem: Any,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    seeds: int | Iterable[int] | Literal["auto"] = 10,
    max_seeds: int = 30,
    jobs: int = -1,
    out: str | os.PathLike[str] | None = None,
    backend: str = "processes",
    scheduler: str | None = None,
    threads: int = 1,
    progress: bool | None = None,
    evaluations: Sequence[Evaluation] = (),
    recorder: Callable[[], Any] | None = None,
    name: str | None = None,
    version: str | None = None,
    command: str = "dqucb.compare(...)",
    **given: Unpack[SharedOptions],
) -> Comparison:
    """Train every agent with every seed on one problem.

    Parameters
    ----------
    agents : Agent, str, or a list or mapping of them
        Agents or their registered names; a mapping gives them labels of your own. The seeds of a deep agent are trained
        in one batch in lockstep.
    problem : Problem, str, env or callable
        A finite problem, the name of a registered problem or env ("gridworld", "cartpole"), a Gymnasium id, an env, or
        a function that makes one. An env object is used in this process alone.
    episodes, steps : int, optional
        How long; registered problems and envs know their usual length.
    seeds : int, list of int or "auto"
        How many (0, 1, ...), or which. "auto" adds five seeds at a time to the agents that do not differ significantly
        yet, until a sequential test with a family-wise error of 5 % has decided all pairs or `max_seeds` are used;
        `notes` say what it found.
    max_seeds : int
        The largest number of seeds of each agent with ``seeds="auto"``, rounded down to a multiple of five.
    jobs : int
        Processes; -1 is one per core. The results do not depend on it.
    out : path, optional
        A folder for every finished run and the state of unfinished batches: a stopped experiment resumes there, and
        more seeds or agents reuse the existing runs.
    backend, scheduler : str
        "processes"; "threads", which start at once and suit many short runs of tabular agents on finite problems; or
        "dask" with the address of a scheduler.
    threads : int
        Compute threads of each worker.
    progress : bool, optional
        Show a progress bar; by default, after five seconds on a terminal or in a notebook.
    evaluations : list of Evaluation
        Episodes of the greedy policy at given moments; their returns are in `run.extras`.
    recorder : callable, optional
        A function that makes a new callback for each batch of seeds; its `results` are in `run.extras`.
    name, version : str, optional
        Your name and version of an env, agent, recorder or detector of your own, for `out`. They are needed where its
        arguments, state and code do not identify it. The version replaces a digest of the code of agents, recorders
        and detectors: change it whenever the code changes.
    command : str
        The command line, stored in the folder and shown in its reports.
    **given
        The options of `Agent.train` that are the same for all runs, such as `change_at`, `max_return`, `regret` and
        `detector`; the table of options in the reference lists them. ``regret="none"`` compares returns where the best
        one is unknown. `detector` may be a mapping of labels to detectors, for the agents that it names: so
        ``{"QUCB": QUCB(), "watched": QUCB()}`` with ``{"watched": "auto"}`` compares an agent with itself.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from dqucb import compare
    >>> compare(["qucb", "random"], "combination-lock", 200, seeds=2, jobs=1).labels
    ['QUCB', 'Random']
    """
    for option in given:
        if option not in OPTIONS:
            try:
                _validate.known("option of compare", option, inspect.signature(compare).parameters)
            except ValueError as error:
                raise TypeError(str(error)) from None
    words = {"name": name, "version": version}
    if auto := isinstance(seeds, str):
        if seeds != AUTO:
            raise ValueError(f'seeds must be a number of seeds, a list of different seeds or "auto", got {seeds!r}')
        seeds = _validate.integer("max_seeds", max_seeds, BLOCK, _validate.MAX_SEEDS) // BLOCK * BLOCK
    design = designed(agents, problem, episodes, steps, seeds, evaluations, recorder, given, words, out)
    workers = Workers(backend, jobs, scheduler, threads)
    store = Memory(design.settings, command) if out is None else Store(out)
    if auto:
        return _until_decided(design, store, workers, command, progress)
    return _trained(design, store, workers, command, progress)


_OWN = [each for each in inspect.signature(compare).parameters.values() if each.kind is not each.VAR_KEYWORD]
compare.__signature__ = signature(_OWN, SHARED)  # type: ignore[attr-defined]


def _until_decided(design: Design, store: Store | Memory, *how: Any) -> Comparison:
    """Add seeds of the agents of undecided pairs, until all pairs are decided or the seeds of the design are used."""
    available = design.settings["seeds"]
    test = SequentialTest(list(design.trials), len(available) // BLOCK)
    used = dict.fromkeys(design.trials, 0)
    computed = 0
    while not test.is_over:
        used |= {label: used[label] + BLOCK for label in test.active}
        comparison = _trained(design.only({label: available[:count] for label, count in used.items()}), store, *how)
        computed += comparison.computed
        decided = test.look({label: list(comparison.losses(label).values()) for label in test.active})
        log.info("%d seeds: %s", max(used.values()), findings(decided, test.undecided))
    comparison.computed = computed
    note = (
        f"seeds chosen by a sequential test of all pairs (family-wise error {test.level:.0%}, at most "
        f"{len(available)} seeds): {findings(test.decisions, test.undecided)}"
    )
    store.add_session(runs=0, seconds=0.0, workers="this process", versions=versions(), note=note)
    comparison.notes.append(note)
    return comparison


def _trained(
    design: Design, store: Store | Memory, workers: Workers, command: str, progress: bool | None
) -> Comparison:
    """Make the runs of a design that the store does not have, and return all of them."""
    settings, trials = design
    traces: dict[tuple[str, int], Trace] = {}
    wanted = {label: set(trial.seeds) for label, trial in trials.items()}
    places = [(label, seed) for seed in settings["seeds"] for label in trials if seed in wanted[label]]
    with store.writing(settings, command):
        began = time.perf_counter()
        indexing = _Indexing(store, len(places))
        for label, seed in places:
            key = trials[label].key(seed)
            if (known := indexing.known.get(key)) is not None and not is_outdated(known.versions):
                traces[label, seed] = known
            elif (run := store.load_or_set_aside(trials[label], seed)) is not None:
                traces[label, seed] = indexing.add(key, trace(run))
        missing = {
            label: trial.only(tuple(seed for seed in trial.seeds if (label, seed) not in traces))
            for label, trial in trials.items()
        }
        labels = {trial.key(seed): label for label, trial in missing.items() for seed in trial.seeds}
        if traces and store.folder is not None:
            log.info("%d of %d runs are in %s already, %d to make", len(traces), len(places), store.folder, len(labels))
        batches = split(batch for trial in missing.values() if trial.seeds for batch in store.batches(trial))
        in_turn = workers.jobs == 1 or len(batches) == 1
        alone = in_turn and all(batch.live.agent.in_lockstep for batch in batches)  # then their own bars say more
        with _progress.shown("runs", len(places), len(traces), False if alone else progress) as bar:
            done = workers.results(batches, store.packed, store.checkpoints, progress if alone else False, bar.say)
            for trial, results in done:
                for seed, result in zip(trial.seeds, results, strict=True):
                    key = trial.key(seed)
                    traces[labels[key], seed] = indexing.add(key, trace(store.put(trial, seed, result)))
                    bar.advance()
                store.finish(trial)
        indexing.finish()
        if labels:
            seconds = round(time.perf_counter() - began, 3)
            store.add_session(runs=len(labels), seconds=seconds, workers=str(workers), versions=versions())
    comparison = _comparison(store, settings, trials, {place: traces[place] for place in places})
    comparison.computed = len(labels)
    return comparison


def sweep(
    agents: Agents,
    problem: Any,
    values: Mapping[str, Sequence[Any]],
    episodes: int | None = None,
    **options: Any,
) -> Comparison:
    """`compare` for every combination of parameter values.

    Parameters
    ----------
    agents, problem, episodes
        As in `compare`.
    values : mapping of str to list
        Parameter -> its values; an agent that lacks one of the parameters runs without it.
    **options
        The other options of `compare`.

    Examples
    --------
    >>> from dqucb import sweep
    >>> made = sweep("qucb", "combination-lock", {"bonus_scale": [0.1, 1.0]}, 200, seeds=2, jobs=1)
    >>> made.labels
    ['QUCB bonus_scale=0.1', 'QUCB bonus_scale=1.0']
    >>> sorted(made.best())
    ['QUCB']
    """
    return compare(varied(agents, values), problem, episodes, **options)


def load_comparison(folder: str | os.PathLike[str]) -> Comparison:
    """The runs in the folder of an experiment, finished or not. Changes nothing.

    Examples
    --------
    >>> import tempfile
    >>> from dqucb import compare, load_comparison
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = compare("qucb", "combination-lock", 200, seeds=1, jobs=1, out=folder)
    ...     load_comparison(folder).labels
    ['QUCB']
    """
    store = Store(folder)
    manifest = store.manifest()
    settings = manifest["settings"]
    trials = trials_of(settings)
    traces: dict[tuple[str, int], Trace] = {}
    notes = [session["note"] for session in manifest["sessions"] if "note" in session][-1:]
    indexed = store.index.traces()
    seeds = {label: set(trial.seeds) for label, trial in trials.items()}
    for label, seed in ((label, seed) for seed in settings["seeds"] for label in trials if seed in seeds[label]):
        if (known := indexed.get(trials[label].key(seed))) is not None:
            traces[label, seed] = known
            continue
        try:
            run = store.load(trials[label], seed)
        except ValueError as error:
            notes.append(f"left out: {error}")
            continue
        if run is not None:
            traces[label, seed] = trace(run)
    return _comparison(store, settings, trials, traces, notes)


class _Indexing:
    """The index of a large experiment while it is run; nothing for a small one, or one without a folder."""

    def __init__(self, store: Store | Memory, runs: int) -> None:
        self._index = store.index if runs >= WORTH_WHILE else None
        self._fresh: dict[str, Trace] = {}
        self.known = {} if self._index is None else self._index.traces()

    def add(self, key: str, found: Trace) -> Trace:
        if self._index is not None:
            self._fresh[key] = found
            if len(self._fresh) >= SHARD:
                self.finish()
        return found

    def finish(self) -> None:
        if self._index is not None and self._fresh:
            self._index.add(self._fresh)
            self._fresh = {}


def _comparison(
    store: Store | Memory,
    settings: dict[str, Any],
    trials: Mapping[str, Trial],
    traces: dict[tuple[str, int], Trace],
    notes: Iterable[str] = (),
) -> Comparison:
    manifest = store.manifest()
    comparison = Comparison(
        settings=settings,
        traces=traces,
        trials=dict(trials),
        load_run=lambda label, seed: _there(store, trials[label], seed),
        manifest=manifest,
        folder=store.folder,
        notes=list(notes),
    )
    if comparison.missing:
        total = len(comparison.missing) + len(traces)
        comparison.notes.append(f"unfinished: {len(comparison.missing)} of {total} runs are missing")
    found = {name: {each.versions.get(name) for each in traces.values()} for name in versions()}
    comparison.notes += [
        f"the runs come from several versions of {name}: {', '.join(sorted(map(str, several)))}"
        for name, several in found.items()
        if len(several) > 1
    ]
    return comparison


def _there(store: Store | Memory, trial: Trial, seed: int) -> Run:
    run = store.load(trial, seed)
    if run is None:
        raise FileNotFoundError(f"the run of {trial.agent} with seed {seed} is not there")
    return run
