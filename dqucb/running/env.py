"""The env of a run that is stepped from Python, and what is known of a problem before training."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb.problems.base import Problem
from dqucb.running.request import Request
from dqucb.running.session import Facts

if TYPE_CHECKING:
    import gymnasium

    from dqucb.drift.runs import RunWatch


@dataclass
class OpenEnv:
    """An env that has been reset, its last observation, and what is known of it."""

    env: "gymnasium.Env[Any, Any]"
    observation: Any
    info: dict[str, Any]
    finite: Problem | None  # the problem of an env of this package
    horizon: int | None
    discount: float | None
    max_return: float | None
    has_gaps: bool = False  # whether `info["gap"]` is the regret of each step
    savable: bool = False  # whether the state of the env can be saved
    step: int = 0  # steps since the last reset
    broken: bool = False  # interrupted within a record, so that it cannot be resumed

    @property
    def phase(self) -> int:
        """The current phase; 0 for envs of other packages."""
        return int(self.info["phase"]) if self.finite is not None else 0

    @property
    def gap(self) -> float:
        """The regret of the last step; NaN if the env does not report it."""
        return float(self.info["gap"]) if self.has_gaps else np.nan

    def state(self) -> dict[str, Any] | None:
        """Return the state of the env for a file, or None if it cannot be saved."""
        if self.broken or not self.savable:
            return None
        state: dict[str, Any] = self.env.get_wrapper_attr("checkpoint_state")()
        return state


def open_env(request: Request, fitted: Callable[[Any], Any]) -> OpenEnv:
    """Make and reset the env of a run; `fitted` wraps it as the agent needs it."""
    from dqucb.envs.making import make_env, own_number, savable, stated_problem

    env = make_env(request.problem)
    finite, stated_best = stated_problem(env), own_number(env, "max_return")
    gaps, saves = has_gaps(env), savable(env)
    env = fitted(env)
    if request.regret != "realized":
        raise ValueError(f"regret={request.regret!r} is for finite problems and agents with a compiled loop")
    horizon, discount = request.horizon, request.discount
    if finite is not None:
        horizon, discount = _agreed("horizon", horizon, finite.horizon), _agreed("discount", discount, finite.discount)
        if getattr(env.unwrapped, "unit", request.unit) == request.unit:
            finite.check_run(request.length)
    elif horizon is None and discount is None:
        inner = getattr(env.unwrapped, "problem", None)  # behind wrappers, which may change rewards and transitions
        if isinstance(inner, Problem):
            horizon, discount = inner.horizon, inner.discount
        elif request.unit == "episodes" and env.spec is not None:
            horizon = env.spec.max_episode_steps
    if finite is not None and request.unit == "episodes" and horizon is None:
        raise ValueError(f"a discounted problem takes steps=, got episodes={request.length!r}")
    observation, info = env.reset(seed=request.seed)
    best = request.max_return if request.max_return is not None else stated_best
    return OpenEnv(env, observation, info, finite, horizon, discount, best, gaps, saves)


def reopen_env(request: Request, state: dict[str, Any], fitted: Callable[[Any], Any]) -> OpenEnv:
    """Open the env of a run and restore the state that `OpenEnv.state` returned."""
    opened = open_env(request, fitted)
    opened.env.get_wrapper_attr("restore_state")(state)
    if opened.finite is not None:
        opened.observation = max(0, int(state["state"]))  # -1: the next record starts with a reset
        opened.step = int(state["step"])
    return opened


def generator_of(opened: OpenEnv, seed: int) -> np.random.Generator:
    """Return the agent's generator; with an env of this package agent and env share one, as in the compiled loops."""
    if opened.finite is not None:
        return opened.env.unwrapped.np_random
    return np.random.default_rng([seed, 1])  # not the env's seed, so that both draw different numbers


def describe_problem(
    problem: Any, unit: str | None, change_at: Iterable[int] | int | None, max_return: float | None
) -> Facts:
    """Return what is known of a problem before training."""
    given = None if change_at is None else _validate.increasing("change_at", change_at)
    if isinstance(problem, Problem):
        own_unit = problem.unit
        if unit not in (None, own_unit):
            kind = "a problem with a horizon" if problem.horizon is not None else "a discounted problem"
            raise ValueError(f"{kind} takes {own_unit}=, got {unit}=")
        if given not in (None, problem.change_at):
            raise ValueError(f"change_at must be {problem.change_at}, as the problem states, got {given}")
        return Facts(problem.identity, own_unit, problem.change_at, True, True)
    from dqucb.envs.making import change_points, env_identity, make_env, own_number, savable, stated_problem

    env = make_env(problem)
    if unit is None:
        unit = env.get_wrapper_attr("unit") if env.has_wrapper_attr("unit") else "episodes"
    stated = change_points(env, unit)
    if given is not None and stated and given != stated:
        raise ValueError(f"change_at must be {stated}, as the env states, got {given}")
    if max_return is None:
        max_return = own_number(env, "max_return")
    known = stated_problem(env) is not None or max_return is not None or has_gaps(env)
    name, unidentified = env_identity(problem, env)
    return Facts(name, unit, given or stated, known, savable(env), unidentified)


def new_detector(request: Request, fitted: Callable[[Any], Any]) -> "RunWatch | None":
    """Return a new detector for the request, or None if it asks for none."""
    if request.detector is None:
        return None
    from dqucb.drift.runs import RunWatch
    from dqucb.drift.spaces import detector_for
    from dqucb.envs.making import make_env

    env, chosen = fitted(make_env(request.problem)), request.detector
    spaces = env.observation_space, env.action_space
    detector = detector_for(*spaces, learning=True) if isinstance(chosen, str) else chosen
    return RunWatch(detector, request.identity["watch"], request.on_alarm == "restart", *spaces)


def has_gaps(env: "gymnasium.Env[Any, Any]") -> bool:
    """Whether `info["gap"]` is the regret of each step; behind a wrapper it may not be that of the wrapped env."""
    from dqucb.envs.making import only_looked_at

    return bool(getattr(env.unwrapped, "info_has_gap", False)) and only_looked_at(env)


def _agreed(name: str, given: Any, stated: Any) -> Any:
    if given is not None and given != stated:
        raise ValueError(f"{name} must be {stated!r}, as the env's own problem states, got {given!r}")
    return stated
