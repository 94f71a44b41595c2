"""Random MDPs with a change of a chosen size."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems._transitions import Entries
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

    Each pair has `successors` successors with Dirichlet(1, ..., 1) probabilities. A later phase moves the probability
    mass `change` of every row onto as many successors that the row did not have. Each step spent in one of `rewarding`
    states, the same in all phases, pays 1. The first state is 0, which never pays.

    Parameters
    ----------
    n_states, n_actions, successors, rewarding : int
        Numbers of states, actions, successors of a pair, and states with a reward.
    change : float
        Total variation distance between each row of a later phase and that of the first phase.
    change_at : iterable of int
        The first index of each later phase.
    horizon, discount
        Exactly one, or neither: then the horizon is 10.
    seed : int
        Seed of all draws.

    Examples
    --------
    >>> random_mdp(n_states=8).n_states
    8
    """
    change = check.real("change", change, 0.0, 1.0)
    points = check.increasing("change_at", change_at)
    S, A = check.integer("n_states", n_states, 2), check.integer("n_actions", n_actions)
    width = check.integer("successors", successors, 1, S // 2)
    rewarding = check.integer("rewarding", rewarding, 1, S - 1)
    horizon, discount = builders.horizon_or_discount(horizon, discount, 10)
    seed = check.integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    R = np.zeros(S)
    R[1 + rng.choice(S - 1, rewarding, replace=False)] = 1.0
    first = _rows(rng, S, A, width, None)
    later = [_rows(rng, S, A, width, first[0]) for _ in points]
    description = {"problem": "random-mdp", "change": change, "n_states": S, "n_actions": A, "horizon": horizon,
                   "discount": discount, "successors": width, "rewarding": rewarding, "seed": seed}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        states, shares = first
        if number > 0:
            states = np.hstack([states, later[number - 1][0]])
            shares = np.hstack([(1.0 - change) * shares, change * later[number - 1][1]])
        row = np.repeat(np.arange(S * A), states.shape[1])
        entries = Entries(row, states.ravel(), shares.ravel(), R[row // A], S, A)
        return TabularMDP.from_entries(entries, horizon=horizon, discount=discount, description=identity)

    return builders.in_phases(phase, len(points) + 1, points, description)


def _rows(
    rng: np.random.Generator, n_states: int, n_actions: int, width: int, taken: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(successors, probabilities) of all pairs, (S * A, width) each; none of the successors is `taken` by its pair."""
    states = np.empty((n_states * n_actions, width), np.int64)
    shares = np.empty(states.shape)
    for pair in range(len(states)):
        shares[pair] = rng.dirichlet(np.ones(width))
        used = [] if taken is None else sorted(taken[pair].tolist())
        drawn = rng.choice(n_states - len(used), width, replace=False)
        for state in used:  # ranks among the remaining states become state ids
            drawn += drawn >= state
        states[pair] = drawn
    return states, shares
