"""Variants of `frozen_lake`: gradual, periodic or no change, and a larger map."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.frozen_lake import frozen_lake

DRIFT_AT = tuple(range(5_000, 15_001, 500))  # gradual: 21 small changes in the middle half of 20,000 episodes
CYCLE_AT = tuple(range(4_000, 20_000, 4_000))


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
        The first index of each later phase.
    horizon, discount, map
        As in `frozen_lake`.

    Examples
    --------
    >>> drifting_lake(change_at=(10, 20)).n_phases
    3
    """
    points = builders.as_tuple(change_at)
    first, last = check.real("first", first, 0.0, 1.0), check.real("last", last, 0.0, 1.0)
    slip = np.linspace(first, last, len(points) + 1)
    lake = frozen_lake(slip=slip.tolist(), change_at=points, horizon=horizon, discount=discount, map=map)
    return builders.renamed(lake, {"problem": "drifting-lake", "first": first, "last": last, **_lake(lake)})


@PROBLEMS.register("periodic-lake", episodes=20_000)
def periodic_lake(
    slip: Sequence[float] = (0.0, 2 / 3),
    change_at: Iterable[int] = CYCLE_AT,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` whose slip cycles through the values of `slip`, one phase each.

    Parameters
    ----------
    slip : sequence of float
        The slip probabilities, in the order of the cycle.
    change_at : iterable of int
        The first index of each later phase.
    horizon, discount, map
        As in `frozen_lake`.

    Examples
    --------
    >>> periodic_lake(change_at=(10, 20)).description["slip"]
    [0.0, 0.6666666666666666, 0.0]
    """
    values, points = builders.levels("slip", slip), builders.as_tuple(change_at)
    cycle = [values[number % len(values)] for number in range(len(points) + 1)]
    lake = frozen_lake(slip=cycle, change_at=points, horizon=horizon, discount=discount, map=map)
    return builders.renamed(lake, {"problem": "periodic-lake", "slip": cycle, **_lake(lake)})


@PROBLEMS.register("still-lake", episodes=20_000)
def still_lake(
    slip: float = 1 / 2,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
) -> Problem:
    """A `frozen_lake` that never changes, to measure what readiness for a change costs.

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
    return builders.renamed(lake, {"problem": "still-lake", "slip": slip, **_lake(lake, changes=False)})


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
        The first index of each later phase; (10_000,) by default for two phases.
    horizon, discount
        As in `frozen_lake`.

    Examples
    --------
    >>> frozen_lake_8x8().n_states
    64
    """
    slips = builders.levels("slip", slip)
    points = builders.change_points("slip", len(slips), change_at, (10_000,))
    lake = frozen_lake(slip=slips, change_at=points, horizon=horizon, discount=discount, map="8x8")
    description = {"problem": "frozen-lake-8x8", "slip": list(slips), **_lake(lake)}
    del description["map"]
    return builders.renamed(lake, description)


def _lake(lake: Problem, changes: bool = True) -> dict[str, Any]:
    """The arguments that the lakes of this module have in common."""
    names = ("horizon", "discount", "map", "change_at") if changes else ("horizon", "discount", "map")
    return {name: lake.description[name] for name in names}
