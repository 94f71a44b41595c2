"""Running means and spreads, one per seed and coordinate."""

from copy import copy

import numpy as np
from numpy.typing import NDArray


class RunningScale:
    """Standardises rows (x - mean) / spread by what each seed has seen in its first `freeze_after` steps.

    Mean and variance are those of all rows so far (Welford 1962). After `freeze_after` rows they stay as they
    are: later, a change of the world must show in the features, and not be scaled away. With fewer than two rows, or no
    spread at all, the spread is 1.
    """

    def __init__(self, n: int, dimension: int, freeze_after: int) -> None:
        self.freeze_after, self.count = freeze_after, 0
        self.mean = np.zeros((n, dimension))
        self.squares = np.zeros((n, dimension))  # summed squared distances from the mean
        self._refresh()

    def _refresh(self) -> None:
        variance = self.squares / max(1, self.count)
        self.spread = np.sqrt(np.where(variance > 1e-12, variance, 1.0))

    def update(self, rows: NDArray[np.floating]) -> None:
        """One row more for each seed, unless frozen."""
        if self.count >= self.freeze_after:
            return
        self.count += 1
        distance = rows - self.mean
        self.mean += distance / self.count
        self.squares += distance * (rows - self.mean)
        self._refresh()

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        """Standardised rows, (seeds, dimension) or (seeds, batch, dimension)."""
        if rows.ndim == 3:
            return (rows - self.mean[:, None]) / self.spread[:, None]
        return (rows - self.mean) / self.spread

    def only(self, i: int) -> "RunningScale":
        """The scale of one seed, in the same memory."""
        one = copy(self)
        one.mean, one.squares, one.spread = self.mean[i : i + 1], self.squares[i : i + 1], self.spread[i : i + 1]
        return one

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays from which `restore` goes on; `count` is saved by the owner."""
        return {"mean": self.mean.copy(), "squares": self.squares.copy()}

    def restore(self, state: dict[str, NDArray[np.float64]], count: int) -> None:
        """Go on exactly from `state()`."""
        self.mean[...], self.squares[...], self.count = state["mean"], state["squares"], count
        self._refresh()
