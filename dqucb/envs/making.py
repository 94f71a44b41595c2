"""From what a user calls a problem to a Gymnasium env, and what the env says of itself.

An env of ours states its change points as `change_at` with their `unit`, the best return of an episode as `max_return`,
and its parameters by `describe()`. Attributes are read through wrappers, except the best return and the largest
reward, which a wrapper may have changed.
"""

import json
from typing import Any

import gymnasium
from gymnasium.wrappers import (
    HumanRendering,
    OrderEnforcing,
    PassiveEnvChecker,
    RecordEpisodeStatistics,
    RecordVideo,
    RenderCollection,
    TimeLimit,
)

from dqucb.envs import ENVS
from dqucb.problems.base import PROBLEMS, Problem

Env = gymnasium.Env[Any, Any]

# Wrappers that change no transition; one of the user's own may say so by `changes_transitions = False`.
_ONLY_LOOK = (
    OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, RecordVideo, HumanRendering, RenderCollection
)  # fmt: skip


def make_env(problem: Any) -> Env:
    """The env itself, or a new one from an id, a registered name, a function, or a finite problem.

    Examples
    --------
    >>> make_env("CartPole-v1").action_space
    Discrete(2)
    >>> make_env("cartpole").get_wrapper_attr("change_at")
    (400,)
    """
    if isinstance(problem, gymnasium.Env):
        return problem
    if isinstance(problem, Problem):
        from dqucb.envs.tabular import TabularEnv

        return TabularEnv(problem)
    if isinstance(problem, str):
        facts = ENVS.facts(problem) if problem in ENVS else {"id": problem}
        if facts["id"] is None:
            return ENVS[problem]()
        try:
            return gymnasium.make(facts["id"], disable_env_checker=True)
        except gymnasium.error.Error as error:
            if problem in PROBLEMS:
                raise ValueError(
                    f"problem must be an env, its id or a finite problem, got the name {problem!r}: "
                    f"pass dqucb.PROBLEMS[{problem!r}]()"
                ) from error
            raise ValueError(f"problem must be an env that exists, got {problem!r}: {error}") from error
    env = problem() if callable(problem) else None
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            "problem must be a TabularMDP, a ShiftingMDP, a Gymnasium env, its id, or a function that makes one, "
            f"got {problem!r}"
        )
    return env


def restarts(problem: Any) -> bool:
    """Whether `reset(seed=...)` begins a run anew.

    A new env does, and an env object of ours or of Gymnasium that no wrapper changes. Of any other one nobody knows.
    """
    if not isinstance(problem, gymnasium.Env):
        return True
    inner = bare(problem)
    if isinstance(inner, TimeLimit):
        inner = bare(inner.env)
    of_gymnasium = type(inner).__module__.startswith("gymnasium.envs.")
    return stated_problem(problem) is not None or of_gymnasium or getattr(type(inner), "restarts_with_seed", False)


def check_reusable(problem: Any, runs: int) -> None:
    """Raise a ValueError for an env object that would carry its state from one run into the next."""
    if runs > 1 and not restarts(problem):
        raise ValueError(
            f"problem must be an id or a function that makes a new env for {runs} runs: an env object keeps what it "
            f"counts from one run to the next, got {problem}"
        )


def bare(env: Env) -> Env:
    """The env without Gymnasium's wrappers that only check how it is used."""
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    return env


def stated_problem(env: Env) -> Problem | None:
    """The finite problem that an env of ours plays; None if a wrapper may change its rewards, states or actions."""
    problem = getattr(env.unwrapped, "problem", None)
    if not isinstance(problem, Problem):
        return None
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            harmless = problem.horizon is None or env._max_episode_steps >= problem.horizon
        else:
            harmless = isinstance(env, _ONLY_LOOK) or not getattr(type(env), "changes_transitions", True)
        if not harmless:
            return None
        env = env.env
    return problem


def env_description(problem: Any, env: Env) -> dict[str, Any]:
    """JSON that names the env: its id or class, what it states by `describe()`, its wrappers and keywords."""
    if (stated := stated_problem(env)) is not None:
        return stated.description
    spec, inner = getattr(env, "spec", None), bare(env)
    if isinstance(inner, TimeLimit):  # `spec` holds the limit
        inner = bare(inner.env)
    description = {"problem": type(env.unwrapped).__name__ if spec is None else spec.id}
    if env.has_wrapper_attr("describe"):
        description |= env.get_wrapper_attr("describe")()
    elif isinstance(inner_problem := getattr(env.unwrapped, "problem", None), Problem):
        description["states"] = inner_problem.description
    elif spec is not None:
        description |= {name: value for name, value in spec.kwargs.items() if _is_json(value)}
    if spec is not None and spec.max_episode_steps is not None:
        description["max_episode_steps"] = spec.max_episode_steps
    description |= {"env": str(inner)} if isinstance(inner, gymnasium.Wrapper) else {}
    plain: dict[str, Any] = json.loads(json.dumps(description))  # as it comes back from a file: tuples are lists
    return plain


def change_points(env: Env, unit: str) -> tuple[int, ...]:
    """The change points that an env states in this unit; none if it counts in the other one."""
    if not env.has_wrapper_attr("change_at"):
        return ()
    own_unit = env.get_wrapper_attr("unit") if env.has_wrapper_attr("unit") else "episodes"
    return tuple(int(index) for index in env.get_wrapper_attr("change_at") if index > 0) if own_unit == unit else ()


def own_number(env: Env, name: str) -> float | None:
    """`max_return` or `max_reward` where the env states it and no wrapper can have changed it."""
    value = getattr(bare(env), name, None) if not isinstance(bare(env), gymnasium.Wrapper) else None
    return None if value is None else float(value)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
