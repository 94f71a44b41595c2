"""Compute the memory of an agent's tables before it is allocated.

The total size of the tables is a sum of products of the numbers of steps, states, actions and successors, each at most
once. A few tiny tables therefore determine the size of huge ones exactly, for every agent, without a second description
of its tables.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.window_pools import DiscreteWindows
from dqucb.running.compiled import Sizes

SMALL = 1_000_000  # table entries (H, S, A, successors) below which nothing is checked
WIDEST = 4_096  # number of successors up to which a probe has as many as the problem


def checked_size(name: str, new_learner: Callable[[Sizes], Any], sizes: Sizes) -> None:
    """Raise a ValueError with the size if the tables of an agent do not fit in memory."""
    if places(sizes) > SMALL:
        _validate.fits(f"the tables of {name} for {described(sizes)}", table_bytes(new_learner, sizes))


def check_declared(new_learner: Callable[[Sizes], Any], sizes: Sizes, held: int) -> None:
    """Raise a ValueError for sizes whose tables need more memory than the `held` bytes of the tables in a file."""
    if places(sizes) > SMALL and (declared := table_bytes(new_learner, sizes)) > 2 * held + 2**20:
        raise ValueError(
            f"it declares {described(sizes)}, whose tables take {_validate.in_words(declared)}, and holds "
            f"{_validate.in_words(held)}"
        )


def places(sizes: Sizes) -> int:
    """An upper bound on the number of entries in one table."""
    successors = max(sizes.max_successors, sizes.max_shared_successors)
    return (1 + (sizes.horizon or 1)) * sizes.n_states * sizes.n_actions * successors


def described(sizes: Sizes) -> str:
    """The sizes in words."""
    steps = f"{sizes.horizon:,} steps" if sizes.horizon is not None else f"discount {sizes.discount}"
    return f"{sizes.n_states:,} states, {sizes.n_actions:,} actions and {steps}"


def table_bytes(new_learner: Callable[[Sizes], Any], sizes: Sizes) -> int:
    """The bytes of the tables for problems of these sizes; 0 if they cannot be derived from smaller ones.

    A sum of products with each number at most once is multilinear, and hence determined by its values at the corners of
    a small cube.
    """
    successors = max(sizes.max_successors, sizes.max_shared_successors)
    wanted = [sizes.n_states, sizes.n_actions]
    corners = [(1, 2), (1, 2)]
    if sizes.horizon is not None and sizes.horizon > 1:  # tables for a single step may have another form
        wanted.append(sizes.horizon)
        corners.append((2, 3))
    if successors > WIDEST:
        wanted.append(successors)
        corners.append((WIDEST // 2, WIDEST))
    total = 0.0
    for corner in itertools.product(*corners):
        weight = math.prod(
            (target - low) / (high - low) if value == high else (high - target) / (high - low)
            for value, target, (low, high) in zip(corner, wanted, corners, strict=True)
        )
        probe = _probe(sizes, corner, min(successors, WIDEST))
        try:
            total += weight * _bytes_of(new_learner(probe))
        except ValueError:  # features of given states, or a problem that the agent refuses for another reason
            return 0
    return round(total)


def _probe(sizes: Sizes, corner: tuple[int, ...], successors: int) -> Sizes:
    n_states, n_actions, *more = corner
    horizon = sizes.horizon
    if horizon is not None and horizon > 1:
        horizon, *more = more
    if more:
        (successors,) = more
    return sizes._replace(
        n_states=n_states,
        n_actions=n_actions,
        horizon=horizon,
        bounds=sizes.bounds[:1] if horizon is None else np.ones(horizon + 1),
        max_successors=successors,
        max_shared_successors=successors,
    )


def _bytes_of(tables: Any) -> int:
    if isinstance(tables, DiscreteWindows):
        return tables.slot.nbytes + tables.first.nbytes  # pools grow with the visited pairs
    if isinstance(tables, tuple):
        return sum(_bytes_of(table) for table in tables)
    return tables.nbytes if isinstance(tables, np.ndarray) else 0
