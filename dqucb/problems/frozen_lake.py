"""FrozenLake with a slip probability that changes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems._transitions import Entries
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP

ACTIONS = ("left", "down", "right", "up")
MOVES = (builders.LEFT, builders.DOWN, builders.RIGHT, builders.UP)  # neighbours in this circle are perpendicular
HORIZON = 500
CHANGE_AT = (20_000, 40_000)

# The two maps of Gymnasium's FrozenLake-v1.
MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ),
}


@PROBLEMS.register("frozen-lake", episodes=60_000)
def frozen_lake(
    slip: float | Sequence[float] = (0.0, 1 / 2, 2 / 3),
    change_at: Iterable[int] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    map: str | Sequence[str] = "4x4",
    size: int | None = None,
    frozen: float | None = None,
    seed: int | None = None,
    return_bound: float | None = None,
) -> Problem:
    """A frozen lake; actions left, down, right, up, as in Gymnasium's FrozenLake-v1.

    The chosen move happens with probability 1 - slip, each perpendicular one with slip / 2; off the map the
    agent stays put. Reward 1 for entering the goal. Holes and the goal end the episode. A discounted problem does not
    end: any action in a hole or at the goal leads back to the start, without reward.

    Parameters
    ----------
    slip : float or sequence of float
        The slip probability, one number per phase.
    change_at : iterable of int, optional
        The first index of each later phase; (20_000, 40_000) by default for three phases.
    horizon, discount
        Exactly one, or neither: then the horizon is 500.
    map : str or sequence of str
        "4x4", "8x8", rows of the letters S (start), F (frozen), H (hole), G (goal), or "random": a map with a path to
        the goal.
    size : int, optional
        Rows and columns of a random map, 8.
    frozen : float, optional
        The probability that a cell of a random map is frozen, 0.8.
    seed : int, optional
        Seed of a random map, 0.
    return_bound : float, optional
        Upper bound on the return; 1 with a horizon.

    Examples
    --------
    >>> frozen_lake().change_at
    (20000, 40000)
    """
    slips = builders.levels("slip", slip)
    points = builders.change_points("slip", len(slips), change_at, CHANGE_AT)
    lines = _lines(map, size, frozen, seed)
    rows, cols = len(lines), len(lines[0])
    letters = np.array([list(line) for line in lines]).ravel()
    starts, ends = np.flatnonzero(letters == "S"), np.flatnonzero((letters == "H") | (letters == "G"))
    horizon, discount = builders.horizon_or_discount(horizon, discount, HORIZON)
    if return_bound is not None:
        return_bound = check.positive("return_bound", return_bound)
    elif discount is None:
        return_bound = 1.0
    initial = int(starts[0]) if starts.size == 1 else (letters == "S") / starts.size
    description = {
        "problem": "frozen-lake",
        "slip": list(slips),
        "map": list(lines),
        "horizon": horizon,
        "discount": discount,
        "return_bound": return_bound,
    }

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        return TabularMDP.from_entries(
            _transitions(rows, cols, letters == "G", starts, ends, slips[number]),
            terminal=ends if discount is None else None,
            horizon=horizon,
            discount=discount,
            initial=initial,
            return_bound=return_bound,
            grid=lines,
            description=identity,
        )

    return builders.in_phases(phase, len(slips), points, description)


def random_map(size: int = 8, frozen: float = 0.8, seed: int = 0) -> tuple[str, ...]:
    """A random square map with start and goal in opposite corners and a path between them.

    Maps are drawn until one has a path, so that all such maps keep their relative probabilities.

    Parameters
    ----------
    size : int
        Rows and columns.
    frozen : float
        The probability that a cell is frozen.
    seed : int
        Seed of the draws.
    """
    size = check.integer("size", size, 2)
    frozen = check.real("frozen", frozen, 0.0, 1.0, open_left=True)
    rng = np.random.default_rng(check.integer("seed", seed, 0))
    for _ in range(10_000):
        letters = np.where(rng.random((size, size)) < frozen, "F", "H")
        letters[0, 0], letters[-1, -1] = "S", "G"
        lines = tuple("".join(line) for line in letters)
        if _has_path(lines):
            return lines
    raise ValueError(f"no map with a way to the goal in 10000 draws: frozen={frozen:g} must be larger")


def _lines(map: Any, size: int | None, frozen: float | None, seed: int | None) -> tuple[str, ...]:
    if isinstance(map, str):
        check.one_of("map", map, [*MAPS, "random"])
        if map == "random":
            return random_map(
                8 if size is None else size, 0.8 if frozen is None else frozen, 0 if seed is None else seed
            )
    if (size, frozen, seed) != (None, None, None):
        raise ValueError('size, frozen and seed belong to map="random" only')
    lines = MAPS[map] if isinstance(map, str) else tuple(str(line) for line in map)
    together = "".join(lines)
    if len({len(line) for line in lines}) != 1 or not set("SG") <= set(together) <= set("SFHG"):
        raise ValueError(
            "map must be rows of equal length of the letters S, F, H and G with at least one S and one G, "
            f"got {list(lines)}"
        )
    if not _has_path(lines):
        raise ValueError(f"map must have a way from each S to a G, got {list(lines)}")
    return lines


def _has_path(lines: Sequence[str]) -> bool:
    """Whether a goal can be reached from every start without crossing a hole."""
    letters = "".join(lines)
    ways = builders.targets(len(lines), len(lines[0]), MOVES)
    ends = [cell for cell, letter in enumerate(letters) if letter in "HG"]
    goals = [cell for cell in ends if letters[cell] == "G"]
    starts = [cell for cell, letter in enumerate(letters) if letter == "S"]
    return all(builders.reachable(start, ways, ends)[goals].any() for start in starts)


def _transitions(rows: int, cols: int, is_goal: Any, starts: Any, ends: Any, slip: float) -> Entries:
    there = builders.targets(rows, cols, MOVES)  # (4, cells)
    n_actions, n_cells = there.shape
    cell, action = np.arange(n_cells), np.arange(n_actions)
    # [outcome, action, cell]: the chosen move, then the two perpendicular ones.
    successor = np.stack([there[(action + turn) % n_actions] for turn in (0, 1, -1)])
    probability = np.empty(successor.shape)
    probability[0], probability[1:] = 1.0 - slip, slip / 2.0
    row = np.broadcast_to(cell * n_actions + action[:, None], successor.shape)
    moving = ~np.isin(row // n_actions, ends)
    back_row = np.repeat((ends[:, None] * n_actions + action).ravel(), starts.size)
    back_successor = np.tile(starts, ends.size * n_actions)
    return Entries(
        np.concatenate([row[moving], back_row]),
        np.concatenate([successor[moving], back_successor]),
        np.concatenate([probability[moving], np.full(back_row.size, 1.0 / starts.size)]),
        np.concatenate([is_goal[successor[moving]].astype(np.float64), np.zeros(back_row.size)]),
        n_cells,
        n_actions,
    )
