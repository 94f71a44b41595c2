"""From what a user calls a problem to a Gymnasium env, and what the env says of itself."""

from typing import Any

import gymnasium

from dqucb.problems.base import Problem


def make_env(problem: Any) -> gymnasium.Env[Any, Any]:
    """The env itself, or a new one from an id, a registered name, a function, or a finite problem.

    Examples
    --------
    >>> make_env("CartPole-v1").action_space
    Discrete(2)
    """
    if isinstance(problem, gymnasium.Env):
        return problem
    if isinstance(problem, Problem):
        from dqucb.envs.tabular import TabularEnv

        return TabularEnv(problem)
    if isinstance(problem, str):
        try:
            return gymnasium.make(problem, disable_env_checker=True)
        except gymnasium.error.Error as error:
            raise ValueError(f"problem must be an env that exists, got {problem!r}: {error}") from error
    env = problem() if callable(problem) else None
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            "problem must be a TabularMDP, a ShiftingMDP, a Gymnasium env, its id, or a function that makes one, "
            f"got {problem!r}"
        )
    return env


def env_description(problem: Any, env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """JSON that names the env: its id or class, and what it tells by `describe()`."""
    stated = env.unwrapped.problem if hasattr(env.unwrapped, "problem") else None
    if isinstance(stated, Problem):
        return stated.description
    spec = getattr(env, "spec", None)
    name = problem if isinstance(problem, str) else spec.id if spec is not None else type(env.unwrapped).__name__
    more = env.get_wrapper_attr("describe")() if env.has_wrapper_attr("describe") else {}
    return {"problem": name, **more}


def change_points(env: gymnasium.Env[Any, Any], unit: str) -> tuple[int, ...]:
    """The change points that an env states in this unit; none if it counts in the other one."""
    if not env.has_wrapper_attr("change_at"):
        return ()
    own_unit = env.get_wrapper_attr("unit") if env.has_wrapper_attr("unit") else "episodes"
    return tuple(int(index) for index in env.get_wrapper_attr("change_at")) if own_unit == unit else ()
