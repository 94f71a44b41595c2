"""The part of training that all agents share: resuming, checkpoints, callbacks, progress bars and results."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dqucb import _progress
from dqucb.run import Run
from dqucb.running import files
from dqucb.running.env import new_detector
from dqucb.running.request import Request
from dqucb.running.session import Packed, Session

if TYPE_CHECKING:
    from dqucb.base import Agent

CHECKPOINT_SECONDS = 60.0  # interval between checkpoints; results do not depend on it


def train(agent: "Agent", request: Request) -> list[Run]:
    """Train an agent as requested and return one run per seed."""
    with agent._in_use(), agent._surroundings() as interrupted:
        begin(agent, request)
        agent._callback = request.callback
        if not all(session.is_finished for session in agent._sessions):
            with supervised(agent, request) as go_on:
                agent._advance(request, lambda done: go_on(done) and not interrupted())
        result = runs(agent, request.callback)
        agent._callback = None
    if interrupted():
        raise KeyboardInterrupt
    return result


def runs(agent: "Agent", callback: Any = None) -> list[Run]:
    """Return the curves so far, one run per seed."""
    return [
        session.run(agent, agent._own_alarms(i), agent._own_extras(i) | callback_results(callback, i))
        for i, session in enumerate(agent._sessions)
    ]


# ---- starting or resuming -----------------------------------------------------------------------------------


def begin(agent: "Agent", request: Request) -> None:
    """Give the agent the requested run: from the checkpoint, the unfinished one that it holds, or a new one."""
    path = request.checkpoint
    facts = agent.describe(
        request.problem, unit=request.unit, change_at=request.change_at, max_return=request.max_return
    )
    if path is not None and not agent._is_savable:
        raise ValueError(f"checkpoint must be None for {agent.name}: it does not say how to save what it learned")
    if path is not None and not facts.resumable:
        raise ValueError(
            f"checkpoint must be None for {agent.name} on {facts.problem['problem']}: an env cannot be saved unless it "
            "has checkpoint_state() and restore_state(state), without wrappers around it"
        )
    if path is not None and path.exists():
        _take_over(agent, type(agent).load(path))
        _check_same(agent, request, facts, f"checkpoint {path} is of another run")
        restore_callback(request.callback, agent._saved_callback)
    elif not agent._sessions or (not agent._is_loaded and all(session.is_over for session in agent._sessions)):
        agent._sessions = []
        sessions = agent._new_sessions(request, facts)
        for session in sessions:
            session.detector = new_detector(request, agent._fitted)
        agent._sessions, agent._is_loaded = sessions, False
        return
    else:
        _check_same(agent, request, facts, f"this {agent.name} holds another run; train a clone() instead")
        if all(session.is_finished for session in agent._sessions):
            raise ValueError(
                f"this {agent.name} was loaded with a finished run of {request.length} {request.unit}, and a run "
                "cannot be made longer afterwards; train a clone() instead"
            )
    if agent._is_loaded or path is not None:
        files.warn_of_other_code(agent)
    for session in agent._sessions:
        _resume_detector(session, request, agent)
    agent._is_loaded = False


def _take_over(agent: "Agent", other: "Agent") -> None:
    """Move the state of a newly loaded agent into this one."""
    if other.name != agent.name or other.parameters() != agent.parameters():
        raise ValueError(f"the checkpoint is of another agent: {other!r}, not {agent!r}")
    kept = {"_thread", *agent.get_params()}  # parameters are equal, but a file may hold objects by name only
    vars(agent).update({name: value for name, value in vars(other).items() if name not in kept})


def _check_same(agent: "Agent", request: Request, facts: Any, problem: str) -> None:
    seeds = tuple(session.seed for session in agent._sessions)
    if seeds != request.seeds:
        many = agent.in_lockstep
        held, asked = (list(seeds), list(request.seeds)) if many else (seeds[0], request.seed)
        raise ValueError(f"{problem}: its {'seeds are' if many else 'seed is'} {held}, not {asked}")
    parameters = agent.parameters()
    for session in agent._sessions:
        different = session.differences(request, facts, parameters) or agent._difference(request)
        if different is not None:
            raise ValueError(f"{problem}: {different}")


def _resume_detector(session: Session, request: Request, agent: "Agent") -> None:
    """Restore the detector of a loaded run, if it has one."""
    if session.detector is None and request.detector is not None:
        detector = new_detector(request, agent._fitted)
        assert detector is not None
        assert session.saved_detector is not None
        detector.restore(*session.saved_detector, session.is_finished)
        session.detector, session.saved_detector = detector, None


# ---- during training ------------------------------------------------------------------------------------------


@contextmanager
def supervised(agent: "Agent", request: Request) -> Iterator[Callable[[int], bool]]:
    """Yield a function that training loops call with the episodes or steps done; it returns False to stop training.

    The function updates the progress bar, calls the callback, and writes the checkpoint every `CHECKPOINT_SECONDS`.
    The checkpoint is also written when training ends.
    """
    saved_at = time.monotonic()
    path = request.checkpoint

    def go_on(done: int) -> bool:
        nonlocal saved_at
        progress.done = done
        wanted = request.callback is None or request.callback(agent._progress(done)) is not False
        # After the callback, because its state is part of the file.
        if path is not None and time.monotonic() - saved_at >= CHECKPOINT_SECONDS:
            agent._save_checkpoint(path)
            saved_at = time.monotonic()
        return wanted

    done = min(session.units_done for session in agent._sessions)
    title = f"{request.unit} of {agent.name}"
    with _progress.shown(title, request.length, done, request.progress) as progress:
        yield go_on
    if path is not None:
        agent._save_checkpoint(path)


def restore_callback(callback: Any, saved: Packed) -> None:
    """Pass the saved state of a callback to its `restore` method, if it has one."""
    if hasattr(callback, "restore"):
        callback.restore({**saved[0], **saved[1]})


def callback_results(callback: Any, i: int) -> dict[str, NDArray[Any]]:
    """Return what a callback with a `results` method recorded for the i-th seed, for `run.extras`."""
    return dict(callback.results(i)) if hasattr(callback, "results") else {}
