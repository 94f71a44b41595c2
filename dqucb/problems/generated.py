"""Problems drawn from a seed: `garnet`, and `generated` for all families, still, changing or returning."""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems import _draws, builders
from dqucb.problems._draws import Generator, Recipe, Table
from dqucb.problems._families import FAMILIES
from dqucb.problems._transitions import Entries
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP

CHANGES = ("none", "all-rows", "few-rows", "slight", "rewards", "several", "returning")
ONCE = ("all-rows", "few-rows", "slight", "rewards")  # kinds of one change, which "several" draws from
EPISODES, STEPS = 20_000, 200_000  # usual lengths, within which change points are drawn
STILL = 1 / 3  # of the problems, if the kind of change is drawn
FEW, SLIGHT = 0.1, (0.05, 0.25)  # share of the rows that change; share of the probability that moves


@PROBLEMS.register("garnet", episodes=EPISODES)
def garnet(
    n_states: int = 20,
    n_actions: int = 3,
    branching: int = 3,
    seed: int = 0,
    rewarding: float = 0.1,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """A Garnet (Archibald et al. 1995): each pair leads to `branching` random states with random probabilities.

    Parameters
    ----------
    n_states, n_actions : int
        The size.
    branching : int
        Different next states of each pair; their probabilities are uniform on the simplex.
    seed : int
        Everything is drawn from it.
    rewarding : float
        The share of states that pay 1 for each step spent in them; at least one does, and never the first state.
    horizon, discount
        Exactly one, or neither: then the horizon is 20.

    Examples
    --------
    >>> garnet(n_states=8, n_actions=2, branching=3, seed=5)
    TabularMDP('garnet', 8 states, 2 actions, horizon=20, 48 transitions, start 0)
    """
    S, A = check.integer("n_states", n_states, 2), check.integer("n_actions", n_actions)
    branching = check.integer("branching", branching, 1, S)
    rewarding = check.real("rewarding", rewarding, 0.0, 1.0)
    horizon, discount = builders.horizon_or_discount(horizon, discount, 20)
    seed = check.integer("seed", seed, 0)
    paying = _draws.of_states(S * A, A, S, min(S - 1, max(1, round(rewarding * S))))
    recipe = Recipe(S, A, horizon or 1, _draws.sparse(S * A, S, branching), _draws.sure(paying))
    rng = np.random.default_rng(seed)
    description = {"problem": "garnet", "n_states": S, "n_actions": A, "branching": branching, "seed": seed,
                   "rewarding": rewarding, "horizon": horizon, "discount": discount}  # fmt: skip
    return _phase(recipe, recipe.transitions(rng), recipe.rewards(rng), horizon, discount, description)


@PROBLEMS.register("generated", episodes=EPISODES)
def generated(
    family: str = "garnet",
    seed: int = 0,
    change: str | None = None,
    change_at: Iterable[int] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """A problem of a family, drawn from a seed: its size, transitions and rewards, and how and when it changes.

    Kinds of change: "none"; "all-rows", all transitions are drawn again; "few-rows", one row of ten is (at least one);
    "slight", each row moves 5 to 25 % of its probability; "rewards", rewards are drawn again and transitions stay;
    "several", 2 to 4 changes of drawn kinds; "returning", two sets of transitions and rewards take turns. In bandits,
    whose transitions are fixed, what is said of rows holds for the distributions of the rewards.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    seed : int
        Everything is drawn from it and from the name of the family.
    change : str, optional
        One of the kinds above. By default it is drawn: nothing changes in one problem of three.
    change_at : iterable of int, optional
        Where the problem changes. By default drawn, within 20,000 episodes (or 200,000 steps with a discount).
    horizon, discount
        Instead of the drawn horizon; at most one of them.

    Examples
    --------
    >>> generated("chain", seed=3, change="rewards")
    ShiftingMDP('generated', 7 states, 2 actions, horizon=19, 2 phases, change_at=(10465,))
    >>> len(FAMILIES) > 20
    True
    """
    draw = FAMILIES.find(family)
    family = str(family).lower()
    seed = check.integer("seed", seed, 0)
    source = np.random.SeedSequence([seed, crc32(family.encode())])
    shape, world, moves, times = (np.random.default_rng(child) for child in source.spawn(4))
    recipe = draw(shape)
    horizon, discount = builders.horizon_or_discount(horizon, discount, recipe.horizon)
    if recipe.steps > 1 and horizon != recipe.horizon:
        raise ValueError(
            f"horizon must be {recipe.horizon} (drawn) and discount None: {family} depends on the step, got "
            f"horizon={horizon}, discount={discount}"
        )
    given = None if change_at is None else check.increasing("change_at", change_at)
    is_still, kind = moves.random() < STILL, CHANGES[1 + int(moves.integers(len(CHANGES) - 1))]
    if change is not None:
        kind = check.one_of("change", change, CHANGES)
    elif is_still and not given:
        kind = CHANGES[0]
    points = _change_points(times, kind, EPISODES if discount is None else STEPS) if given is None else given
    if (kind == "none") != (not points):
        raise ValueError(f"change_at must be empty if and only if change='none', got {list(points)}, change={kind!r}")
    tables = _tables(recipe, kind, len(points) + 1, world, moves)
    description = {"problem": "generated", "family": family, "seed": seed, "change": kind, "horizon": horizon,
                   "discount": discount}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        return _phase(recipe, *tables[number], horizon, discount, identity)

    return builders.in_phases(phase, len(points) + 1, points, description)


def _change_points(rng: Generator, kind: str, length: int) -> tuple[int, ...]:
    """None, one about the middle, or several whose phases are at least a twelfth of the run."""
    number = {"none": 0, "several": int(rng.integers(2, 5)), "returning": int(rng.integers(3, 6))}.get(kind, 1)
    shares = rng.dirichlet(np.full(number + 1, 4.0))[:number]
    least = 1 / 12
    edges = np.cumsum(least + (1.0 - least * (number + 1)) * shares)
    return tuple((edges * length).astype(np.int64).tolist())


def _tables(recipe: Recipe, kind: str, n_phases: int, rng: Generator, moves: Generator) -> list[tuple[Table, Table]]:
    """Transitions and rewards of each phase."""
    found = [(recipe.transitions(rng), recipe.rewards(rng))]
    other = (recipe.transitions(rng), recipe.rewards(rng))
    for number in range(1, n_phases):
        if kind == "returning":
            found.append((found[0], other)[number % 2])
        else:
            once = ONCE[int(moves.integers(len(ONCE)))] if kind == "several" else kind
            found.append(_changed(recipe, once, found[-1], rng))
    return found


def _changed(recipe: Recipe, kind: str, before: tuple[Table, Table], rng: Generator) -> tuple[Table, Table]:
    """Transitions and rewards after one change of a kind."""
    transitions, rewards = before
    if kind == "rewards" or (recipe.varies == "rewards" and kind == "all-rows"):
        return transitions, recipe.rewards(rng)
    if kind == "all-rows":
        return recipe.transitions(rng), rewards
    old, new = (rewards, recipe.rewards(rng)) if recipe.varies == "rewards" else (transitions, recipe.transitions(rng))
    if kind == "slight":
        weight = np.full(len(old.values), rng.uniform(*SLIGHT))
    else:
        weight = np.zeros(len(old.values))
        same = [np.array_equal(a, b) for a, b in zip(_sorted(old), _sorted(new), strict=True)]
        open_rows = np.flatnonzero(~np.array(same))
        some = min(open_rows.size, max(1, round(FEW * weight.size)))
        weight[rng.choice(open_rows, some, replace=False)] = 1.0
    mixed = Table(
        np.hstack([old.values, new.values]),
        np.hstack([(1.0 - weight)[:, None] * old.chances, weight[:, None] * new.chances]),
        old.grid,
        old.arrival,
    )
    return (transitions, mixed) if recipe.varies == "rewards" else (mixed, rewards)


def _sorted(table: Table) -> NDArray[np.float64]:
    """Rows in a form in which equal distributions of different values look equal."""
    order = np.argsort(table.values, axis=1, kind="stable")
    columns = [np.take_along_axis(part, order, axis=1) for part in (table.values, table.chances)]
    return np.hstack(columns).astype(np.float64)


def _phase(
    recipe: Recipe,
    transitions: Table,
    rewards: Table,
    horizon: int | None,
    discount: float | None,
    description: dict[str, Any],
) -> TabularMDP:
    """The MDP in which the next state and the reward of a pair are drawn independently."""
    rows, width = transitions.values.shape
    values = rewards.values.shape[1]
    successor = np.repeat(transitions.values, values, axis=1).ravel()
    probability = (transitions.chances[:, :, None] * rewards.chances[:, None, :]).reshape(rows, -1).ravel()
    reward = np.tile(rewards.values, (1, width)).ravel()
    if rewards.arrival is not None:
        reward = reward + rewards.arrival[successor]
    row = np.repeat(np.arange(rows), width * values)
    entries = Entries(row, successor, probability, reward, recipe.n_states, recipe.n_actions, recipe.steps)
    return TabularMDP.from_entries(
        entries, terminal=recipe.terminal or None, horizon=horizon, discount=discount, initial=recipe.start,
        return_bound=recipe.return_bound, grid=transitions.grid, description=description,
    )  # fmt: skip
