"""Random MDPs with a change of a chosen size."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems import grid
from dqucb.problems._transitions import from_arrays
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP


@PROBLEMS.register("random-mdp", episodes=20_000)
def random_mdp(
    change: float = 0.5,
    change_at: Iterable[int] = (10_000,),
    n_states: int = 10,
    n_actions: int = 3,
    horizon: int | None = None,
    discount: float | None = None,
    successors: int = 3,
    rewarding: int = 2,
    seed: int = 0,
) -> Problem:
    """A random MDP: every row of later phases differs from the first phase by exactly `change` in total variation.

    Each pair has `successors` successors with Dirichlet(1, ..., 1) probabilities. A later phase moves the share
    `change` of every row onto as many successors that the row did not have. Reward 1 for each step spent in one
    of `rewarding` states, in all phases the same. All is drawn from `seed`. The first state is 0, which never pays.
    The horizon is 10 unless a horizon or a discount is given.

    Examples
    --------
    >>> random_mdp(n_states=8).n_states
    8
    """
    change = check.real("change", change, 0.0, 1.0)
    points = tuple(check.integer("each of change_at", index) for index in grid.as_tuple(change_at))
    S, A = check.integer("n_states", n_states, 2), check.integer("n_actions", n_actions)
    width = check.integer("successors", successors, 1, S // 2)
    rewarding = check.integer("rewarding", rewarding, 1, S - 1)
    horizon, discount = grid.horizon_or_discount(horizon, discount, 10)
    seed = check.integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    R = np.zeros(S)
    R[1 + rng.choice(S - 1, rewarding, replace=False)] = 1.0
    first = _rows(rng, np.zeros((S, A, S), np.bool_), width)
    later = [(1.0 - change) * first + change * _rows(rng, first > 0.0, width) for _ in points]
    description = {"problem": "random-mdp", "change": change, "n_states": S, "n_actions": A, "horizon": horizon,
                   "discount": discount, "successors": width, "rewarding": rewarding, "seed": seed}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        entries = from_arrays([first, *later][number], R)
        return TabularMDP.from_entries(entries, horizon=horizon, discount=discount, description=identity)

    return grid.in_phases(phase, len(points) + 1, points, description)


def _rows(rng: np.random.Generator, taken: NDArray[np.bool_], width: int) -> NDArray[np.float64]:
    """(S, A, S) rows with `width` successors each, none of them `taken`."""
    P = np.zeros(taken.shape)
    for pair in np.ndindex(taken.shape[:2]):
        P[pair][rng.choice(np.flatnonzero(~taken[pair]), width, replace=False)] = rng.dirichlet(np.ones(width))
    return P
