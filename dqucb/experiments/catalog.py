"""Problems and agents by the names that commands, files and tables use; a typo is answered with the nearest names."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from dqucb.base import AGENTS, Agent
from dqucb.problems import (
    Problem,
    combination_lock,
    drifting_lake,
    frozen_lake,
    gridworld,
    moving_goal,
    periodic_lake,
    random_mdp,
    river_swim,
    still_grid,
    still_lake,
    two_rooms,
)


class Entry(NamedTuple):
    """A builder and the run length at which its problem is usually studied."""

    build: Callable[..., Problem]
    episodes: int


PROBLEMS: dict[str, Entry] = {
    "gridworld": Entry(gridworld, 50_000),
    "two-rooms": Entry(two_rooms, 50_000),
    "frozen-lake": Entry(frozen_lake, 60_000),
    "combination-lock": Entry(combination_lock, 5_000),
    "river-swim": Entry(river_swim, 20_000),
    "moving-goal": Entry(moving_goal, 40_000),
    "drifting-lake": Entry(drifting_lake, 20_000),
    "periodic-lake": Entry(periodic_lake, 20_000),
    "random-mdp": Entry(random_mdp, 20_000),
    "still-lake": Entry(still_lake, 20_000),
    "still-grid": Entry(still_grid, 20_000),
}
AGENT_CLASSES: dict[str, type[Agent]] = {agent.__name__: agent for agent in AGENTS.values()}


def known(what: str, name: str, names: Iterable[str]) -> str:
    """`name` if it is one of `names`; else a ValueError that offers the nearest ones, or all."""
    words = list(names)
    if name in words:
        return name
    near = difflib.get_close_matches(str(name).lower(), words, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(words) or 'none'}"
    raise ValueError(f"unknown {what} {name!r}: {hint}")


def agent_parameters(agent: type[Agent]) -> dict[str, Any]:
    """The parameters of an agent and their defaults."""
    return {field.name: field.default for field in fields(agent)}


def problem_parameters(name: str) -> dict[str, Any]:
    """The parameters of a problem's builder and their defaults."""
    builder = PROBLEMS[known("problem", name, PROBLEMS)].build
    return {key: parameter.default for key, parameter in inspect.signature(builder).parameters.items()}


def make_agent(name: str, parameters: Mapping[str, Any] | None = None) -> Agent:
    """An agent by its command name; every name is checked before it is built."""
    cls = AGENTS[known("agent", name.lower(), AGENTS)]
    for parameter in parameters or {}:
        known(f"parameter of {name}", parameter, agent_parameters(cls))
    return cls(**(parameters or {}))


def make_problem(name: str, parameters: Mapping[str, Any] | None = None, episodes: int | None = None) -> Problem:
    """A problem by its command name.

    If `episodes` differs from the usual length and no change points are given, the usual ones keep their place in
    proportion, so that a short run still sees every phase.
    """
    name = known("problem", name.lower(), PROBLEMS)
    for parameter in parameters or {}:
        known(f"parameter of {name}", parameter, problem_parameters(name))
    build, usual = PROBLEMS[name]
    problem = build(**(parameters or {}))
    if episodes is None or episodes == usual or "change_at" in (parameters or {}) or problem.horizon is None:
        return problem
    moved = [max(1, index * episodes // usual) for index in problem.change_at]
    return build(**{**(parameters or {}), "change_at": moved}) if moved else problem


def rebuild_problem(description: Mapping[str, Any]) -> Problem:
    """The catalogue's problem with exactly this description."""
    arguments = {key: value for key, value in description.items() if key != "problem"}
    return PROBLEMS[description["problem"]].build(**arguments)
