"""Networks of many seeds in one stack.

All weights of a seed are one row of a (seeds, P) matrix; a layer is a view of it, (seeds, in, out), and a forward
pass is one batched product per layer. Adam, clipping and target updates then are a few operations on that
matrix. Rows never mix, so what a seed learns does not depend on which others are in the stack.
"""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor


class StackedMLP:
    """Fully connected ReLU networks, one per generator, with `sizes` = (inputs, hidden..., outputs).

    Weights and biases start uniformly in +-1/sqrt(inputs of the layer), as torch's Linear.
    """

    def __init__(self, sizes: Sequence[int], generators: Sequence[np.random.Generator], device: str = "cpu",
                 silent: bool = False) -> None:  # fmt: skip
        self.sizes = tuple(sizes)
        rows = [
            np.concatenate([rng.uniform(-1, 1, (n_in + 1) * n_out) / n_in**0.5 for n_in, n_out in pairwise(sizes)])
            for rng in generators
        ]
        self.flat = torch.tensor(np.array(rows), dtype=torch.float32, device=device)
        self.layers = self._views()
        if silent:  # all outputs begin at 0
            self.flat[:, -(sizes[-2] + 1) * sizes[-1] :] = 0.0

    def _views(self) -> list[tuple[Tensor, Tensor]]:
        """(weights (seeds, in, out), biases (seeds, 1, out)) of each layer, leaves that share memory with `flat`."""
        layers, at = [], 0
        for n_in, n_out in pairwise(self.sizes):
            weights = self.flat[:, at : at + n_in * n_out].unflatten(1, (n_in, n_out))
            at += n_in * n_out
            biases = self.flat[:, at : at + n_out].unsqueeze(1)
            at += n_out
            layers.append((weights.detach().requires_grad_(), biases.detach().requires_grad_()))
        return layers

    def copy(self) -> "StackedMLP":
        """The same networks in memory of their own."""
        return self._with(self.flat.clone())

    def only(self, i: int) -> "StackedMLP":
        """The network of one seed, in the same memory."""
        return self._with(self.flat[i : i + 1])

    def _with(self, flat: Tensor) -> "StackedMLP":
        twin = object.__new__(StackedMLP)
        twin.sizes, twin.flat = self.sizes, flat
        twin.layers = twin._views()
        return twin

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs (seeds, batch, outputs) for inputs (seeds, batch, inputs)."""
        *hidden, (weights, biases) = self.layers
        for inner_weights, inner_biases in hidden:
            x = torch.relu_(torch.baddbmm(inner_biases, x, inner_weights))
        return torch.baddbmm(biases, x, weights)

    def gradient(self, loss: Tensor) -> Tensor:
        """The derivative of `loss` by all weights, (seeds, P)."""
        leaves = [leaf for layer in self.layers for leaf in layer]
        return torch.cat([g.flatten(1) for g in torch.autograd.grad(loss, leaves)], 1)


class StackedAdam:
    """Adam (Kingma and Ba 2015) on a (seeds, P) matrix, after clipping each seed's gradient to a largest norm."""

    def __init__(self, flat: Tensor, learning_rate: float, largest_norm: float) -> None:
        self.flat, self.learning_rate, self.largest_norm = flat, learning_rate, largest_norm
        self.mean, self.square, self.count = torch.zeros_like(flat), torch.zeros_like(flat), 0

    def only(self, i: int) -> "StackedAdam":
        """The optimiser of one seed, in the same memory; it counts its steps from here on by itself."""
        one = copy(self)
        one.flat, one.mean, one.square = self.flat[i : i + 1], self.mean[i : i + 1], self.square[i : i + 1]
        return one

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Change the weights by one step. Changes `gradient` too."""
        norm = gradient.square().sum(1, keepdim=True).sqrt_()
        gradient.mul_((self.largest_norm / norm.add_(1e-6)).clamp_(max=1.0))
        self.count += 1
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        size = self.learning_rate / (1 - 0.9**self.count)
        root = self.square.sqrt().div_((1 - 0.999**self.count) ** 0.5).add_(1e-8)
        self.flat.addcdiv_(self.mean, root, value=-size)
