"""A training run: what was asked for, how far it is, and what watches over it while it goes on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.position import DONE, NOWHERE
from dqucb.drift.base import checked_detector
from dqucb.run import CURVES, Run, versions

if TYPE_CHECKING:
    from dqucb.base import Agent

CHECKPOINT_SECONDS = 60.0  # between two writings of a checkpoint; its bits do not depend on this
RECORDS = 1_000  # points of the curves of a run that is counted in steps
REGRETS = ("realized", "expected")
ON_ALARM = ("restart", "note")  # what an agent does when the detector of its run gives an alarm


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
    ...     return moment.done < 100  # False stops; training again goes on
    >>> run = QUCB().train(combination_lock(change_at=()), episodes=5_000, callback=stop_early)
    >>> len(run) < 5_000
    True
    """

    agent: "Agent"
    done: int
    length: int
    unit: str
    runs: Callable[[], list[Run]] = field(repr=False)


Callback = Callable[[Any], object]


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


@dataclass(frozen=True)
class Request:
    """The arguments of `train`, checked once."""

    problem: Any
    unit: str
    length: int
    seeds: tuple[int, ...]
    progress: bool
    callback: Callback | None
    checkpoint: Path | None
    stop_at: int
    change_at: tuple[int, ...] | None
    max_return: float | None
    regret: str
    records: int
    horizon: int | None
    discount: float | None
    detector: Any
    on_alarm: str

    @classmethod
    def checked(
        cls,
        problem: Any,
        *,
        episodes: int | None = None,
        steps: int | None = None,
        seeds: Any = (0,),
        progress: bool = False,
        callback: Callback | None = None,
        checkpoint: str | PathLike[str] | None = None,
        stop_at: int | None = None,
        change_at: Any = None,
        max_return: float | None = None,
        regret: str = "realized",
        records: int = RECORDS,
        horizon: int | None = None,
        discount: float | None = None,
        detector: Any = None,
        on_alarm: str = "restart",
    ) -> "Request":
        """The request, or a ValueError that names the argument, the value and what is allowed."""
        if (episodes is None) == (steps is None):
            raise ValueError(f"give exactly one of episodes and steps, got episodes={episodes!r}, steps={steps!r}")
        unit, given = ("episodes", episodes) if steps is None else ("steps", steps)
        length = _validate.length(unit, given)
        if callback is not None and not callable(callback):
            raise ValueError(f"callback must be a function of a moment, got {callback!r}")
        if horizon is not None and discount is not None:
            raise ValueError(
                f"give at most one of horizon and discount, got horizon={horizon!r}, discount={discount!r}"
            )
        if isinstance(detector, str):
            _validate.one_of("detector", detector, ("auto",))
        elif detector is not None:
            checked_detector(detector, "clone")
            if checkpoint is not None and not hasattr(detector, "from_state"):
                raise ValueError(f"checkpoint must be None with {detector!r}: its state cannot be saved")
        changes = None if change_at is None else _validate.increasing("change_at", change_at)
        if changes and changes[-1] >= length:
            raise ValueError(f"change_at must lie before the end of a run of {unit}={length}, got {changes[-1]}")
        return cls(
            problem=problem,
            unit=unit,
            length=length,
            seeds=tuple(_validate.seeds(seeds)),
            progress=bool(progress),
            callback=callback,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            stop_at=length if stop_at is None else _validate.integer("stop_at", stop_at, 1, length),
            change_at=changes,
            max_return=None if max_return is None else _validate.real("max_return", max_return),
            regret=_validate.one_of("regret", regret, REGRETS),
            records=_validate.integer("records", records),
            horizon=None if horizon is None else _validate.integer("horizon", horizon),
            discount=None if discount is None else _validate.real("discount", discount, 0.0, 1.0 - 1e-12),
            detector=detector,
            on_alarm=_validate.one_of("on_alarm", on_alarm, ON_ALARM),
        )

    def for_seed(self, seed: int) -> "Request":
        """The same for one of the seeds; each of several has a checkpoint of its own."""
        path = self.checkpoint
        if path is not None and len(self.seeds) > 1:
            path = path.with_name(f"{path.name}-{seed}")
        return replace(self, seeds=(seed,), checkpoint=path)

    @property
    def seed(self) -> int:
        """The one seed."""
        (seed,) = self.seeds
        return seed


def watch_identity(detector: Any, on_alarm: str) -> dict[str, Any] | None:
    """What must agree for a watched run to go on, as JSON; None for a run that is not watched."""
    return None if detector is None else {"detector": repr(detector), "on_alarm": on_alarm}


@dataclass(kw_only=True)
class Session:
    """A run of one seed under way: its identity, generator, curves and position."""

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
    seconds: float = 0.0
    env: Any = None  # of a run that is stepped from Python; it is not saved

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
        """Whether every record is done; a loop of the user's own has none and is never finished."""
        return 0 < len(self.ends) == self.done

    @property
    def is_over(self) -> bool:
        """Whether nothing is lost when another run takes its place."""
        return len(self.ends) == self.done

    def run(self, agent: "Agent", alarms: NDArray[np.int64]) -> Run:
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
            parameters=agent.parameters(),
            problem=self.problem,
            unit=self.unit,
            change_at=self.change_at,
            regret_form=self.regret_form,
            versions=versions(),
            alarms=alarms,
        )


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


@contextmanager
def watching(
    request: Request, title: str, done: int, save: Callable[[Path], object], moment: Callable[[int], Any]
) -> Iterator[Callable[[int], bool]]:
    """A function to call with the episodes or steps done; it answers whether to go on.

    It draws the progress bar, writes the checkpoint with `save` every `CHECKPOINT_SECONDS` and when training ends,
    and calls the callback with `moment(done)`.
    """
    saved_at = time.monotonic()

    def go_on(done: int) -> bool:
        nonlocal saved_at
        report(done)
        wanted = request.callback is None or request.callback(moment(done)) is not False
        # After the callback, whose own state goes into the file.
        if request.checkpoint is not None and time.monotonic() - saved_at >= CHECKPOINT_SECONDS:
            save(request.checkpoint)
            saved_at = time.monotonic()
        return wanted

    with progress_bar(title, request.length, done, request.progress) as report:
        yield go_on
    if request.checkpoint is not None:
        save(request.checkpoint)


def callback_state(callback: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(JSON, arrays) of a callback that has `state()`."""
    state: dict[str, Any] = callback.state() if hasattr(callback, "state") else {}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in state.items() if name not in arrays}, arrays


def restore_callback(callback: Any, saved: tuple[dict[str, Any], dict[str, NDArray[Any]]]) -> None:
    """Let a callback that has `restore()` go on from what `callback_state` gave."""
    if hasattr(callback, "restore"):
        callback.restore({**saved[0], **saved[1]})


def callback_results(callback: Any, i: int) -> dict[str, NDArray[Any]]:
    """What a callback that has `results(i)` recorded of the i-th seed, for `run.extras`."""
    return dict(callback.results(i)) if hasattr(callback, "results") else {}


@contextmanager
def progress_bar(title: str, total: int, done: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function that takes the number done so far and, if `show`, draws it."""
    if not show:
        yield lambda units: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda units: bar.update(task, completed=units)
