"""Heads for Discrete and MultiDiscrete actions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import q_values
from dqucb.deep.head import HEADS, Floats, Head


def checked_actions(actions: NDArray[Any], largest: int) -> NDArray[np.int64]:
    """Return actions as integers. ValueError unless all lie in [0, largest], which kernels do not check."""
    numbers = np.asarray(actions)
    wrong = ~((numbers >= 0) & (numbers <= largest) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise ValueError(f"action must be an integer in [0, {largest}], got {numbers[wrong][0].item()!r}")
    return numbers.astype(np.int64)


class MeanOfChoices(Head):
    """Base of heads with blocks of outputs of equal size: one choice per block, and Q is the mean over choices."""

    independent_choices = True

    def best(self, q: Floats, observations: NDArray[Any]) -> NDArray[np.int64]:
        choices = np.empty((*q.shape[:2], self.n_choices), np.int64)
        q_values.best_choices(q, self.n_outputs // self.n_choices, choices)
        return choices

    def values(self, q: Floats, choices: NDArray[np.int64]) -> Floats:
        values = np.empty((*q.shape[:2], 1), np.float32)
        q_values.mean_of_choices(q, choices, values)
        return values

    def backward(self, value_gradients: Floats, choices: NDArray[np.int64]) -> Floats:
        gradients = np.empty((*value_gradients.shape[:2], self.n_outputs), np.float32)
        q_values.mean_of_choices_backward(value_gradients, choices, gradients)
        return gradients


@HEADS.register("discrete")
class DiscreteHead(MeanOfChoices):
    """One output per action of a `Discrete` space."""

    n_choices = action_dim = 1

    def __init__(self, n_actions: int) -> None:
        self.n_outputs = n_actions
        self._deviation = ((n_actions**2 - 1) / 12) ** 0.5 or 1.0  # standard deviation of a uniform choice

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[Any]) -> NDArray[np.int64]:
        return (uniforms * self.n_outputs).astype(np.int64)

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        return choices / self._deviation

    def actions(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return choices[:, 0]

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        return checked_actions(actions, self.n_outputs - 1)[:, None]

    def settings(self) -> dict[str, Any]:
        return {"n_actions": self.n_outputs}


@HEADS.register("branching")
class BranchingHead(MeanOfChoices):
    """One branch of outputs per action dimension; Q is the mean over branches (Tavakoli 2018, Seyde 2023).

    Choice j in dimension d is output d * bins + j. Each branch has its own maximum, so that a greedy action of m
    dimensions costs m * bins comparisons instead of bins**m; the target is the mean of these maxima.

    Parameters
    ----------
    dims : int
        Action dimensions.
    bins : int
        Choices in each.
    """

    def __init__(self, dims: int, bins: int) -> None:
        self.dims, self.bins = _validate.integer("dims", dims), _validate.integer("bins", bins)
        self.n_outputs, self.n_choices, self.action_dim = dims * bins, dims, dims
        self._first = np.arange(dims) * bins
        self._deviation = ((bins**2 - 1) / 12) ** 0.5 or 1.0  # standard deviation of a uniform choice

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[Any]) -> NDArray[np.int64]:
        return (uniforms * self.bins).astype(np.int64) + self._first

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        return (choices - self._first) / self._deviation

    def actions(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return choices - self._first

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        return checked_actions(actions, self.bins - 1) + self._first

    def settings(self) -> dict[str, Any]:
        return {"dims": self.dims, "bins": self.bins}
