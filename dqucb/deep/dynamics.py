"""A model of the current dynamics from few transitions: the old dynamics, and how the last transitions differ.

Let f be a regression of (s' - s, r) on (s, a), fitted to the transitions before a change. A transition since the
change has the deviation e = (s' - s, r) - f(s, a). A part c of it may depend on (s, a) (correction.py), and the current
dynamics are then drawn as

    (s' - s, r) = f(s, a) + c(s, a) + e_j,    e_j what c leaves of the deviation of one of the last transitions,

each left out of the c that predicts it: the kernel density of the last transitions around f + c, with kernels of zero
width. Outputs that are no noisier than before (GROWN) have no need of e_j. Near a known transition, what f left of that
one takes its place: the regression misses in the same way nearby. An episode ends beyond bounds that are estimated from
the real transitions of the run (`Ends`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb.deep.correction import Correction, correction, mean_products

MOST_PRODUCTS = 20  # inputs up to which all products are features
MOST_ENDS = 512  # ends of episodes that are remembered
RIDGE = 1e-8
SMALLEST = 1e-12  # variances below are rounding
GROWN = 2.0  # times the variance of residuals before the change


def features(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """1, x, and all products of two coordinates, or with many coordinates the squares; (rows, features)."""
    rows, n = inputs.shape
    first, second = np.triu_indices(n) if n <= MOST_PRODUCTS else (np.arange(n), np.arange(n))
    return np.hstack([np.ones((rows, 1)), inputs, inputs[:, first] * inputs[:, second]])


def fitted(inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ridge regression of the outputs on `features(inputs)`, (features, outputs)."""
    x = features(inputs)
    squares = x.T @ x
    squares.flat[:: len(squares) + 1] += RIDGE * len(x)
    return np.asarray(np.linalg.solve(squares, x.T @ outputs), np.float64)


class Bound(NamedTuple):
    """Episodes end where sign * s[coordinate] > limit."""

    coordinate: int
    sign: float
    limit: float


def ends_of(continued: NDArray[np.floating], over: NDArray[np.floating]) -> list[Bound]:
    """Few bounds that no state of `continued` exceeds and most of `over` do; (rows, dimension).

    Episodes that end inside all bounds, as in tasks that end at random, are left unexplained.
    """
    if not len(continued):
        return []
    sides = [(c, sign) for c in range(over.shape[1]) for sign in (1.0, -1.0)]
    every = [Bound(c, sign, float((sign * continued[:, c]).max())) for c, sign in sides]
    chosen: list[Bound] = []
    left = over
    while len(left):
        beyond = [int((bound.sign * left[:, bound.coordinate] > bound.limit).sum()) for bound in every]
        best = every[int(np.argmax(beyond))]
        if max(beyond) == 0:
            break
        chosen.append(best)
        left = left[best.sign * left[:, best.coordinate] <= best.limit]
    return chosen


def is_over(bounds: list[Bound], states: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which states are beyond a bound."""
    over = np.zeros(len(states), np.bool_)
    for bound in bounds:
        over |= bound.sign * states[:, bound.coordinate] > bound.limit
    return over


class Ends:
    """Where the episodes of each of `n` seeds continued and ended, over the whole run.

    The replay cannot tell: it forgets how early episodes ended, and it may hold imagined transitions that continued
    where no real one would have.
    """

    def __init__(self, n: int, dimension: int) -> None:
        self.lowest = np.full((n, dimension), np.inf)  # of states in which an episode continued
        self.highest = np.full((n, dimension), -np.inf)
        self.last = np.zeros((n, MOST_ENDS, dimension))
        self.count = np.zeros(n, np.int64)

    def observe(self, rows: NDArray[np.int64], states: NDArray[np.floating], over: NDArray[np.bool_]) -> None:
        """The next state of each of the seeds `rows`, and whether its episode ended there."""
        continued = rows[~over]
        self.lowest[continued] = np.minimum(self.lowest[continued], states[~over])
        self.highest[continued] = np.maximum(self.highest[continued], states[~over])
        self.last[rows[over], self.count[rows[over]] % MOST_ENDS] = states[over]
        self.count[rows[over]] += 1

    def bounds(self, i: int) -> list[Bound]:
        """The bounds beyond which episodes of seed i end."""
        extremes = np.stack([self.lowest[i], self.highest[i]])
        return ends_of(extremes, self.last[i, : self.count[i]]) if np.isfinite(extremes).all() else []

    def box(self, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest states of seed i that are imagined: the range of its real ones.

        A quadratic model can leave any range in a few steps, and values beyond it are those of no state at all. A
        coordinate that never varied has no limits.
        """
        varied = self.highest[i] > self.lowest[i]
        return np.where(varied, self.lowest[i], -np.inf), np.where(varied, self.highest[i], np.inf)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays of which `restore` makes the same object."""
        return {"lowest": self.lowest, "highest": self.highest, "last": self.last, "count": self.count}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from `state()`."""
        if (state["count"] < 0).any():
            raise ValueError("the number of ends must be >= 0")
        for name, own in self.state().items():
            own[...] = state[name]


def explains(errors: NDArray[np.float64], outputs: NDArray[np.float64]) -> bool:
    """Whether held-out errors have less than half of the variance around the mean of the other rows, in each output
    that varies: a model explains more than it leaves."""
    n = len(outputs)
    of_mean = (outputs - outputs.mean(0)) * n / max(1, n - 1)
    varies = outputs.var(0) > SMALLEST
    return bool((np.square(errors).sum(0) < 0.5 * np.square(of_mean).sum(0))[varies].all())


class Judged(NamedTuple):
    """How well the corrected dynamics fit transitions."""

    found: Correction
    deviations: NDArray[np.float64]  # from the old dynamics, not corrected
    left: float  # squared deviations that the correction leaves, in units of the noise of before
    likelihood: float  # log marginal likelihood up to a constant
    predicts: bool  # whether it explains more of left-out transitions than it leaves


class CurrentDynamics:
    """The dynamics before a change and the deviations from them since, of one seed.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Numbers in (s, a) and in (s' - s, r).
    """

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        self.sizes = (1 + n_inputs, features(np.zeros((1, n_inputs))).shape[1])  # features of each kind of correction
        self.weights = np.zeros((self.sizes[1], n_outputs))
        self.products = np.zeros((self.sizes[1], self.sizes[1]))
        self.noise = np.zeros(n_outputs)
        self.explained = np.zeros(1)
        self.range = np.zeros((2, n_outputs))  # lowest and highest outputs before the change
        self.drawn_range = self.range
        self.is_noisier = np.zeros(n_outputs, np.bool_)
        self.is_systematic = False  # whether the correction explains more of the deviations than it leaves
        self.corrected = self.weights
        self.deviations = np.zeros((1, n_outputs))

    @property
    def judged_from(self) -> list[int]:
        """Transitions since a change from which on each kind of correction can be judged."""
        return [2 * size for size in self.sizes]

    def begin(self, inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> None:
        """Fit the dynamics before a change to its transitions."""
        x = features(inputs)
        self.weights[...] = fitted(inputs, outputs)
        self.products[...] = mean_products(x)
        off = outputs - x @ self.weights
        self.noise[...] = np.square(off).mean(0) + SMALLEST
        self.range[...] = outputs.min(0), outputs.max(0)
        total = outputs.var(0)
        shares = 1.0 - np.divide(off.var(0), total, out=np.zeros_like(total), where=total > SMALLEST)
        self.explained[0] = shares.min()

    def refresh(self, inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> bool:
        """Correct the old dynamics by the last transitions; whether the result predicts held-out ones."""
        found, off, left, _, predicts = self.judged(inputs, outputs)
        self.is_systematic = left < 0.5 * self._in_noise(off)
        self.corrected, self.deviations = self.weights + found.weights, found.left_out
        self.is_noisier = np.square(found.left_out).mean(0) > GROWN * self.noise
        self.drawn_range = np.stack(
            [np.minimum(self.range[0], outputs.min(0)), np.maximum(self.range[1], outputs.max(0))]
        )
        return predicts

    def judged(self, inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> Judged:
        """Correct the old dynamics by these transitions, without using the result."""
        x = features(inputs)
        off = outputs - x @ self.weights
        found = correction(x, off, self.products, self.noise, self.sizes)
        left, likelihood = self._in_noise(found.left_out), float(found.likelihood.sum())
        return Judged(found, off, left, likelihood, explains(found.left_out, outputs))

    def _in_noise(self, deviations: NDArray[np.float64]) -> float:
        return float((np.square(deviations).sum(0) / self.noise).sum())

    def residuals(self, inputs: NDArray[np.float64], outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """What f leaves of transitions before the change, (rows, outputs)."""
        return np.asarray(outputs - features(inputs) @ self.weights, np.float64)

    def after(self, states: NDArray[np.floating], actions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean next states in the dynamics before the change, (rows, dimension)."""
        return np.asarray(states + (features(np.hstack([states, actions])) @ self.weights)[:, :-1], np.float64)

    def draw(self, rng: np.random.Generator, inputs: NDArray[np.float64],
             nearby: NDArray[np.float64] | None = None) -> NDArray[np.float64]:  # fmt: skip
        """Draw (s' - s, r) from the current dynamics, (rows, outputs); none is beyond the range of those seen.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws.
        inputs : array
            (s, a), (rows, inputs).
        nearby : array, optional
            `residuals` of a known transition near each row.
        """
        drawn = self.deviations[rng.integers(len(self.deviations), size=len(inputs))]
        if nearby is not None:
            drawn = np.where(self.is_noisier, drawn, nearby)
        return np.clip(features(inputs) @ self.corrected + drawn, *self.drawn_range)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays of which `restore` makes the same object; the correction is computed anew before each use."""
        return {name: getattr(self, name) for name in ("weights", "products", "noise", "explained", "range")}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from `state()`."""
        if "range" not in state:  # of version 0.2.0: nothing is imagined until the next change
            state = {**self.state(), "weights": state["weights"], "explained": np.zeros(1)}
        for name, own in self.state().items():
            own[...] = state[name]
