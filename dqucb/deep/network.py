"""Networks of many seeds in one stack.

All weights of a seed are one row of a (seeds, P) matrix; Adam, clipping and target updates are a pass over that matrix.
The work is done by compiled kernels (`dqucb/_kernels/networks.py`). Rows never mix, so what a seed learns does not
depend on which others are in the stack.
"""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import networks

Floats = NDArray[np.float32]


class StackedMLP:
    """Fully connected ReLU networks, one per generator, with `sizes` = (inputs, hidden..., outputs).

    Weights and biases start uniformly in +-1/sqrt(inputs of the layer).
    """

    def __init__(self, sizes: Sequence[int], generators: Sequence[np.random.Generator], silent: bool = False) -> None:
        rows = [
            np.concatenate([rng.uniform(-1, 1, (n_in + 1) * n_out) / n_in**0.5 for n_in, n_out in pairwise(sizes)])
            for rng in generators
        ]
        self._take(tuple(sizes), np.array(rows, np.float32))
        if silent:  # all outputs begin at 0
            self.flat[:, -(sizes[-2] + 1) * sizes[-1] :] = 0.0

    def _take(self, sizes: tuple[int, ...], flat: Floats) -> None:
        self.sizes, self.flat = sizes, flat
        self._sizes, self._hidden = np.array(sizes, np.int64), sum(sizes[1:-1])

    @property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """(weights (seeds, in, out), biases (seeds, out)) of each layer, in the memory of `flat`."""
        layers, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            weights = self.flat[:, at : at + n_in * n_out].reshape(-1, n_in, n_out)
            at += (n_in + 1) * n_out
            layers.append((weights, self.flat[:, at - n_out : at]))
        return layers

    def copy(self) -> "StackedMLP":
        """The same networks in memory of their own."""
        return self._with(self.flat.copy())

    def only(self, i: int) -> "StackedMLP":
        """The network of one seed, in the same memory."""
        return self._with(self.flat[i : i + 1])

    def _with(self, flat: Floats) -> "StackedMLP":
        twin = object.__new__(StackedMLP)
        twin._take(self.sizes, flat)
        return twin

    def __call__(self, x: Floats) -> Floats:
        """Outputs (seeds, batch, outputs) for inputs (seeds, batch, inputs)."""
        return self.forward(x)[0]

    def forward(self, x: Floats) -> tuple[Floats, Floats]:
        """The outputs, and what the hidden layers gave, for `gradient`."""
        seeds, rows = x.shape[:2]
        hidden = np.empty((seeds, rows * self._hidden), np.float32)
        outputs = np.empty((seeds, rows, self.sizes[-1]), np.float32)
        networks.forward(self._sizes, self.flat, x, hidden, outputs)
        return outputs, hidden

    def gradient(self, x: Floats, hidden: Floats, slopes: Floats) -> Floats:
        """The derivative of a loss by all weights, (seeds, P), from its slopes by the outputs of `forward(x)`."""
        gradient = np.empty_like(self.flat)
        networks.backward(self._sizes, self.flat, x, hidden, slopes, gradient)
        return gradient


class StackedAdam:
    """Adam (Kingma and Ba 2015) on a (seeds, P) matrix, after clipping each seed's gradient to a largest norm."""

    def __init__(self, flat: Floats, learning_rate: float, largest_norm: float) -> None:
        self.flat, self.learning_rate, self.largest_norm = flat, learning_rate, largest_norm
        self.mean, self.square, self.count = np.zeros_like(flat), np.zeros_like(flat), 0

    def only(self, i: int) -> "StackedAdam":
        """The optimiser of one seed, in the same memory; it counts its steps from here on by itself."""
        one = copy(self)
        one.flat, one.mean, one.square = self.flat[i : i + 1], self.mean[i : i + 1], self.square[i : i + 1]
        return one

    def step(self, gradient: Floats) -> None:
        """Change the weights by one step."""
        self.count += 1
        networks.adam(self.learning_rate, self.largest_norm, self.count, gradient, self.mean, self.square, self.flat)
