"""Finite families: Markov decision processes drawn from a seed, and their changes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def walk(tables: tuple[Table, Table], policies: tuple[Any, Any], noise: Generator, actions: Generator,
         change_at: int | None, steps: int) -> Stream:  # fmt: skip
    """A stream under a policy for each phase: an array (states, actions) or a `Learner`."""
    S, A = tables[0].n_states, tables[0].n_actions
    out, rewards = np.zeros((3, steps), np.int64), np.zeros(steps)
    state, last = 0, steps if change_at is None else change_at
    for table, policy, begin, end in ((tables[0], policies[0], 0, last), (tables[1], policies[1], last, steps)):
        cumulative = np.cumsum(table.probabilities, 1)
        learns = isinstance(policy, Learner)
        mixed = None if learns else np.cumsum(policy, 1)
        draws, chosen = noise.random((end - begin, 2)), actions.random(end - begin)
        for t in range(begin, end):
            u = chosen[t - begin]
            action = policy.act(state, u, t) if learns else min(int(np.searchsorted(mixed[state], u)), A - 1)  # type: ignore[index]
            pair = state * A + action
            branch = min(int(np.searchsorted(cumulative[pair], draws[t - begin, 0])), cumulative.shape[1] - 1)
            following = int(table.successors[pair, branch])
            if table.rewards is not None:
                rewards[t] = float(draws[t - begin, 1] < table.rewards[pair])
            out[:, t] = state, action, following
            if learns:
                policy.learn(state, action, rewards[t], following)
            state = 0 if following in table.ends else following
    information = None if change_at is None else _information(tables, out[0, last:] * A + out[1, last:])
    return Stream(out[0], out[1], out[2], rewards, change_at, information, S, A)


class Learner:
    """Q-learning whose exploration falls: a policy that moves while the process does not."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.q = np.ones((n_states, n_actions))

    def act(self, state: int, u: float, t: int) -> int:
        explore = max(0.05, 1.0 - t / 10_000)
        if u < explore:
            return min(int(u / explore * self.q.shape[1]), self.q.shape[1] - 1)
        return int(np.argmax(self.q[state]))

    def learn(self, state: int, action: int, reward: float, following: int) -> None:
        self.q[state, action] += 0.1 * (reward + 0.95 * self.q[following].max() - self.q[state, action])


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
    """Rows from a Dirichlet distribution over random successors."""
    A = int(rng.integers(2, 5))
    pairs = n_states * A
    if branches >= n_states:
        successors = np.tile(np.arange(n_states), (pairs, 1))
    else:
        successors = np.array([rng.choice(n_states, branches, replace=False) for _ in range(pairs)])
    return Table(successors, rng.dirichlet(np.full(successors.shape[1], concentration), pairs), A)


def grid_table(rng: Generator, slip: float, holes: float = 0.0) -> Table:
    """A grid whose moves slip to a random neighbour; holes and the far corner end an episode."""
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


def all_rows(rng: Generator, table: Table) -> Table:
    """Every row moves towards another one with the same successors."""
    share = rng.uniform(0.1, 0.4)
    other = rng.dirichlet(np.ones(table.successors.shape[1]), len(table.successors))
    return replace(table, probabilities=(1.0 - share) * table.probabilities + share * other)


def one_pair(rng: Generator, table: Table) -> Table:
    """One pair gets another row."""
    probabilities, pair = table.probabilities.copy(), int(rng.integers(len(table.successors)))
    probabilities[pair] = rng.permutation(probabilities[pair])
    probabilities[pair] = 0.5 * probabilities[pair] + 0.5 * rng.dirichlet(np.ones(probabilities.shape[1]))
    return replace(table, probabilities=probabilities)


def slips(rng: Generator, table: Table) -> Table:
    """Deterministic rows get random successors now and then."""
    share = rng.uniform(0.02, 0.3)
    n = len(table.successors)
    successors = np.column_stack([table.successors[:, 0], rng.integers(0, table.n_states, n)])
    return replace(table, successors=successors, probabilities=np.tile([1.0 - share, share], (n, 1)))


def other_slip(rng: Generator, table: Table) -> Table:
    """A grid with another slip."""
    return replace(table, probabilities=_slipping(table.n_states, rng.uniform(0.3, 0.6)))


def other_rewards(rng: Generator, table: Table) -> Table:
    """Rewards vanish or become a coin."""
    share = 0.0 if rng.random() < 0.5 else 0.5
    old = np.zeros(len(table.successors)) if table.rewards is None else table.rewards
    return replace(table, rewards=np.where(old == 1.0, share, old))


def _with_rewards(rng: Generator, table: Table) -> Table:
    pairs = len(table.successors)
    return replace(table, rewards=(rng.random(pairs) < rng.uniform(0.05, 0.3)).astype(float))


def family(table_of: Callable[[Generator], Table], change: Callable[[Generator, Table], Table], policy: str = "uniform",
           ) -> Any:  # fmt: skip
    """A maker of streams; `policy`: "uniform", "random" (one that is drawn anew at the change) or "learns"."""

    def make(rng_of: Draws, change_at: int | None, steps: int) -> Stream:
        rng = rng_of("process")
        old = table_of(rng)
        S, A = old.n_states, old.n_actions
        new = change(rng, old)
        policies: tuple[Any, Any] = (np.full((S, A), 1.0 / A),) * 2
        if policy == "random":
            policies = rng.dirichlet(np.ones(A), S), rng.dirichlet(np.ones(A), S)
        elif policy == "learns":
            policies = (Learner(S, A),) * 2
        return walk((old, new), policies, rng_of("noise"), rng_of("actions"), change_at, steps)

    return make


def _same(rng: Generator, table: Table) -> Table:
    return table


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
    return _with_rewards(rng, _sparse(rng))


for _name, _table, _change in (
    ("dense rows", _dense, all_rows),
    ("sparse rows", _sparse, all_rows),
    ("skewed rows", _skewed, all_rows),
    ("deterministic rows", _deterministic, slips),
    ("large", _large, all_rows),
    ("grid", _grid, other_slip),
    ("lake", _lake, other_slip),
    ("one pair", _sparse, one_pair),
    ("rewards", _rewarded, other_rewards),
):
    register(f"finite, {_name}", family(_table, _change), "finite")
for _name, _table in (("dense", _dense), ("sparse", _sparse), ("grid", _grid)):
    register(f"finite policy placebo, {_name}", family(_table, _same, "random"), "finite", placebo=True)
register("finite policy placebo, Q-learning", family(_rewarded, _same, "learns"), "finite", placebo=True)
