"""The interface of networks, and its compiled implementation: fully connected networks of many seeds.

`Network` separates Q-learning (double_q.py), which is implemented once, from the backends: `StackedMLP` here (compiled
kernels, no torch) and `StackedTorch` in torch_network.py (any `torch.nn.Module`). All weights of a seed are one row of
a (seeds, P) matrix, and seeds are independent.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import networks

Floats = NDArray[np.float32]


class Network(Protocol):
    """One network per seed, with an optimiser."""

    @property
    def updates(self) -> int:
        """Steps of the optimiser so far."""

    def __call__(self, inputs: NDArray[Any]) -> Floats:
        """Return outputs (seeds, rows, outputs) for inputs (seeds, rows, inputs)."""

    def forward(self, inputs: NDArray[Any]) -> tuple[Floats, Any]:
        """Return the outputs, and the tape that `gradient` and `step` need to differentiate them."""

    def gradient(self, tape: Any, output_gradients: Floats) -> Floats:
        """Return the gradient of a loss with respect to the weights, (seeds, P), from those of the outputs."""

    def step(self, tape: Any, output_gradients: Floats) -> Floats:
        """Take one optimiser step along the clipped gradient; return each seed's gradient norm before clipping."""

    def move_towards(self, online: Self, tau: float) -> None:
        """Polyak update of a target network: weights + tau * (online - weights)."""

    def copy(self) -> Self:
        """Return a copy of the networks with a new optimiser."""

    def only(self, i: int) -> Self:
        """Return the network of one seed, which shares memory with this one; its optimiser counts separately."""

    @property
    def weights(self) -> Floats:
        """All weights, (seeds, P), read-only."""

    def load_weights(self, weights: Floats, i: int | slice = slice(None)) -> None:
        """Set all weights, or those of seed i, from rows of `weights`, (seeds, P)."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the weights of every seed to a torch `state_dict`. ValueError if it does not fit."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the optimiser, for `restore`."""

    def restore(self, state: dict[str, NDArray[Any]], updates: int) -> None:
        """Restore `state()`, bit-identically."""

    def description(self) -> dict[str, Any]:
        """Return JSON values that describe the architecture."""


class StackedMLP:
    """Fully connected ReLU networks, one per generator, and Adam, in compiled kernels.

    Initial weights and biases are uniform in +-1/sqrt(inputs of the layer), as in torch's `nn.Linear`.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden layers, outputs.
    generators : sequence of numpy.random.Generator
        One per seed, for its initial weights.
    learning_rate, max_grad_norm : float
        Of Adam, and the norm to which each seed's gradient is clipped.
    starts_at_zero : bool
        Whether initial outputs are zero.
    """

    def __init__(self, sizes: Sequence[int], generators: Sequence[np.random.Generator], *, learning_rate: float = 1e-3,
                 max_grad_norm: float = np.inf, starts_at_zero: bool = False) -> None:  # fmt: skip
        rows = [
            np.concatenate([rng.uniform(-1, 1, (n_in + 1) * n_out) / n_in**0.5 for n_in, n_out in pairwise(sizes)])
            for rng in generators
        ]
        self.sizes, self._hidden = tuple(sizes), sum(sizes[1:-1])
        self._sizes = np.array(sizes, np.int64)
        self.weights = np.array(rows, np.float32)
        if starts_at_zero:
            self.weights[:, -(sizes[-2] + 1) * sizes[-1] :] = 0.0
        self.adam = StackedAdam(self.weights, learning_rate, max_grad_norm)

    @property
    def updates(self) -> int:
        return self.adam.count

    @property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """(weights (seeds, in, out), biases (seeds, out)) of each layer, as views of `weights`."""
        layers, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            matrices = self.weights[:, at : at + n_in * n_out].reshape(-1, n_in, n_out)
            at += (n_in + 1) * n_out
            layers.append((matrices, self.weights[:, at - n_out : at]))
        return layers

    def __call__(self, inputs: Floats) -> Floats:
        return self.forward(inputs)[0]

    def forward(self, inputs: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
        seeds, rows = inputs.shape[:2]
        hidden = np.empty((seeds, rows * self._hidden), np.float32)
        outputs = np.empty((seeds, rows, self.sizes[-1]), np.float32)
        networks.forward(self._sizes, self.weights, inputs, hidden, outputs)
        return outputs, (inputs, hidden)

    def gradient(self, tape: tuple[Floats, Floats], output_gradients: Floats) -> Floats:
        gradient = np.empty_like(self.weights)
        networks.backward(self._sizes, self.weights, *tape, output_gradients, gradient)
        return gradient

    def step(self, tape: tuple[Floats, Floats], output_gradients: Floats) -> Floats:
        return self.adam.step(self.gradient(tape, output_gradients))

    def move_towards(self, online: "StackedMLP", tau: float) -> None:
        networks.move_towards(online.weights, tau, self.weights)

    def copy(self) -> "StackedMLP":
        weights = self.weights.copy()
        return self._with(weights, StackedAdam(weights, self.adam.learning_rate, self.adam.max_grad_norm))

    def only(self, i: int) -> "StackedMLP":
        return self._with(self.weights[i : i + 1], self.adam.only(i))

    def _with(self, weights: Floats, adam: "StackedAdam") -> "StackedMLP":
        twin = copy(self)
        twin.weights, twin.adam = weights, adam
        return twin

    def load_weights(self, weights: Floats, i: int | slice = slice(None)) -> None:
        self.weights[i] = weights[i]

    def _named(self) -> dict[str, Floats]:
        """Return the weights of all seeds under their names in a torch `nn.Sequential`."""
        named: dict[str, Floats] = {}
        for number, (matrices, biases) in enumerate(self.layers):
            # Activations are layers too, and torch's matrices are (outputs, inputs).
            named |= {f"{2 * number}.weight": matrices.transpose(0, 2, 1), f"{2 * number}.bias": biases}
        return named

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = self._named()
        for name, given in checked_state(state, {name: each.shape[1:] for name, each in own.items()}).items():
            own[name][...] = given

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of the first seed as tensors, under torch's names."""
        import torch

        return {name: torch.tensor(np.ascontiguousarray(each[0])) for name, each in self._named().items()}

    def state(self) -> dict[str, NDArray[Any]]:
        return {"adam.mean": self.adam.mean, "adam.square": self.adam.square}

    def restore(self, state: dict[str, NDArray[Any]], updates: int) -> None:
        self.adam.mean[...], self.adam.square[...] = state["adam.mean"], state["adam.square"]
        self.adam.count = updates

    def description(self) -> dict[str, Any]:
        return {"kind": "mlp", "sizes": list(self.sizes)}


class StackedAdam:
    """Adam (Kingma and Ba 2015) on a (seeds, P) matrix, with the gradient of each seed clipped to a norm.

    Parameters
    ----------
    weights : array
        Updated in place.
    learning_rate : float
        Step size.
    max_grad_norm : float
        The largest norm of a seed's gradient.
    """

    def __init__(self, weights: Floats, learning_rate: float, max_grad_norm: float) -> None:
        self.weights, self.learning_rate, self.max_grad_norm = weights, learning_rate, max_grad_norm
        self.mean, self.square, self.count = np.zeros_like(weights), np.zeros_like(weights), 0

    def only(self, i: int) -> "StackedAdam":
        """Return the optimiser of one seed, which shares memory with this one but counts its steps separately."""
        one = copy(self)
        one.weights, one.mean, one.square = (own[i : i + 1] for own in (self.weights, self.mean, self.square))
        return one

    def step(self, gradient: Floats) -> Floats:
        """Update the weights; return the norms of the gradients before clipping, (seeds,)."""
        self.count += 1
        norms = np.empty(len(gradient), np.float32)
        networks.adam(
            self.learning_rate, self.max_grad_norm, self.count, gradient, self.mean, self.square, self.weights, norms
        )
        return norms


def checked_state(state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Return the arrays of a `state_dict`. ValueError unless it has exactly these names and shapes."""
    if set(state) != set(shapes):
        raise ValueError(f"initial_state must have the entries {sorted(shapes)}, got {sorted(state)}")
    arrays = {}
    for name, shape in shapes.items():
        given = state[name].detach().cpu().numpy() if hasattr(state[name], "detach") else np.asarray(state[name])
        if given.shape != tuple(shape):
            raise ValueError(f"initial_state[{name!r}] must have the shape {tuple(shape)}, got {given.shape}")
        arrays[name] = _validate.finite_array(f"initial_state[{name!r}]", given, given.ndim, np.float32)
    return arrays
