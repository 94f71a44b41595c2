"""GridWorld, and TwoRooms: a grid in which a wall with a door appears."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems._transitions import Entries
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP

ACTIONS = ("left", "right", "up", "down")
MOVES = (builders.LEFT, builders.RIGHT, builders.UP, builders.DOWN)
HORIZON = 100
CHANGE_AT = (25_000,)
CELLS = 1 << 12  # whose transitions are written out at a time


@PROBLEMS.register("gridworld", episodes=50_000)
def gridworld(
    noise: float | Sequence[float] = (0.01, 0.2),
    change_at: Iterable[int] | None = None,
    rows: int = 5,
    cols: int = 10,
    horizon: int | None = None,
    discount: float | None = None,
    terminal_goal: bool = False,
    goal: tuple[int, int] | None = None,
    start: tuple[int, int] = (0, 0),
    walls: Iterable[tuple[int, int]] = (),
) -> Problem:
    """A grid with noisy moves; actions left, right, up, down.

    With probability 1 - noise the agent makes the chosen move (it stays put at a border or wall), else it
    goes to a neighbouring free cell, uniformly at random. Reward 1 for each step spent at the goal: r(s, a) = 1 when
    s is the goal.

    Parameters
    ----------
    noise : float or sequence of float
        The probability of a random move, one number per phase.
    change_at : iterable of int, optional
        The first index of each later phase; (25_000,) by default for two phases.
    rows, cols : int
        Size of the grid.
    horizon, discount
        Exactly one, or neither: then the horizon is 100.
    terminal_goal : bool
        Whether the reward is paid on entering the goal, which ends the episode; in a discounted problem, which has no
        end, any action there leads back to the start instead.
    goal, start : pair of int
        Row and column; the goal is the far corner by default.
    walls : iterable of pairs of int
        Cells that cannot be entered.

    Examples
    --------
    >>> gridworld(rows=2, cols=3).n_states
    6
    """
    rows, cols = check.integer("rows", rows), check.integer("cols", cols)
    noises = builders.levels("noise", noise)
    points = builders.change_points("noise", len(noises), change_at, CHANGE_AT)
    room = _Room(
        rows,
        cols,
        start=builders.cell_id("start", start, rows, cols),
        goal=builders.cell_id("goal", (rows - 1, cols - 1) if goal is None else goal, rows, cols),
        terminal_goal=bool(terminal_goal),
    )
    blocked = [builders.cell_id("each of walls", cell, rows, cols) for cell in walls]
    description = {
        "problem": "gridworld",
        "goal": list(divmod(room.goal, cols)),
        "start": list(divmod(room.start, cols)),
        "walls": [list(divmod(cell, cols)) for cell in blocked],
    }
    return _build(room, noises, [blocked] * len(noises), points, horizon, discount, description)


@PROBLEMS.register("two-rooms", episodes=50_000)
def two_rooms(
    noise: float | Sequence[float] = 0.2,
    change_at: Iterable[int] = CHANGE_AT,
    horizon: int | None = None,
    rows: int = 5,
    cols: int = 10,
    discount: float | None = None,
    wall: int | None = None,
    door: int | None = None,
    terminal_goal: bool = False,
) -> Problem:
    """GridWorld in which a wall appears and disappears at `change_at`: one room, then two joined by a door.

    The cells of the wall remain states, which are never entered.

    Parameters
    ----------
    noise : float or sequence of float
        One number, or one per phase.
    change_at : iterable of int
        The indices at which the wall appears, disappears, and so on.
    horizon, rows, cols, discount, terminal_goal
        As in `gridworld`.
    wall : int, optional
        Column of the wall; cols // 2 by default.
    door : int, optional
        Row of the door in the wall; rows // 2 by default.

    Examples
    --------
    >>> two_rooms().n_phases
    2
    """
    rows, cols = check.integer("rows", rows), check.integer("cols", cols, 3)
    points = builders.as_tuple(change_at)
    noises = builders.levels("noise", noise)
    if np.ndim(noise) == 0:
        noises *= len(points) + 1
    points = builders.change_points("noise", len(noises), points, ())
    wall = check.integer("wall", cols // 2 if wall is None else wall, 1, cols - 2)
    door = check.integer("door", rows // 2 if door is None else door, 0, rows - 1)
    built = [row * cols + wall for row in range(rows) if row != door]
    layouts = [built if number % 2 else [] for number in range(len(noises))]
    room = _Room(rows, cols, start=0, goal=rows * cols - 1, terminal_goal=bool(terminal_goal))
    description = {"problem": "two-rooms", "wall": wall, "door": door}
    return _build(room, noises, layouts, points, horizon, discount, description)


class _Room(NamedTuple):
    """What the phases of a grid have in common; cells by their state ids."""

    rows: int
    cols: int
    start: int
    goal: int
    terminal_goal: bool


def _build(
    room: _Room,
    noises: tuple[float, ...],
    layouts: list[list[int]],
    change_at: tuple[int, ...],
    horizon: int | None,
    discount: float | None,
    description: dict[str, Any],
) -> Problem:
    """One phase for each noise and each list of blocked cells."""
    if room.goal == room.start:
        raise ValueError(f"start and goal must differ, got {divmod(room.start, room.cols)} for both")
    horizon, discount = builders.horizon_or_discount(horizon, discount, HORIZON)
    episodic_end = room.terminal_goal and discount is None
    description |= {
        "noise": list(noises),
        "rows": room.rows,
        "cols": room.cols,
        "terminal_goal": room.terminal_goal,
        "horizon": horizon,
        "discount": discount,
    }

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        blocked = layouts[number]
        if {room.goal, room.start} & set(blocked):
            raise ValueError("walls must leave the start and the goal free")
        ways = builders.targets(room.rows, room.cols, MOVES, blocked)
        if not builders.reachable(room.start, ways)[room.goal]:
            raise ValueError("walls must leave a way from the start to the goal")
        letters = np.full(room.rows * room.cols, ".")
        letters[blocked], letters[room.start], letters[room.goal] = "#", "S", "G"
        parts = _parts(room, ways, noises[number])
        return TabularMDP.from_entries(
            next(parts),
            further=parts,
            terminal=[room.goal] if episodic_end else None,
            horizon=horizon,
            discount=discount,
            initial=room.start,
            return_bound=1.0 if episodic_end else None,
            grid=["".join(line) for line in letters.reshape(room.rows, room.cols)],
            description=identity,
        )

    return builders.in_phases(phase, len(noises), change_at, description)


def _parts(room: _Room, ways: NDArray[np.int64], noise: float) -> Iterator[Entries]:
    """The transitions of all cells, some at a time."""
    for first in range(0, room.rows * room.cols, CELLS):
        yield _transitions(room, ways[:, first : first + CELLS], noise, first)


def _transitions(room: _Room, there: NDArray[np.int64], noise: float, first: int) -> Entries:
    """Chosen move with 1 - noise, else a uniform free neighbour (the chosen one may be drawn again).

    `there` holds the cell to which each move leads from the cells from `first` on, (4, cells).
    """
    n_actions, n_cells = there.shape
    cell = np.arange(first, first + n_cells)
    free = there != cell
    neighbours = free.sum(axis=0)
    # A cell without a free neighbour keeps the agent: its noise goes to staying.
    share = np.where(neighbours > 0, noise / np.maximum(neighbours, 1), noise / n_actions)
    drawn = free | (neighbours == 0)
    # [outcome, action, cell]: outcome 0 is the chosen move, the others the random ones.
    successor = np.empty((n_actions + 1, n_actions, n_cells), dtype=np.int64)
    probability = np.empty(successor.shape)
    successor[0], probability[0] = there, 1.0 - noise
    successor[1:] = there[:, None, :]
    probability[1:] = np.where(drawn, share, 0.0)[:, None, :]
    row = np.broadcast_to(cell * n_actions + np.arange(n_actions)[:, None], successor.shape)
    at_goal = np.broadcast_to(cell == room.goal, successor.shape)
    if room.terminal_goal:
        successor = np.where(at_goal, room.start, successor)
        reward = (successor == room.goal).astype(np.float64)
    else:
        reward = at_goal.astype(np.float64)
    return Entries(
        row.ravel(),
        successor.ravel(),
        probability.ravel(),
        reward.ravel(),
        room.rows * room.cols,
        n_actions,
        part=range(first * n_actions, (first + n_cells) * n_actions),
    )
