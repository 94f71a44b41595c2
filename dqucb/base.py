"""The contract of every agent: tabular, deep, for allocations, or written by a user.

To write an agent, subclass `Agent` and give it `act` and `observe`; `begin` is called before a run. It then trains on
any problem whose spaces it can handle, and runs in `dqucb.compare` and the report like the agents of this package.
`dqucb.check_agent` tells whether it keeps the contract.
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
from dqucb.running import engine, evaluation, options, stepped, world
from dqucb.running.options import TrainOptions
from dqucb.running.request import Request
from dqucb.running.session import Facts, Moment, Session, empty_curves, named

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

    _sessions: list[Session] = []  # noqa: RUF012  (the run that is held, one session per seed; replaced, not changed)
    _is_loaded = False  # from a file: then `train` continues or refuses, and never starts again
    _callback: Any = None  # of the training under way; checkpoints hold its state
    _saved_callback: tuple[dict[str, Any], dict[str, NDArray[Any]]] = ({}, {})

    # ---- training -------------------------------------------------------------------------------------

    def train(self, problem: Any, **given: Unpack[TrainOptions]) -> Run:
        """Learn a problem and return the curves.

        Parameters
        ----------
        problem : TabularMDP, ShiftingMDP, gymnasium.Env, str or callable
            A finite problem, a Gymnasium env, its id or registered name, or a function that makes a new env.
        **given
            The options of a run; the table of options in the reference lists them.

        Returns
        -------
        Run

        Notes
        -----
        An agent that holds an unfinished run, stopped or loaded, continues it when the arguments and its parameters are
        the same and refuses otherwise; `clone()` trains anew. An agent whose run is finished begins a new one.
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

        A clone is trained for each seed, one after the other, and this agent stays as it is; deep agents train all
        seeds together. `seeds` are several seeds, or how many: 0, 1, ... The other options are those of `train`.

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

    # ---- what the engine asks of an agent: the defaults are for agents that are stepped from Python -------

    @contextmanager
    def _surroundings(self) -> Iterator[Callable[[], bool]]:
        """Entered while a run goes on; the function answers whether it was interrupted and should end."""
        yield lambda: False

    def _new_sessions(self, request: Request, facts: Facts) -> list[Session]:
        """Forget everything and prepare for a new run, one session per seed."""
        opened = world.open_world(request, self._fitted)
        rng = world.generator_of(opened, request.seed)
        self.begin(
            opened.env.observation_space,
            opened.env.action_space,
            horizon=opened.horizon,
            discount=opened.discount,
            length=request.length,
            rng=rng,
        )
        curves = empty_curves(request.length, request.unit, facts.change_at, request.records)
        named_run = named(request, facts, self.parameters())
        return [Session(**named_run, seed=request.seed, rng=rng, env=opened, **curves)]

    def _advance(self, request: Request, go_on: Callable[[int], bool]) -> None:
        """Run until `request.stop_at` or until `go_on(done)` says no."""
        stepped.advance(self, self._started(), request, go_on)

    def _difference(self, request: Request) -> str | None:
        """What else than its identity keeps the run that is held from being the one asked for."""
        return None

    def _reopened(self, opened: world.World) -> None:
        """Called when a loaded run continues in a new env."""

    def _reward_of(self, reward: Any, info: dict[str, Any]) -> Any:
        """What `observe` is given as the reward of a step."""
        return float(reward)

    def _own_alarms(self, i: int) -> NDArray[np.int64] | None:
        """The alarms of seed number i that the agent gave itself; None if it does not look for changes."""
        return None

    @property
    def _has_own_alarms(self) -> bool:
        """Whether the agent looks for changes itself, and acts on what it finds."""
        return self._own_alarms(0) is not None

    def _versions(self) -> dict[str, str]:
        """Versions of further packages that decide the bits of a run."""
        return {}

    def _moment(self, done: int) -> Moment:
        session = self._started()
        return Moment(self, done, session.length, session.unit, lambda: engine.runs(self))

    @property
    def detector_alarms_(self) -> NDArray[np.int64]:
        """The episodes or steps in which the detector of `train(detector=...)` gave an alarm, of the first seed."""
        return self._sessions[0].detector_alarms if self._sessions else np.zeros(0, np.int64)

    def restart(self) -> None:
        """Learn anew: called after an alarm of `train(detector=...)`, at the end of the episode. By default nothing."""

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
        facts = world.describe(problem, unit, change_at, max_return)
        return facts._replace(resumable=facts.resumable and self._is_savable)

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
        return evaluation.evaluate(self, problem, episodes, seed)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write parameters and all that was learned to one file; a run that was stopped can go on from it."""
        return self._write(path)

    def _write(self, path: str | os.PathLike[str], compress: bool = True) -> Path:
        engine.write(self, Path(path), compress)
        return Path(path)

    _save_checkpoint = save

    @property
    def _is_savable(self) -> bool:
        return type(self)._packed is not Agent._packed

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
            if isinstance(agent, cls):
                engine.unpack(agent, settings, arrays)
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
