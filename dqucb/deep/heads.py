"""Heads for Discrete and MultiDiscrete actions, and what a head means to a network."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dqucb import _validate
from dqucb.deep.head import HEADS, Head, HeadWithInputs


def ends_of_network(head: Head, observation_dim: int) -> tuple[int, int]:
    """(inputs, outputs) of the network under a head."""
    if isinstance(head, HeadWithInputs):
        return head.n_inputs, head.n_outputs // head.n_choices
    return observation_dim, head.n_outputs


def q_of(network: Any, head: Head, inputs: Tensor) -> Tensor:
    """Q (seeds, batch, n_outputs) for inputs (seeds, batch, ...), or (seeds, batch * rows, ...) of `head.inputs`."""
    if not isinstance(head, HeadWithInputs):
        return network(inputs)
    q = network(inputs[..., : head.n_inputs])
    if head.known:
        q = q + inputs[..., head.n_inputs :]
    return q.reshape(q.shape[0], -1, head.n_outputs)


@HEADS.register("discrete")
class DiscreteHead:
    """One output per action of a `Discrete` space."""

    n_choices = 1
    action_dim = 1

    def __init__(self, n_actions: int) -> None:
        self.n_outputs = n_actions
        self._spread = ((n_actions**2 - 1) / 12) ** 0.5 or 1.0  # standard deviation of a uniform choice

    def best(self, q: Tensor, observations: NDArray[np.float32]) -> Tensor:
        return q.argmax(2, keepdim=True)

    def value(self, q: Tensor, choices: Tensor) -> Tensor:
        return q.gather(2, choices).squeeze(2)

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[np.float32]) -> NDArray[np.int64]:
        return (uniforms * self.n_outputs).astype(np.int64)

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        return choices / self._spread

    def actions(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return choices[:, 0]

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(actions, np.int64)[:, None]

    def settings(self) -> dict[str, Any]:
        return {"n_actions": self.n_outputs}


@HEADS.register("branching")
class BranchingHead:
    """One branch of outputs per action dimension, and Q the mean over branches (Tavakoli 2018, Seyde 2023).

    The output place of choice j in dimension d is d * bins + j. Each branch has its own maximum, so a greedy action
    of m dimensions costs m * bins comparisons, not bins**m; the target is the mean over branches of those maxima.
    """

    def __init__(self, dims: int, bins: int) -> None:
        self.dims, self.bins = _validate.integer("dims", dims), _validate.integer("bins", bins)
        self.n_outputs, self.n_choices, self.action_dim = dims * bins, dims, dims
        self._first = np.arange(dims) * bins
        self._spread = ((bins**2 - 1) / 12) ** 0.5 or 1.0  # standard deviation of a uniform choice

    def best(self, q: Tensor, observations: NDArray[np.float32]) -> Tensor:
        return q.unflatten(2, (self.dims, self.bins)).argmax(3).add_(torch.from_numpy(self._first).to(q.device))

    def value(self, q: Tensor, choices: Tensor) -> Tensor:
        return q.gather(2, choices).mean(2)

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[np.float32]) -> NDArray[np.int64]:
        return (uniforms * self.bins).astype(np.int64) + self._first

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        return (choices - self._first) / self._spread

    def actions(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return choices - self._first

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray(actions, np.int64) + self._first

    def settings(self) -> dict[str, Any]:
        return {"dims": self.dims, "bins": self.bins}
