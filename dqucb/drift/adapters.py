"""`RiverDetector`: a detector of the library river in the place of ours."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dqucb import _validate as check
from dqucb.drift.base import DETECTORS, DriftDetector

SOURCES = ("reward", "residual", "next_state")


@DETECTORS.register("river")
class RiverDetector(DriftDetector):
    """Feeds one number of each transition to a detector of river, with the interface of `DriftDetector`.

    Parameters
    ----------
    detector : river.base.DriftDetector
        For instance ``river.drift.ADWIN()``: any object with `update(x)`, `drift_detected` and `clone()`. A clone of it
        is fed, so that the object itself stays as it is.
    on : str
        The number: "reward"; "residual", the size of s' - s that a running linear model does not explain, each
        coordinate in units of its own usual error; or "next_state" for states that are one number.

    Notes
    -----
    River's detectors expect independent numbers: along a trajectory they give many false alarms at their defaults.

    Examples
    --------
    >>> from river.drift import PageHinkley  # doctest: +SKIP
    >>> detector = RiverDetector(PageHinkley(), on="residual")  # doctest: +SKIP
    >>> detector.update([0.0, 1.0], [0.5], [0.1, 0.9]).drift_detected  # doctest: +SKIP
    False
    """

    def __init__(self, detector: Any, on: str = "residual") -> None:
        for needed in ("update", "drift_detected", "clone"):
            if not hasattr(detector, needed):
                raise ValueError(f"detector must have {needed!r}, as river's have, got {detector!r}")
        self.detector = detector
        self.on = check.one_of("on", on, SOURCES)
        self.reset()

    def reset(self) -> None:
        """Start again with a new clone of the river detector."""
        self._river = self.detector.clone()
        self._model: _LinearModel | None = None
        self.n_updates, self.changed_at, self._last = 0, None, 0.0

    @property
    def drift_detected(self) -> bool:  # type: ignore[override]
        """Whether the last update gave an alarm."""
        return bool(self._river.drift_detected)

    @property
    def statistic(self) -> float:
        """The last number that was passed on; river's detectors do not tell their threshold."""
        return self._last

    def update(self, state: ArrayLike, action: ArrayLike, next_state: ArrayLike, reward: float | None = None) -> Self:
        """Learn from one transition, as described in `DriftDetector.update`; `changed_at` is the time of the alarm."""
        value = self._number(state, action, next_state, reward)
        self._river.update(value)
        self._last = value
        self.n_updates += 1
        if self.drift_detected:
            self.changed_at = self.n_updates - 1
        return self

    def _number(self, state: ArrayLike, action: ArrayLike, next_state: ArrayLike, reward: float | None) -> float:
        if self.on == "reward":
            return check.real("reward", reward)
        next_state = check.finite_array("next_state", np.atleast_1d(np.asarray(next_state)), 1)
        if self.on == "next_state":
            return float(check.vector("next_state", next_state, 1)[0])
        before = check.vector("state", state, next_state.size)
        chosen = check.finite_array("action", np.atleast_1d(np.asarray(action)), 1)
        if self._model is None:
            self._model = _LinearModel(before.size + chosen.size, next_state.size)
        return self._model.error(np.concatenate([before, chosen]), next_state - before)


class _LinearModel:
    """Recursive least squares of y on (1, x), and the mean square of its errors."""

    def __init__(self, inputs: int, targets: int) -> None:
        self.P, self.W = np.eye(inputs + 1) * 1e3, np.zeros((inputs + 1, targets))
        self.square, self.n = np.zeros(targets), 0

    def error(self, x: ArrayLike, y: ArrayLike) -> float:
        f = np.concatenate([[1.0], np.asarray(x)])
        if f.size != self.P.shape[0]:
            raise ValueError(f"state and action must have {self.P.shape[0] - 1} numbers together, got {f.size - 1}")
        g = self.P @ f
        h = float(f @ g)
        e = np.asarray(y) - f @ self.W
        value = float(np.sqrt(np.mean(e * e / (self.square + 1e-12)))) if self.n > 0 else 1.0
        self.W += np.outer(g, e) / (1.0 + h)
        self.P -= np.outer(g, g) / (1.0 + h)
        self.n += 1
        self.square += (e * e - self.square) / self.n
        return min(value, 1e6)
