"""`Trial`: one agent on one problem for some seeds; each seed's run is named by a hash of all that decides its bits."""

import functools
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage
from dqucb._fingerprint import fingerprint, is_known_code
from dqucb._storage import SavedFileError
from dqucb.base import Agent
from dqucb.problems import Problem
from dqucb.run import Run

log = logging.getLogger("dqucb")

FORMAT = 1  # of a run's identity; a new number makes every stored result unknown
EVALUATION_SEED = 1_000  # added to the seed of a run, so that evaluation and training draw different numbers
EVALUATIONS = "Evaluations"  # the kind of a file


def canonical(value: Any) -> str:
    """Canonical JSON: equal settings have equal text, and so equal hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def as_json(value: Any) -> Any:
    """The value as JSON would give it back: tuples become lists, NumPy numbers plain ones, order stays."""
    return json.loads(json.dumps(value, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise ValueError(f"settings must be numbers, words, lists or None, got {value!r}")


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


class Evaluation(NamedTuple):
    """Episodes of the greedy policy at one moment of training; their returns become `run.extras[name]`.

    Parameters
    ----------
    name : str
        The name of the returns in `run.extras`.
    at : int
        After how many episodes or steps of training (the unit of the trial).
    problem : Problem, env or callable
        Where the policy is evaluated, in the form that `Agent.train` takes.
    episodes : int
        How many episodes.

    Examples
    --------
    >>> from dqucb.problems import gridworld
    >>> Evaluation("half way", at=500, problem=gridworld(0.1)).episodes
    20
    """

    name: str
    at: int
    problem: Any
    episodes: int = 20


class Parts(NamedTuple):
    """The objects that run a trial, which its JSON description cannot hold; they are sent to worker processes."""

    agent: Agent
    problem: Any
    evaluations: tuple[Evaluation, ...] = ()
    recorder: Callable[[], Any] | None = None  # makes the callback of each batch
    resumable: bool = True
    options: Mapping[str, Any] = MappingProxyType({})  # of `Agent.train`, the same for all seeds


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One agent on one problem for some seeds: the unit of work.

    Parameters
    ----------
    agent, parameters : str, mapping
        Class name and parameters of the agent.
    problem : mapping
        The problem's description.
    length, unit : int, str
        How long, in "episodes" or "steps".
    regret : str
        "realized", "expected", "pseudo", or "none" where it is unknown.
    seeds : tuple of int
        Agents that train in lockstep train all of them in one batch.
    options : mapping
        What else decides the result: given change points, evaluations, a recorder, a detector.
    parts : Parts, optional
        The objects themselves; a trial that was read from a folder has none and cannot be run.

    Examples
    --------
    >>> trial = Trial(agent="Random", parameters={}, problem={"problem": "frozen-lake"}, length=10, unit="episodes",
    ...               regret="realized", seeds=(0,))
    >>> len(trial.key(0))
    64
    """

    agent: str
    parameters: Mapping[str, Any]
    problem: Mapping[str, Any]
    length: int
    unit: str
    regret: str
    seeds: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts | None = field(default=None, compare=False, repr=False)

    def identity(self, seed: int | None = None) -> dict[str, Any]:
        """Everything that decides the result, as JSON."""
        names = ("agent", "parameters", "problem", "length", "unit", "regret")
        values = {"format": FORMAT, **{name: getattr(self, name) for name in names}, "seed": seed}
        return as_json(values | ({"options": self.options} if self.options else {}))

    def key(self, seed: int) -> str:
        """SHA-256 of the identity: the name of the file of a run."""
        before, after = self._around_seed
        return hashlib.sha256(f"{before}{seed}{after}".encode()).hexdigest()

    @functools.cached_property
    def _around_seed(self) -> tuple[str, str]:
        """The text of the identity before and after the seed; computing it for each of 100,000 seeds takes a minute."""
        # Keys are sorted and only "unit" comes after "seed", so that the last one is not a parameter's.
        before, _, after = canonical(self.identity()).rpartition('"seed":null')
        return f'{before}"seed":', after

    def matches(self, run: Run) -> bool:
        """Whether `run` is a finished result of this trial."""
        found = replace(
            self,
            agent=run.agent,
            parameters=run.parameters,
            problem=run.problem,
            length=int(run.ends[-1]) if len(run) else 0,
            unit=run.unit,
            regret=run.regret_form if self.regret != "none" else "none",
        )
        return run.seed in self._seed_set and found._around_seed == self._around_seed

    @functools.cached_property
    def _seed_set(self) -> frozenset[int]:
        return frozenset(self.seeds)

    def only(self, seeds: tuple[int, ...]) -> "Trial":
        """The same for these seeds."""
        made = replace(self, seeds=tuple(seeds))
        vars(made)["_around_seed"] = self._around_seed
        return made

    @property
    def live(self) -> Parts:
        """The objects that run; a `ValueError` if this trial was read from a folder."""
        if self.parts is None:
            raise ValueError(f"the trial of {self.agent} was read from a folder, which cannot hold {self.problem!r}")
        return self.parts

    @property
    def batch(self) -> str:
        """A name that only the same trial with the same seeds has: that of its checkpoint."""
        return f"{_digest(self.identity())[:16]}-{_spelled(self.seeds)}"

    # ---- running --------------------------------------------------------------------------------------

    def train(self, checkpoint: Path | None = None, progress: bool | None = False) -> tuple[Agent, list[Run]]:
        """Train a new agent for all seeds; the agent, and the run of each seed.

        Parameters
        ----------
        checkpoint : Path, optional
            Where the state of the batch is kept; training goes on from what is there.
        progress : bool or None
            Show a progress bar for this batch; None: after five seconds, where it is seen.
        """
        # A tabular run takes seconds, and writing its tables takes as long as a short one.
        if checkpoint is None or not self.live.resumable or not self.live.agent.in_lockstep:
            return self._trained(None, progress)
        try:
            return self._trained(checkpoint, progress)
        except SavedFileError as error:
            if not checkpoint.exists():
                raise
            where = _storage.set_aside(checkpoint, checkpoint.parent.parent / "corrupt")
            log.warning("%s; the checkpoint is set aside as %s, and its runs start again", error, where)
            return self._trained(checkpoint, progress)

    def _trained(self, checkpoint: Path | None, progress: bool | None) -> tuple[Agent, list[Run]]:
        live = self.live
        agent, problem = live.agent.clone(), _shared(live.problem)
        callback = live.recorder() if live.recorder is not None else None
        options: dict[str, Any] = {self.unit: self.length, "progress": progress, "callback": callback}
        options |= {"checkpoint": checkpoint, **live.options}
        if self.regret not in ("none", "realized"):
            options["regret"] = self.regret

        def advance(stop_at: int | None) -> list[Run]:
            if agent.in_lockstep:
                return agent.train_seeds(problem, self.seeds, stop_at=stop_at, **options)
            return [agent.train(problem, seed=self.seeds[0], stop_at=stop_at, **options)]

        if not live.evaluations:
            return agent, advance(None)
        notes = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.name}.evaluations")
        returns, runs = _read(notes), []
        for stop, evaluations in _stops(live.evaluations, self.length):
            if stop < self.length and all(_name(e, seed) in returns for e in evaluations for seed in self.seeds):
                continue
            runs = advance(None if stop == self.length else stop)
            for evaluation in evaluations:
                for seed in self.seeds:
                    returns[_name(evaluation, seed)] = _evaluated(agent, evaluation, seed)
            if notes is not None:
                _storage.write_atomically(notes, _storage.pack(EVALUATIONS, {}, returns))
        names = [evaluation.name for evaluation in live.evaluations]
        return agent, [
            replace(run, extras={**run.extras, **{name: returns[f"{run.seed}.{name}"] for name in names}})
            for run in runs
        ]


def described_recorder(recorder: Callable[[], Any]) -> Any:
    """The identity of a function that makes a recorder: its name, the arguments of a `functools.partial`, its code."""
    if isinstance(recorder, functools.partial):
        return [described_recorder(recorder.func), as_json(list(recorder.args)), as_json(recorder.keywords)]
    name = f"{recorder.__module__}.{recorder.__qualname__}"
    return name if is_known_code(recorder) else {"name": name, "sha256": fingerprint(recorder)}


def _evaluated(agent: Agent, evaluation: Evaluation, seed: int) -> NDArray[np.float64]:
    """The returns of one seed's greedy policy."""
    options: dict[str, Any] = {"trained_seed": seed} if agent.in_lockstep else {}
    return np.asarray(
        agent.evaluate(_shared(evaluation.problem), evaluation.episodes, seed=EVALUATION_SEED + seed, **options)
    )


def _name(evaluation: Evaluation, seed: int) -> str:
    return f"{seed}.{evaluation.name}"


def _stops(evaluations: tuple[Evaluation, ...], length: int) -> Iterator[tuple[int, list[Evaluation]]]:
    """The moments at which training is stopped, with what is evaluated there; the end is always one."""
    for stop in sorted({length, *(evaluation.at for evaluation in evaluations)}):
        yield stop, [evaluation for evaluation in evaluations if evaluation.at == stop]


def _read(notes: Path | None) -> dict[str, Any]:
    """The evaluations that a stopped trial left; a damaged file counts as none, since they can be made again."""
    if notes is None or not notes.exists():
        return {}
    try:
        return _storage.load(notes, EVALUATIONS)[1]
    except SavedFileError:
        return {}


def _spelled(seeds: tuple[int, ...]) -> str:
    """Seeds as 0-9_100-104; a list too long for the name of a file is hashed."""
    ordered, known = sorted(seeds), set(seeds)
    starts = [seed for seed in ordered if seed - 1 not in known]
    ends = [seed for seed in ordered if seed + 1 not in known]
    text = "_".join(f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
    return text if len(text) <= 120 else _digest(ordered)[:16]


def spelled_seeds(text: str, most: int) -> tuple[int, ...]:
    """The seeds of the end of a batch's name; none if they were hashed, or are more than `most`."""
    try:
        spans = [[int(number) for number in span.split("-")] for span in text.split("_")]
        if sum(last + 1 - first for first, last in spans) > most:
            return ()
        return tuple(seed for first, last in spans for seed in range(first, last + 1))
    except ValueError:
        return ()


_problems: dict[str, Problem] = {}


def _shared(problem: Any) -> Any:
    """One object for equal problems in a worker process, so that their optimal values are computed once."""
    if not isinstance(problem, Problem):
        return problem
    if len(_problems) > 4:
        _problems.clear()
    return _problems.setdefault(problem.digest(), problem)
