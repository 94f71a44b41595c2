"""The replay buffer: the last transitions of every seed, in preallocated arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate


class Batch(NamedTuple):
    """Sampled chains of up to k successive transitions, (seeds, batch, ...): first and last observation, and rewards.

    Observations are float32, or uint8 for images.
    """

    observations: NDArray[Any]
    choices: NDArray[np.int64]
    next_observations: NDArray[Any]  # after the last transition of the chain
    terminated: NDArray[np.float32]
    rewards: NDArray[np.float32]  # (seeds, batch, k), or (seeds, batch, k, parts)
    alive: NDArray[np.bool_]  # (seeds, batch, k), False after the end of an episode or of the buffer
    cells: NDArray[np.int64]  # (seeds, batch, k, choices): counters of the bonus
    likelihood: NDArray[np.float32]  # (seeds, batch, k), when it was observed


COLUMNS = ("observations", "choices", "rewards", "next_observations", "terminated", "ended", "cells", "likelihood")


class Replay:
    """The last `buffer_size` transitions of n seeds in lockstep; the oldest ones are overwritten.

    Parameters
    ----------
    n, buffer_size, observation_dim, n_choices : int
        Seeds, transitions per seed, numbers in an observation, and choices in an action.
    parts : int
        Numbers in a reward.
    dtype : dtype
        Of observations: float32, or uint8 for images.
    """

    def __init__(self, n: int, buffer_size: int, observation_dim: int, n_choices: int, parts: int = 1,
                 dtype: Any = np.float32) -> None:  # fmt: skip
        size = n * buffer_size * (2 * np.dtype(dtype).itemsize * observation_dim + 16 * n_choices + 17)
        sizes = f"{n} seeds and observations of {observation_dim:,} numbers"
        what = f"a replay buffer of buffer_size={buffer_size:,} for {sizes}"
        _validate.fits(what, size)
        self.buffer_size, self.size, self.next = buffer_size, 0, 0
        self.kept = np.full(n, 1 << 62)  # only this many of the last transitions of each seed are sampled
        self._base = (np.arange(n) * buffer_size)[:, None, None]
        self.store: dict[str, NDArray[Any]] = {
            "observations": np.zeros((n, buffer_size, observation_dim), dtype),
            "choices": np.zeros((n, buffer_size, n_choices), np.int64),
            "rewards": np.zeros((n, buffer_size, parts) if parts > 1 else (n, buffer_size), np.float32),
            "next_observations": np.zeros((n, buffer_size, observation_dim), dtype),
            "terminated": np.zeros((n, buffer_size), np.float32),
            "ended": np.zeros((n, buffer_size), np.bool_),  # terminated or truncated
            "cells": np.zeros((n, buffer_size, n_choices), np.int64),
            "likelihood": np.ones((n, buffer_size), np.float32),
        }
        self._flat = self._flattened()

    def _flattened(self) -> dict[str, NDArray[Any]]:
        """Views of the store: take() on rows of one long axis is several times faster than indexing two axes."""
        return {name: array.reshape(-1, *array.shape[2:]) for name, array in self.store.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_flat"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)  # a copy of a view would no longer follow its array
        self._flat = self._flattened()

    def add(self, *columns: NDArray[Any]) -> None:
        """Add one transition per seed, in the order of COLUMNS."""
        for name, column in zip(COLUMNS, columns, strict=True):
            self.store[name][:, self.next] = column
        self.next = (self.next + 1) % self.buffer_size
        self.kept += 1
        self.size = min(self.size + 1, self.buffer_size)

    def end_chain(self) -> None:
        """Mark the newest transition as the last one of its episode."""
        self.store["ended"][:, self.next - 1] = True

    def sample(self, generators: list[np.random.Generator], batch: int, length: int = 1) -> Batch:
        """Sample chains of successive transitions for each seed, with uniformly drawn first transitions.

        Parameters
        ----------
        generators : list of numpy.random.Generator
            One per seed.
        batch : int
            Chains per seed.
        length : int
            Largest number of transitions in a chain.
        """
        return self._chains([self._ages(i, rng, batch) for i, rng in enumerate(generators)], length, self._base)

    def sample_one(self, i: int, rng: np.random.Generator, batch: int, length: int = 1) -> Batch:
        """Sample for seed i only, (1, batch, ...)."""
        return self._chains([self._ages(i, rng, batch)], length, self._base[i])

    def _ages(self, i: int, rng: np.random.Generator, batch: int) -> NDArray[np.int64]:
        """Draw the first transitions of chains, counted from the oldest one."""
        return rng.integers(max(0, self.size - int(self.kept[i])), self.size, size=batch)

    def _chains(self, first_ages: list[NDArray[np.int64]], length: int, base: NDArray[np.int64]) -> Batch:
        ages = np.array(first_ages)[:, :, None] + np.arange(length)
        places = (self.next - self.size + ages) % self.buffer_size + base
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
        """Return columns of the `newest` transitions of seed i except for the last `without`, in order of time."""
        places = self._places(newest, without)
        return {name: column[i, places] for name, column in self.store.items()}

    def replace(self, i: int, without: int, columns: dict[str, NDArray[Any]]) -> None:
        """Overwrite the transitions of seed i just before its last `without` ones."""
        places = self._places(without + len(columns["ended"]), without)
        for name, column in columns.items():
            self.store[name][i, places] = column

    def _places(self, newest: int, without: int) -> NDArray[np.int64]:
        return (self.next - np.arange(min(newest, self.size), without, -1)) % self.buffer_size

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the filled part of the arrays."""
        return {name: array[:, : self.size] for name, array in self.store.items()} | {"kept": self.kept}

    def restore(self, state: dict[str, NDArray[Any]], next_place: int) -> None:
        """Restore `state()` and `next`, bit-identically."""
        self.size = state["rewards"].shape[1]
        self.next = _validate.integer("next", next_place, 0, self.buffer_size - 1)
        for name, array in self.store.items():
            array[:, : self.size] = state[name]
        self.kept[...] = state["kept"]
