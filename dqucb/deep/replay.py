"""The replay buffer: the last transitions of every seed, in arrays that are allocated once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate


class Batch(NamedTuple):
    """Sampled chains of up to k transitions, (seeds, batch, ...): where each begins, where it ends, and its rewards.

    Observations are float32, or uint8 for images.
    """

    observations: NDArray[Any]
    choices: NDArray[np.int64]
    next_observations: NDArray[Any]  # after the last transition of the chain
    terminated: NDArray[np.float32]
    rewards: NDArray[np.float32]  # (seeds, batch, k), or (seeds, batch, k, parts)
    alive: NDArray[np.bool_]  # (seeds, batch, k), False after the end of an episode or of what is stored
    cells: NDArray[np.int64]  # (seeds, batch, k, choices): where the bonus counts each visit
    likelihood: NDArray[np.float32]  # (seeds, batch, k), at the time of the visit


COLUMNS = ("observations", "choices", "rewards", "next_observations", "terminated", "ended", "cells", "likelihood")


class Replay:
    """The last `capacity` transitions of `n` seeds that step together; the oldest ones are overwritten.

    Parameters
    ----------
    n, capacity, observation_dim, n_choices : int
        Seeds, transitions of each, numbers in an observation, and choices in an action.
    parts : int
        With several, a reward is a row of numbers.
    dtype : dtype
        Of observations: float32, or uint8 for images.
    """

    def __init__(self, n: int, capacity: int, observation_dim: int, n_choices: int, parts: int = 1,
                 dtype: Any = np.float32) -> None:  # fmt: skip
        size = n * capacity * (2 * np.dtype(dtype).itemsize * observation_dim + 16 * n_choices + 17)
        sizes = f"{n} seeds and observations of {observation_dim:,} numbers"
        what = f"a replay buffer of buffer_size={capacity:,} for {sizes}"
        _validate.fits(what, size)
        self.capacity, self.size, self.next = capacity, 0, 0
        self.kept = np.full(n, 1 << 62)  # how many of the last transitions of each seed are sampled from
        self._base = (np.arange(n) * capacity)[:, None, None]
        self.store: dict[str, NDArray[Any]] = {
            "observations": np.zeros((n, capacity, observation_dim), dtype),
            "choices": np.zeros((n, capacity, n_choices), np.int64),
            "rewards": np.zeros((n, capacity, parts) if parts > 1 else (n, capacity), np.float32),
            "next_observations": np.zeros((n, capacity, observation_dim), dtype),
            "terminated": np.zeros((n, capacity), np.float32),
            "ended": np.zeros((n, capacity), np.bool_),  # terminated, or cut by a time limit
            "cells": np.zeros((n, capacity, n_choices), np.int64),
            "likelihood": np.ones((n, capacity), np.float32),
        }
        # take() on rows of one long axis is several times faster than indexing two axes.
        self._flat = {name: array.reshape(n * capacity, *array.shape[2:]) for name, array in self.store.items()}

    def add(self, *columns: NDArray[Any]) -> None:
        """One transition for every seed, in the order of COLUMNS."""
        for name, column in zip(COLUMNS, columns, strict=True):
            self.store[name][:, self.next] = column
        self.next = (self.next + 1) % self.capacity
        self.kept += 1
        self.size = min(self.size + 1, self.capacity)

    def end_chain(self) -> None:
        """The transition that was added last is the last one of its episode."""
        self.store["ended"][:, self.next - 1] = True

    def sample(self, generators: list[np.random.Generator], batch: int, length: int = 1) -> Batch:
        """`batch` chains of up to `length` transitions of each seed, begun uniformly by its own generator."""
        return self._chains([self._ages(i, rng, batch) for i, rng in enumerate(generators)], length, self._base)

    def sample_one(self, i: int, rng: np.random.Generator, batch: int, length: int = 1) -> Batch:
        """The same for seed i alone, (1, batch, ...)."""
        return self._chains([self._ages(i, rng, batch)], length, self._base[i])

    def _ages(self, i: int, rng: np.random.Generator, batch: int) -> NDArray[np.int64]:
        """Where chains begin, counted from the oldest transition."""
        return rng.integers(max(0, self.size - int(self.kept[i])), self.size, size=batch)

    def _chains(self, first_ages: list[NDArray[np.int64]], length: int, base: NDArray[np.int64]) -> Batch:
        ages = np.array(first_ages)[:, :, None] + np.arange(length)
        places = (self.next - self.size + ages) % self.capacity + base
        flat = self._flat
        alive = ages < self.size
        if length > 1:
            continues = ~flat["ended"].take(places[:, :, :-1])
            alive[:, :, 1:] &= np.logical_and.accumulate(continues, axis=2)
        first = places[:, :, 0]
        last = np.take_along_axis(places, alive.sum(2, keepdims=True) - 1, 2)[:, :, 0]
        return Batch(
            flat["observations"].take(first, axis=0),
            flat["choices"].take(first, axis=0),
            flat["next_observations"].take(last, axis=0),
            flat["terminated"].take(last),
            flat["rewards"].take(places, axis=0),
            alive,
            flat["cells"].take(places, axis=0),
            flat["likelihood"].take(places),
        )

    def part(self, i: int, newest: int, without: int = 0) -> dict[str, NDArray[Any]]:
        """Columns of the `newest` transitions of seed i, the oldest first, without the last `without` ones."""
        places = self._places(newest, without)
        return {name: column[i, places] for name, column in self.store.items()}

    def replace(self, i: int, without: int, columns: dict[str, NDArray[Any]]) -> None:
        """Put other transitions in the place of those of seed i just before its last `without` ones."""
        places = self._places(without + len(columns["ended"]), without)
        for name, column in columns.items():
            self.store[name][i, places] = column

    def _places(self, newest: int, without: int) -> NDArray[np.int64]:
        return (self.next - np.arange(min(newest, self.size), without, -1)) % self.capacity

    def state(self) -> dict[str, NDArray[Any]]:
        """The filled part."""
        return {name: array[:, : self.size] for name, array in self.store.items()} | {"kept": self.kept}

    def restore(self, state: dict[str, NDArray[Any]], next_place: int) -> None:
        """Continue exactly from `state()` and `next`."""
        self.size = state["rewards"].shape[1]
        self.next = _validate.integer("next", next_place, 0, self.capacity - 1)
        for name, array in self.store.items():
            array[:, : self.size] = state[name]
        self.kept[...] = state["kept"]
