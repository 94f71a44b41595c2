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
    """How the outputs of a network become actions, and actions numbers.

    An action is a row of `n_choices` indices: one for a choice among n, one per dimension for a branching head. Its
    value is the sum of `n_parts` parts, each linear in the outputs. With more than one part there are as many parts as
    choices, and each is learned from its own reward, bonus and next value.
    """

    n_outputs: int
    n_choices: int
    n_parts: int = 1
    action_dim: int
    independent_choices: bool = False  # whether each choice of an action can be replaced by itself
    starts_at_zero: bool = False  # whether the network's outputs begin at zero, because they are added to a prior
    change_bandwidth: float | None = None  # of a density over `change`

    @abstractmethod
    def best(self, q: Floats, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy choices (seeds, batch, n_choices) for q (seeds, batch, n_outputs) at these raw observations."""

    @abstractmethod
    def values(self, q: Floats, choices: NDArray[np.int64]) -> Floats:
        """Q of the actions `choices` in parts, (seeds, batch, n_parts)."""

    @abstractmethod
    def backward(self, value_gradients: Floats, choices: NDArray[np.int64]) -> Floats:
        """Gradients of a loss by each output, (seeds, batch, n_outputs), from those by `values`."""

    @abstractmethod
    def random(self, uniforms: NDArray[np.float64], observation: NDArray[Any]) -> NDArray[np.int64]:
        """A random action's choices, from `n_choices` uniforms in [0, 1)."""

    @abstractmethod
    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Actions as points for a density, (rows, action_dim), with unit variance under a random policy."""

    @abstractmethod
    def actions(self, choices: NDArray[np.int64]) -> NDArray[Any]:
        """The actions that environments take, one row per row of choices."""

    @abstractmethod
    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """The rows of choices for which `actions` returns these actions."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Keywords, as JSON values, from which the class makes the same head again."""

    # ---- between observations and Q; by default the network sees the observation and its outputs are Q ------------

    def network_sizes(self, observation_dim: int) -> tuple[int, int]:
        """(inputs, outputs) of the network for one observation, or for one row of `inputs`."""
        return observation_dim, self.n_outputs

    def inputs(self, observations: NDArray[Any],
               scaled: Callable[[NDArray[Any]], NDArray[Any]]) -> tuple[NDArray[Any], Floats | None]:  # fmt: skip
        """The network's inputs for raw observations (seeds, batch, dimension), and a prior for its outputs, or None.

        `scaled` standardises observations.
        """
        return scaled(observations), None

    def q(self, outputs: Floats, prior: Floats | None) -> Floats:
        """Q (seeds, batch, n_outputs) from the network's outputs and the prior that `inputs` returned."""
        return outputs

    def of_seed(self, i: int) -> "Head":
        """The head of one seed, where seeds have different priors; else this one."""
        return self

    # ---- what is special about the transitions of an env; by default nothing ---------------------------------------

    def change(self, observations: NDArray[Any], choices: NDArray[np.int64],
               next_observations: NDArray[Any]) -> NDArray[np.float64] | None:  # fmt: skip
        """What a transition changed, (rows, dimension), in typical units; None: s' - s.

        Densities over "change" use it.
        """
        return None

    def adaptation(self, n: int) -> "NoAdaptation | None":
        """How n adaptive agents react to a change of the dynamics; None: as `ModelAdaptation` does."""
        return None


HEADS: Registry[type[Head]] = Registry("head", ("dqucb.deep.heads", "dqucb.hospital.head"))
