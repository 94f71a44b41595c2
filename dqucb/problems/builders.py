"""Shared by the builders of problems: moves on grids, reachability, phases, argument checks.

Cells are numbered row by row. A move off the grid or into a blocked cell leaves the agent where it is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems.base import Problem
from dqucb.problems.mdp import TabularMDP
from dqucb.problems.shifting import ShiftingMDP

LEFT, RIGHT, UP, DOWN = (0, -1), (0, 1), (-1, 0), (1, 0)  # (row, column) of one move


def targets(rows: int, cols: int, moves: Sequence[tuple[int, int]], blocked: Iterable[int] = ()) -> NDArray[np.int64]:
    """The cell each move leads to, (moves, cells); the cell itself where the move is blocked."""
    cell = np.arange(rows * cols)
    row, col = np.divmod(cell, cols)
    wall = np.zeros(rows * cols, dtype=np.bool_)
    wall[list(blocked)] = True
    result = np.empty((len(moves), cell.size), dtype=np.int64)
    for number, (down, right) in enumerate(moves):
        to_row, to_col = row + down, col + right
        inside = (to_row >= 0) & (to_row < rows) & (to_col >= 0) & (to_col < cols)
        there = np.where(inside, to_row * cols + to_col, cell)
        result[number] = np.where(wall[there], cell, there)
    return result


def cell_id(name: str, cell: Any, rows: int, cols: int) -> int:
    """The state id of a (row, column) pair."""
    if not isinstance(cell, Sequence | np.ndarray) or isinstance(cell, str) or len(cell) != 2:
        raise ValueError(f"{name} must be a cell (row, column), got {cell!r}")
    row = check.integer(f"the row of {name}", cell[0], 0, rows - 1)
    return row * cols + check.integer(f"the column of {name}", cell[1], 0, cols - 1)


def reachable(start: int, moves: NDArray[np.int64], closed: Iterable[int] = ()) -> NDArray[np.bool_]:
    """Mask of the cells that can be reached from `start` by `moves` without passing through `closed` cells."""
    open_cells = np.ones(moves.shape[1], dtype=np.bool_)
    open_cells[list(closed)] = False
    seen = np.zeros(moves.shape[1], dtype=np.bool_)
    seen[start] = True
    edge = np.array([start])
    while edge.size:  # all cells at one distance at a time
        there = moves[:, edge[open_cells[edge]]].ravel()
        edge = np.unique(there[~seen[there]])
        seen[edge] = True
    return seen


def as_tuple(value: Any) -> tuple[Any, ...]:
    """An iterable as a tuple; a single number as a tuple of one."""
    return (value,) if np.ndim(value) == 0 else tuple(value)


def levels(name: str, value: Any) -> tuple[float, ...]:
    """One probability per phase; a single number is one phase."""
    given = as_tuple(value)
    if not given:
        raise ValueError(f"{name} must be a number in [0, 1] or one for each phase, got {value!r}")
    return tuple(check.real(name, number, 0.0, 1.0) for number in given)


def change_points(name: str, n_phases: int, change_at: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    """The given change points, or the default ones if they fit the number of phases."""
    fitting = default if n_phases == len(default) + 1 else ()
    points = fitting if change_at is None else as_tuple(change_at)
    if len(points) != n_phases - 1:
        raise ValueError(
            f"{n_phases} values of {name} make {n_phases} phases and need {n_phases - 1} change points, got "
            f"change_at={change_at!r}: pass one index for each change"
        )
    return tuple(check.integer("each of change_at", index) for index in points)


def horizon_or_discount(horizon: int | None, discount: float | None, default: int) -> tuple[int | None, float | None]:
    """Both as plain numbers for the description; the default horizon if neither is given."""
    if horizon is None and discount is None:
        horizon = default
    return (
        None if horizon is None else check.integer("horizon", horizon),
        None if discount is None else check.real("discount", discount, 0.0),
    )


def in_phases(
    phase: Callable[[int, dict[str, Any]], TabularMDP],
    n_phases: int,
    change_at: tuple[int, ...],
    description: dict[str, Any],
) -> Problem:
    """A problem from a function that builds phase i; with one phase, that phase itself."""
    description = {**description, "change_at": list(change_at)}
    if n_phases == 1:
        return phase(0, description)
    phases = [phase(number, {**description, "phase": number}) for number in range(n_phases)]
    return ShiftingMDP(phases, change_at, name=description["problem"], description=description)


def renamed(problem: Problem, description: dict[str, Any]) -> Problem:
    """Give `problem` the name and description of another builder, in place."""
    problem.name, problem.description = description["problem"], description
    if problem.n_phases > 1:
        for number, phase in enumerate(problem.phases):
            phase.name, phase.description = description["problem"], {**description, "phase": number}
    return problem
