"""Training of several seeds in lockstep: their sessions, and the loop.

A batch learner computes the actions of all seeds at once and learns from all their transitions at once. Each seed has a
`LockstepSession`. A seed that has reached its length is frozen while the others continue.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.position import DONE
from dqucb.running.env_stack import Lockstep
from dqucb.running.request import Request
from dqucb.running.session import Packed, Session, empty_curves
from dqucb.running.stepped import BLOCK_SECONDS, alarmed

if TYPE_CHECKING:
    from dqucb.base import Agent

OWN_LOOP = "stepped"  # the unit of a user-written loop, which has no length
FIRST_RECORDS = 256  # initial capacity for the episodes of a run counted in steps
CURRENT = ("return", "likelihood", "length", "gap")  # columns of the current record


# ---- sessions -----------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class LockstepSession(Session):
    """The run of one of several seeds, with a record per episode, or per step if the env reports regret."""

    max_return: float | None = None
    has_gaps: bool = False  # whether the env reports the regret of each step
    max_reward: float | None = None
    steps: int = 0
    episodes: int = 0
    current: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(CURRENT)))  # the current record
    own_alarms: list[int] | None = None  # of an agent that detects changes itself

    @property
    def units_done(self) -> int:
        """Episodes or steps done."""
        return self.steps if self.unit == "steps" else self.episodes

    def close(self, over: bool) -> bool:
        """Count a step and close the current record if it is complete; return whether the episode is over."""
        self.steps += 1
        by_steps = self.unit == "steps"
        over = over or (by_steps and self.steps >= self.length)
        if over or (by_steps and self.has_gaps):
            self.append(*self.current.tolist())
            self.current[:] = 0.0
        self.episodes += over
        return over

    def append(self, total: float, likelihood: float, length: float, gap: float) -> None:
        """Append a record; `likelihood` is the sum over its steps."""
        number = self.done
        if number == len(self.ends):
            for name in ("ends", "returns", "gaps", "likelihood", "lengths"):
                curve = getattr(self, name)
                setattr(self, name, np.concatenate([curve, np.zeros(max(FIRST_RECORDS, number), curve.dtype)]))
        if not self.has_gaps:
            gap = np.nan if self.max_return is None else self.max_return - total
        self.returns[number], self.gaps[number], self.likelihood[number] = total, gap, likelihood / length
        before = int(self.ends[number - 1]) if number else 0
        self.lengths[number] = length
        self.ends[number] = number + 1 if self.unit == "episodes" else before + int(length)
        self.position[DONE] = number + 1


def new_sessions(seeds: Sequence[int], named: dict[str, Any], **facts: Any) -> list[LockstepSession]:
    """Return new sessions at their first record."""
    length, unit = named["length"], named["unit"]
    known = unit == "episodes" or facts.get("has_gaps", False)
    records = length if known and unit != OWN_LOOP else 0
    return [
        LockstepSession(
            **named, **facts, seed=seed, rng=np.random.default_rng(seed), own_loop=unit == OWN_LOOP,
            **empty_curves(length if known else 1, unit if known else "steps", (), records),
        )
        for seed in seeds
    ]  # fmt: skip


_PLAIN = ("max_return", "has_gaps", "max_reward", "problem", "unit", "length")


def packed(sessions: Sequence[LockstepSession]) -> Packed:
    """Return (JSON, arrays) from which `unpacked` restores the sessions."""
    first = sessions[0]
    settings = {name: getattr(first, name) for name in _PLAIN}
    settings |= {"seconds": sum(each.seconds for each in sessions), "steps": max(each.steps for each in sessions)}
    settings |= {"seeds": [each.seed for each in sessions], "change_at": list(first.change_at)}
    settings["looks"] = first.own_alarms is not None
    arrays: dict[str, NDArray[Any]] = {
        "episodes": np.array([each.episodes for each in sessions], np.int64),
        "current": np.array([each.current for each in sessions]),
    }
    for i, each in enumerate(sessions):
        gaps = each.gaps if each.has_gaps else np.zeros(len(each.gaps))
        columns = (each.returns, each.likelihood, each.lengths.astype(np.float64), gaps)
        arrays[f"closed.{i}"] = np.stack([column[: each.done] for column in columns], 1)
        arrays[f"alarms.{i}"] = np.array(each.own_alarms or [], np.int64)
    return settings, arrays


def unpacked(settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[LockstepSession]:
    """Restore packed sessions. Raises ValueError, KeyError or TypeError for content that does not fit."""
    seeds = _validate.seeds(settings["seeds"] if isinstance(settings["seeds"], list) else None)
    _check(settings, arrays, len(seeds))
    named = {name: settings[name] for name in ("problem", "unit", "length")}
    named |= {"change_at": tuple(settings["change_at"]), "regret_form": "realized"}
    facts = {name: settings[name] for name in ("max_return", "has_gaps", "max_reward")}
    sessions = new_sessions(seeds, named, **facts)
    for i, each in enumerate(sessions):
        each.episodes, each.current[:] = int(arrays["episodes"][i]), arrays["current"][i]
        each.seconds, each.own_alarms = settings["seconds"] / len(seeds), arrays[f"alarms.{i}"].tolist()
        for total, likelihood, length, gap in arrays[f"closed.{i}"].tolist():
            each.append(total, likelihood, 1.0, gap)  # the saved likelihood is a mean already
            each.lengths[each.done - 1] = int(length)
        closed = each.lengths[: each.done]
        if each.unit == "steps":
            each.ends[: each.done] = np.cumsum(closed)
        each.steps = int(closed.sum() + each.current[2])
        # A file of an earlier version does not say whether the agent detects changes itself.
        if not settings.get("looks", bool(each.own_alarms)):
            each.own_alarms = None
    if max(each.steps for each in sessions) != settings["steps"]:
        raise ValueError(f"steps must be those of the records, got {settings['steps']}")
    return sessions


def _check(settings: dict[str, Any], arrays: dict[str, NDArray[Any]], n: int) -> None:
    """Raise a ValueError or KeyError for settings and arrays of other types than those of `packed`."""
    _validate.integer("length", settings["length"])
    _validate.integer("steps", settings["steps"], 0)
    _validate.real("seconds", settings["seconds"], 0.0)
    _validate.flag("has_gaps", settings["has_gaps"])
    for name in ("max_return", "max_reward"):
        if settings[name] is not None:
            _validate.real(name, settings[name])
    _validate.increasing("change_at", settings["change_at"])
    _validate.one_of("unit", settings["unit"], ["episodes", "steps", OWN_LOOP])
    if not isinstance(settings["problem"], dict):
        raise ValueError(f"problem must be a mapping, got {settings['problem']!r}")
    for name, like in (("episodes", np.zeros(n, np.int64)), ("current", np.zeros((n, len(CURRENT))))):
        if arrays[name].shape != like.shape or arrays[name].dtype != like.dtype:
            raise ValueError(f"{name} must be {like.dtype}{like.shape}, got {arrays[name].dtype}{arrays[name].shape}")
    for i in range(n):
        lengths = np.append(arrays[f"closed.{i}"][:, 2], arrays["current"][i, 2])
        if not (lengths >= 0).all() or lengths.sum() > settings["steps"] or (lengths % 1 != 0).any():
            raise ValueError(f"lengths of records must add up to {settings['steps']} steps at most, got {lengths}")
        episodes, closed = int(arrays["episodes"][i]), len(lengths) - 1
        most = np.inf if settings["unit"] == OWN_LOOP else settings["steps"]  # an own loop has no records
        if not 0 <= episodes <= most or (settings["unit"] == "episodes" and episodes != closed):
            raise ValueError(f"episodes must count the {closed} records of seed {i}, got {episodes}")


# ---- the loop -----------------------------------------------------------------------------------------------


class BatchLearner(Protocol):
    """The interface of a learner of n seeds to the loop; arrays have one row per seed."""

    observations: NDArray[np.float32]
    running: NDArray[np.bool_]  # the seeds that have not reached their length

    def choose(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the actions of the seeds in `rows` at their current observations."""

    def learn(
        self,
        rows: NDArray[np.int64],
        rewards: NDArray[np.float64],
        reward_parts: NDArray[np.float64] | None,
        next_observations: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Learn from one step of the seeds in `rows`; return the likelihood of each transition."""

    def restart(self, i: int, changed_at: int) -> None:
        """Discard what seed i learned before its process changed at step `changed_at`."""

    def set_aside(self, i: int) -> None:
        """Freeze what seed i has learned."""

    def check_finite(self, what: str, values: NDArray[np.floating]) -> None:
        """Raise a ValueError that names the seed unless all values are finite."""


def begin(learner: BatchLearner, envs: Lockstep) -> None:
    """Reset the envs of all seeds."""
    for i in range(len(learner.observations)):
        learner.observations[i] = envs.reset(i)
    learner.check_finite("observation", learner.observations)


def advance(
    agent: "Agent",
    learner: BatchLearner,
    envs: Lockstep,
    sessions: Sequence[LockstepSession],
    request: Request,
    go_on: Callable[[int], bool],
) -> None:
    """Step all seeds until each has reached `request.stop_at` or `go_on(done)` returns False."""
    current = np.array([session.current for session in sessions])
    for session, row in zip(sessions, current, strict=True):
        session.current = row  # a view
    began = time.perf_counter()

    def done() -> int:
        return min(session.units_done for session in sessions)

    def clocked() -> None:
        nonlocal began
        now = time.perf_counter()
        for session in sessions:
            session.seconds += (now - began) / len(sessions)
        began = now

    while learner.running.any() and (request.stop_at == request.length or done() < request.stop_at):
        step(agent, learner, envs, sessions, current)
        if request.callback is not None or time.perf_counter() - began >= BLOCK_SECONDS:
            clocked()
            if not go_on(done()):
                break
    clocked()


def step(
    agent: "Agent",
    learner: BatchLearner,
    envs: Lockstep,
    sessions: Sequence[LockstepSession],
    current: NDArray[np.float64],
) -> None:
    """Take one step in the env of every seed that has not finished, and learn from it."""
    n, rows = len(sessions), np.flatnonzero(learner.running)
    actions = learner.choose(rows)
    observations, next_observations, rewards = learner.observations, learner.observations.copy(), np.zeros(n)
    terminated, truncated = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    next_observations[rows], rewards[rows], terminated[rows], truncated[rows] = envs.step(actions, rows)
    ended = terminated | truncated
    likelihood = learner.learn(rows, rewards, envs.reward_parts, next_observations, terminated, truncated)
    if sessions[0].detector is not None:
        for i, action in zip(rows.tolist(), actions, strict=True):
            _update_detector(
                agent, learner, sessions[i], i, observations[i], action, next_observations[i], float(rewards[i])
            )
    learner.observations = next_observations.copy()  # resets overwrite it, and a callback may keep the original
    current[:, 0] += rewards  # zero for finished seeds
    current[:, 1] += likelihood * learner.running
    current[:, 2] += learner.running
    if envs.gaps is not None:
        current[rows, 3] += envs.gaps
    for i in rows.tolist():
        session = sessions[i]
        if not session.close(bool(ended[i])):
            continue
        if session.is_finished:
            learner.set_aside(i)
        else:
            learner.observations[i] = envs.reset(i)
            if not np.isfinite(learner.observations[i]).all():
                learner.check_finite("observation", learner.observations)


def _update_detector(
    agent: "Agent",
    learner: BatchLearner,
    session: LockstepSession,
    i: int,
    state: Any,
    action: Any,
    next_state: Any,
    reward: float,
) -> None:
    """Pass a transition of seed i to its detector, and restart the seed after an alarm if requested."""
    if alarmed(agent, session, state, action, next_state, reward, session.units_done):
        assert session.detector is not None
        learner.restart(i, int(session.detector.detector.changed_at))


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed, which must not interrupt a step.

    A second Ctrl-C interrupts at once. Only the main thread receives signals; in others the function returns False.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
