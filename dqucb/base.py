"""The contract of every agent: tabular, deep, for allocations, or written by a user.

To write an agent, subclass `Agent` and give it `act` and `observe`; `begin` is called before a run. It then trains on
any problem whose spaces it can handle, and runs in `dqucb.compare` and the report like the agents of this package.
`dqucb.check_agent` tells whether it keeps the contract.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage, _validate, loops
from dqucb._parameters import HasParameters, parameters_of
from dqucb._registry import Registry
from dqucb.run import Run
from dqucb.session import (
    RECORDS,
    Callback,
    Facts,
    Moment,
    Request,
    Session,
    callback_results,
    callback_state,
    restore_callback,
    watch_identity,
    watching,
)

if TYPE_CHECKING:
    from dqucb.drift.runs import RunWatch

__all__ = ["AGENTS", "Agent", "Facts", "Moment", "make_agent"]


class Agent(HasParameters):
    """A learning algorithm and its parameters; it has learned nothing before `train` or `start`.

    Parameters are the keywords of `__init__`, kept under the same names.

    Examples
    --------
    >>> import dqucb
    >>> class Steady(dqucb.Agent):
    ...     "Takes the action whose rewards were best so far, whatever the state."
    ...     def __init__(self, *, first_guess=1.0):
    ...         self.first_guess = first_guess
    ...     def begin(self, observation_space, action_space, **facts):
    ...         self.means, self.counts = [self.first_guess] * action_space.n, [1] * action_space.n
    ...     def act(self, observation, step=0):
    ...         return self.means.index(max(self.means))
    ...     def observe(self, state, action, reward, next_state, step=0, terminated=False):
    ...         self.counts[action] += 1
    ...         self.means[action] += (reward - self.means[action]) / self.counts[action]
    >>> run = Steady().train(dqucb.gridworld(rows=2, cols=2, horizon=5, change_at=(20,)), episodes=40, seed=1)
    >>> len(run.returns), Steady(first_guess=2.0).clone()
    (40, Steady(first_guess=2.0))
    """

    in_lockstep: ClassVar[bool] = False  # whether all seeds of a trial are trained in one batch

    _session: Session | None = None
    _is_loaded = False  # from a file: then `train` goes on or refuses, and never starts again
    _callback: Callback | None = None  # of the training under way; checkpoints hold its state
    _saved_callback: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})
    _run_watch: "RunWatch | None" = None  # of a run with a detector
    _saved_watch: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})  # of a loaded one, until it goes on

    # ---- training -------------------------------------------------------------------------------------

    def train(
        self,
        problem: Any,
        *,
        episodes: int | None = None,
        steps: int | None = None,
        seed: int = 0,
        progress: bool = False,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        stop_at: int | None = None,
        change_at: Iterable[int] | int | None = None,
        max_return: float | None = None,
        regret: str = "realized",
        records: int = RECORDS,
        horizon: int | None = None,
        discount: float | None = None,
        detector: Any = None,
        on_alarm: str = "restart",
    ) -> Run:
        """Learn a problem and return the curves.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            A finite problem, a Gymnasium env, its id or registered name, or a function that makes a new env.
        episodes, steps : int
            How long; give one. A finite problem takes episodes with a horizon, steps with a discount.
        seed : int
            Of the run's random numbers; the same seed gives the same bits.
        progress : bool
            Show a progress bar.
        callback : callable, optional
            Called with a `Moment` after each block of work; training stops when it returns False.
        checkpoint : path, optional
            A file that is written every minute and when training stops. If it is there when training begins, the run
            goes on from it, bit for bit.
        stop_at : int, optional
            Stop after this many episodes or steps. The next `train` with the same arguments goes on from there.
        change_at : int or list of int, optional
            The episodes or steps at which an env changes that does not say so itself.
        max_return : float, optional
            The best return of an episode of an env that does not say so itself; regret is unknown without it.
        regret : str
            "realized", the optimal value minus the return (with a discount the optimality gap of each action), or
            "expected", the optimal value minus the exact value of the policy followed, for finite problems.
        records : int
            About how many points the curves of a run of steps have.
        horizon, discount : int, float, optional
            For tabular agents on an env: the length of its episodes (by default its own limit), or a discount.
        detector : DriftDetector, RiverDetector or "auto", optional
            Watches every transition; a clone of it does, one for each seed. Its alarms are `run.alarms`, unless the
            agent has alarms of its own, and `agent.detector_alarms_`. A watched run goes step by step from Python.
            "auto" is the one that fits the spaces (`dqucb.drift.detector_for`), at its defaults.
        on_alarm : str
            "restart": the agent learns anew after an alarm, if it can (`restart`). "note": it goes on as if there were
            none. An agent with alarms of its own acts on these alone.

        Returns
        -------
        Run

        Notes
        -----
        An agent that holds an unfinished run, stopped or loaded, goes on with it when the arguments are the same and
        refuses otherwise; `clone()` trains anew. An agent whose run is finished begins a new one.
        """
        seeds = [_validate.integer("seed", seed, 0)]
        request = Request.checked(
            problem, episodes=episodes, steps=steps, seeds=seeds, progress=progress, callback=callback,
            checkpoint=checkpoint, stop_at=stop_at, change_at=change_at, max_return=max_return, regret=regret,
            records=records, horizon=horizon, discount=discount, detector=detector, on_alarm=on_alarm,
        )  # fmt: skip
        return self._train(request)[0]

    def train_seeds(self, problem: Any, seeds: int | Iterable[int], **options: Any) -> list[Run]:
        """Train with several seeds and return their runs.

        A clone is trained for each seed, one after the other, and this agent stays as it is; deep agents train all
        seeds together. `seeds` are several seeds, or how many: 0, 1, ... The other options are those of `train`.

        Examples
        --------
        >>> from dqucb import QUCB, combination_lock
        >>> runs = QUCB().train_seeds(combination_lock(change_at=()), seeds=3, episodes=50)
        >>> [run.seed for run in runs]
        [0, 1, 2]
        """
        if "seed" in options:
            raise ValueError(f"train_seeds takes seeds, not seed, got seed={options['seed']!r}")
        request = Request.checked(problem, seeds=seeds, **options)
        from dqucb.envs.making import check_reusable

        check_reusable(problem, len(request.seeds))
        if self.in_lockstep:
            return self._train(request)
        return [self.clone()._train(request.for_seed(seed))[0] for seed in request.seeds]

    def _train(self, request: Request) -> list[Run]:
        """The runs of the seeds asked for: one, or all of a batch in lockstep."""
        with self._in_use():
            session = self._session_for(request)
            self._callback = request.callback
            with watching(request, self.name, session.units_done, self._save_checkpoint, self._moment) as go_on:
                self._advance(request, session, go_on)
            self._callback = None
            return [replace(self._run(), extras=callback_results(request.callback, 0))]

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Refuse a second thread: kernels change tables without asking who else does."""
        me = threading.get_ident()
        outermost = "_thread" not in vars(self)
        if vars(self).setdefault("_thread", me) != me:  # atomic, unlike a look and a write
            raise RuntimeError(f"this {self.name} is in use by another thread: give each thread a clone() of its own")
        try:
            yield
        finally:
            if outermost:
                vars(self).pop("_thread", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_thread"}

    def _session_for(self, request: Request) -> Session:
        """The session to go on with: the checkpoint's, the one that this agent holds, or a new one."""
        path = request.checkpoint
        if path is not None and path.exists():
            self._take_over(type(self).load(path))
            self._check_same_run(request, f"checkpoint {path} is of another run")
            restore_callback(request.callback, self._saved_callback)
            self._resume_watch(request, self._started().is_finished)
        elif self._session is None or (not self._is_loaded and self._session.is_over):
            self._session, self._is_loaded = self._new_session(request), False
            self._run_watch = loops.new_watch(request, self._fitted)
        else:
            self._check_same_run(request, f"this {self.name} holds another run; clone() trains anew")
            self._resume_watch(request, self._session.is_finished)
            if self._session.is_finished:
                raise ValueError(
                    f"this {self.name} was loaded with a finished run of {self._session.length} {request.unit}, and a "
                    "run cannot be made longer afterwards: clone() trains anew"
                )
        return self._started()

    def _take_over(self, other: "Agent") -> None:
        """Hold what a freshly loaded agent learned; it is used for nothing else."""
        if other.name != self.name or other.parameters() != self.parameters():
            raise ValueError(f"the checkpoint is of another agent: {other!r}, not {self!r}")
        vars(self).update(vars(other))

    def _check_same_run(self, request: Request, problem: str) -> None:
        session, fresh = self._started(), self._identity_of(request)
        for name, asked in fresh.items():
            held = getattr(session, name)
            if held != asked:
                raise ValueError(f"{problem}: its {name} is {held!r}, not {asked!r}")

    def _resume_watch(self, request: Request, finished: bool) -> None:
        """Go on with the detector of the run that is held here, if it has one; refuse another."""
        held = self._saved_watch[0].get("identity") if self._run_watch is None else self._run_watch.identity
        asked = watch_identity(request.detector, request.on_alarm)
        if held != asked:
            raise ValueError(f"the run of this {self.name} has detector {held}, not {asked}; clone() trains anew")
        if self._run_watch is None and asked is not None:
            watch = loops.new_watch(request, self._fitted)
            assert watch is not None
            watch.restore(*self._saved_watch, finished)
            self._run_watch = watch

    def _identity_of(self, request: Request) -> dict[str, Any]:
        """What must agree for a run to go on, as attributes of its session."""
        facts = self.describe(
            request.problem, unit=request.unit, change_at=request.change_at, max_return=request.max_return
        )
        return {
            "problem": facts.problem,
            "unit": request.unit,
            "length": request.length,
            "seed": request.seed,
            "regret_form": request.regret,
        }

    def _new_session(self, request: Request) -> Session:
        return loops.new_session(self, request)

    def _advance(self, request: Request, session: Session, go_on: Any) -> None:
        """Run until `request.stop_at` or until `go_on(done)` says no."""
        loops.advance(self, session, request.stop_at, go_on)

    def _run(self) -> Run:
        return self._started().run(self, self._alarms())

    def _alarms(self) -> NDArray[np.int64]:
        """The episodes or steps in which the agent saw a change."""
        return self.detector_alarms_

    @property
    def detector_alarms_(self) -> NDArray[np.int64]:
        """The episodes or steps in which the detector of `train(detector=...)` gave an alarm."""
        return np.zeros(0, np.int64) if self._run_watch is None else self._run_watch.alarms()

    @property
    def _has_own_alarms(self) -> bool:
        """Whether the agent looks for changes itself, and acts on what it finds."""
        return False

    def restart(self) -> None:
        """Learn anew: called after an alarm of `train(detector=...)`, at the end of the episode. By default nothing."""

    def _moment(self, done: int) -> Moment:
        session = self._started()
        return Moment(self, done, session.length, session.unit, lambda: [self._run()])

    def describe(
        self,
        problem: Any,
        *,
        unit: str | None = None,
        change_at: Iterable[int] | int | None = None,
        max_return: float | None = None,
    ) -> Facts:
        """What is known of a problem before training: its description, change points, whether regret is known.

        Examples
        --------
        >>> from dqucb import QUCB, frozen_lake
        >>> QUCB().describe(frozen_lake()).change_at
        (20000, 40000)
        """
        return loops.describe(problem, unit, change_at, max_return)

    def _fitted(self, env: Any) -> Any:
        """An env in the form that this agent takes; by default as it is."""
        return env

    # ---- one step at a time, for loops of one's own and for agents written in Python ---------------------

    def begin(
        self,
        observation_space: Any,
        action_space: Any,
        *,
        horizon: int | None,
        discount: float | None,
        length: int,
        rng: np.random.Generator,
    ) -> None:
        """Called before a run: forget everything and prepare for these spaces (Gymnasium's)."""

    def act(self, observation: Any, step: int = 0) -> Any:
        """The action to take at an observation, at `step` of the episode."""
        raise NotImplementedError(f"{self.name} must define act(observation, step=0)")

    def observe(
        self, state: Any, action: Any, reward: float, next_state: Any, step: int = 0, terminated: bool = False
    ) -> Any:
        """Learn from one transition; may return (bonus, likelihood)."""
        raise NotImplementedError(
            f"{self.name} must define observe(state, action, reward, next_state, step=0, terminated=False)"
        )

    def end_episode(self) -> None:
        """Called when an episode is over."""

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: Any, *, step: int = 0) -> Any:
        """The action believed best, without exploration; an agent written in Python may override it."""
        return self.act(observation, step)

    def evaluate(self, problem: Any, episodes: int = 20, *, seed: int = 0) -> NDArray[np.float64]:
        """Returns of episodes that follow `predict`, in an env of their own; nothing is learned from them.

        Examples
        --------
        >>> from dqucb import QUCB, combination_lock
        >>> lock, agent = combination_lock(change_at=()), QUCB(bonus_scale=0.1)
        >>> run = agent.train(lock, episodes=2_000)
        >>> bool(agent.evaluate(lock, episodes=50).mean() > 0.8)
        True
        """
        return loops.evaluate(self, problem, episodes, seed)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write parameters and all that was learned to one file; a run that was stopped can go on from it."""
        return self._write(path)

    def _write(self, path: str | os.PathLike[str], compress: bool = True) -> Path:
        with self._in_use():
            settings, arrays = self._packed()
        settings["agent"] = {"name": self.name, "parameters": self.parameters()}
        settings["callback"], more = callback_state(self._callback)
        arrays |= {f"{_CALLBACK}{name}": array for name, array in more.items()}
        settings["watch"], more = self._saved_watch if self._run_watch is None else self._run_watch.packed()
        arrays |= {f"{_WATCH}{name}": array for name, array in more.items()}
        _storage.write_atomically(Path(path), _storage.pack("Agent", settings, arrays, compress=compress))
        return Path(path)

    _save_checkpoint = save

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) from which `_unpack` restores what was learned."""
        raise ValueError(f"{self.name} cannot be saved: it does not say how (an agent written in Python)")

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what was learned. Raises ValueError, KeyError or TypeError for anything that does not fit."""
        raise ValueError(f"{self.name} cannot be loaded: it does not say how")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an agent that `save` wrote; anything else is a `SavedFileError`.

        `Agent.load` reads any agent of this package, and of your own subclasses that are defined by then.
        """
        settings, arrays = _storage.load(path, "Agent")
        try:
            described = settings["agent"]
            agent = _class_named(described["name"], cls)(**described["parameters"])
            agent._saved_callback = dict(settings.pop("callback")), _taken(arrays, _CALLBACK)
            agent._saved_watch, agent._run_watch = (dict(settings.pop("watch")), _taken(arrays, _WATCH)), None
            if isinstance(agent, cls):
                agent._unpack(settings, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, MemoryError, IndexError, OverflowError) as error:
            raise _storage.SavedFileError(f"{os.fspath(path)}: not a usable agent ({error})") from error
        if not isinstance(agent, cls):
            raise _storage.SavedFileError(f"{os.fspath(path)}: holds a {agent.name}, expected a {cls.__name__}")
        agent._is_loaded = True
        return agent

    @property
    def _horizon(self) -> int | None:
        """The number of steps that the agent knows an episode to have."""
        return None

    def _started(self) -> Session:
        if self._session is None:
            raise ValueError(f"{self.name} has learned nothing yet: call train or start first")
        return self._session


_CALLBACK = "callback."  # before the names of a callback's arrays in a file
_WATCH = "watch."


def _taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it; they are taken out of `arrays`."""
    own = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in own}


AGENTS: Registry[type[Agent]] = Registry("agent", ("dqucb.agents", "dqucb.hospital", "dqucb.deep"))


def make_agent(name: str, **parameters: Any) -> Agent:
    """An agent by its registered name; a wrong parameter is answered with the nearest one.

    Examples
    --------
    >>> make_agent("dqucb", window=50)
    DQUCB(window=50)
    """
    kind = AGENTS.find(name)
    for parameter in parameters:
        _validate.known(f"parameter of {name}", parameter, parameters_of(kind))
    return kind(**parameters)


def _class_named(name: str, kind: type[Agent]) -> type[Agent]:
    """The agent class of that name, looked for below `kind` first: two subclasses may share a name."""
    list(AGENTS)  # imports every module that defines agents

    def below(kind: type[Agent]) -> list[type[Agent]]:
        return [kind, *(each for sub in kind.__subclasses__() for each in below(sub))]

    # The last one wins: a class that is defined again, as in a notebook, replaces the old one.
    classes = {each.__name__: each for each in (*below(Agent), *below(kind))}
    return classes[_validate.one_of("agent", name, classes)]
