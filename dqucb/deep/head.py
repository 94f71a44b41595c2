"""Heads: how the outputs of a network become actions, and actions numbers.

To write one, subclass `Head`, register the class (`@HEADS.register("mine")`) so that saved agents find it, and let the
env offer it as its attribute `deep_head`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._registry import Registry

if TYPE_CHECKING:
    from dqucb.deep.adaptation import NoAdaptation

Floats = NDArray[np.float32]


class Head(ABC):
    """Converts the outputs of a network to actions, and actions to numbers.

    An action is a row of `n_choices` indices: one for a choice among n, one per dimension for a branching head. Its
    value is the sum of `n_parts` parts, each linear in the outputs. With more than one part there are as many parts as
    choices, and each is learned from its own reward, bonus and next value.
    """

    n_outputs: int
    n_choices: int
    n_parts: int = 1
    action_dim: int
    independent_choices: bool = False  # whether each choice of an action can be replaced independently
    starts_at_zero: bool = False  # whether initial outputs are zero, because they are added to a prior
    change_bandwidth: float | None = None  # of a density over `change`

    @abstractmethod
    def best(self, q: Floats, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Return the greedy choices (seeds, batch, n_choices) for q (seeds, batch, n_outputs) at raw observations."""

    @abstractmethod
    def values(self, q: Floats, choices: NDArray[np.int64]) -> Floats:
        """Return Q of the actions `choices` in parts, (seeds, batch, n_parts)."""

    @abstractmethod
    def backward(self, value_gradients: Floats, choices: NDArray[np.int64]) -> Floats:
        """Return the gradients of a loss with respect to the outputs from those with respect to `values`."""

    @abstractmethod
    def random(self, uniforms: NDArray[np.float64], observation: NDArray[Any]) -> NDArray[np.int64]:
        """Return the choices of a random action, from `n_choices` uniform numbers in [0, 1)."""

    @abstractmethod
    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return actions as points for a density, (rows, action_dim), with unit variance under a random policy."""

    @abstractmethod
    def actions(self, choices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the actions for the env, one per row of choices."""

    @abstractmethod
    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the choices of actions: the inverse of `actions`."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of the constructor as JSON values."""

    # ---- between observations and Q; by default the input is the observation and the outputs are Q -----------------

    def network_sizes(self, observation_dim: int) -> tuple[int, int]:
        """Return the numbers of (inputs, outputs) of the network."""
        return observation_dim, self.n_outputs

    def inputs(self, observations: NDArray[Any],
               scaled: Callable[[NDArray[Any]], NDArray[Any]]) -> tuple[NDArray[Any], Floats | None]:  # fmt: skip
        """Return the network's inputs, and a prior for its outputs or None.

        Parameters
        ----------
        observations : array
            Raw observations, (seeds, batch, dimension).
        scaled : callable
            Standardises observations.
        """
        return scaled(observations), None

    def q(self, outputs: Floats, prior: Floats | None) -> Floats:
        """Return Q (seeds, batch, n_outputs) from the outputs of the network and the prior from `inputs`."""
        return outputs

    def of_seed(self, i: int) -> "Head":
        """Return the head of one seed, if seeds have different priors; else the head itself."""
        return self

    # ---- special forms of transitions and adaptation; by default none ----------------------------------------------

    def change(self, observations: NDArray[Any], choices: NDArray[np.int64],
               next_observations: NDArray[Any]) -> NDArray[np.float64] | None:  # fmt: skip
        """Return the change of a transition for densities over "change", (rows, dimension); None for s' - s."""
        return None

    def adaptation(self, n: int) -> "NoAdaptation | None":
        """Return the reaction of n adaptive seeds to a change of the dynamics; None for `ModelAdaptation`."""
        return None


HEADS: Registry[type[Head]] = Registry("head", ("dqucb.deep.heads", "dqucb.hospital.head"))
