"""What a head is: how the outputs of a network become actions, and actions numbers; and what some heads can do more.

To write one, define a class with these methods, register it (`@HEADS.register("mine")`) so that saved agents find it,
and let the env give it as its attribute `deep_head`.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dqucb._registry import Registry


class Head(Protocol):
    """How outputs of a network become actions, and actions numbers.

    An action is a row of `n_choices` indices: one for a choice among n, one per dimension for a branching head. Its
    value is the sum of `n_parts` parts, each linear in the outputs. With more than one part there are as many as
    choices, and each is learned from its own reward, bonus and next value.
    """

    n_outputs: int
    n_choices: int
    n_parts: int
    action_dim: int

    def best(self, q: NDArray[np.float32], observations: NDArray[np.float32]) -> NDArray[np.int64]:
        """The greedy choices (seeds, batch, n_choices) for q (seeds, batch, n_outputs) at these raw observations."""

    def values(self, q: NDArray[np.float32], choices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Q of the actions `choices` in parts, (seeds, batch, n_parts)."""

    def slopes(self, slopes: NDArray[np.float32], choices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Slopes of a loss by each output, (seeds, batch, n_outputs), from those by `values`."""

    def random(self, uniforms: NDArray[np.float64], observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """A random action's choices, from `n_choices` uniforms in [0, 1)."""

    def coordinates(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Actions as points for a density, (rows, action_dim), with unit spread under a random policy."""

    def actions(self, choices: NDArray[np.int64]) -> NDArray[Any]:
        """What the environments take, one row per row of choices."""

    def choices_of(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """The rows of choices that `actions` gives these actions for."""

    def settings(self) -> dict[str, Any]:
        """Keywords, as JSON values, from which the class makes the same head again."""


HEADS: Registry[type[Head]] = Registry("head", ("dqucb.deep.heads", "dqucb.hospital.head"))


# Classes to inherit from, not protocols: every step asks several times what its head can do, and a protocol that can be
# asked compares member by member on Python 3.11, which was a fifth of a step on CartPole.


class HeadWithInputs(ABC):
    """A head over a network that sees one choice at a time, all through the same weights.

    With `known` each row ends with what is known of its outputs, to which the network adds what it learns.
    """

    n_inputs: int  # of the network
    n_outputs: int
    observation_dim: int
    known: bool

    @abstractmethod
    def inputs(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows (seeds, batch * n_choices, n_inputs and what is known) for observations (seeds, batch, dimension)."""


class HeadWithLaw(ABC):
    """A head whose `known` outputs come from a law that can be learned from transitions."""

    @abstractmethod
    def begin_following(self, n: int) -> NDArray[np.float64]:
        """The law of each of n seeds, (n, ...), as an array that `follow` changes in place."""

    @abstractmethod
    def follow(self, i: int, observation: NDArray[np.float32], choices: NDArray[np.int64],
               following: NDArray[np.float32]) -> None:  # fmt: skip
        """Learn the law of seed i from one transition."""


class HeadWithChange(ABC):
    """A head that measures what a transition changed; densities over "change" use it in place of s' - s."""

    bandwidth: float  # of such a density, where none is given

    @abstractmethod
    def change(
        self, observations: NDArray[np.float32], choices: NDArray[np.int64], following: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """(rows, dimension of an observation), in units of what is usual."""
