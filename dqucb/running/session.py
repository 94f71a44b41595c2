"""`Session`: the state of the run of one seed: its identity, curves, alarms and detector."""

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
IDENTITY = (
    "problem",
    "unit",
    "length",
    "seed",
    "regret_form",
    "change_at",
)  # identifies a run, with its options


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which is called after each block of a tabular run or each step of a deep one.

    Parameters
    ----------
    agent : Agent
        The agent in training.
    done, length : int
        Episodes or steps done, and in total.
    unit : str
        "episodes" or "steps".
    runs : callable
        Returns the runs so far, one per seed: `progress.runs()[0].returns`.

    Examples
    --------
    >>> from dqucb import QUCB, combination_lock
    >>> def stop_early(progress):
    ...     return progress.done < 100  # False stops; calling train again continues the run
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
    """What is known of a problem before training.

    Parameters
    ----------
    problem : dict
        JSON values that identify the problem; "problem" is its name.
    unit : str
        "episodes" or "steps".
    change_at : tuple of int
        Change points.
    regret_known : bool
        Whether regret can be computed.
    resumable : bool
        Whether an unfinished run can be saved and resumed.
    unidentified : str, optional
        Why other problems may have the same `problem`.

    Examples
    --------
    >>> from dqucb import Random, frozen_lake
    >>> Random().describe(frozen_lake()).unit
    'episodes'
    """

    problem: dict[str, Any]
    unit: str
    change_at: tuple[int, ...]
    regret_known: bool
    resumable: bool
    unidentified: str | None = None


@dataclass(kw_only=True)
class Session:
    """The run of one seed: its identity, generator, curves, position and detector."""

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
    position: NDArray[np.int64]  # (2,): the current state of a run without episodes, and the number of records done
    options: dict[str, Any] | None = None  # JSON of further options that change results; None in old files
    parameters: dict[str, Any] | None = None  # of the agent at the start of the run
    seconds: float = 0.0
    own_loop: bool = False  # a user-written loop: no length, no records
    given: Any = None  # the argument `problem` of `train`; not saved
    env: Any = None  # the `World` of a run that is stepped from Python
    saved_env: dict[str, Any] | None = None  # the saved state of its env, until a loaded run is resumed
    saved_place: tuple[int, Any] | None = None  # the steps since the last reset and the observation, likewise
    detector: "RunWatch | None" = None  # of `train(detector=...)`
    saved_detector: Packed | None = None  # its saved state, until a loaded run is resumed

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
        """Whether the run has reached its length; a user-written loop never does."""
        return not self.own_loop and self.units_done >= self.length

    @property
    def is_over(self) -> bool:
        """Whether the run may be replaced by another one without losing anything."""
        return self.own_loop or self.is_finished

    def differences(self, request: Request, facts: Facts, parameters: Mapping[str, Any]) -> str | None:
        """Describe how the run differs from a request, in words; None if it is the same run."""
        problem = facts.problem
        if self.given is request.problem and isinstance(self.given, gymnasium.Env):
            problem = self.problem  # the same object, although its counters have changed
        asked = (problem, request.unit, request.length, self.seed, request.regret, facts.change_at)
        for name, here in zip(IDENTITY, asked, strict=True):
            if getattr(self, name) != here:
                return f"its {name} is {getattr(self, name)!r}, not {here!r}"
        held, wanted = self.options, request.identity
        if held is None:  # a file of an earlier version holds the detector only
            held, wanted = self._held_detector, {name: wanted[name] for name in wanted if name == "watch"}
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
    def _held_detector(self) -> dict[str, Any]:
        found = self.saved_detector[0]["identity"] if self.saved_detector is not None else None
        return {} if found is None else {"watch": found}

    def alarms(self, own: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the alarms of the run: `own` if the agent detects changes itself, else those of the detector."""
        return self.detector_alarms if own is None else own

    @property
    def detector_alarms(self) -> NDArray[np.int64]:
        """The episodes or steps in which the detector gave an alarm."""
        if self.detector is None and self.saved_detector is not None:
            return self.saved_detector[1]["alarms"]
        return np.zeros(0, np.int64) if self.detector is None else self.detector.alarms()

    def run(self, agent: "Agent", own_alarms: NDArray[np.int64] | None, extras: dict[str, NDArray[Any]]) -> Run:
        """Return the curves so far."""
        curves = {name: getattr(self, name)[: self.done] for name in CURVES}
        # A finished run shares its curves with the agent, which does not change them; a million episodes take 40 MB.
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
    """Return the fields of a new `Session` that identify the run."""
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
    """Return the empty curves of a new `Session`.

    Parameters
    ----------
    length : int
        Episodes or steps of the run.
    unit : str
        "episodes" or "steps". A record is an episode, or an interval of steps.
    change_at : tuple of int
        Change points; each ends an interval of steps.
    records : int
        About how many intervals of steps; 0 for a user-written loop.
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
