"""The replay buffer: the last transitions of every seed, in arrays made once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """Sampled transitions, (seeds, batch, ...)."""

    observations: NDArray[np.float32]
    slots: NDArray[np.int64]
    rewards: NDArray[np.float32]
    next_observations: NDArray[np.float32]
    terminated: NDArray[np.float32]
    cells: NDArray[np.int64]  # where the bonus counts this visit
    likelihood: NDArray[np.float32]  # at the time of the visit


class Replay:
    """The last `capacity` transitions of `n` seeds that step together; the oldest ones are overwritten."""

    def __init__(self, n: int, capacity: int, observation_dim: int, n_slots: int) -> None:
        self.capacity, self.size, self.next = capacity, 0, 0
        self._base = (np.arange(n) * capacity)[:, None]
        self.store = Batch(
            np.zeros((n, capacity, observation_dim), np.float32),
            np.zeros((n, capacity, n_slots), np.int64),
            np.zeros((n, capacity), np.float32),
            np.zeros((n, capacity, observation_dim), np.float32),
            np.zeros((n, capacity), np.float32),
            np.zeros((n, capacity, n_slots), np.int64),
            np.ones((n, capacity), np.float32),
        )
        self._arrays: list[NDArray[Any]] = list(self.store)
        # take() on rows of one long axis is several times faster than indexing two axes.
        self._flat = [array.reshape(n * capacity, *array.shape[2:]) for array in self._arrays]

    def add(self, *columns: NDArray[Any]) -> None:
        """One transition for every seed, in the order of `Batch`."""
        for array, column in zip(self._arrays, columns, strict=True):
            array[:, self.next] = column
        self.next = (self.next + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, generators: list[np.random.Generator], batch: int) -> Batch:
        """`batch` transitions of each seed, uniformly with replacement, each seed by its own generator."""
        places = np.array([rng.integers(self.size, size=batch) for rng in generators]) + self._base
        return Batch(*(array.take(places, axis=0) for array in self._flat))

    def state(self) -> dict[str, NDArray[Any]]:
        """The filled part."""
        return {name: array[:, : self.size] for name, array in self.store._asdict().items()}

    def restore(self, state: dict[str, NDArray[Any]], next_place: int) -> None:
        """Go on exactly from `state()` and `next`."""
        self.size = state["rewards"].shape[1]
        self.next = next_place
        for name, array in self.store._asdict().items():
            array[:, : self.size] = state[name]
