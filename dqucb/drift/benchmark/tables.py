"""Finite families: Markov decision processes drawn from a seed, and their changes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import drift_walk
from dqucb.drift.benchmark.streams import Draws, Stream, register

Generator = np.random.Generator
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))


@dataclass
class Table:
    """Successors and their probabilities, (pairs, branches); pair = state * n_actions + action."""

    successors: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    n_actions: int
    rewards: NDArray[np.float64] | None = None  # (pairs,): probability of a reward of 1
    ends: frozenset[int] = field(default_factory=frozenset)  # states after which the walk begins again at 0

    @property
    def n_states(self) -> int:
        return len(self.successors) // self.n_actions

    # Changes: what the process is afterwards.

    def same(self, rng: Generator) -> "Table":
        """Nothing changes."""
        return self

    def all_rows(self, rng: Generator) -> "Table":
        """Every row moves towards another one with the same successors."""
        share = rng.uniform(0.1, 0.4)
        other = rng.dirichlet(np.ones(self.successors.shape[1]), len(self.successors))
        return replace(self, probabilities=(1.0 - share) * self.probabilities + share * other)

    def one_pair(self, rng: Generator) -> "Table":
        """One pair gets another row."""
        return self._with_other_rows(rng, rng.integers(len(self.successors), size=1))

    def some_pairs(self, rng: Generator) -> "Table":
        """A share of the pairs, from a twentieth to a half, gets other rows."""
        n = len(self.successors)
        return self._with_other_rows(rng, rng.choice(n, max(2, int(n * rng.uniform(0.05, 0.5))), replace=False))

    def _with_other_rows(self, rng: Generator, pairs: NDArray[np.int64]) -> "Table":
        probabilities = self.probabilities.copy()
        for pair in pairs:
            probabilities[pair] = rng.permutation(probabilities[pair])
            probabilities[pair] = 0.5 * probabilities[pair] + 0.5 * rng.dirichlet(np.ones(probabilities.shape[1]))
        return replace(self, probabilities=probabilities)

    def slips(self, rng: Generator) -> "Table":
        """Deterministic rows get random successors now and then."""
        share = rng.uniform(0.02, 0.3)
        n = len(self.successors)
        successors = np.column_stack([self.successors[:, 0], rng.integers(0, self.n_states, n)])
        return replace(self, successors=successors, probabilities=np.tile([1.0 - share, share], (n, 1)))

    def other_slip(self, rng: Generator) -> "Table":
        """A grid with another slip."""
        return replace(self, probabilities=_slipping(self.n_states, rng.uniform(0.3, 0.6)))

    def other_rewards(self, rng: Generator) -> "Table":
        """Rewards vanish or become a coin."""
        share = 0.0 if rng.random() < 0.5 else 0.5
        old = np.zeros(len(self.successors)) if self.rewards is None else self.rewards
        return replace(self, rewards=np.where(old == 1.0, share, old))


def walk(tables: tuple[Table, Table], policies: tuple[Any, Any], noise: Generator, actions: Generator,
         change_at: int | None, steps: int) -> Stream:  # fmt: skip
    """A stream of a process.

    Parameters
    ----------
    tables : pair of Table
        Before and after the change.
    policies : pair of (ndarray or None)
        Probabilities of actions, (n_states, n_actions), for both; None is Q-learning, which continues over the change.
    noise, actions : numpy.random.Generator
        For the process and for the policy.
    change_at : int or None
        The first transition of the changed process.
    steps : int
        The length of the stream.
    """
    S, A = tables[0].n_states, tables[0].n_actions
    out, rewards, values = np.zeros((3, steps), np.int64), np.zeros(steps), np.ones((S, A))
    state, last = 0, steps if change_at is None else change_at
    for table, policy, begin, end in ((tables[0], policies[0], 0, last), (tables[1], policies[1], last, steps)):
        is_end = np.zeros(S, np.bool_)
        is_end[list(table.ends)] = True
        state = drift_walk.walk(
            table.successors, np.cumsum(table.probabilities, 1),
            np.zeros((0, A)) if policy is None else np.cumsum(policy, 1), values, is_end,
            np.zeros(S * A) if table.rewards is None else table.rewards, actions.random(end - begin),
            noise.random((end - begin, 2)), state, begin, out[:, begin:end], rewards[begin:end],
        )  # fmt: skip
    information = None if change_at is None else _information(tables, out[0, last:] * A + out[1, last:])
    return Stream(out[0], out[1], out[2], rewards, change_at, information, S, A)


def _information(tables: tuple[Table, Table], pairs: NDArray[np.int64]) -> float | None:
    """Mean divergence over the pairs visited after the change; None if the old process could not do it."""
    visited, visits = np.unique(pairs, return_counts=True)
    total = 0.0
    for pair, count in zip(visited, visits, strict=True):
        old, new = (_row(table, int(pair)) for table in tables)
        if not new.keys() <= old.keys():
            return None
        total += count * sum(p * np.log(p / old[y]) for y, p in new.items())
    return float(total / len(pairs))


def _row(table: Table, pair: int) -> dict[tuple[int, int], float]:
    """Probabilities of the outcomes (next state, reward) of a pair."""
    out: dict[tuple[int, int], float] = {}
    share = 0.0 if table.rewards is None else float(table.rewards[pair])
    for y, p in zip(table.successors[pair].tolist(), table.probabilities[pair].tolist(), strict=True):
        for reward, q in ((0, 1.0 - share), (1, share)):
            if p * q > 0.0:
                out[y, reward] = out.get((y, reward), 0.0) + p * q
    return out


def random_table(rng: Generator, n_states: int, branches: int, concentration: float) -> Table:
    """Rows from a Dirichlet distribution over random successors.

    Parameters
    ----------
    rng : numpy.random.Generator
        Everything is drawn from it.
    n_states : int
        Number of states.
    branches : int
        Successors of each pair.
    concentration : float
        Of the Dirichlet distribution.
    """
    A = int(rng.integers(2, 5))
    pairs = n_states * A
    if branches >= n_states:
        successors = np.tile(np.arange(n_states), (pairs, 1))
    else:
        successors = np.array([rng.choice(n_states, branches, replace=False) for _ in range(pairs)])
    return Table(successors, rng.dirichlet(np.full(successors.shape[1], concentration), pairs), A)


def grid_table(rng: Generator, slip: float, holes: float = 0.0) -> Table:
    """A grid whose moves slip to a random neighbour; holes and the far corner end an episode.

    Parameters
    ----------
    rng : numpy.random.Generator
        For the size and the holes.
    slip : float
        Probability of a random neighbour.
    holes : float
        Share of the states that are holes.
    """
    rows, columns = rng.integers(4, 9, 2)
    ends = {int(s) for s in np.flatnonzero(rng.random(rows * columns) < holes) if s > 1} | {int(rows * columns - 1)}
    row, column = np.divmod(np.arange(rows * columns), columns)
    near = np.column_stack([
        np.clip(row + dy, 0, rows - 1) * columns + np.clip(column + dx, 0, columns - 1) for dy, dx in MOVES
    ])  # fmt: skip
    table = Table(np.repeat(near, 4, 0), np.zeros((len(near) * 4, 4)), 4, ends=frozenset(ends))
    return replace(table, probabilities=_slipping(len(near), slip))


def _slipping(n_states: int, slip: float) -> NDArray[np.float64]:
    return np.tile(np.eye(4) * (1.0 - slip) + slip / 4.0, (n_states, 1))


def family(table_of: Callable[[Generator], Table], change: Callable[[Table, Generator], Table], policy: str = "uniform",
           ) -> Any:  # fmt: skip
    """A maker of streams; `policy`: "uniform", "random" (another one is drawn at the change) or "learns".

    Parameters
    ----------
    table_of : callable
        ``table_of(rng)`` draws a process.
    change : callable
        ``change(table, rng)`` is the changed process, as methods of `Table` give it.
    policy : str
        "uniform", "random" (another one is drawn at the change) or "learns".
    """

    def make(rng_of: Draws, change_at: int | None, steps: int) -> Stream:
        rng = rng_of("process")
        old = table_of(rng)
        S, A = old.n_states, old.n_actions
        new = change(old, rng)
        policies: tuple[Any, Any] = (np.full((S, A), 1.0 / A),) * 2
        if policy == "random":
            policies = rng.dirichlet(np.ones(A), S), rng.dirichlet(np.ones(A), S)
        elif policy == "learns":
            policies = None, None
        return walk((old, new), policies, rng_of("noise"), rng_of("actions"), change_at, steps)

    return make


def _dense(rng: Generator) -> Table:
    n = round(float(np.exp(rng.uniform(np.log(5), np.log(100)))))
    return random_table(rng, n, n, 1.0)


def _sparse(rng: Generator) -> Table:
    return random_table(rng, int(rng.integers(8, 60)), int(rng.integers(2, 6)), 1.0)


def _skewed(rng: Generator) -> Table:
    return random_table(rng, int(rng.integers(8, 60)), 8, 0.2)


def _deterministic(rng: Generator) -> Table:
    return random_table(rng, int(rng.integers(8, 60)), 1, 1.0)


def _large(rng: Generator) -> Table:
    return random_table(rng, int(rng.integers(500, 2_000)), int(rng.integers(2, 6)), 1.0)


def _grid(rng: Generator) -> Table:
    return grid_table(rng, rng.uniform(0.0, 0.3))


def _lake(rng: Generator) -> Table:
    return grid_table(rng, rng.uniform(0.05, 0.3), holes=0.2)


def _rewarded(rng: Generator) -> Table:
    table = _sparse(rng)
    return replace(table, rewards=(rng.random(len(table.successors)) < rng.uniform(0.05, 0.3)).astype(float))


for _name, _table, _change in (
    ("dense rows", _dense, Table.all_rows),
    ("sparse rows", _sparse, Table.all_rows),
    ("skewed rows", _skewed, Table.all_rows),
    ("deterministic rows", _deterministic, Table.slips),
    ("large", _large, Table.all_rows),
    ("grid", _grid, Table.other_slip),
    ("lake", _lake, Table.other_slip),
    ("one pair", _sparse, Table.one_pair),
    ("some pairs", _sparse, Table.some_pairs),
    ("some pairs of dense rows", _dense, Table.some_pairs),
    ("rewards", _rewarded, Table.other_rewards),
):
    register(f"finite, {_name}", family(_table, _change), "finite")
for _name, _table in (("dense", _dense), ("sparse", _sparse), ("grid", _grid)):
    register(f"finite policy placebo, {_name}", family(_table, Table.same, "random"), "finite", placebo=True)
register("finite policy placebo, Q-learning", family(_rewarded, Table.same, "learns"), "finite", placebo=True)
