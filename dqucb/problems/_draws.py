"""How the transitions and rewards of random MDPs are drawn: the parts that families are made of.

A recipe can draw transitions and rewards any number of times, which is how `generated` makes the phases of a problem
that changes. A reward belongs to a pair, whatever the next state, or to entering a state (`arrival`).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb.problems import builders

Generator = np.random.Generator
Floats = NDArray[np.float64]
MOVES = (builders.LEFT, builders.RIGHT, builders.UP, builders.DOWN)


class Table(NamedTuple):
    """One finite distribution for each row of a model, row = (step * S + s) * A + a: values and their chances."""

    values: NDArray[Any]  # (rows, width): next states, or rewards
    chances: Floats  # (rows, width); entries of chance 0 do not count
    grid: tuple[str, ...] | None = None  # of transitions: the map behind them, where there is one
    arrival: Floats | None = None  # of rewards: (S,) what entering a state pays besides


class Recipe(NamedTuple):
    """The shape of a drawn problem, and functions that draw its transitions and its rewards."""

    n_states: int
    n_actions: int
    horizon: int
    transitions: Callable[[Generator], Table]
    rewards: Callable[[Generator], Table]
    start: int = 0
    terminal: tuple[int, ...] = ()
    steps: int = 1  # the horizon, if transitions and rewards depend on the step
    return_bound: float | None = None
    varies: str = "transitions"  # what a change of dynamics changes; "rewards" where transitions are fixed


def between(rng: Generator, low: int, high: int) -> int:
    """An integer from `low` to `high`, uniform in its logarithm."""
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


# ---- transitions --------------------------------------------------------------------------------------------


def sparse(rows: int, n_states: int, branching: int, concentration: float = 1.0) -> Callable[[Generator], Table]:
    """Rows with `branching` different next states and Dirichlet probabilities."""

    def draw(rng: Generator) -> Table:
        states = np.array([rng.choice(n_states, branching, replace=False) for _ in range(rows)])
        gamma = np.maximum(rng.gamma(concentration, size=(rows, branching)), 1e-12)
        return Table(states, gamma / gamma.sum(axis=1, keepdims=True))

    return draw


def fixed(states: Any, chances: Any) -> Callable[[Generator], Table]:
    """Rows that are always the same."""
    table = Table(np.asarray(states), np.asarray(chances, dtype=np.float64))
    return lambda rng: table


def corridor(n: int, forward: tuple[float, float], back: tuple[float, float]) -> Callable[[Generator], Table]:
    """Action 0 steps back for certain; action 1 steps forward, stays or is swept back with drawn chances."""
    state = np.arange(n)
    around = np.stack([np.maximum(state - 1, 0), state, np.minimum(state + 1, n - 1)], axis=1)

    def draw(rng: Generator) -> Table:
        ahead, swept = rng.uniform(*forward), rng.uniform(*back)
        chances = np.array([[1.0, 0.0, 0.0], [swept, 1.0 - ahead - swept, ahead]])
        return Table(np.repeat(around, 2, axis=0), np.tile(chances, (n, 1)))

    return draw


def maze(
    rows: int, cols: int, start: int, goals: list[int], holes: list[int], slips: tuple[float, float]
) -> Callable[[Generator], Table]:
    """A grid with random walls and a slip; all goals can be reached from the start without entering a hole."""
    free = [cell for cell in range(rows * cols) if cell not in (start, *goals, *holes)]

    def draw(rng: Generator) -> Table:
        slip, share = rng.uniform(*slips), rng.uniform(0.0, 0.3)
        walls = [cell for cell in free if rng.random() < share]
        while not builders.reachable(start, builders.targets(rows, cols, MOVES, walls), holes)[goals].all():
            walls.pop(int(rng.integers(len(walls))))
        ways = builders.targets(rows, cols, MOVES, walls)
        there = np.repeat(ways.T[:, None, :], 4, axis=1)  # (cells, actions, moves)
        chances = np.full((rows * cols, 4, 4), slip / 4)
        chances[:, np.arange(4), np.arange(4)] += 1.0 - slip
        letters = np.full(rows * cols, ".")
        letters[walls], letters[holes], letters[start], letters[goals] = "#", "H", "S", "G"
        lines = tuple("".join(line) for line in letters.reshape(rows, cols).tolist())
        return Table(there.reshape(-1, 4), chances.reshape(-1, 4), lines)

    return draw


# ---- rewards ------------------------------------------------------------------------------------------------


def sure(means: Callable[[Generator], Floats]) -> Callable[[Generator], Table]:
    """Rewards without noise."""

    def draw(rng: Generator) -> Table:
        values = means(rng)[:, None]
        return Table(values, np.ones(values.shape))

    return draw


def coins(means: Callable[[Generator], Floats]) -> Callable[[Generator], Table]:
    """Bernoulli rewards."""

    def draw(rng: Generator) -> Table:
        chance = means(rng)
        return Table(np.tile([1.0, 0.0], (chance.size, 1)), np.stack([chance, 1.0 - chance], axis=1))

    return draw


def few_values(means: Callable[[Generator], Floats], width: float) -> Callable[[Generator], Table]:
    """Five values around each mean with the chances of a binomial: a normal distribution on a few points."""
    offsets, chances = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16

    def draw(rng: Generator) -> Table:
        centres = means(rng)
        values = np.clip(np.round(centres[:, None] + width * offsets, 3), 0.0, 1.0)
        return Table(values, np.tile(chances, (centres.size, 1)))

    return draw


def of_pairs(rows: int, low: float = 0.0, high: float = 1.0) -> Callable[[Generator], Floats]:
    """A mean for each pair, uniform."""
    return lambda rng: rng.uniform(low, high, rows)


def of_states(rows: int, n_actions: int, n_states: int, rewarding: int) -> Callable[[Generator], Floats]:
    """1 in `rewarding` states, which are not the first one, and 0 elsewhere."""

    def draw(rng: Generator) -> Floats:
        paying = np.zeros(n_states)
        paying[1 + rng.choice(n_states - 1, rewarding, replace=False)] = 1.0
        return paying[np.arange(rows) // n_actions % n_states]

    return draw


def for_entering(n_states: int, rows: int, ends: list[int]) -> Callable[[Generator], Table]:
    """1 for entering one of `ends`, 0 or up to 0.7 for entering another, nothing else."""

    def draw(rng: Generator) -> Table:
        arrival = np.zeros(n_states)
        arrival[ends] = np.where(rng.random(len(ends)) < 0.5, rng.uniform(0.1, 0.7, len(ends)), 0.0)
        arrival[ends[int(rng.integers(len(ends)))]] = 1.0
        return Table(np.zeros((rows, 1)), np.ones((rows, 1)), arrival=arrival)

    return draw


def of_ends(n: int, small: tuple[float, float]) -> Callable[[Generator], Floats]:
    """1 for going forward in the last state and a small reward for going back in the first."""

    def draw(rng: Generator) -> Floats:
        means = np.zeros(2 * n)
        means[0], means[-1] = rng.uniform(*small), 1.0
        return means

    return draw
