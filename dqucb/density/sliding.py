"""An exact kernel density estimate over the last `window` points of a stream, with cheap add and remove.

With x_1 .. x_n the points in the window, d their dimension and k a kernel profile with k(0) = 1,

    log p(x) = c(h, d) - log n + log sum_i k(|x - x_i| / h),

where c makes p integrate to one. This equals scikit-learn's `KernelDensity` fitted to the same n points, which needs a
new fit for each new point. Each query computes the sum again, so that errors do not accumulate in a long stream.
"""

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _storage, _validate
from dqucb._kernels.continuous import ContinuousWindow
from dqucb._kernels.profiles import KERNELS
from dqucb.density.base import MAX_DIMENSION, checked_bandwidth, checked_window


class SlidingKDE(ContinuousWindow):
    """Kernel density estimate over the last `window` points pushed.

    Parameters
    ----------
    window : int
        Number of points that count; a full window drops its oldest point. Memory grows with the content up to this
        number and never with the length of the stream.
    kernel : str
        "gaussian", "exponential", "linear", "cosine", "epanechnikov" or "tophat".
    bandwidth : float or str
        h > 0, or "scott": n^(-1/(d+4)) times the mean over coordinates of the window's sample standard deviation
        (Scott 1992), taken from the content at the first query after a push, in O(n d).
    dimension : int, optional
        Numbers in a point; None lets the first push decide. `reset` keeps it.

    Notes
    -----
    A push costs O(d), a query O(n d). Bad input raises a ValueError and leaves the window unchanged. Where the
    squared distance to every point exceeds 1e308, and outside a compact kernel's support, the score is -inf.

    Examples
    --------
    >>> from dqucb import SlidingKDE
    >>> kde = SlidingKDE(window=2, bandwidth=0.5)
    >>> for x in ([9.0, 9.0], [0.0, 0.0], [1.0, 0.0]):
    ...     kde.push(x)
    >>> kde.points.tolist()  # the first point has left
    [[0.0, 0.0], [1.0, 0.0]]
    >>> round(kde.score([0.5, 0.0]), 6)
    -0.951583
    """

    # push, score, points, reset, kernel, window and dimension are inherited from the compiled class, for speed.

    def __init__(
        self,
        window: int = 100,
        kernel: str = "gaussian",
        bandwidth: float | str = 1.0,
        dimension: int | None = None,
    ) -> None:
        adaptive = isinstance(bandwidth, str)
        if adaptive:
            _validate.one_of("bandwidth", bandwidth, ["scott"])
        width = None if adaptive else checked_bandwidth(bandwidth)
        columns = 0 if dimension is None else _validate.integer("dimension", dimension, 1, MAX_DIMENSION)
        super().__init__(
            checked_window(window, 8 * max(columns, 1)), _validate.one_of("kernel", kernel, KERNELS), width, columns
        )
        self.bandwidth: float | str = bandwidth if width is None else width

    def push_many(self, X: ArrayLike) -> None:
        """Push every row of `X`, first row first; if any row is bad, none is pushed."""
        rows = self._rows(X)
        if len(rows):
            self.push_rows(rows)

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log density at every row of `X`."""
        return self.score_rows(self._rows(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and content to one file, which `load` reads back; no pickle."""
        points, next_slot = self.ring()
        _storage.save(path, "SlidingKDE", {**self._settings(), "next_slot": next_slot}, points=points)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The estimator that `save` wrote; continuing is bit-identical. A bad file is a `SavedFileError`."""
        settings, arrays = _storage.load(path, "SlidingKDE")
        try:
            next_slot = _validate.integer("next_slot", settings.pop("next_slot"), 0)
            points = arrays["points"]
            if points.dtype != np.float64:
                raise ValueError(f"points must be float64, got {points.dtype}")
            return _rebuild(cls, settings, points, next_slot)
        except (ValueError, TypeError, KeyError, MemoryError, OverflowError) as error:
            raise _storage.SavedFileError(f"{os.fspath(path)}: damaged SlidingKDE ({error})") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._settings(), *self.ring())

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"SlidingKDE({settings}) holding {len(self)} point{'s' * (len(self) != 1)}"

    def _settings(self) -> dict[str, Any]:
        return {
            "window": self.window,
            "kernel": self.kernel,
            "bandwidth": self.bandwidth,
            "dimension": self.dimension,
        }

    def _rows(self, X: ArrayLike) -> NDArray[np.float64]:
        rows = _validate.finite_array("X", X, 2)
        if rows.shape[1] != (self.dimension or rows.shape[1]) or rows.shape[1] == 0:
            raise ValueError(f"X must have {self.dimension or 'at least 1'} columns, got shape {rows.shape}")
        return rows


def _rebuild(cls: type[SlidingKDE], settings: dict[str, Any], points: NDArray[np.float64], next_slot: int) -> Any:
    kde = cls(**settings)
    kde.fill(_validate.finite_array("points", points, 2), next_slot)
    return kde
