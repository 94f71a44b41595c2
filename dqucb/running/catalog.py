"""Problems and envs by the names used in commands, files and tables, with their usual run lengths."""

import inspect
import re
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import gymnasium

from dqucb import _validate
from dqucb.envs import ENVS
from dqucb.envs.making import change_points, make_env
from dqucb.problems import Problem
from dqucb.problems.base import PROBLEMS

UNITS = ("episodes", "steps")


class Length(NamedTuple):
    """The length of a run."""

    number: int
    unit: str  # "episodes" or "steps"


def names() -> list[str]:
    """The names of all registered problems and envs."""
    return [*PROBLEMS, *ENVS]


def is_gymnasium_id(name: str) -> bool:
    """Whether this is the id of an env, as in "CartPole-v1" or "dqucb/CartPole-v0"."""
    return re.search(r"/|:|-v\d+$", name) is not None


def registered(name: str) -> str:
    """The registered name of a problem or env; letters may be capitals and `_` stands for `-`.

    Examples
    --------
    >>> registered("frozen_lake")
    'frozen-lake'
    """
    usual = name.lower().replace("_", "-")
    return usual if usual in names() else _validate.known("problem", name, names())


def parameters_of(builder: Any) -> dict[str, Any]:
    """The keywords of a class or function with their defaults, without those that it passes on as **kwargs."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = getattr(builder, "options", {})  # of a registered env, over the defaults
    return {
        name: given.get(name, parameter.default)
        for name, parameter in _signature(builder).parameters.items()
        if parameter.kind in kinds and name != "render_mode"
    }


def _signature(builder: Any) -> inspect.Signature:
    # A lazily loaded env carries the module and name of its class or function.
    return inspect.signature(getattr(import_module(builder.__module__), builder.__qualname__, builder))


def _check_parameters(name: str, builder: Any, given: Mapping[str, Any]) -> None:
    if not any(each.kind is each.VAR_KEYWORD for each in _signature(builder).parameters.values()):
        for parameter in given:
            _validate.known(f"parameter of {name}", parameter, parameters_of(builder))


def usual_length(name: str) -> Length | None:
    """The usual run length of a registered problem or env."""
    facts = PROBLEMS.facts(name) if name in PROBLEMS else ENVS.facts(name) if name in ENVS else {}
    return next((Length(facts[unit], unit) for unit in UNITS if unit in facts), None)


def make_problem(name: str, parameters: Mapping[str, Any] | None = None, length: int | None = None) -> Any:
    """A finite problem, or the factory of an env, by its registered name.

    Parameters
    ----------
    name : str
        As `dqucb list` shows it.
    parameters : mapping, optional
        Keywords of the problem or env.
    length : int, optional
        Length of the run. If it differs from the usual length and no change points are given, the usual ones are
        scaled in proportion, so that a short run still contains every phase.

    Examples
    --------
    >>> make_problem("frozen-lake", length=600).change_at
    (200, 400)
    """
    name = registered(name)
    given = dict(parameters or {})
    builder: Any = PROBLEMS[name] if name in PROBLEMS else ENVS[name]
    _check_parameters(name, builder, given)
    problem = builder(**given) if name in PROBLEMS else _env_maker(name, given)
    usual = usual_length(name)
    if length is None or usual is None or _validate.integer(usual.unit, length) == usual.number or "change_at" in given:
        return problem
    if isinstance(problem, Problem):
        changes = problem.change_at if problem.unit == usual.unit else ()
    else:
        changes = change_points(make_env(problem), usual.unit)
    if not changes:
        return problem
    given["change_at"] = moved = tuple(max(1, index * length // usual.number) for index in changes)
    if len(set(moved)) < len(moved):
        raise ValueError(f"{usual.unit} must be enough for the {len(moved)} changes of {name}, got {length}")
    return builder(**given) if name in PROBLEMS else _env_maker(name, given)


def _env_maker(name: str, parameters: dict[str, Any]) -> Any:
    env_id = ENVS.facts(name).get("id")
    return partial(ENVS[name], **parameters) if env_id is None else partial(gymnasium.make, env_id, **parameters)


def rebuild_problem(description: Mapping[str, Any]) -> Problem:
    """The registered problem with exactly this description.

    Examples
    --------
    >>> from dqucb.problems import gridworld
    >>> rebuild_problem(gridworld(noise=0.1).description).n_phases
    1
    """
    name = _validate.known("problem", str(description["problem"]), PROBLEMS)
    return PROBLEMS[name](**{key: value for key, value in description.items() if key != "problem"})
