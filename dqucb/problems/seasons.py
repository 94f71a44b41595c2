"""FrozenLakes and GridWorlds that change in other ways: little by little, in turn, by their goal, or not at all."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import grid
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.frozen_lake import frozen_lake
from dqucb.problems.gridworld import gridworld
from dqucb.problems.mdp import TabularMDP

DRIFT_AT = tuple(range(5_000, 15_001, 500))  # gradual: 21 small changes in the middle half of 20,000 episodes
TURNS_AT = tuple(range(4_000, 20_000, 4_000))


@PROBLEMS.register("drifting-lake", episodes=20_000)
def drifting_lake(
    first: float = 0.0,
    last: float = 2 / 3,
    change_at: Iterable[int] = DRIFT_AT,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` whose slip moves from `first` to `last` in equal steps, one at each of `change_at`.

    Parameters
    ----------
    first, last : float
        The slip of the first and of the last phase.
    change_at : iterable of int
        Where each step of the slip happens.
    horizon, discount, map
        As in `frozen_lake`.

    Examples
    --------
    >>> drifting_lake(change_at=(10, 20)).n_phases
    3
    """
    points = grid.as_tuple(change_at)
    first, last = check.real("first", first, 0.0, 1.0), check.real("last", last, 0.0, 1.0)
    slip = np.linspace(first, last, len(points) + 1)
    lake = frozen_lake(slip=slip.tolist(), change_at=points, horizon=horizon, discount=discount, map=map)
    return grid.renamed(lake, {"problem": "drifting-lake", "first": first, "last": last, **_lake(lake)})


@PROBLEMS.register("periodic-lake", episodes=20_000)
def periodic_lake(
    slip: Sequence[float] = (0.0, 2 / 3),
    change_at: Iterable[int] = TURNS_AT,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` whose values of `slip` take turns, the next one at each of `change_at`.

    Parameters
    ----------
    slip : sequence of float
        The slips that take turns.
    change_at : iterable of int
        Where the next one begins.
    horizon, discount, map
        As in `frozen_lake`.

    Examples
    --------
    >>> periodic_lake(change_at=(10, 20)).description["slip"]
    [0.0, 0.6666666666666666, 0.0]
    """
    values, points = grid.levels("slip", slip), grid.as_tuple(change_at)
    turns = [values[number % len(values)] for number in range(len(points) + 1)]
    lake = frozen_lake(slip=turns, change_at=points, horizon=horizon, discount=discount, map=map)
    return grid.renamed(lake, {"problem": "periodic-lake", "slip": turns, **_lake(lake)})


@PROBLEMS.register("still-lake", episodes=20_000)
def still_lake(
    slip: float = 1 / 2,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` that never changes: what does it cost to be ready for a shift that does not come?

    Parameters
    ----------
    slip : float
        The probability of slipping.
    horizon, discount, map
        As in `frozen_lake`.

    Examples
    --------
    >>> still_lake().n_phases
    1
    """
    slip = check.real("slip", slip, 0.0, 1.0)
    lake = frozen_lake(slip=slip, change_at=(), horizon=horizon, discount=discount, map=map)
    return grid.renamed(lake, {"problem": "still-lake", "slip": slip, **_lake(lake, changes=False)})


@PROBLEMS.register("frozen-lake-8x8", episodes=20_000)
def frozen_lake_8x8(
    slip: float | Sequence[float] = (0.0, 1 / 3),
    change_at: Iterable[int] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """The `frozen_lake` of 8x8 cells, with a slip that changes once.

    Parameters
    ----------
    slip : float or sequence of float
        One number per phase.
    change_at : iterable of int, optional
        One index fewer; (10_000,) for two phases.
    horizon, discount
        As in `frozen_lake`.

    Examples
    --------
    >>> frozen_lake_8x8().n_states
    64
    """
    slips = grid.levels("slip", slip)
    points = grid.change_points("slip", len(slips), change_at, (10_000,))
    lake = frozen_lake(slip=slips, change_at=points, horizon=horizon, discount=discount, map="8x8")
    description = {"problem": "frozen-lake-8x8", "slip": list(slips), **_lake(lake)}
    del description["map"]
    return grid.renamed(lake, description)


def _lake(lake: Problem, changes: bool = True) -> dict[str, Any]:
    """The arguments that the lakes of this module have in common."""
    names = ("horizon", "discount", "map", "change_at") if changes else ("horizon", "discount", "map")
    return {name: lake.description[name] for name in names}


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
    world = gridworld(noise=noise, change_at=(), rows=rows, cols=cols, horizon=horizon, discount=discount)
    names = ("horizon", "discount", "rows", "cols")
    description = {"problem": "still-grid", "noise": noise, **{name: world.description[name] for name in names}}
    return grid.renamed(world, description)


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
    """A `gridworld` whose goal moves: `goals` holds one cell per phase.

    Rewards change and transitions do not. The horizon is 60 unless a horizon or a discount is given.

    Examples
    --------
    >>> moving_goal().horizon
    60
    """
    rows, cols = check.integer("rows", rows), check.integer("cols", cols)
    cells = [divmod(grid.cell_id("each of goals", goal, rows, cols), cols) for goal in goals]
    if not cells:
        raise ValueError(f"goals must hold one cell (row, column) for each phase, got {goals!r}")
    noise = check.real("noise", noise, 0.0, 1.0)
    points = grid.change_points("goals", len(cells), change_at, ())
    horizon, discount = grid.horizon_or_discount(horizon, discount, 60)
    description = {"problem": "moving-goal", "goals": [list(cell) for cell in cells], "noise": noise, "rows": rows,
                   "cols": cols, "horizon": horizon, "discount": discount}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        built = gridworld(
            noise=noise, rows=rows, cols=cols, horizon=horizon, discount=discount, goal=cells[number]
        ).phases[0]
        return grid.renamed(built, identity).phases[0]

    return grid.in_phases(phase, len(cells), points, description)
