"""Running means and standard deviations, one per seed and coordinate."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RunningScale:
    """Standardises rows (x - mean) / deviation by what each seed saw in its first `freeze_after` steps.

    Mean and variance are those of all rows so far (Welford 1962). After `freeze_after` rows they stay fixed: a later
    change of the environment must show in the features instead of being scaled away. With fewer than two rows, or no
    variance at all, the deviation is 1.
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
        """One row more for each seed, unless frozen."""
        if self.count >= self.freeze_after:
            return
        self.count += 1
        distance = rows - self.mean
        self.mean += distance / self.count
        self.squares += distance * (rows - self.mean)
        self._refresh()

    def fix(self, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> None:
        """Use this mean and deviation for every seed from now on."""
        self.count = max(1, self.freeze_after)
        self.freeze_after = 0
        self.mean[...], self.squares[...] = mean, deviation**2 * self.count
        self._refresh()

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Standardised rows, (seeds, dimension) or (seeds, batch, dimension)."""
        if rows.ndim == 3:
            return (rows - self.mean[:, None]) / self.deviation[:, None]
        return (rows - self.mean) / self.deviation

    def inputs(self, rows: NDArray[Any]) -> NDArray[Any]:
        """What networks take, (seeds, batch, dimension): standardised float32, or images as they are."""
        return rows if rows.dtype == np.uint8 else self(rows).astype(np.float32)

    def only(self, i: int) -> "RunningScale":
        """The scale of one seed, in the same memory."""
        one = copy(self)
        one.mean, one.squares, one.deviation = (own[i : i + 1] for own in (self.mean, self.squares, self.deviation))
        return one

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays of which `restore` makes the same scale; `count` is saved by the owner."""
        return {"mean": self.mean.copy(), "squares": self.squares.copy()}

    def restore(self, state: dict[str, NDArray[np.float64]], count: int) -> None:
        """Continue exactly from `state()`."""
        self.mean[...], self.squares[...], self.count = state["mean"], state["squares"], count
        self._refresh()
