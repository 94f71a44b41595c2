"""Envs under way, and what is known of a problem before and while an agent learns it."""

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
class World:
    """An env under way, and what is known of it."""

    env: "gymnasium.Env[Any, Any]"
    observation: Any
    info: dict[str, Any]
    finite: Problem | None  # the problem behind an env of ours
    horizon: int | None
    discount: float | None
    max_return: float | None
    tells_gap: bool = False  # whether `info` holds the regret of each step
    savable: bool = False  # whether the state of the env can be saved
    step: int = 0  # steps since the last reset
    broken: bool = False  # interrupted within a record: it cannot continue

    @property
    def phase(self) -> int:
        """The phase in force, which only envs of our own problems tell."""
        return int(self.info["phase"]) if self.finite is not None else 0

    @property
    def gap(self) -> float:
        """The regret of the last step, NaN where the env does not tell it."""
        return float(self.info["gap"]) if self.tells_gap else np.nan

    def state(self) -> dict[str, Any] | None:
        """The state of the env for a file, where it can be saved and nothing is lost."""
        if self.broken or not self.savable:
            return None
        state: dict[str, Any] = self.env.get_wrapper_attr("checkpoint_state")()
        return state


def open_world(request: Request, fitted: Callable[[Any], Any]) -> World:
    """Make and reset the env of a run; `fitted` gives it the form that the agent takes."""
    from dqucb.envs.making import make_env, own_number, savable, stated_problem

    env = make_env(request.problem)
    finite, stated_best = stated_problem(env), own_number(env, "max_return")
    gaps, saves = tells_gap(env), savable(env)
    env = fitted(env)
    if request.regret != "realized":
        raise ValueError(f"regret={request.regret!r} is for finite problems and agents with a compiled loop")
    horizon, discount = request.horizon, request.discount
    if finite is not None:
        horizon, discount = _agreed("horizon", horizon, finite.horizon), _agreed("discount", discount, finite.discount)
        if getattr(env.unwrapped, "unit", request.unit) == request.unit:
            finite.check_run(request.length)
    elif horizon is None and discount is None:
        inner = getattr(env.unwrapped, "problem", None)  # behind wrappers: its rewards and moves may be others
        if isinstance(inner, Problem):
            horizon, discount = inner.horizon, inner.discount
        elif request.unit == "episodes" and env.spec is not None:
            horizon = env.spec.max_episode_steps
    if finite is not None and request.unit == "episodes" and horizon is None:
        raise ValueError(f"a discounted problem takes steps=, got episodes={request.length!r}")
    observation, info = env.reset(seed=request.seed)
    best = request.max_return if request.max_return is not None else stated_best
    return World(env, observation, info, finite, horizon, discount, best, gaps, saves)


def reopened(request: Request, state: dict[str, Any], fitted: Callable[[Any], Any]) -> World:
    """The world of a run where `World.state` was taken."""
    world = open_world(request, fitted)
    world.env.get_wrapper_attr("restore_state")(state)
    if world.finite is not None:
        world.observation = max(0, int(state["state"]))  # -1: the next record begins with a reset
        world.step = int(state["step"])
    return world


def generator_of(world: World, seed: int) -> np.random.Generator:
    """The agent's random numbers: with an env of ours one stream for agent and world, as in the compiled loops."""
    if world.finite is not None:
        return world.env.unwrapped.np_random
    return np.random.default_rng([seed, 1])  # not the env's own seed: both must not draw the same numbers


def describe(problem: Any, unit: str | None, change_at: Iterable[int] | int | None, max_return: float | None) -> Facts:
    """What is known of a problem before training."""
    given = None if change_at is None else _validate.increasing("change_at", change_at)
    if isinstance(problem, Problem):
        own_unit = "steps" if problem.horizon is None else "episodes"
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
    known = stated_problem(env) is not None or max_return is not None or tells_gap(env)
    name, unidentified = env_identity(problem, env)
    return Facts(name, unit, given or stated, known, savable(env), unidentified)


def new_watch(request: Request, fitted: Callable[[Any], Any]) -> "RunWatch | None":
    """The detector of a run, if it has one."""
    if request.detector is None:
        return None
    from dqucb.drift.runs import RunWatch
    from dqucb.drift.spaces import detector_for
    from dqucb.envs.making import make_env

    env, chosen = fitted(make_env(request.problem)), request.detector
    spaces = env.observation_space, env.action_space
    detector = detector_for(*spaces, learning=True) if isinstance(chosen, str) else chosen
    return RunWatch(detector, request.identity["watch"], request.on_alarm == "restart", *spaces)


def tells_gap(env: "gymnasium.Env[Any, Any]") -> bool:
    """Whether `info["gap"]` is the regret of each step; behind a wrapper it may not be that of the wrapped env."""
    from dqucb.envs.making import bare

    return bool(getattr(bare(env), "info_has_gap", False))


def _agreed(name: str, given: Any, stated: Any) -> Any:
    if given is not None and given != stated:
        raise ValueError(f"{name} must be {stated!r}, as the env's own problem states, got {given!r}")
    return stated
