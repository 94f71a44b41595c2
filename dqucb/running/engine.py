"""What all runs share: which run to continue, checkpoints, callbacks, progress, alarms and results."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _progress
from dqucb.run import Run
from dqucb.running.request import Request
from dqucb.running.session import Packed, Session
from dqucb.running.world import new_watch

if TYPE_CHECKING:
    from dqucb.base import Agent

CHECKPOINT_SECONDS = 60.0  # between two writings of a checkpoint; its bits do not depend on this


def train(agent: "Agent", request: Request) -> list[Run]:
    """The runs of the seeds asked for: one, or all of a batch in lockstep."""
    with agent._in_use(), agent._surroundings() as interrupted:
        begin(agent, request)
        agent._callback = request.callback
        if not all(session.is_finished for session in agent._sessions):
            with watching(agent, request) as go_on:
                agent._advance(request, lambda done: go_on(done) and not interrupted())
        result = runs(agent, request.callback)
        agent._callback = None
    if interrupted():
        raise KeyboardInterrupt
    return result


def runs(agent: "Agent", callback: Any = None) -> list[Run]:
    """The curves so far, one run per seed."""
    return [
        session.run(agent, agent._own_alarms(i), callback_results(callback, i))
        for i, session in enumerate(agent._sessions)
    ]


# ---- which run ----------------------------------------------------------------------------------------------


def begin(agent: "Agent", request: Request) -> None:
    """Let the agent hold the run asked for: the checkpoint's, the one it holds already, or a new one."""
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
            session.watch = new_watch(request, agent._fitted)
        agent._sessions, agent._is_loaded = sessions, False
        return
    else:
        _check_same(agent, request, facts, f"this {agent.name} holds another run; clone() trains anew")
        if all(session.is_finished for session in agent._sessions):
            raise ValueError(
                f"this {agent.name} was loaded with a finished run of {request.length} {request.unit}, and a run "
                "cannot be made longer afterwards: clone() trains anew"
            )
    for session in agent._sessions:
        _resume_watch(session, request, agent)
    agent._is_loaded = False


def _take_over(agent: "Agent", other: "Agent") -> None:
    """Hold what a freshly loaded agent learned; it is used for nothing else."""
    if other.name != agent.name or other.parameters() != agent.parameters():
        raise ValueError(f"the checkpoint is of another agent: {other!r}, not {agent!r}")
    vars(agent).update({name: value for name, value in vars(other).items() if name != "_thread"})


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


def _resume_watch(session: Session, request: Request, agent: "Agent") -> None:
    """Continue with the detector of a loaded run, if it has one."""
    if session.watch is None and request.detector is not None:
        watch = new_watch(request, agent._fitted)
        assert watch is not None
        assert session.saved_watch is not None
        watch.restore(*session.saved_watch, session.is_finished)
        session.watch, session.saved_watch = watch, None


# ---- while it runs ------------------------------------------------------------------------------------------


@contextmanager
def watching(agent: "Agent", request: Request) -> Iterator[Callable[[int], bool]]:
    """A function to call with the episodes or steps done; it answers whether to go on.

    It draws the progress bar, calls the callback, and writes the checkpoint every `CHECKPOINT_SECONDS` and when
    training ends.
    """
    saved_at = time.monotonic()
    path = request.checkpoint

    def go_on(done: int) -> bool:
        nonlocal saved_at
        progress.done = done
        wanted = request.callback is None or request.callback(agent._moment(done)) is not False
        # After the callback, whose own state goes into the file.
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


def callback_state(callback: Any) -> Packed:
    """(JSON, arrays) of a callback that has `state()`."""
    state: dict[str, Any] = callback.state() if hasattr(callback, "state") else {}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in state.items() if name not in arrays}, arrays


def restore_callback(callback: Any, saved: Packed) -> None:
    """Let a callback that has `restore()` continue from what `callback_state` gave."""
    if hasattr(callback, "restore"):
        callback.restore({**saved[0], **saved[1]})


def callback_results(callback: Any, i: int) -> dict[str, NDArray[Any]]:
    """What a callback that has `results(i)` recorded of the i-th seed, for `run.extras`."""
    return dict(callback.results(i)) if hasattr(callback, "results") else {}


# ---- files --------------------------------------------------------------------------------------------------

_CALLBACK, _WATCH = "callback.", "watch."  # before the names of arrays in a file


def packed(agent: "Agent") -> Packed:
    """(JSON, arrays) of what the engine adds to the file of an agent: the state of callback and detectors."""
    settings: dict[str, Any] = {}
    settings["callback"], arrays = callback_state(agent._callback)
    arrays = {f"{_CALLBACK}{name}": array for name, array in arrays.items()}
    found = [session.saved_watch if session.watch is None else session.watch.packed() for session in agent._sessions]
    settings["watch"] = {}
    if held := [each for each in found if each is not None]:
        settings["watch"] = {"identity": held[0][0]["identity"], "detectors": [each[0]["detector"] for each in held]}
    for i, (_, more) in enumerate(held):
        arrays |= {f"{_WATCH}{i}{':' if name == 'alarms' else '.'}{name}": array for name, array in more.items()}
    settings["options"] = [session.options for session in agent._sessions]
    return settings, arrays


def unpack(agent: "Agent", settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Give a loaded agent what `packed` gave; entries are taken out of `settings` and `arrays` as they are read."""
    agent._saved_callback = dict(settings.pop("callback")), _taken(arrays, _CALLBACK)
    watch, watched, options = settings.pop("watch"), _taken(arrays, _WATCH), settings.pop("options", None)
    agent._unpack(settings, arrays)
    if watch and len(watch["detectors"]) != len(agent._sessions):
        raise ValueError(f"there must be {len(agent._sessions)} detectors, got {len(watch['detectors'])}")
    for i, session in enumerate(agent._sessions):
        session.options = None if options is None else options[i]
        session.parameters = agent.parameters()
        if watch:
            own = {"alarms": watched[f"{i}:alarms"], **_taken(watched, f"{i}.")}
            session.saved_watch = {"identity": watch["identity"], "detector": watch["detectors"][i]}, own


def _taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it; they are taken out of `arrays`."""
    own = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in own}


def write(agent: "Agent", path: Path, compress: bool) -> None:
    """Write what an agent learned, and the run that it holds, to one file."""
    from dqucb import _storage

    with agent._in_use():
        settings, arrays = agent._packed()
    settings["agent"] = {"name": agent.name, "parameters": agent.parameters()}
    more, others = packed(agent)
    _storage.write_atomically(path, _storage.pack("Agent", settings | more, arrays | others, compress=compress))
