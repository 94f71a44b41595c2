"""Variants of `gridworld` and `two_rooms`: no change, a moving goal, a new prize, returning phases, many states."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems.base import PROBLEMS, Problem, read_only
from dqucb.problems.gridworld import gridworld, two_rooms
from dqucb.problems.mdp import TabularMDP


@PROBLEMS.register("still-grid", episodes=20_000)
def still_grid(
    noise: float = 0.2,
    horizon: int | None = None,
    discount: float | None = None,
    rows: int = 5,
    cols: int = 10,
) -> Problem:
    """A `gridworld` that never changes.

    Parameters
    ----------
    noise : float
        The probability of a random move.
    horizon, discount, rows, cols
        As in `gridworld`.

    Examples
    --------
    >>> still_grid(rows=2, cols=3).n_states
    6
    """
    noise = check.real("noise", noise, 0.0, 1.0)
    problem = gridworld(noise=noise, change_at=(), rows=rows, cols=cols, horizon=horizon, discount=discount)
    names = ("horizon", "discount", "rows", "cols")
    description = {"problem": "still-grid", "noise": noise, **{name: problem.description[name] for name in names}}
    return builders.renamed(problem, description)


@PROBLEMS.register("moving-goal", episodes=40_000)
def moving_goal(
    goals: Sequence[tuple[int, int]] = ((4, 9), (4, 0)),
    change_at: Iterable[int] = (20_000,),
    noise: float = 0.1,
    rows: int = 5,
    cols: int = 10,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """A `gridworld` whose goal moves: rewards change and transitions do not.

    Parameters
    ----------
    goals : sequence of (int, int)
        Row and column of the goal, one cell for each phase.
    change_at : iterable of int
        The first index of each later phase.
    noise, rows, cols
        As in `gridworld`.
    horizon, discount
        Exactly one, or neither: then the horizon is 60.

    Examples
    --------
    >>> moving_goal().horizon
    60
    """
    shared = _shared(noise, rows, cols, horizon, discount, 60)
    cells = [divmod(builders.cell_id("each of goals", goal, rows, cols), cols) for goal in goals]
    if not cells:
        raise ValueError(f"goals must hold one cell (row, column) for each phase, got {goals!r}")
    points = builders.change_points("goals", len(cells), change_at, ())
    description = {"problem": "moving-goal", "goals": [list(cell) for cell in cells], **shared}

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        return builders.renamed(gridworld(**shared, goal=cells[number]), identity).phases[0]

    return builders.in_phases(phase, len(cells), points, description)


@PROBLEMS.register("new-prize", episodes=20_000)
def new_prize(
    prizes: Sequence[float] = (0.0, 1.0),
    change_at: Iterable[int] | None = None,
    usual: float = 0.5,
    noise: float = 0.1,
    rows: int = 5,
    cols: int = 10,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """A grid in which a better prize appears where a greedy agent no longer goes; nothing else changes.

    Moves are those of `gridworld`. The start is in the middle of the top row. Each step in the lower right corner pays
    `usual`, each step in the lower left corner pays the prize of the phase. A greedy agent never notices the change,
    because none of the transitions and rewards that it observes has changed.

    Parameters
    ----------
    prizes : sequence of float
        The reward in the lower left corner, one for each phase.
    change_at : iterable of int, optional
        The first index of each later phase; (10_000,) by default for two phases.
    usual : float
        The reward in the lower right corner.
    noise, rows, cols
        As in `gridworld`.
    horizon, discount
        Exactly one, or neither: then the horizon is 50.

    Examples
    --------
    >>> problem = new_prize()
    >>> bool(problem.optimal_values(1)[0, 5] > problem.optimal_values(0)[0, 5])
    True
    """
    shared = _shared(noise, rows, cols, horizon, discount, 50, 2, 3)
    values = [check.real("each of prizes", prize, 0.0, 1.0) for prize in builders.as_tuple(prizes)]
    points = builders.change_points("prizes", len(values), change_at, (10_000,))
    usual = check.real("usual", usual, 0.0, 1.0)
    description = {"problem": "new-prize", "prizes": values, "usual": usual, **shared}
    left, right = (rows - 1) * cols, rows * cols - 1

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        mdp = builders.renamed(gridworld(**shared, start=(0, cols // 2)), identity).phases[0]
        model = mdp.model.written_out()
        state = np.repeat(np.arange(model.row_start.size - 1), np.diff(model.row_start)) // mdp.n_actions
        model.reward[state == right] = usual
        model.reward[state == left] = values[number]
        mdp.model = read_only(model)
        return mdp

    return builders.in_phases(phase, len(values), points, description)


@PROBLEMS.register("returning-rooms", episodes=20_000)
def returning_rooms(
    doors: Sequence[int] = (0, 4),
    change_at: Iterable[int] = (4_000, 8_000, 12_000, 16_000),
    noise: float = 0.1,
    rows: int = 5,
    cols: int = 10,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """Two rooms whose door cycles through the rows `doors`, so that earlier phases return.

    Moves are those of `gridworld`; the wall fills the column in the middle. The start is in the middle of the first
    column, the goal opposite. An agent that remembers earlier phases need not learn the third phase again.

    Parameters
    ----------
    doors : sequence of int
        The rows of the door, in the order of the cycle.
    change_at : iterable of int
        The first index of each later phase.
    noise, rows, cols
        As in `gridworld`.
    horizon, discount
        Exactly one, or neither: then the horizon is 60.

    Examples
    --------
    >>> problem = returning_rooms()
    >>> problem.phases[0].grid[0], problem.phases[1].grid[0], problem.phases[2].grid[0]
    ('..........', '.....#....', '..........')
    """
    shared = _shared(noise, rows, cols, horizon, discount, 60, 2, 3)
    rows_of_doors = [check.integer("each of doors", door, 0, rows - 1) for door in builders.as_tuple(doors)]
    if not rows_of_doors:
        raise ValueError(f"doors must hold one or more rows, got {doors!r}")
    points = check.increasing("change_at", change_at)
    cycle = [rows_of_doors[number % len(rows_of_doors)] for number in range(len(points) + 1)]
    description = {"problem": "returning-rooms", "doors": cycle, **shared}

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        walls = [(row, cols // 2) for row in range(rows) if row != cycle[number]]
        built = gridworld(**shared, start=(rows // 2, 0), goal=(rows // 2, cols - 1), walls=walls)
        return builders.renamed(built, identity).phases[0]

    return builders.in_phases(phase, len(cycle), points, description)


@PROBLEMS.register("large-rooms", episodes=10_000)
def large_rooms(
    change_at: Iterable[int] = (5_000,),
    noise: float = 0.05,
    rows: int = 40,
    cols: int = 50,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """`two_rooms` with 2,000 states.

    Parameters
    ----------
    change_at : iterable of int
        The indices at which the wall appears and disappears.
    noise, rows, cols
        As in `two_rooms`.
    horizon, discount
        Exactly one, or neither: then the horizon is 200.

    Examples
    --------
    >>> large_rooms().n_states
    2000
    """
    horizon, discount = builders.horizon_or_discount(horizon, discount, 200)
    problem = two_rooms(noise=noise, change_at=change_at, horizon=horizon, rows=rows, cols=cols, discount=discount)
    names = ("horizon", "discount", "rows", "cols", "change_at")
    description = {"problem": "large-rooms", "noise": check.real("noise", noise, 0.0, 1.0)}
    return builders.renamed(problem, {**description, **{name: problem.description[name] for name in names}})


def _shared(
    noise: float, rows: int, cols: int, horizon: int | None, discount: float | None, usual_horizon: int,
    least_rows: int = 1, least_cols: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """The checked arguments that every phase passes to `gridworld`."""
    rows, cols = check.integer("rows", rows, least_rows), check.integer("cols", cols, least_cols)
    horizon, discount = builders.horizon_or_discount(horizon, discount, usual_horizon)
    noise = check.real("noise", noise, 0.0, 1.0)
    return {"noise": noise, "rows": rows, "cols": cols, "horizon": horizon, "discount": discount}
