"""Two chains on which exploration is hard: the bidirectional diabolical combination lock, and RiverSwim."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb.problems import grid
from dqucb.problems._transitions import from_arrays
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP

START, SINK = 0, 1  # states of the combination lock; place i of lock l is 2 + 2 i + l
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
    """The bidirectional diabolical combination lock (Agarwal et al. 2020) whose two prizes change places.

    As in Mao et al. 2021: the first action chooses one of two locks (odd actions the second one, with probability
    `success`, else the other). In each of its horizon - 1 places one action is correct and with probability `success`
    leads on, without reward; in the last place it is paid the lock's prize. All else leads to a sink, which pays
    1 / (8 horizon) for entering and for each step in it. The prize is `high` in the second lock and `low` in the
    first; at each of `change_at` they are exchanged. The correct actions are drawn from `seed`.

    Examples
    --------
    >>> combination_lock().n_phases
    5
    """
    points = tuple(check.integer("each of change_at", index) for index in grid.as_tuple(change_at))
    H, A = check.integer("horizon", horizon, 2), check.integer("n_actions", n_actions, 2)
    success = check.real("success", success, 0.0, 1.0, open_left=True)
    prizes = [check.real("low", low, 0.0), check.real("high", high, 0.0)]
    seed = check.integer("seed", seed, 0)
    correct = np.random.default_rng(seed).integers(A, size=(2, H - 1))
    description = {"problem": "combination-lock", "horizon": H, "n_actions": A, "success": success, "high": prizes[1],
                   "low": prizes[0], "seed": seed}  # fmt: skip

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        P, R = np.zeros((2 * H, A, 2 * H)), np.zeros((2 * H, A, 2 * H))
        R[:, :, SINK] = 1.0 / (8 * H)
        P[SINK, :, SINK] = 1.0
        for action in range(A):
            lock = action % 2
            P[START, action, 2 + lock], P[START, action, 3 - lock] = success, 1.0 - success
        for lock in range(2):
            for place in range(H - 1):
                here = 2 + 2 * place + lock
                onward = min(here + 2, 2 * H - 2 + lock)  # the last place keeps the agent
                right = correct[lock, place]
                P[here, :, SINK] = 1.0
                P[here, right, SINK], P[here, right, onward] = 1.0 - success, success
                if place == H - 2:
                    R[here, right, onward] = prizes[(lock + number) % 2]
        return TabularMDP.from_entries(from_arrays(P, R), horizon=H, initial=START, description=identity)

    return grid.in_phases(phase, len(points) + 1, points, description)


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
    gains with 0.6 and is held with 0.4 (the figures of Osband et al. 2013). Reward 1 for swimming on at the source,
    0.005 for drifting on at the mouth. The current first runs to the left; turned round, everything is its mirror
    image. Episodes begin in the middle (in one of two middle states), so that both rivers are equally hard. The
    horizon is 20 unless a horizon or a discount is given.

    Examples
    --------
    >>> river_swim().n_states
    6
    """
    points = tuple(check.integer("each of change_at", index) for index in grid.as_tuple(change_at))
    n = check.integer("n_states", n_states, 3)
    horizon, discount = grid.horizon_or_discount(horizon, discount, 20)
    description = {"problem": "river-swim", "n_states": n, "horizon": horizon, "discount": discount}
    initial = np.zeros(n)
    initial[[(n - 1) // 2, n // 2]] = 0.5 if n % 2 == 0 else 1.0

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        P, R = np.zeros((n, 2, n)), np.zeros((n, 2))
        for state in range(n):
            P[state, LEFT, max(state - 1, 0)] = 1.0
            if 0 < state < n - 1:
                P[state, RIGHT, state - 1 : state + 2] = 0.05, 0.6, 0.35
        P[0, RIGHT, :2], P[n - 1, RIGHT, n - 2 :] = (0.4, 0.6), (0.4, 0.6)
        R[0, LEFT], R[n - 1, RIGHT] = 0.005, 1.0
        if number % 2:
            P, R = P[::-1, ::-1, ::-1], R[::-1, ::-1]
        return TabularMDP.from_entries(
            from_arrays(P, R), horizon=horizon, discount=discount, initial=initial, description=identity
        )

    return grid.in_phases(phase, len(points) + 1, points, description)
