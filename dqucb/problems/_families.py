"""Families of random MDPs: each draws the size of a problem, and how its transitions and rewards are to be drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dqucb._registry import Registry
from dqucb.problems import builders
from dqucb.problems._draws import (
    MOVES,
    Floats,
    Generator,
    Recipe,
    Table,
    between,
    coins,
    corridor,
    few_values,
    fixed,
    for_entering,
    maze,
    of_ends,
    of_pairs,
    of_states,
    sparse,
    sure,
)

FAMILIES: Registry[Callable[[Generator], Recipe]] = Registry("family", ("dqucb.problems._families",))


def _garnet(
    rng: Generator, states: tuple[int, int], branching: tuple[int, int], horizon: tuple[int, int], **how: Any
) -> Recipe:
    """A Garnet with rewards 1 in a few states, unless `how` says otherwise."""
    S, A, H = between(rng, *states), between(rng, 2, 6), between(rng, *horizon)
    width = min(S, between(rng, *branching))
    rows = S * A
    paying = of_states(rows, A, S, min(S - 1, 1 + S // 10))
    return Recipe(S, A, H, sparse(rows, S, width), sure(paying))._replace(**how)


@FAMILIES.register("garnet")
def garnet_narrow(rng: Generator) -> Recipe:
    """Garnet with 1 to 5 next states and rewards in one state of ten."""
    return _garnet(rng, (5, 60), (1, 5), (5, 50))


@FAMILIES.register("garnet-wide")
def garnet_wide(rng: Generator) -> Recipe:
    """Garnet whose pairs lead to half of the states or more."""
    S = between(rng, 5, 40)
    return _garnet(rng, (S, S), ((S + 1) // 2, S), (5, 40))


@FAMILIES.register("garnet-sparse")
def garnet_sparse(rng: Generator) -> Recipe:
    """Garnet with a reward in a single state."""
    recipe = _garnet(rng, (20, 100), (2, 4), (10, 60))
    S, A = recipe.n_states, recipe.n_actions
    return recipe._replace(rewards=sure(of_states(S * A, A, S, 1)))


@FAMILIES.register("garnet-large")
def garnet_large(rng: Generator) -> Recipe:
    """Garnet with 200 to 2,000 states."""
    return _garnet(rng, (200, 2_000), (1, 4), (20, 100))


@FAMILIES.register("garnet-dense-rewards")
def garnet_dense(rng: Generator) -> Recipe:
    """Garnet whose pairs all pay, uniform in [0, 1]."""
    recipe = _garnet(rng, (5, 50), (1, 6), (5, 50))
    return recipe._replace(rewards=sure(of_pairs(recipe.n_states * recipe.n_actions)))


@FAMILIES.register("garnet-stochastic-rewards")
def garnet_stochastic(rng: Generator) -> Recipe:
    """Garnet with Bernoulli rewards, whose means are the square of a uniform number."""
    recipe = _garnet(rng, (3, 30), (1, 4), (3, 30))
    pairs = of_pairs(recipe.n_states * recipe.n_actions)
    return recipe._replace(rewards=coins(lambda rng: pairs(rng) ** 2))


@FAMILIES.register("garnet-large-rewards")
def garnet_large_rewards(rng: Generator) -> Recipe:
    """Garnet whose rewards reach from 10 to 1,000."""
    recipe = _garnet(rng, (5, 40), (1, 4), (5, 40))
    scale = 10.0 ** rng.uniform(1.0, 3.0)
    return recipe._replace(rewards=sure(of_pairs(recipe.n_states * recipe.n_actions, 0.0, scale)))


@FAMILIES.register("garnet-terminal")
def garnet_terminal(rng: Generator) -> Recipe:
    """Garnet in which one state of ten ends the episode, with a prize for entering some of them."""
    recipe = _garnet(rng, (10, 60), (2, 5), (10, 80))
    S = recipe.n_states
    ends = sorted((1 + rng.choice(S - 1, 1 + S // 10, replace=False)).tolist())
    rewards = for_entering(S, S * recipe.n_actions, ends)
    return recipe._replace(rewards=rewards, terminal=tuple(ends), return_bound=1.0)


@FAMILIES.register("garnet-step-dependent")
def garnet_steps(rng: Generator) -> Recipe:
    """Garnet whose transitions and rewards are drawn anew for each step of an episode."""
    recipe = _garnet(rng, (3, 15), (1, 4), (2, 10))
    S, A, H = recipe.n_states, recipe.n_actions, recipe.horizon
    width = min(S, between(rng, 1, 4))
    return recipe._replace(
        transitions=sparse(H * S * A, S, width), rewards=sure(of_states(H * S * A, A, S, 1 + S // 10)), steps=H
    )


@FAMILIES.register("garnet-long")
def garnet_long(rng: Generator) -> Recipe:
    """Garnet with episodes of 150 to 500 steps."""
    return _garnet(rng, (5, 40), (1, 4), (150, 500))


@FAMILIES.register("dirichlet")
def dirichlet(rng: Generator) -> Recipe:
    """Every state can follow every pair, with Dirichlet(1, ..., 1) probabilities."""
    S = between(rng, 4, 30)
    return _garnet(rng, (S, S), (S, S), (5, 40))


@FAMILIES.register("dirichlet-uneven")
def dirichlet_uneven(rng: Generator) -> Recipe:
    """Every state can follow every pair; a few carry most of the probability (concentration 0.02 to 0.3)."""
    S = between(rng, 4, 30)
    recipe = _garnet(rng, (S, S), (S, S), (5, 40))
    return recipe._replace(transitions=sparse(S * recipe.n_actions, S, S, 10.0 ** rng.uniform(-1.7, -0.5)))


@FAMILIES.register("graph")
def graph(rng: Generator) -> Recipe:
    """A deterministic graph: one next state for each pair."""
    return _garnet(rng, (5, 200), (1, 1), (10, 100))


def _grid(rng: Generator, ends: bool) -> Recipe:
    """Three cells may hold the prize; where the episode ends there, other cells are holes."""
    rows, cols = between(rng, 3, 8), between(rng, 3, 10)
    S, H = rows * cols, between(rng, rows + cols + 2, 8 * (rows + cols))
    start, *goals = rng.choice(S, 4, replace=False).tolist()
    holes: list[int] = []
    if ends:
        ways = builders.targets(rows, cols, MOVES)
        for cell in rng.permutation([cell for cell in range(S) if cell not in (start, *goals)])[: S // 6].tolist():
            closed = [*holes, cell, *goals]
            if all(builders.reachable(start, ways, [c for c in closed if c != goal])[goal] for goal in goals):
                holes.append(cell)
    # A goal that ends the episode may not be passed on the way to another one.
    transitions = maze(rows, cols, start, goals, holes, (0.0, 0.4))
    if ends:
        bound = 1.0 if rng.random() < 0.5 else None  # half of the problems state how little can be had
        terminal = tuple(sorted([*goals, *holes]))
        return Recipe(S, 4, H, transitions, for_entering(S, 4 * S, goals), start, terminal, return_bound=bound)

    def paying(rng: Generator) -> Floats:
        means = np.zeros(S)
        best, second = rng.choice(goals, 2, replace=False)
        means[best], means[second] = 1.0, rng.uniform(0.0, 0.6)
        return np.repeat(means, 4)

    return Recipe(S, 4, H, transitions, sure(paying), start)


@FAMILIES.register("grid")
def random_grid(rng: Generator) -> Recipe:
    """A grid with random walls, slip and start, which pays for each step spent in one of two cells."""
    return _grid(rng, ends=False)


@FAMILIES.register("grid-terminal")
def terminal_grid(rng: Generator) -> Recipe:
    """A grid with random walls, slip, start and holes; episodes end in a hole or at one of three goals."""
    return _grid(rng, ends=True)


@FAMILIES.register("grid-costs")
def cost_grid(rng: Generator) -> Recipe:
    """A grid in which each step costs a drawn amount up to 1, until a goal or a hole ends the episode."""
    recipe = _grid(rng, ends=True)
    S = recipe.n_states
    prize = for_entering(S, 4 * S, list(recipe.terminal))

    def costs(rng: Generator) -> Table:
        paid = np.repeat(-rng.uniform(0.0, 1.0, S), 4)[:, None]
        return prize(rng)._replace(values=paid)

    return recipe._replace(rewards=costs, return_bound=None)


@FAMILIES.register("chain")
def chain(rng: Generator) -> Recipe:
    """A chain of 3 to 20 states: a small reward near, 1 at the far end, which is reached with a small slip."""
    n = between(rng, 3, 20)
    return Recipe(n, 2, between(rng, 2 * n, 6 * n), corridor(n, (0.7, 1.0), (0.0, 0.0)), sure(of_ends(n, (0.0, 0.3))))


@FAMILIES.register("river")
def river(rng: Generator) -> Recipe:
    """RiverSwim with 3 to 10 states, a drawn current and a drawn small reward."""
    n = between(rng, 3, 10)
    return Recipe(n, 2, between(rng, 3 * n, 8 * n), corridor(n, (0.3, 0.6), (0.0, 0.1)), sure(of_ends(n, (0.0, 0.05))))


@FAMILIES.register("two-state")
def two_state(rng: Generator) -> Recipe:
    """Two states, two actions, Dirichlet rows and uniform rewards, some of them Bernoulli."""
    means = of_pairs(4)
    rewards = coins(means) if rng.random() < 0.5 else sure(means)
    return Recipe(2, 2, between(rng, 2, 20), sparse(4, 2, 2, rng.uniform(0.2, 2.0)), rewards)


def _bandit(rng: Generator, rewards: Callable[[int], Callable[[Generator], Table]]) -> Recipe:
    """One state, which every arm returns to, and episodes of one step."""
    arms = between(rng, 2, 12)
    transitions = fixed(np.zeros((arms, 1), np.int64), np.ones((arms, 1)))
    return Recipe(1, arms, 1, transitions, rewards(arms), varies="rewards")


@FAMILIES.register("bandit-bernoulli")
def bandit_bernoulli(rng: Generator) -> Recipe:
    """Bernoulli arms with uniform means."""
    return _bandit(rng, lambda arms: coins(of_pairs(arms)))


@FAMILIES.register("bandit-values")
def bandit_values(rng: Generator) -> Recipe:
    """Arms with five values around a uniform mean, like a normal distribution."""
    width = rng.uniform(0.02, 0.2)
    return _bandit(rng, lambda arms: few_values(of_pairs(arms, 0.2, 0.8), width))


@FAMILIES.register("bandit-sure")
def bandit_sure(rng: Generator) -> Recipe:
    """Arms that always pay the same beside Bernoulli arms, which look worse after a first zero."""

    def rewards(arms: int) -> Callable[[Generator], Table]:
        def draw(rng: Generator) -> Table:
            means, is_sure = rng.uniform(0.0, 1.0, arms), rng.random(arms) < 0.5
            values = np.stack([np.where(is_sure, means, 1.0), np.where(is_sure, means, 0.0)], axis=1)
            return Table(values, np.stack([means, 1.0 - means], axis=1))

        return draw

    return _bandit(rng, rewards)
