"""`ModelAllocation`: allocates patients by a dynamics model of the last days.

With y the COVID-19 patients of a hospital, d the others and a today's allocation, the model is

    y' = beta y + a,    beta by least squares over the hospital's own window, which is cleared after an unlikely day;
    d' = level + noise, the level an exponentially weighted mean of d, the noise over t days estimated from the changes
                        of d over t days.

The expected overflow of the coming days is a convex function of a, and the exact oracle minimises its sum over
hospitals. Patients stay for days, so that the overflow of `horizon` days counts; later arrivals are assumed to be
allocated as in the last days.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb._kernels.allocation import allocate
from dqucb._parameters import Within
from dqucb._validate import integer, real, vector
from dqucb.base import AGENTS
from dqucb.hospital.allocation import AllocationAgent
from dqucb.hospital.prior import LEAST_DEVIATION, MOVEMENT, STAYING, expected_overflow
from dqucb.hospital.simulation import HospitalState

# The prior counts as much as a few days of one hospital.
STAYING_WEIGHT = 1e-3
MOVEMENT_WEIGHT = 20.0
ROUNDING = 0.02  # deviation from beta y + a on an ordinary day, in patients, and as a fraction of them
ROUNDING_SHARE = 0.002


@AGENTS.register("model-allocation")
@dataclass(kw_only=True, eq=False, repr=False)
class ModelAllocation(AllocationAgent):
    """Minimises the expected overflow of the coming days under a model learned from the last days.

    Parameters
    ----------
    horizon, discount : int, float
        Days whose overflow counts, and the discount per day.
    window : int
        Days that the model is fitted to.
    forgetting : float
        Decay per day of the exponentially weighted mean of the other patients.
    habit : float
        Weight of today in the mean allocation, by which later patients are assumed to be allocated.
    optimism : float
        Standard errors by which the estimate of beta is lowered.
    likelihood_floor : float
        The window of a hospital is cleared after a day that is less likely than this.

    Notes
    -----
    The agent draws no random numbers: with the same arrivals all seeds give the same run.

    Examples
    --------
    >>> from dqucb.hospital import ModelAllocation
    >>> ModelAllocation().train("hospital", steps=20).steps
    20
    """

    horizon: Annotated[int, Within(integer)] = 21
    discount: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.95
    window: Annotated[int, Within(integer, 2)] = 60
    forgetting: Annotated[float, Within(real, 0.0, 1.0)] = 0.6
    habit: Annotated[float, Within(real, 0.0, 1.0)] = 0.1
    optimism: Annotated[float, Within(real, 0.0)] = 0.5
    likelihood_floor: Annotated[float, Within(real, 0.0, 1.0)] = 0.01

    def _prepare(self) -> None:
        k = len(self._capacity)
        self._days = np.zeros(1, np.int64)
        self._others = np.zeros((self.window, k))  # d of the last mornings, oldest first
        self._before, self._stayed = np.zeros((self.window, k)), np.zeros((self.window, k))  # y and y' - a
        self._known = np.zeros(k, np.int64)  # days in each hospital's own window of stays
        self._usual = np.zeros(k)  # mean allocation

    def _tables(self) -> dict[str, NDArray[Any]]:
        return {"days": self._days, "others": self._others, "before": self._before, "stayed": self._stayed,
                "known": self._known, "usual": self._usual}  # fmt: skip

    # ---- the model --------------------------------------------------------------------------------------

    def _staying(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(beta, its standard error, the standard deviation of a day), (K,) each, over each hospital's own window."""
        age = np.arange(self.window)[::-1, None]
        y, stayed = (np.where(age < self._known, table, 0.0) for table in (self._before, self._stayed))
        weight = (y * y).sum(0) + STAYING_WEIGHT
        beta = np.clip(((y * stayed).sum(0) + STAYING_WEIGHT * STAYING) / weight, 0.0, 1.0)
        variance = ((stayed - beta * y) ** 2).sum(0) / np.maximum(1, self._known - 1)
        return beta, np.sqrt(variance / weight), np.sqrt(variance)

    def _past(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """The other patients of the days in the window, today last, (days, K)."""
        days = min(int(self._days[0]), self.window)
        return np.vstack([self._others[self.window - days :], now])

    def _deviations(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation of the change of d over 1, 2, ... days, (horizon, K), pooled as a fraction of beds."""
        past = self._past(now)
        deviations = np.empty((self.horizon, len(now)))
        for t in range(1, self.horizon + 1):
            moved = (past[t:] - past[:-t]) / self._capacity
            variance = ((moved**2).sum() + MOVEMENT_WEIGHT * MOVEMENT * t) / (moved.size + MOVEMENT_WEIGHT)
            deviations[t - 1] = variance**0.5 * self._capacity + LEAST_DEVIATION
        return deviations

    def _level(self, now: NDArray[np.float64]) -> NDArray[np.float64]:
        """Exponentially weighted mean of d."""
        past = self._past(now)
        weights = (1.0 - self.forgetting) ** np.arange(len(past) - 1, -1, -1.0)
        return np.asarray(weights @ past / weights.sum())

    def _costs(self, state: HospitalState) -> NDArray[np.float64]:
        """Expected overflow of the coming days, (K, patients + 1), by today's amount."""
        beta, error, _ = self._staying()
        beta = np.maximum(0.0, beta - self.optimism * error)
        usual = self._usual if self._days[0] else self._capacity
        later = usual * (state.patients / max(1.0, usual.sum()))
        free = self._capacity - self._level(state.non_covid)
        amounts = np.arange(state.patients + 1)
        costs = np.zeros((len(beta), len(amounts)))
        present = beta * state.covid  # patients already present
        today = np.ones(len(beta))  # expected remainder of one patient allocated today
        for t, deviation in enumerate(self._deviations(state.non_covid)):
            load = (present - free)[:, None] + today[:, None] * amounts
            costs += self.discount**t * expected_overflow(load, deviation[:, None])
            present, today = beta * present + later, beta * today
        return costs

    # ---- one day ----------------------------------------------------------------------------------------

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        return allocate(-self._costs(state), state.patients)

    def observe(self, state: ArrayLike, action: ArrayLike, reward: ArrayLike, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> None:  # fmt: skip
        """Learn from one day: patients who stayed, the change of the others, and the allocation."""
        before, after = self._state(state), self._state(next_state)
        amounts = vector("action", action, len(self._capacity))
        stayed = after.covid - amounts
        beta, _, deviation = self._staying()
        scale = np.maximum(deviation, ROUNDING + ROUNDING_SHARE * before.covid)
        likelihood = np.exp(-0.5 * ((stayed - beta * before.covid) / scale) ** 2)
        self._known[...] = np.where(likelihood < self.likelihood_floor, 0, self._known)
        for table, row in ((self._others, before.non_covid), (self._before, before.covid), (self._stayed, stayed)):
            table[:-1], table[-1] = table[1:].copy(), row
        self._known[...] = np.minimum(self._known + 1, self.window)
        self._usual += (amounts - self._usual) * (self.habit if self._days[0] else 1.0)
        self._days += 1
