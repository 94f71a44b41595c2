"""What a network is to the algorithm, and the compiled implementation: fully connected networks of many seeds.

`Network` is the seam between Q-learning (double_q.py), which is written once, and the libraries that compute:
`StackedMLP` here (compiled kernels, no torch) and `StackedTorch` in torch_network.py (any `torch.nn.Module`).
All weights of a seed are one row of a (seeds, P) matrix, and rows never mix.
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
    """One network for each seed, with the optimiser of its weights."""

    @property
    def updates(self) -> int:
        """How many steps the optimiser has made."""

    def __call__(self, inputs: NDArray[Any]) -> Floats:
        """Outputs (seeds, rows, outputs) for inputs (seeds, rows, inputs)."""

    def forward(self, inputs: NDArray[Any]) -> tuple[Floats, Any]:
        """The outputs, and what `gradient` and `step` need to differentiate them."""

    def gradient(self, tape: Any, output_gradients: Floats) -> Floats:
        """The gradient of a loss by all weights, (seeds, P), from its gradients by the outputs of `forward`."""

    def step(self, tape: Any, output_gradients: Floats) -> Floats:
        """One step of the optimiser along the clipped gradient; returns each seed's gradient norm before clipping."""

    def move_towards(self, online: Self, tau: float) -> None:
        """The Polyak update of a target network: weights + tau * (online - weights)."""

    def copy(self) -> Self:
        """The same networks in memory of their own, with a new optimiser."""

    def only(self, i: int) -> Self:
        """The network of one seed in the same memory; its optimiser counts by itself from here on."""

    @property
    def weights(self) -> Floats:
        """All weights, (seeds, P); not to be written to."""

    def load_weights(self, weights: Floats, i: int | slice = slice(None)) -> None:
        """Set all weights, or those of seed i, from rows of `weights`, (seeds, P)."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start every seed from the weights of one torch `state_dict`. ValueError if it does not fit."""

    def state(self) -> dict[str, NDArray[Any]]:
        """The optimiser's arrays, of which `restore` makes the same optimiser."""

    def restore(self, state: dict[str, NDArray[Any]], updates: int) -> None:
        """Continue exactly from `state()`."""

    def description(self) -> dict[str, Any]:
        """JSON values that `policy.network_from` makes the same architecture of."""


class StackedMLP:
    """Fully connected ReLU networks, one per generator, and Adam, in compiled kernels.

    Weights and biases start uniformly in +-1/sqrt(inputs of the layer), as torch's `nn.Linear` does.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden layers, outputs.
    generators : sequence of numpy.random.Generator
        One per seed, for its first weights.
    learning_rate, max_grad_norm : float
        Of Adam, and the norm to which each seed's gradient is clipped.
    starts_at_zero : bool
        Whether all outputs begin at zero.
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
        """(weights (seeds, in, out), biases (seeds, out)) of each layer, in the memory of `weights`."""
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
        """The weights of all seeds under the names that torch gives them in an `nn.Sequential`."""
        named: dict[str, Floats] = {}
        for number, (matrices, biases) in enumerate(self.layers):
            # Activations between the layers count too, and torch has (outputs, inputs).
            named |= {f"{2 * number}.weight": matrices.transpose(0, 2, 1), f"{2 * number}.bias": biases}
        return named

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = self._named()
        for name, given in checked_state(state, {name: each.shape[1:] for name, each in own.items()}).items():
            own[name][...] = given

    def state_dict(self) -> dict[str, Any]:
        """The weights of the first seed as tensors, under torch's names."""
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
    """Adam (Kingma and Ba 2015) on a (seeds, P) matrix, after clipping each seed's gradient to a norm."""

    def __init__(self, weights: Floats, learning_rate: float, max_grad_norm: float) -> None:
        self.weights, self.learning_rate, self.max_grad_norm = weights, learning_rate, max_grad_norm
        self.mean, self.square, self.count = np.zeros_like(weights), np.zeros_like(weights), 0

    def only(self, i: int) -> "StackedAdam":
        """The optimiser of one seed, in the same memory; it counts its steps from here on by itself."""
        one = copy(self)
        one.weights, one.mean, one.square = (own[i : i + 1] for own in (self.weights, self.mean, self.square))
        return one

    def step(self, gradient: Floats) -> Floats:
        """Change the weights by one step; returns the norms of the gradients before clipping, (seeds,)."""
        self.count += 1
        norms = np.empty(len(gradient), np.float32)
        networks.adam(
            self.learning_rate, self.max_grad_norm, self.count, gradient, self.mean, self.square, self.weights, norms
        )
        return norms


def checked_state(state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """The arrays of a `state_dict`, of tensors or arrays. ValueError unless names and shapes are these."""
    if set(state) != set(shapes):
        raise ValueError(f"initial_state must have the entries {sorted(shapes)}, got {sorted(state)}")
    arrays = {}
    for name, shape in shapes.items():
        given = state[name].detach().cpu().numpy() if hasattr(state[name], "detach") else np.asarray(state[name])
        if given.shape != tuple(shape):
            raise ValueError(f"initial_state[{name!r}] must have the shape {tuple(shape)}, got {given.shape}")
        arrays[name] = _validate.finite_array(f"initial_state[{name!r}]", given, given.ndim, np.float32)
    return arrays
