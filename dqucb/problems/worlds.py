"""Worlds that test one thing each: a prize nobody looks for, a world that returns, steps that differ, size."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import grid
from dqucb.problems._transitions import from_arrays
from dqucb.problems.base import PROBLEMS, Problem, read_only
from dqucb.problems.chains import river_swim
from dqucb.problems.gridworld import gridworld, two_rooms
from dqucb.problems.mdp import TabularMDP


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
    """A grid in which a better prize appears where nobody goes any more; nothing else changes.

    Moves are those of `gridworld`. The start is in the middle of the top row. Each step in the lower right corner is
    paid `usual`, each step in the lower left one the prize of the phase. An agent that only does what it believes best
    never learns of the change: nothing that it sees has changed.

    Parameters
    ----------
    prizes : sequence of float
        The reward in the lower left corner, one for each phase.
    change_at : iterable of int, optional
        One index fewer; (10_000,) for two phases.
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
    rows, cols = check.integer("rows", rows, 2), check.integer("cols", cols, 3)
    values = [check.real("each of prizes", prize, 0.0, 1.0) for prize in grid.as_tuple(prizes)]
    points = grid.change_points("prizes", len(values), change_at, (10_000,))
    usual = check.real("usual", usual, 0.0, 1.0)
    noise = check.real("noise", noise, 0.0, 1.0)
    horizon, discount = grid.horizon_or_discount(horizon, discount, 50)
    description = {"problem": "new-prize", "prizes": values, "usual": usual, "noise": noise, "rows": rows,
                   "cols": cols, "horizon": horizon, "discount": discount}  # fmt: skip
    left, right, start = (rows - 1) * cols, rows * cols - 1, (0, cols // 2)

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        world = gridworld(noise=noise, rows=rows, cols=cols, horizon=horizon, discount=discount, start=start).phases[0]
        model = world.model.written_out()
        state = np.repeat(np.arange(model.row_start.size - 1), np.diff(model.row_start)) // world.n_actions
        model.reward[state == right] = usual
        model.reward[state == left] = values[number]
        world.model = read_only(model)
        return grid.renamed(world, identity).phases[0]

    return grid.in_phases(phase, len(values), points, description)


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
    """Worlds that return: two rooms whose door takes turns between the rows `doors`.

    Moves are those of `gridworld`; the wall fills the column in the middle. The start is in the middle of the first
    column, the goal opposite. Who remembers the worlds need not learn the third phase.

    Parameters
    ----------
    doors : sequence of int
        The rows of the door that take turns.
    change_at : iterable of int
        Where the next one begins.
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
    rows, cols = check.integer("rows", rows, 2), check.integer("cols", cols, 3)
    rows_of_doors = [check.integer("each of doors", door, 0, rows - 1) for door in grid.as_tuple(doors)]
    if not rows_of_doors:
        raise ValueError(f"doors must hold one or more rows, got {doors!r}")
    points = tuple(check.integer("each of change_at", index) for index in grid.as_tuple(change_at))
    noise = check.real("noise", noise, 0.0, 1.0)
    horizon, discount = grid.horizon_or_discount(horizon, discount, 60)
    turns = [rows_of_doors[number % len(rows_of_doors)] for number in range(len(points) + 1)]
    description = {"problem": "returning-rooms", "doors": turns, "noise": noise, "rows": rows, "cols": cols,
                   "horizon": horizon, "discount": discount}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        world = gridworld(
            noise=noise, rows=rows, cols=cols, horizon=horizon, discount=discount,
            start=(rows // 2, 0), goal=(rows // 2, cols - 1),
            walls=[(row, cols // 2) for row in range(rows) if row != turns[number]],
        ).phases[0]  # fmt: skip
        return grid.renamed(world, identity).phases[0]

    return grid.in_phases(phase, len(turns), points, description)


@PROBLEMS.register("tidal-river", episodes=20_000)
def tidal_river(
    change_at: Iterable[int] = (10_000,), n_states: int = 6, horizon: int = 20, turn: int | None = None
) -> Problem:
    """A `river_swim` whose current turns within each episode: transitions and rewards depend on the step.

    Before step `turn` everything is as in the first phase of `river_swim`, and from then on its mirror image. At each
    of `change_at` the two parts of the episode change places.

    Parameters
    ----------
    change_at : iterable of int
        Where the tides change places.
    n_states, horizon : int
        As in `river_swim`.
    turn : int, optional
        The step at which the current turns; half of the horizon by default.

    Examples
    --------
    >>> tidal_river(change_at=()).model.step_stride
    12
    """
    points = tuple(check.integer("each of change_at", index) for index in grid.as_tuple(change_at))
    H, S = check.integer("horizon", horizon, 2), check.integer("n_states", n_states, 3)
    turn = check.integer("turn", H // 2 if turn is None else turn, 1, H - 1)
    ebb, flow = (_dense(part) for part in river_swim(change_at=(1,), n_states=S, horizon=H).phases)
    description = {"problem": "tidal-river", "n_states": S, "horizon": H, "turn": turn}

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        first, second = (ebb, flow) if number % 2 == 0 else (flow, ebb)
        P = np.stack([(first if step < turn else second)[0] for step in range(H)])
        R = np.stack([(first if step < turn else second)[1] for step in range(H)])
        return TabularMDP.from_entries(from_arrays(P, R), horizon=H, initial=(S - 1) // 2, description=identity)

    return grid.in_phases(phase, len(points) + 1, points, description)


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
        Where the wall comes and goes.
    noise, rows, cols
        As in `two_rooms`.
    horizon, discount
        Exactly one, or neither: then the horizon is 200.

    Examples
    --------
    >>> large_rooms().n_states
    2000
    """
    horizon, discount = grid.horizon_or_discount(horizon, discount, 200)
    world = two_rooms(noise=noise, change_at=change_at, horizon=horizon, rows=rows, cols=cols, discount=discount)
    names = ("horizon", "discount", "rows", "cols", "change_at")
    description = {"problem": "large-rooms", "noise": check.real("noise", noise, 0.0, 1.0)}
    return grid.renamed(world, {**description, **{name: world.description[name] for name in names}})


@PROBLEMS.register("endless-river", steps=100_000)
def endless_river(change_at: Iterable[int] = (50_000,), n_states: int = 6, discount: float = 0.95) -> Problem:
    """A `river_swim` without episodes; its length and change points count steps.

    Parameters
    ----------
    change_at : iterable of int
        The steps at which the river is turned round.
    n_states : int
        As in `river_swim`.
    discount : float
        The discount.

    Examples
    --------
    >>> endless_river().discount
    0.95
    """
    river = river_swim(change_at=change_at, n_states=n_states, discount=discount)
    names = ("n_states", "discount", "change_at")
    return grid.renamed(river, {"problem": "endless-river", **{name: river.description[name] for name in names}})


def _dense(mdp: TabularMDP) -> tuple[Any, Any]:
    """P and R of one phase as arrays (S, A, S)."""
    model = mdp.model.written_out()
    P, R = np.zeros((2, mdp.n_states, mdp.n_actions, mdp.n_states))
    row = np.repeat(np.arange(model.row_start.size - 1), np.diff(model.row_start))
    place = (*np.divmod(row, mdp.n_actions), model.successor)
    P[place], R[place] = model.probability, model.reward
    return P, R
