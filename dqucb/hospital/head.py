"""The head of deep agents for allocations: a matrix Q[i, j], j patients to hospital i, maximised by the exact oracle.

One small network is shared by all hospitals: an input row describes one hospital, its outputs are that hospital's row
of Q, so that hospitals learn from each other; the index of the hospital is among the inputs. Outputs are values at
`knots`, interpolated linearly; if every number is a knot, each of the K x (N + 1) values has its own output. A value is
(SMALL + j) times an output, so that outputs are of order one for every j.

    DQN(**DAILY).train("hospital", steps=1274).phase_regret()
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb._kernels.allocation import allocate_between_knots
from dqucb.deep.adaptation import NoAdaptation
from dqucb.deep.head import HEADS, Floats, Head
from dqucb.deep.heads import checked_actions
from dqucb.hospital.prior import LEAST_DEVIATION, MOVEMENT, STAYING, expected_overflow
from dqucb.hospital.simulation import by_largest_remainders

if TYPE_CHECKING:
    from dqucb.deep.trainer import Trainer

SMALL = 5.0  # patients
# Standard deviations from one day to the next, the units of `change`.
STAYING_UNIT = 0.1  # of the fraction of COVID-19 patients who stay
OTHERS_UNIT = 0.02  # of a hospital's beds
DAYS_AHEAD, AHEAD_DISCOUNT = 21, 0.7  # of the expected overflow: days that count, and the discount per day


def growing_knots(largest: int) -> list[int]:
    """0, 1, 2, 4, 8, ... and the largest number: finer for small amounts, which are the most frequent."""
    powers = [2**i for i in range(largest.bit_length()) if 2**i < largest]
    return [0, *powers, largest]


def overflow_ahead(
    covid: NDArray[np.floating],
    others: NDArray[np.floating],
    patients: NDArray[np.floating],
    staying: NDArray[np.float64],
    capacity: NDArray[np.float64],
    amounts: NDArray[np.float64],
) -> NDArray[np.float32]:
    """The expected overflow of the coming days in each hospital, by the amount allocated today, (..., K, amounts).

    With y patients, of whom the fraction beta stays, and d others: y_1 = beta y + a, then y_{t+1} = beta y_t + N c_i /
    c, as if every day brought today's N arrivals, allocated in proportion to the beds c_i; d changes with its prior
    variance. The next day alone would ignore that patients stay, and overfill hospitals with long stays.

    Parameters
    ----------
    covid, others, patients : array
        y (..., K), d (..., K) and N (..., 1).
    staying, capacity : array
        beta and c, (K,).
    amounts : array
        The amounts a.
    """
    covid, others, patients, share, beds, placed = (
        np.asarray(given, np.float32) for given in (covid, others, patients, staying, capacity, amounts)
    )  # single precision as in the networks: double would take most of the time of an update
    base, share = (share * covid)[..., None], share[..., None]
    total = np.zeros((*base.shape[:-1], len(placed)), np.float32)
    later = (patients * (beds / beds.sum()))[..., None]
    free, kept, weight = (beds - others)[..., None], np.ones_like(base), 1.0
    for day in range(1, DAYS_AHEAD + 1):
        deviation = ((MOVEMENT * day) ** 0.5 * beds + np.float32(LEAST_DEVIATION))[:, None]
        total += np.float32(weight) * expected_overflow(base - free + kept * placed, deviation)
        base = share * base + later
        kept, weight = kept * share, weight * AHEAD_DISCOUNT
    return total


@HEADS.register("allocation")
class AllocationHead(Head):
    """Observations (y_1..y_K, d_1..d_K, N) to allocations of N patients.

    Parameters
    ----------
    capacity : sequence of float
        Beds of the K hospitals.
    largest : int
        The largest N.
    knots : sequence of int, optional
        Amounts from 0 to `largest`; `growing_knots` by default.
    known : bool
        Whether Q starts from the overflow expected under the prior dynamics, and the network learns the difference.
    staying : array (K,) or (seeds, K), optional
        Fraction of COVID-19 patients who stay, for `known`; the prior value by default.
    """

    def __init__(self, capacity: Sequence[float], largest: int, knots: Sequence[int] | None = None,
                 known: bool = False, staying: ArrayLike | None = None) -> None:  # fmt: skip
        self.capacity = _validate.finite_array("capacity", capacity, 1)
        self.largest = _validate.integer("largest", largest)
        self.knots = [_validate.integer("each of knots", knot, 0) for knot in knots or growing_knots(self.largest)]
        if self.knots[0] != 0 or self.knots[-1] != self.largest or (np.diff(self.knots) < 1).any():
            raise ValueError(f"knots must grow from 0 to {self.largest}, got {self.knots}")
        k = self.hospitals = len(self.capacity)
        self.known = self.starts_at_zero = _validate.flag("known", known)
        self.staying = np.full(k, STAYING) if staying is None else np.asarray(staying, np.float64)
        self.n_choices = self.n_parts = self.action_dim = k
        self.n_outputs = k * len(self.knots)
        self.n_inputs, self.observation_dim = 6 + k, 2 * k + 1
        # Scott's rule is for few dimensions. Here two ordinary days, sqrt(2 (2 K + 1)) apart, have the kernel exp(-2).
        self.change_bandwidth = (self.observation_dim / 2) ** 0.5
        amounts = np.arange(self.largest + 1)
        self._left = np.minimum(np.searchsorted(self.knots, amounts, side="right") - 1, len(self.knots) - 2)
        low, high = np.array(self.knots)[self._left], np.array(self.knots)[self._left + 1]
        self._share = (amounts - low) / (high - low)
        self._scale = SMALL + np.array(self.knots)
        self._first = np.arange(k) * (self.largest + 1)  # choice = first + amount
        self._scratch = np.empty((2, k, self.largest + 1))
        places = np.arange(k)[:, None] * len(self.knots) + self._left
        self._places = places.ravel()  # by choice
        # The weights of the outputs at the two knots around each choice.
        self._weights = np.stack([(1.0 - self._share) * self._scale[self._left],
                                  self._share * self._scale[self._left + 1]]).astype(np.float32)  # fmt: skip
        self._weights = np.tile(self._weights, k)

    def network_sizes(self, observation_dim: int) -> tuple[int, int]:
        """One row of inputs for each hospital, and one output for each knot."""
        return self.n_inputs, len(self.knots)

    def inputs(self, observations: NDArray[Any],
               scaled: Callable[[NDArray[Any]], NDArray[Any]]) -> tuple[Floats, Floats | None]:  # fmt: skip
        """(seeds, batch * K, n_inputs): free beds, patients and size of each hospital, N, and which one it is.

        With `known` the prior is the expected overflow of the coming days, else None.
        """
        k, shape = self.hospitals, observations.shape[:2]
        covid, others, patients = observations[..., :k], observations[..., k : 2 * k], observations[..., -1:]
        free = self.capacity - covid - others
        rows = np.zeros((*shape, k, self.n_inputs), np.float32)
        rows[..., 0] = free / 50.0
        rows[..., 1] = np.sign(free) * np.log1p(np.abs(free)) / 3.0
        rows[..., 2] = np.log1p(covid) / 3.0
        rows[..., 3] = np.log(self.capacity) / 5.0
        rows[..., 4] = np.log1p(patients) / 5.0
        rows[..., 5] = covid / 50.0
        rows[..., 6:] = np.eye(k)
        prior = None
        if self.known:
            staying = self.staying if self.staying.ndim == 1 else self.staying[:, None]
            amounts = np.array(self.knots, np.float64)
            overflow = overflow_ahead(covid, others, patients, staying, self.capacity, amounts) / -self._scale
            prior = overflow.astype(np.float32).reshape(shape[0], -1, len(self.knots))
        return rows.reshape(shape[0], -1, self.n_inputs), prior

    def q(self, outputs: Floats, prior: Floats | None) -> Floats:
        outputs = outputs if prior is None else outputs + prior
        return outputs.reshape(len(outputs), -1, self.n_outputs)

    def of_seed(self, i: int) -> "AllocationHead":
        if self.staying.ndim == 1:
            return self
        one = copy(self)
        one.staying = self.staying[i : i + 1]
        return one

    def best(self, q: NDArray[np.float32], observations: NDArray[np.float32]) -> NDArray[np.int64]:
        outputs = q.astype(np.float64).reshape(-1, self.hospitals, len(self.knots))
        patients = np.clip(np.rint(observations[..., -1]), 0, self.largest).astype(np.int64).ravel()
        amounts = np.empty((len(outputs), self.hospitals), np.int64)
        allocate_between_knots(outputs * self._scale, self._left, self._share, patients, *self._scratch, amounts)
        return (amounts + self._first).reshape(*q.shape[:2], -1)

    def values(self, q: NDArray[np.float32], choices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Q[i, a_i] of each hospital, (seeds, batch, K): each is learned from its own overflow."""
        places, (left, right) = self._places[choices], self._weights[:, choices]
        return left * np.take_along_axis(q, places, 2) + right * np.take_along_axis(q, places + 1, 2)

    def backward(self, value_gradients: Floats, choices: NDArray[np.int64]) -> Floats:
        gradients = np.zeros((*value_gradients.shape[:2], self.n_outputs), np.float32)
        places, (left, right) = self._places[choices], self._weights[:, choices]
        np.put_along_axis(gradients, places, left * value_gradients, 2)  # no two hospitals share an output
        np.put_along_axis(gradients, places + 1, right * value_gradients, 2)
        return gradients

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """Proportions drawn uniformly from the simplex."""
        patients = min(self.largest, round(float(observation[-1])))
        return by_largest_remainders(-np.log1p(-uniforms), patients) + self._first

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Amounts in units of an even share of half the largest number of patients, a typical standard deviation."""
        return self.actions(choices).astype(np.float64) * (2.0 * self.hospitals / self.largest)

    def change(
        self, observations: NDArray[Any], choices: NDArray[np.int64], next_observations: NDArray[Any]
    ) -> NDArray[np.float64]:
        """The fraction of COVID-19 patients who stayed and the changes of the others and of arrivals, (rows, 2 K + 1).

        Given (s, a) this is equivalent to s', in a metric that does not grow with the waves. The fraction includes one
        more patient with the prior length of stay, so that an empty hospital is neutral.
        """
        k = self.hospitals
        before, after = observations.astype(np.float64), next_observations.astype(np.float64)
        staying = (after[:, :k] - self.actions(choices) + STAYING) / (before[:, :k] + 1.0)
        others = (after[:, k : 2 * k] - before[:, k : 2 * k]) / (OTHERS_UNIT * self.capacity + 1.0)
        arrivals = (after[:, -1:] - before[:, -1:]) / (3.0 * np.sqrt(before[:, -1:] + 1.0))
        return np.hstack([staying / STAYING_UNIT, others, arrivals])

    def adaptation(self, n: int) -> NoAdaptation:
        return LengthOfStayAdaptation(n, self)

    def actions(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return choices - self._first

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        return checked_actions(actions, self.largest) + self._first

    def settings(self) -> dict[str, Any]:
        return {"capacity": self.capacity.tolist(), "largest": self.largest, "knots": self.knots, "known": self.known,
                "staying": self.staying.tolist()}  # fmt: skip


class LengthOfStayAdaptation(NoAdaptation):
    """The prior follows how long patients stay: yesterday's share of those who stayed is expected today.

    Parameters
    ----------
    n : int
        Seeds.
    head : AllocationHead
        Its `staying` becomes (n, K), one row per seed, which is changed in place.
    """

    def __init__(self, n: int, head: AllocationHead) -> None:
        self.head = head
        head.staying = np.broadcast_to(head.staying, (n, head.hospitals)).copy()

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        head, store, place = self.head, trainer.replay.store, trainer.replay.next - 1
        for i in rows.tolist():
            before = store["observations"][i, place, : head.hospitals].astype(np.float64)
            after = store["next_observations"][i, place, : head.hospitals]
            share = (after - head.actions(store["choices"][i, place])) / np.maximum(before, 1.0)
            head.staying[i] = np.where(before >= 1.0, np.clip(share, 0.0, 1.0), head.staying[i])
        return []

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        return [], {"staying": self.head.staying}

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.head.staying[...] = arrays["staying"]
