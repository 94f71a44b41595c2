"""SimHash counts (Tang et al. 2017): states in similar directions share a counter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd multipliers whose products fill the high bits (Fibonacci hashing)
_MIX_CHOICE = np.uint64(0xC2B2AE3D27D4EB4F)


class SimHashCounts:
    """Visit counts of (sign(A s), choice of an action) for several seeds.

    Parameters
    ----------
    generators : sequence of numpy.random.Generator
        One per seed; each draws its own matrix A ~ N(0, 1), (bits, dimension).
    dimension : int
        Numbers in a state.
    bits : int
        Length of the pattern sign(A s), at most 64; more bits give finer cells.
    table_bits : int
        Each seed has 2**table_bits counters; patterns with the same counter share it.
    """

    def __init__(
        self, generators: Sequence[np.random.Generator], dimension: int, bits: int = 32, table_bits: int = 16
    ) -> None:
        self.planes = np.array([rng.standard_normal((dimension, bits)) for rng in generators])
        self.counts = np.zeros((len(generators), 1 << table_bits), np.int32)
        self._powers = np.uint64(1) << np.arange(bits, dtype=np.uint64)
        self._shift = np.uint64(64 - table_bits)
        self._rows = np.arange(len(generators))

    def cells(self, states: NDArray[np.float64], choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counters of states (seeds, dimension) with action choices (seeds, k): (seeds, k)."""
        return self._mixed((states[:, None] @ self.planes)[:, 0] > 0, choices)

    def cells_of(self, i: int, states: NDArray[np.float64], choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counters of seed i for states (rows, dimension) with action choices (rows, k): (rows, k)."""
        return self._mixed(states @ self.planes[i] > 0, choices)

    def _mixed(self, signs: NDArray[np.bool_], choices: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = (signs * self._powers).sum(1, dtype=np.uint64)
        mixed = (codes[:, None] * _MIX) ^ ((choices.astype(np.uint64) + np.uint64(1)) * _MIX_CHOICE)
        return ((mixed * _MIX) >> self._shift).astype(np.int64)

    def add(self, cells: NDArray[np.int64]) -> None:
        """Count one visit of each of these counters, (seeds, k)."""
        for k in range(cells.shape[1]):  # choices of one action may share a counter
            self.counts[self._rows, cells[:, k]] += 1

    def of(self, cells: NDArray[np.int64], i: int | None = None) -> NDArray[np.int32]:
        """Return the counts of counters (seeds, ...), or of those of seed i only, (1, ...)."""
        rows = self._rows if i is None else self._rows[i : i + 1]
        return self.counts[rows.reshape(-1, *[1] * (cells.ndim - 1)), cells]
