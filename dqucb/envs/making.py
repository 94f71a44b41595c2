"""From what a user calls a problem to a Gymnasium env, and what the env says of itself.

An env of ours states its change points as `change_at` with their `unit`, the best return of an episode as `max_return`,
and its parameters by `describe()`. Change points are read through wrappers. What a wrapper may have changed is not: the
finite problem behind an env, its best return, the regret of a step, and its identity.
"""

import copy
import functools
import json
import math
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

from dqucb._fingerprint import UnidentifiedError, fingerprint, is_known_code
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
    """Whether `reset(seed=...)` restarts a run.

    A new env does, and an env object of ours or of Gymnasium that no wrapper changes. Of any other env it is not known.
    """
    if not isinstance(problem, gymnasium.Env):
        return True
    inner = _inner(problem)
    of_gymnasium = type(inner).__module__.startswith("gymnasium.envs.")
    return stated_problem(problem) is not None or of_gymnasium or getattr(type(inner), "restarts_with_seed", False)


def check_reusable(problem: Any, runs: int) -> None:
    """Raise a ValueError for an env object that would carry its state from one run into the next."""
    if runs == 1:
        return
    if not restarts(problem):
        raise ValueError(
            f"problem must be an id or a function that makes a new env for {runs} runs: an env object keeps what it "
            f"counts from one run to the next, got {problem}"
        )
    if callable(problem) and make_env(problem).unwrapped is (same := make_env(problem).unwrapped):
        raise ValueError(
            f"problem must make a new env for each of {runs} runs, got a function that returns {same} each time"
        )


def bare(env: Env) -> Env:
    """The env without Gymnasium's wrappers that only check how it is used."""
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    return env


def only_looked_at(env: Env, horizon: float = math.inf) -> bool:
    """Whether no wrapper can change rewards, states or actions, or end an episode before `horizon` steps."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            harmless = env._max_episode_steps >= horizon
        else:
            harmless = isinstance(env, _ONLY_LOOK) or not getattr(type(env), "changes_transitions", True)
        if not harmless:
            return False
        env = env.env
    return True


def stated_problem(env: Env) -> Problem | None:
    """The finite problem that an env of ours plays; None if a wrapper may change its rewards, states or actions."""
    problem = getattr(env.unwrapped, "problem", None)
    if not isinstance(problem, Problem):
        return None
    return problem if only_looked_at(env, problem.horizon or 0) else None


def savable(env: Env) -> bool:
    """Whether the whole state of an env can be saved; that of a wrapper around it would be lost."""
    return hasattr(type(bare(env)), "checkpoint_state")


def env_identity(problem: Any, env: Env) -> tuple[dict[str, Any], str | None]:
    """JSON that names an env and no other, and why it may not (None if it does).

    An id, a registered name, or `functools.partial` of a maker of this package or Gymnasium with plain arguments is
    named by these. Any other env is named by its class and a digest of its state after `reset(seed=0)`, with all
    wrappers, their arguments and the user's own code.
    """
    if (finite := stated_problem(env)) is not None and is_known_code(type(env.unwrapped)):
        return finite.identity, None
    described = _described(env)
    if _names_itself(problem, env):
        return described, None
    try:
        digest = _digest(_copied(env) if isinstance(problem, gymnasium.Env) else env)
        if env.spec is not None and not isinstance(_inner(env), gymnasium.Wrapper) and _is_plain(env):
            fresh = _made_again(env.spec)
            if fresh is not None and _digest(fresh) == digest:  # as its id and keywords make it
                return described, None
        return {**described, "sha256": digest}, None
    except UnidentifiedError as error:
        return described, f"{described['problem']}: {error}"


def _made_again(spec: Any) -> Env | None:
    """A new env from its spec; None if a wrapper does not record its arguments."""
    try:
        return gymnasium.make(spec, disable_env_checker=True)
    except ValueError:
        return None


def _copied(env: Env) -> Env:
    """A copy of the user's own env, which is not to be reset without need."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise UnidentifiedError(f"it cannot be copied ({error})") from error


def _digest(env: Env) -> str:
    """Of the env and its wrappers as they are after a reset, without those that only check how it is used."""
    env.reset(seed=0)
    found = []
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker):
            found.append([type(env), {name: value for name, value in vars(env).items() if name not in _LINKS}])
        env = env.env
    return fingerprint([*found, env])


_LINKS = ("env", "_cached_spec", "_metadata")  # of a wrapper: read with the env itself, or when first asked for


def _names_itself(problem: Any, env: Env) -> bool:
    """Whether an id, or a maker with plain arguments, says all of an env whose code is known."""
    if not _is_plain(env):
        return False
    if isinstance(problem, str):
        return True
    maker, arguments = problem, tuple[Any, ...]()
    if isinstance(problem, functools.partial):
        maker, arguments = problem.func, (*problem.args, *problem.keywords.values())
    known = maker is gymnasium.make or maker in ENVS.values() or (
        callable(maker) and not isinstance(maker, gymnasium.Env)
        and getattr(maker, "__module__", "").startswith("dqucb.") and hasattr(maker, "__qualname__")
    )  # fmt: skip
    return known and all(_is_json(argument) for argument in arguments)


def _is_plain(env: Env) -> bool:
    """Whether the code of an env and its wrappers is known, and its keywords are JSON."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return all(is_known_code(type(layer)) for layer in layers) and (env.spec is None or _is_json(env.spec.kwargs))


def _inner(env: Env) -> Env:
    """The env without Gymnasium's wrappers that check it or, as its `spec` says, limit it."""
    inner = bare(env)
    return bare(inner.env) if isinstance(inner, TimeLimit) else inner


def _described(env: Env) -> dict[str, Any]:
    """JSON: the id or class of an env, what it states by `describe()`, its wrappers and keywords."""
    spec, inner = getattr(env, "spec", None), _inner(env)
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
    value = getattr(env.unwrapped, name, None) if only_looked_at(env) else None
    return None if value is None else float(value)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
