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
    """A `frozen_lake` whose slip moves from `first` to `last` in equal steps, one at each of `change_at`."""
    points = grid.as_tuple(change_at)
    first, last = check.real("first", first, 0.0, 1.0), check.real("last", last, 0.0, 1.0)
    slip = np.linspace(first, last, len(points) + 1)
    lake = frozen_lake(slip=slip.tolist(), change_at=points, horizon=horizon, discount=discount, map=map)
    return _named(lake, "drifting-lake", first=first, last=last, change_at=list(points), map=list(lake.grid or ()))


@PROBLEMS.register("periodic-lake", episodes=20_000)
def periodic_lake(
    slip: Sequence[float] = (0.0, 2 / 3),
    change_at: Iterable[int] = TURNS_AT,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` whose values of `slip` take turns, the next one at each of `change_at`."""
    values, points = grid.levels("slip", slip), grid.as_tuple(change_at)
    turns = [values[number % len(values)] for number in range(len(points) + 1)]
    lake = frozen_lake(slip=turns, change_at=points, horizon=horizon, discount=discount, map=map)
    return _named(lake, "periodic-lake", slip=list(values), change_at=list(points), map=list(lake.grid or ()))


@PROBLEMS.register("still-lake", episodes=20_000)
def still_lake(
    slip: float = 1 / 2,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` that never changes: what does it cost to be ready for a shift that does not come?"""
    slip = check.real("slip", slip, 0.0, 1.0)
    lake = frozen_lake(slip=slip, change_at=(), horizon=horizon, discount=discount, map=map)
    return _named(lake, "still-lake", slip=slip, map=list(lake.grid or ()))


@PROBLEMS.register("still-grid", episodes=20_000)
def still_grid(
    noise: float = 0.2,
    horizon: int | None = None,
    discount: float | None = None,
    rows: int = 5,
    cols: int = 10,
) -> Problem:
    """A `gridworld` that never changes."""
    noise = check.real("noise", noise, 0.0, 1.0)
    still = gridworld(noise=noise, change_at=(), rows=rows, cols=cols, horizon=horizon, discount=discount)
    return _named(still, "still-grid", noise=noise, rows=rows, cols=cols)


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
        built.name, built.description = identity["problem"], identity
        return built

    return grid.in_phases(phase, len(cells), points, description)


def _named(problem: Problem, name: str, **arguments: Any) -> Problem:
    """The problem under a name of its own, described by the arguments that build it again."""
    described = {"problem": name, **arguments, "horizon": problem.horizon, "discount": problem.discount}
    for number, phase in enumerate(problem.phases):
        phase.name, phase.description = name, {**described, "phase": number}
    problem.name, problem.description = name, described
    return problem
