"""The contract of every agent: tabular, deep, for allocations, or written by a user.

To write an agent, subclass `Agent` and give it `act` and `observe`; `begin` is called before a run. It then trains on
any problem whose spaces it can handle, and runs in `dqucb.compare` and the report like the agents of this package.
`dqucb.check_agent` checks that it satisfies the contract.
"""

import inspect
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage, _validate
from dqucb._parameters import HasParameters, parameters_of
from dqucb._registry import Registry
from dqucb.run import Run
from dqucb.running import engine, evaluation, files, options, stepped
from dqucb.running.env import OpenEnv, describe_problem, generator_of, open_env
from dqucb.running.options import TrainOptions
from dqucb.running.request import Request
from dqucb.running.session import Facts, Progress, Session, empty_curves, named

__all__ = ["AGENTS", "Agent", "Facts", "Progress", "make_agent"]


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

    _sessions: list[Session] = []  # noqa: RUF012  (the run that is held, one session per seed; replaced, not changed)
    _is_loaded = False  # from a file: then `train` continues or refuses, and never starts again
    _callback: Any = None  # of the training under way; checkpoints hold its state
    _saved_callback: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})
    _saved_code: dict[str, str | None] | None = None  # digests of the code that wrote the file of a loaded agent
    _begun: tuple[Any, Any, int | None, float | None]  # spaces, horizon and discount of the run

    # ---- training -------------------------------------------------------------------------------------

    def train(self, problem: Any, **given: Unpack[TrainOptions]) -> Run:
        """Learn a problem and return the curves.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            A finite problem, a Gymnasium env, the registered name of either, an env's id, or a function that makes an
            env. A problem given by name has its usual change points, in proportion to the length of the run.
        **given
            The options of a run; the table of options in the reference lists them.

        Returns
        -------
        Run

        Notes
        -----
        An agent that holds an unfinished run, stopped or loaded, continues it if the arguments and its parameters are
        the same, and raises an error otherwise; use `clone()` to train from scratch. An agent whose run is finished
        starts a new one.
        """
        seed = _validate.integer("seed", given.pop("seed", 0), 0)
        return engine.train(self, Request.checked(problem, [seed], given))[0]

    train.__signature__ = options.signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for name, kind in (("self", inspect.Parameter.empty), ("problem", Any))
        ]
    )
    # For help(): the options themselves in the place of the two lines that stand for them.
    train.__doc__ = re.sub(r"\*\*given\n.*?\n\n", lambda _: f"{options.documentation()}\n\n", train.__doc__ or "",
                           count=1, flags=re.S)  # fmt: skip

    def train_seeds(self, problem: Any, seeds: int | Iterable[int], **given: Unpack[TrainOptions]) -> list[Run]:
        """Train with several seeds and return their runs.

        A clone is trained for each seed, one after the other, and this agent is not changed; deep agents train all
        seeds in lockstep.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            As in `train`.
        seeds : int or iterable of int
            The seeds, or how many: 0, 1, ...
        **given
            The other options of `train`.

        Examples
        --------
        >>> from dqucb import QUCB, combination_lock
        >>> runs = QUCB().train_seeds(combination_lock(change_at=()), seeds=3, episodes=50)
        >>> [run.seed for run in runs]
        [0, 1, 2]
        """
        if "seed" in given:
            raise ValueError(f"train_seeds takes seeds, not seed, got seed={given['seed']!r}")
        request = Request.checked(problem, seeds, given)
        from dqucb.envs.making import check_reusable

        check_reusable(problem, len(request.seeds))
        if self.in_lockstep:
            return engine.train(self, request)
        return [engine.train(self.clone(), request.for_seed(seed))[0] for seed in request.seeds]

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Raise an error in a second thread, because kernels change tables without locks."""
        me = threading.get_ident()
        outermost = "_thread" not in vars(self)
        if vars(self).setdefault("_thread", me) != me:  # atomic, unlike a test and an assignment
            raise RuntimeError(f"this {self.name} is in use by another thread: give each thread its own clone()")
        try:
            yield
        finally:
            if outermost:
                vars(self).pop("_thread", None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_thread"}

    # ---- called by the engine; the defaults are for agents that are stepped from Python -------------------

    @contextmanager
    def _surroundings(self) -> Iterator[Callable[[], bool]]:
        """Context of a run; yields a function that returns whether it was interrupted and should stop."""
        yield lambda: False

    def _new_sessions(self, request: Request, facts: Facts) -> list[Session]:
        """Prepare for a new run and return one session per seed."""
        opened = open_env(request, self._fitted)
        rng, env = generator_of(opened, request.seed), opened.env
        spaces = env.observation_space, env.action_space
        self._begin_run(spaces, opened.horizon, opened.discount, request.length, rng)
        curves = empty_curves(request.length, request.unit, facts.change_at, request.records)
        named_run = named(request, facts, self.parameters())
        return [Session(**named_run, seed=request.seed, rng=rng, env=opened, **curves)]

    def _begin_run(self, spaces: tuple[Any, Any], horizon: int | None, discount: float | None, length: int,
                   rng: np.random.Generator) -> None:  # fmt: skip
        self._begun = *spaces, horizon, discount
        self.begin(*spaces, horizon=horizon, discount=discount, length=length, rng=rng)

    def _advance(self, request: Request, go_on: Callable[[int], bool]) -> None:
        """Run until `request.stop_at` or until `go_on(done)` returns False."""
        stepped.advance(self, self._started(), request, go_on)

    def _difference(self, request: Request) -> str | None:
        """Describe why the held run cannot continue as requested, besides its identity; None if it can."""
        return None

    def _reopened(self, opened: OpenEnv) -> None:
        """Called when a loaded run is resumed in a new env."""

    def _reward_of(self, reward: Any, info: dict[str, Any]) -> Any:
        """Return the reward that `observe` is called with."""
        return reward

    def _own_alarms(self, i: int) -> NDArray[np.int64] | None:
        """Return the agent's own alarms for the i-th seed; None if it does not detect changes."""
        return None

    def _own_extras(self, i: int) -> dict[str, NDArray[Any]]:
        """Return what the agent says of the run of the i-th seed, for `run.extras`."""
        return {}

    @property
    def _has_own_alarms(self) -> bool:
        """Whether the agent detects changes itself and reacts to its own alarms."""
        return self._own_alarms(0) is not None

    def _versions(self) -> dict[str, str]:
        """Return versions of further packages that determine the bits of a run."""
        return {}

    def _progress(self, done: int) -> Progress:
        session = self._started()
        return Progress(self, done, session.length, session.unit, lambda: engine.runs(self))

    @property
    def detector_alarms_(self) -> NDArray[np.int64]:
        """The episodes or steps in which the detector of `train(detector=...)` gave an alarm, of the first seed."""
        return self._sessions[0].detector_alarms if self._sessions else np.zeros(0, np.int64)

    def restart(self) -> None:
        """Discard what was learned, after an alarm of `train(detector=...)`. By default nothing happens."""

    def describe(
        self,
        problem: Any,
        *,
        unit: str | None = None,
        change_at: Iterable[int] | int | None = None,
        max_return: float | None = None,
    ) -> Facts:
        """Return what is known of a problem before training: its identity, change points, whether regret is known.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            As in `train`.
        unit : str, optional
            "episodes" or "steps"; by default that of the problem.
        change_at, max_return : iterable of int, float
            As in `train`.

        Examples
        --------
        >>> from dqucb import QUCB, frozen_lake
        >>> QUCB().describe(frozen_lake()).change_at
        (20000, 40000)
        """
        facts = describe_problem(problem, unit, change_at, max_return)
        return facts._replace(resumable=facts.resumable and self._is_savable)

    def _fitted(self, env: Any) -> Any:
        """Wrap an env as this agent needs it; by default not at all."""
        return env

    # ---- one step at a time, for user-written loops and for agents written in Python ---------------------

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
        """Prepare for a new run and discard what was learned.

        Parameters
        ----------
        observation_space, action_space : gymnasium.Space
            Of the env.
        horizon : int or None
            Steps of an episode, if known.
        discount : float or None
            The discount, if the problem has one.
        length : int
            Episodes or steps of the run.
        rng : numpy.random.Generator
            For all random numbers of the agent.
        """

    def act(self, observation: Any, step: int = 0) -> Any:
        """Return the action to take in training.

        Parameters
        ----------
        observation : object
            Of the observation space.
        step : int
            Steps since the start of the episode; 0 with a discount.
        """
        raise NotImplementedError(f"{self.name} must define act(observation, step=0)")

    def observe(
        self, state: Any, action: Any, reward: float, next_state: Any, step: int = 0, terminated: bool = False
    ) -> Any:
        """Learn from one transition; may return (bonus, likelihood).

        Parameters
        ----------
        state, action, reward, next_state
            The transition.
        step : int
            Steps since the start of the episode; 0 with a discount.
        terminated : bool
            Whether the episode ended in `next_state`, other than by a time limit.
        """
        raise NotImplementedError(
            f"{self.name} must define observe(state, action, reward, next_state, step=0, terminated=False)"
        )

    def end_episode(self) -> None:
        """Called when an episode is over."""

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: Any, *, step: int = 0) -> Any:
        """Return the greedy action, without exploration. By default this is `act`; an agent may override it.

        Parameters
        ----------
        observation : object
            Of the observation space.
        step : int
            Steps since the start of the episode.
        """
        return self.act(observation, step)

    def evaluate(self, problem: Any, episodes: int = 20, *, seed: int = 0) -> NDArray[np.float64]:
        """Return the returns of episodes under `predict` in a separate env, without learning.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            As in `train`.
        episodes : int
            How many.
        seed : int
            Of the env.

        Examples
        --------
        >>> from dqucb import QUCB, combination_lock
        >>> lock, agent = combination_lock(change_at=()), QUCB(bonus_scale=0.1)
        >>> run = agent.train(lock, episodes=2_000)
        >>> bool(agent.evaluate(lock, episodes=50).mean() > 0.8)
        True
        """
        return evaluation.evaluate(self, problem, episodes, seed)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the parameters and all that was learned to one file, from which a stopped run can be resumed."""
        return self._write(path)

    def _write(self, path: str | os.PathLike[str], compress: bool = True) -> Path:
        files.write(self, Path(path), compress)
        return Path(path)

    _save_checkpoint = save

    def state(self) -> dict[str, Any]:
        """What was learned, as arrays and JSON values by name, for an agent written in Python.

        With `restore`, this is all that such an agent needs for `save`, `load` and checkpoints: the run, its env and
        the generator that `begin` was given are saved by the library. Other generators belong to the state. A subclass
        of an agent of this package returns only what it adds: tables and networks are saved with it.

        Examples
        --------
        >>> class Counting(Agent):
        ...     def begin(self, observation_space, action_space, **facts):
        ...         self.counts = np.zeros(action_space.n)
        ...     def act(self, observation, step=0):
        ...         return int(self.counts.argmin())
        ...     def observe(self, state, action, reward, next_state, step=0, terminated=False):
        ...         self.counts[action] += 1
        ...     def state(self):
        ...         return {"counts": self.counts}
        ...     def restore(self, state):
        ...         self.counts[:] = state["counts"]
        >>> import dqucb
        >>> dqucb.check_agent(Counting())  # saves, loads and continues a run, among other things
        """
        raise ValueError(f"{self.name} cannot be saved by state(): it must define state() and restore(state)")

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` gave; called when all else is restored. The arrays are the agent's to keep."""
        raise ValueError(f"{self.name} cannot be loaded: it must define state() and restore(state)")

    @property
    def _has_state(self) -> bool:
        return type(self).state is not Agent.state

    @property
    def _is_savable(self) -> bool:
        return type(self)._packed is not Agent._packed or self._has_state

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) from which `_unpack` restores what was learned."""
        if not self._is_savable:
            raise ValueError(f"{self.name} cannot be saved: it must define state() and restore(state)")
        return files.packed(self)

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what was learned. Raises ValueError, KeyError or TypeError for anything that does not fit."""
        files.unpacked(self, settings, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an agent that `save` wrote; anything else is a `SavedFileError`.

        `Agent.load` reads any agent of this package, and of your own subclasses that are defined by then.
        """
        settings, arrays = _storage.load(path, "Agent")
        try:
            described = settings["agent"]
            agent = _class_named(described["name"], cls)(**described["parameters"])
            if isinstance(agent, cls):
                files.unpack(agent, settings, arrays)
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
        """The session of the first seed."""
        if not self._sessions:
            raise ValueError(f"{self.name} has learned nothing yet: call train or start first")
        return self._sessions[0]


AGENTS: Registry[type[Agent]] = Registry("agent", ("dqucb.agents", "dqucb.hospital", "dqucb.deep"))


def make_agent(name: str, **parameters: Any) -> Agent:
    """Return an agent by its registered name. The error for an unknown parameter suggests the nearest one.

    Parameters
    ----------
    name : str
        In `dqucb.AGENTS`.
    **parameters
        Of the agent.

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
