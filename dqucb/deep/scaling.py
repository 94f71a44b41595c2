"""Running means and standard deviations, one per seed and coordinate."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RunningScale:
    """Standardises rows, (x - mean) / deviation, with the statistics of the first `freeze_after` steps of each seed.

    Mean and variance are those of all rows so far (Welford 1962). After `freeze_after` rows they are fixed: a later
    change of the environment must remain visible in the features. With fewer than two rows, or zero variance, the
    deviation is 1.
    """

    def __init__(self, n: int, dimension: int, freeze_after: int) -> None:
        self.freeze_after, self.count = freeze_after, 0
        self.mean = np.zeros((n, dimension))
        self.squares = np.zeros((n, dimension))  # summed squared distances from the mean
        self._refresh()

    def _refresh(self) -> None:
        variance = self.squares / max(1, self.count)
        self.deviation = np.sqrt(np.where(variance > 1e-12, variance, 1.0))

    def update(self, rows: NDArray[Any]) -> None:
        """Add one row per seed, unless frozen."""
        if self.count >= self.freeze_after:
            return
        self.count += 1
        distance = rows - self.mean
        self.mean += distance / self.count
        self.squares += distance * (rows - self.mean)
        self._refresh()

    def fix(self, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> None:
        """Fix the mean and deviation of every seed."""
        self.count = max(1, self.freeze_after)
        self.freeze_after = 0
        self.mean[...], self.squares[...] = mean, deviation**2 * self.count
        self._refresh()

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Standardise rows, (seeds, dimension) or (seeds, batch, dimension)."""
        if rows.ndim == 3:
            return (rows - self.mean[:, None]) / self.deviation[:, None]
        return (rows - self.mean) / self.deviation

    def inputs(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return inputs of networks, (seeds, batch, dimension): standardised float32 rows; images are not changed."""
        return rows if rows.dtype == np.uint8 else self(rows).astype(np.float32)

    def only(self, i: int) -> "RunningScale":
        """Return the scale of one seed, which shares memory with this one."""
        one = copy(self)
        one.mean, one.squares, one.deviation = (own[i : i + 1] for own in (self.mean, self.squares, self.deviation))
        return one

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return arrays for `restore`; `count` is saved by the caller."""
        return {"mean": self.mean.copy(), "squares": self.squares.copy()}

    def restore(self, state: dict[str, NDArray[np.float64]], count: int) -> None:
        """Restore `state()`, bit-identically."""
        self.mean[...], self.squares[...], self.count = state["mean"], state["squares"], count
        self._refresh()
