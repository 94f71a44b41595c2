"""`ModelAllocation`: places patients by what the last days say of the next ones.

The density of the last days is a model. With y the COVID-19 patients of a hospital, d the others and a today's
allocation,

    y' = beta y + a,    beta by least squares over the hospital's own window, which starts again after an unlikely day;
    d' = level + noise, the level a mean that forgets, the noise over t days as large as d moved in t days before.

The expected overflow of the coming days is a convex function of a, and the exact oracle finds the amounts whose sum is
least. A patient stays for days, so that tomorrow alone is not enough: whoever comes later is taken to be placed as in
the last days, and the overflow of `horizon` days counts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb._kernels.allocation import allocate
from dqucb.base import AGENTS
from dqucb.hospital.allocation import AllocationAgent
from dqucb.hospital.simulation import HospitalState
from dqucb.hospital.usual import LEAST_SPREAD, MOVEMENT, STAYING, expected_overflow

# What is usual is worth a few days of one hospital.
STAYING_WEIGHT = 1e-3
MOVEMENT_WEIGHT = 20.0
ROUNDING = 0.02  # patients, and the share of them, that a likely day may differ from beta y + a
ROUNDING_SHARE = 0.002


@AGENTS.register("model-allocation")
@dataclass(kw_only=True, eq=False, repr=False)
class ModelAllocation(AllocationAgent):
    """The least expected overflow of the coming days, under a model that is learned from the last ones.

    Parameters
    ----------
    horizon, discount : int, float
        Days whose overflow counts, and how much less each counts than the one before.
    window : int
        Days that are remembered.
    forgetting : float
        The share by which yesterday counts less than today in the level of the other patients.
    habit : float
        The share of today in the mean allocation, by which later patients are taken to be placed.
    optimism : float
        By how many standard errors the share of patients who stay is taken to be lower than estimated.
    likelihood_floor : float
        A day less likely than this, in a hospital, is one of a new law: its window starts again.

    Notes
    -----
    Nothing is drawn: with the same arrivals all seeds are alike.

    Examples
    --------
    >>> from dqucb.hospital import ModelAllocation
    >>> ModelAllocation().train("hospital", steps=20).steps
    20
    """

    horizon: int = 21
    discount: float = 0.95
    window: int = 60
    forgetting: float = 0.6
    habit: float = 0.1
    optimism: float = 0.5
    likelihood_floor: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self.horizon = _validate.integer("horizon", self.horizon)
        self.window = _validate.integer("window", self.window, 2)
        self.discount = _validate.real("discount", self.discount, 0.0, 1.0, open_left=True)
        self.forgetting = _validate.real("forgetting", self.forgetting, 0.0, 1.0)
        self.habit = _validate.real("habit", self.habit, 0.0, 1.0)
        self.optimism = _validate.real("optimism", self.optimism, 0.0)
        self.likelihood_floor = _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0)

    def _prepare(self) -> None:
        k = len(self._capacity)
        self._days = np.zeros(1, np.int64)
        self._others = np.zeros((self.window, k))  # d of the last mornings, the latest last
        self._before, self._stayed = np.zeros((self.window, k)), np.zeros((self.window, k))  # y and y' - a
        self._known = np.zeros(k, np.int64)  # days of each hospital's own window of stays
        self._usual = np.zeros(k)  # mean allocation

    def _tables(self) -> dict[str, NDArray[Any]]:
        return {"days": self._days, "others": self._others, "before": self._before, "stayed": self._stayed,
                "known": self._known, "usual": self._usual}  # fmt: skip

    # ---- the model --------------------------------------------------------------------------------------

    def _staying(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(beta, its standard error, the usual deviation of a day), (K,) each, over each hospital's own window."""
        age = np.arange(self.window)[::-1, None]
        y, stayed = (np.where(age < self._known, table, 0.0) for table in (self._before, self._stayed))
        weight = (y * y).sum(0) + STAYING_WEIGHT
        beta = np.clip(((y * stayed).sum(0) + STAYING_WEIGHT * STAYING) / weight, 0.0, 1.0)
        variance = ((stayed - beta * y) ** 2).sum(0) / np.maximum(1, self._known - 1)
        return beta, np.sqrt(variance / weight), np.sqrt(variance)

    def _past(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """The other patients of the days that are remembered, today last, (days, K)."""
        days = min(int(self._days[0]), self.window)
        return np.vstack([self._others[self.window - days :], now])

    def _spreads(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation of the others' movement over 1, 2, ... days, (horizon, K), pooled as a share of beds."""
        past = self._past(now)
        spreads = np.empty((self.horizon, len(now)))
        for t in range(1, self.horizon + 1):
            moved = (past[t:] - past[:-t]) / self._capacity
            variance = ((moved**2).sum() + MOVEMENT_WEIGHT * MOVEMENT * t) / (moved.size + MOVEMENT_WEIGHT)
            spreads[t - 1] = variance**0.5 * self._capacity + LEAST_SPREAD
        return spreads

    def _level(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of d that forgets."""
        past = self._past(now)
        weights = (1.0 - self.forgetting) ** np.arange(len(past) - 1, -1, -1.0)
        return np.asarray(weights @ past / weights.sum())

    def _costs(self, state: HospitalState) -> NDArray[np.float64]:
        """Expected overflow of the coming days, (K, patients + 1), by the amount that is placed today."""
        beta, error, _ = self._staying()
        beta = np.maximum(0.0, beta - self.optimism * error)
        usual = self._usual if self._days[0] else self._capacity
        later = usual * (state.patients / max(1.0, usual.sum()))
        free = self._capacity - self._level(state.non_covid)
        amounts = np.arange(state.patients + 1)
        costs = np.zeros((len(beta), len(amounts)))
        present = beta * state.covid  # who is there already
        today = np.ones(len(beta))  # what remains of one patient placed today
        for t, spread in enumerate(self._spreads(state.non_covid)):
            load = (present - free)[:, None] + today[:, None] * amounts
            costs += self.discount**t * expected_overflow(load, spread[:, None])
            present, today = beta * present + later, beta * today
        return costs

    # ---- one day ----------------------------------------------------------------------------------------

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        return allocate(-self._costs(state), state.patients)

    def observe(self, state: ArrayLike, action: ArrayLike, reward: ArrayLike, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> None:  # fmt: skip
        """Take in a day: who stayed, how the others moved, and where patients were placed."""
        before, after = self._state(state), self._state(next_state)
        amounts = _validate.vector("action", action, len(self._capacity))
        stayed = after.covid - amounts
        beta, _, deviation = self._staying()
        spread = np.maximum(deviation, ROUNDING + ROUNDING_SHARE * before.covid)
        likelihood = np.exp(-0.5 * ((stayed - beta * before.covid) / spread) ** 2)
        self._known[...] = np.where(likelihood < self.likelihood_floor, 0, self._known)
        for table, row in ((self._others, before.non_covid), (self._before, before.covid), (self._stayed, stayed)):
            table[:-1], table[-1] = table[1:].copy(), row
        self._known[...] = np.minimum(self._known + 1, self.window)
        self._usual += (amounts - self._usual) * (self.habit if self._days[0] else 1.0)
        self._days += 1
