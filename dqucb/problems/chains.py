"""Chains on which exploration is hard: the bidirectional diabolical combination lock, and variants of RiverSwim."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems._transitions import from_arrays
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP

START, SINK = 0, 1  # states of the combination lock; position i of lock l is 2 + 2 i + l
LEFT, RIGHT = 0, 1  # actions of RiverSwim


@PROBLEMS.register("combination-lock", episodes=5_000)
def combination_lock(
    change_at: Iterable[int] = (1_000, 2_000, 3_000, 4_000),
    horizon: int = 5,
    n_actions: int = 2,
    success: float = 0.98,
    high: float = 1.0,
    low: float = 0.25,
    seed: int = 0,
) -> Problem:
    """The bidirectional diabolical combination lock (Agarwal et al. 2020) whose two prizes are exchanged.

    As in Mao et al. 2021: the first action chooses one of two locks (odd actions the second one, with probability
    `success`, else the other). In each of the horizon - 1 positions of a lock one action is correct; with probability
    `success` it leads to the next position without reward, and in the last position it pays the prize of the lock. Any
    other outcome leads to an absorbing sink, which pays 1 / (8 horizon) per step.

    Parameters
    ----------
    change_at : iterable of int
        The episodes at which the prizes of the two locks are exchanged.
    horizon, n_actions : int
        Steps of an episode and actions; there are 2 * horizon states.
    success : float
        The probability that a correct action succeeds.
    high, low : float
        The prize of the second and of the first lock, before the first change.
    seed : int
        Seed of the correct actions.

    Examples
    --------
    >>> combination_lock().n_phases
    5
    """
    points = check.increasing("change_at", change_at)
    lock = _Lock(horizon, n_actions, success, high, low, seed)
    description = {"problem": "combination-lock", **lock.description}
    return builders.in_phases(
        lambda number, identity: lock.phase(float(number % 2), identity), len(points) + 1, points, description
    )


@PROBLEMS.register("gradual-lock", episodes=5_000)
def gradual_lock(
    change_at: Iterable[int] = tuple(range(100, 5_000, 100)),
    horizon: int = 5,
    n_actions: int = 2,
    success: float = 0.98,
    high: float = 1.0,
    low: float = 0.25,
    seed: int = 0,
) -> Problem:
    """A `combination_lock` whose two prizes change places gradually, as in the second experiment of Mao et al. 2021.

    The prizes move in equal steps from their first values to each other's. The default change points, one every 100
    episodes, stand for the change in every episode of the paper.

    Parameters
    ----------
    change_at : iterable of int
        The episodes at which the prizes move a step.
    horizon, n_actions, success, high, low, seed
        As in `combination_lock`.

    Examples
    --------
    >>> gradual_lock().n_phases
    50
    """
    points = check.increasing("change_at", change_at)
    lock = _Lock(horizon, n_actions, success, high, low, seed)
    description = {"problem": "gradual-lock", **lock.description}
    return builders.in_phases(
        lambda number, identity: lock.phase(number / max(1, len(points)), identity),
        len(points) + 1,
        points,
        description,
    )


class _Lock:
    """The two locks, for any prizes."""

    def __init__(self, horizon: int, n_actions: int, success: float, high: float, low: float, seed: int) -> None:
        self.H, self.A = check.integer("horizon", horizon, 2), check.integer("n_actions", n_actions, 2)
        self.success = check.real("success", success, 0.0, 1.0, open_left=True)
        self.prizes = [check.real("low", low, 0.0), check.real("high", high, 0.0)]
        seed = check.integer("seed", seed, 0)
        self.correct = np.random.default_rng(seed).integers(self.A, size=(2, self.H - 1))
        self.description = {"horizon": self.H, "n_actions": self.A, "success": self.success, "high": self.prizes[1],
                            "low": self.prizes[0], "seed": seed}  # fmt: skip

    def phase(self, exchanged: float, identity: dict[str, Any]) -> TabularMDP:
        """The problem in which this fraction of the exchange of prizes is done."""
        H, A, success = self.H, self.A, self.success
        P, R = np.zeros((2 * H, A, 2 * H)), np.zeros((2 * H, A, 2 * H))
        R[:, :, SINK] = 1.0 / (8 * H)
        P[SINK, :, SINK] = 1.0
        for action in range(A):
            lock = action % 2
            P[START, action, 2 + lock], P[START, action, 3 - lock] = success, 1.0 - success
        for lock in range(2):
            for position in range(H - 1):
                here = 2 + 2 * position + lock
                onward = min(here + 2, 2 * H - 2 + lock)  # the last position keeps the agent
                right = self.correct[lock, position]
                P[here, :, SINK] = 1.0
                P[here, right, SINK], P[here, right, onward] = 1.0 - success, success
                if position == H - 2:
                    R[here, right, onward] = (1.0 - exchanged) * self.prizes[lock] + exchanged * self.prizes[1 - lock]
        return TabularMDP.from_entries(from_arrays(P, R), horizon=H, initial=START, description=identity)


@PROBLEMS.register("river-swim", episodes=20_000)
def river_swim(
    change_at: Iterable[int] = (10_000,),
    n_states: int = 6,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """RiverSwim (Strehl and Littman 2008) whose current turns round at each of `change_at`; actions left, right.

    With the current the agent moves one state for certain. Against it, it gains one with probability 0.35, is held
    with 0.6 and swept back with 0.05; at the source it is held with 0.6 and swept back with 0.4, at the mouth it
    gains with 0.6 and is held with 0.4 (as in Osband et al. 2013). The reward is 1 for swimming on at the source and
    0.005 for drifting on at the mouth. The current first runs to the left; each change mirrors the whole river.
    Episodes begin in the middle (in one of two middle states), so that both directions are equally hard.

    Parameters
    ----------
    change_at : iterable of int
        The episodes, or with a discount the steps, at which the current turns round.
    n_states : int
        Length of the river.
    horizon, discount
        Exactly one, or neither: then the horizon is 20.

    Examples
    --------
    >>> river_swim().n_states
    6
    """
    points = check.increasing("change_at", change_at)
    n = check.integer("n_states", n_states, 3)
    horizon, discount = builders.horizon_or_discount(horizon, discount, 20)
    description = {"problem": "river-swim", "n_states": n, "horizon": horizon, "discount": discount}
    initial = np.zeros(n)
    initial[[(n - 1) // 2, n // 2]] = 0.5 if n % 2 == 0 else 1.0

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        entries = from_arrays(*_river(n, mirrored=number % 2 == 1))
        return TabularMDP.from_entries(
            entries, horizon=horizon, discount=discount, initial=initial, description=identity
        )

    return builders.in_phases(phase, len(points) + 1, points, description)


def _river(n: int, mirrored: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P (n, 2, n) and R (n, 2) of RiverSwim."""
    P, R = np.zeros((n, 2, n)), np.zeros((n, 2))
    for state in range(n):
        P[state, LEFT, max(state - 1, 0)] = 1.0
        if 0 < state < n - 1:
            P[state, RIGHT, state - 1 : state + 2] = 0.05, 0.6, 0.35
    P[0, RIGHT, :2], P[n - 1, RIGHT, n - 2 :] = (0.4, 0.6), (0.4, 0.6)
    R[0, LEFT], R[n - 1, RIGHT] = 0.005, 1.0
    return (P[::-1, ::-1, ::-1], R[::-1, ::-1]) if mirrored else (P, R)


@PROBLEMS.register("tidal-river", episodes=20_000)
def tidal_river(
    change_at: Iterable[int] = (10_000,), n_states: int = 6, horizon: int = 20, turn: int | None = None
) -> Problem:
    """A `river_swim` whose current turns within each episode: transitions and rewards depend on the step.

    Before step `turn` everything is as in the first phase of `river_swim`, and from then on its mirror image. At each
    of `change_at` the two parts of the episode are exchanged.

    Parameters
    ----------
    change_at : iterable of int
        The episodes at which the two parts of an episode are exchanged.
    n_states, horizon : int
        As in `river_swim`.
    turn : int, optional
        The step at which the current turns; half of the horizon by default.

    Examples
    --------
    >>> tidal_river(change_at=()).model.step_stride
    12
    """
    points = check.increasing("change_at", change_at)
    H, S = check.integer("horizon", horizon, 2), check.integer("n_states", n_states, 3)
    turn = check.integer("turn", H // 2 if turn is None else turn, 1, H - 1)
    description = {"problem": "tidal-river", "n_states": S, "horizon": H, "turn": turn}

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        rivers = [_river(S, mirrored=(step >= turn) != (number % 2 == 1)) for step in range(H)]
        P, R = (np.stack(arrays) for arrays in zip(*rivers, strict=True))
        return TabularMDP.from_entries(from_arrays(P, R), horizon=H, initial=(S - 1) // 2, description=identity)

    return builders.in_phases(phase, len(points) + 1, points, description)


@PROBLEMS.register("endless-river", steps=100_000)
def endless_river(change_at: Iterable[int] = (50_000,), n_states: int = 6, discount: float = 0.95) -> Problem:
    """A `river_swim` without episodes; its length and change points count steps.

    Parameters
    ----------
    change_at : iterable of int
        The steps at which the river is turned round.
    n_states : int
        As in `river_swim`.
    discount : float
        The discount.

    Examples
    --------
    >>> endless_river().discount
    0.95
    """
    river = river_swim(change_at=change_at, n_states=n_states, discount=discount)
    names = ("n_states", "discount", "change_at")
    return builders.renamed(river, {"problem": "endless-river", **{name: river.description[name] for name in names}})
