"""`Session`: the run of one seed under way, with its identity, curves, alarms and detector."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.position import DONE, NOWHERE
from dqucb.run import CURVES, Run, versions
from dqucb.running.options import default_of
from dqucb.running.request import Request

if TYPE_CHECKING:
    from dqucb.base import Agent
    from dqucb.drift.runs import RunWatch

Packed = tuple[dict[str, Any], dict[str, NDArray[Any]]]
IDENTITY = ("problem", "unit", "length", "seed", "regret_form", "change_at")  # what names a run, besides its options


@dataclass(frozen=True)
class Moment:
    """What a callback is called with, after each block of a tabular run or each step of a deep one.

    Parameters
    ----------
    agent : Agent
        The agent that is being trained.
    done, length : int
        Episodes or steps done, and in all.
    unit : str
        "episodes" or "steps".
    runs : callable
        The runs so far, one per seed: `moment.runs()[0].returns`.

    Examples
    --------
    >>> from dqucb import QUCB, combination_lock
    >>> def stop_early(moment):
    ...     return moment.done < 100  # False stops; training again continues
    >>> run = QUCB().train(combination_lock(change_at=()), episodes=5_000, callback=stop_early)
    >>> len(run) < 5_000
    True
    """

    agent: "Agent"
    done: int
    length: int
    unit: str
    runs: Callable[[], list[Run]] = field(repr=False)


class Facts(NamedTuple):
    """What is known of a problem before anything is trained on it.

    Examples
    --------
    >>> from dqucb import Random, frozen_lake
    >>> Random().describe(frozen_lake()).unit
    'episodes'
    """

    problem: dict[str, Any]  # JSON; "problem" is its name
    unit: str
    change_at: tuple[int, ...]
    regret_known: bool
    resumable: bool  # whether a run on it can be saved in the middle
    unidentified: str | None = None  # why `problem` may stand for other problems too


@dataclass(kw_only=True)
class Session:
    """The run of one seed: which run it is, its generator, curves, position and detector."""

    problem: dict[str, Any]
    unit: str
    length: int
    seed: int
    regret_form: str
    change_at: tuple[int, ...]
    rng: np.random.Generator
    ends: NDArray[np.int64]
    returns: NDArray[np.float64]
    gaps: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    lengths: NDArray[np.int64]
    position: NDArray[np.int64]  # (2,) the state of a run without episodes, and the records done
    options: dict[str, Any] | None = None  # JSON of other options that change results; None: the file did not say
    parameters: dict[str, Any] | None = None  # of the agent when the run began
    seconds: float = 0.0
    own_loop: bool = False  # a loop of the user's own: no length, no records
    given: Any = None  # the problem as `train` was given it; not saved
    env: Any = None  # the `World` of a run that is stepped from Python
    saved_env: dict[str, Any] | None = None  # the state of its env, of a loaded run until it continues
    watch: "RunWatch | None" = None  # the detector of `train(detector=...)`
    saved_watch: Packed | None = None  # the same of a loaded run, until it continues

    @property
    def done(self) -> int:
        """Records done."""
        return int(self.position[DONE])

    @property
    def units_done(self) -> int:
        """Episodes or steps done."""
        return int(self.ends[self.done - 1]) if self.done else 0

    @property
    def is_finished(self) -> bool:
        """Whether the run has reached its length; a loop of the user's own never does."""
        return not self.own_loop and self.units_done >= self.length

    @property
    def is_over(self) -> bool:
        """Whether nothing is lost when another run takes its place."""
        return self.own_loop or self.is_finished

    def differences(self, request: Request, facts: Facts, parameters: Mapping[str, Any]) -> str | None:
        """What of the run differs from what is asked for, in words; None if it is the same run."""
        problem = facts.problem
        if self.given is request.problem and isinstance(self.given, gymnasium.Env):
            problem = self.problem  # the same object, whatever it counted since
        asked = (problem, request.unit, request.length, self.seed, request.regret, facts.change_at)
        for name, here in zip(IDENTITY, asked, strict=True):
            if getattr(self, name) != here:
                return f"its {name} is {getattr(self, name)!r}, not {here!r}"
        held, wanted = self.options, request.identity
        if held is None:  # a file of an earlier version: it kept the detector alone
            held, wanted = self._held_watch, {name: wanted[name] for name in wanted if name == "watch"}
        for name in sorted({*held, *wanted}):
            there, here = (side.get(name, default_of(name)) for side in (held, wanted))
            if there != here:
                return f"its {'detector' if name == 'watch' else name} is {there!r}, not {here!r}"
        for name, value in (self.parameters or {}).items():
            if parameters.get(name) != value:
                return f"its agent had {name}={value!r}, not {parameters.get(name)!r}"
        if facts.unidentified is not None and self.given is not None and self.given is not request.problem:
            return f"its env is {self.given!r}, and envs of this kind cannot be told apart ({facts.unidentified})"
        return None

    @property
    def _held_watch(self) -> dict[str, Any]:
        found = self.saved_watch[0]["identity"] if self.saved_watch is not None else None
        return {} if found is None else {"watch": found}

    def alarms(self, own: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The alarms of the run: the agent's own if it looks for changes itself, else those of the detector."""
        return self.detector_alarms if own is None else own

    @property
    def detector_alarms(self) -> NDArray[np.int64]:
        """The episodes or steps in which the detector gave an alarm."""
        if self.watch is None and self.saved_watch is not None:
            return self.saved_watch[1]["alarms"]
        return np.zeros(0, np.int64) if self.watch is None else self.watch.alarms()

    def run(self, agent: "Agent", own_alarms: NDArray[np.int64] | None, extras: dict[str, NDArray[Any]]) -> Run:
        """The curves so far."""
        curves = {name: getattr(self, name)[: self.done] for name in CURVES}
        # A finished run shares its curves with the agent, which writes no more; a million episodes are 40 MB of them.
        if not self.is_finished:
            curves = {name: curve.copy() for name, curve in curves.items()}
        return Run(
            **curves,
            seconds=self.seconds,
            seed=self.seed,
            agent=agent.name,
            parameters=agent.parameters() if self.parameters is None else self.parameters,
            problem=self.problem,
            unit=self.unit,
            change_at=self.change_at,
            regret_form=self.regret_form,
            versions={**versions(), **agent._versions()},
            alarms=self.alarms(own_alarms),
            extras=extras,
        )


def named(request: Request, facts: Facts, parameters: dict[str, Any]) -> dict[str, Any]:
    """The part of a new `Session` that names the run."""
    return {
        "given": request.problem,
        "problem": facts.problem,
        "unit": request.unit,
        "length": request.length,
        "regret_form": request.regret,
        "change_at": facts.change_at,
        "options": request.identity,
        "parameters": parameters,
    }


def empty_curves(length: int, unit: str, change_at: tuple[int, ...], records: int) -> dict[str, Any]:
    """The arrays of a `Session` of which nothing is done.

    A record is an episode, or a share of the steps such that there are about `records`, change points among their
    ends. No records at all are for a loop of the user's own.
    """
    n_records = length if unit == "episodes" else min(records, length)
    _validate.fits(f"the curves of {n_records:,} {'episodes' if unit == 'episodes' else 'records'}", 40 * n_records)
    if records == 0:
        ends = np.zeros(0, np.int64)
    elif unit == "episodes":
        ends = np.arange(1, length + 1)
    else:
        even = np.linspace(0, length, min(records, length) + 1).astype(np.int64)[1:]
        ends = np.union1d(even, np.array([c for c in change_at if c < length], np.int64))
    return {
        "ends": ends,
        "returns": np.zeros(len(ends)),
        "gaps": np.zeros(len(ends)),
        "likelihood": np.ones(len(ends)),
        "lengths": np.zeros(len(ends), np.int64) if unit == "episodes" else np.diff(ends, prepend=0),
        "position": np.array([NOWHERE, 0]),
    }
