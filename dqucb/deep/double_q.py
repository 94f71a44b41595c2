"""Double Q-learning (van Hasselt et al. 2016) on stacked networks: values, and one gradient step."""

from collections.abc import Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.networks import move_towards
from dqucb._kernels.q_values import slopes_of_huber
from dqucb.deep.head import Head, HeadWithInputs
from dqucb.deep.heads import ends_of_network, inputs_of, q_of
from dqucb.deep.network import Floats, StackedAdam, StackedMLP
from dqucb.deep.replay import Batch
from dqucb.deep.scaling import RunningScale


class DoubleQ:
    """Online and target networks of all seeds, their optimiser, and the scale of their inputs."""

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        observation_dim: int,
        head: Head,
        *,
        hidden: Sequence[int],
        discount: float,
        learning_rate: float,
        largest_error: float,
        largest_gradient: float,
        target_rate: float,
        target_every: int,
        act_on: str,
        value_bound: float,
        freeze_after: int,
    ) -> None:
        self.head, self.discount, self.value_bound = head, discount, value_bound / head.n_parts
        self.target_rate, self.target_every, self.largest_error = target_rate, target_every, largest_error
        self.scale = RunningScale(len(generators), observation_dim, freeze_after)
        first, last = ends_of_network(head, observation_dim)
        silent = isinstance(head, HeadWithInputs) and head.known
        self.online = StackedMLP([first, *hidden, last], generators, silent)
        self.target = self.online.copy()
        self.acting = self.target if act_on == "target" else self.online
        self.adam = StackedAdam(self.online.flat, learning_rate, largest_gradient)

    def only(self, i: int) -> "DoubleQ":
        """The learner of one seed, in the same memory."""
        one = copy(self)
        one.online, one.target, one.adam = self.online.only(i), self.target.only(i), self.adam.only(i)
        one.acting = one.target if self.acting is self.target else one.online
        one.scale = self.scale.only(i)
        return one

    def q(self, observations: Floats) -> Floats:
        """Q (seeds, batch, outputs) of the acting networks at raw observations (seeds, batch, dimension)."""
        inputs, rows = self._inputs(observations)
        return self._q(self.acting(inputs), rows)

    def _inputs(self, observations: Floats) -> tuple[Floats, Floats | None]:
        """What the networks see, and the rows of a head with inputs of its own."""
        if isinstance(self.head, HeadWithInputs):
            rows = self.head.inputs(observations)
            return inputs_of(self.head, rows), rows
        return self.scale(observations).astype(np.float32), None

    def _q(self, outputs: Floats, rows: Floats | None) -> Floats:
        """Q (seeds, batch, outputs) from the outputs of a network and the rows of `_inputs`."""
        return outputs if rows is None else q_of(cast("HeadWithInputs", self.head), rows, outputs)

    def update(self, batch: Batch, bonus: NDArray[np.float64]) -> None:
        """One step on r + bonus + discount * Q_target(s', argmax Q_online(s')), by the Huber loss.

        With chains of several transitions r is their discounted sum and s' the state after the last one.
        """
        head, chains = self.head, (*batch.alive.shape, -1)
        inputs, rows = self._inputs(batch.next_observations)
        best = head.best(self._q(self.online(inputs), rows), batch.next_observations)
        following = head.values(self._q(self.target(inputs), rows), best)
        inputs, rows = self._inputs(batch.observations)
        outputs, hidden = self.online.forward(inputs)
        values = head.values(self._q(outputs, rows), batch.choices)
        slopes = np.empty_like(values)
        # V(s') = min(bound, Q(s', a)), as in Algorithm 1: optimism never exceeds what is possible.
        slopes_of_huber(
            self.discount, self.value_bound, self.largest_error, batch.rewards.reshape(chains), bonus.reshape(chains),
            batch.alive, batch.terminated, following, values, slopes,
        )  # fmt: skip
        by_output = head.slopes(slopes, batch.choices).reshape(outputs.shape)
        self.adam.step(self.online.gradient(inputs, hidden, by_output))
        if self.adam.count % self.target_every == 0:
            move_towards(self.online.flat, self.target_rate, self.target.flat)

    def state(self) -> dict[str, NDArray[np.floating]]:
        """Arrays from which `restore` goes on; with `adam.count` and `scale.count`, all there is."""
        arrays = {name: array.copy() for name, array in self._weights().items()}
        return arrays | {f"scale.{name}": array for name, array in self.scale.state().items()}

    def restore(self, state: dict[str, NDArray[Any]], updates: int, seen: int) -> None:
        """Go on exactly from `state()`."""
        for name, array in self._weights().items():
            array[...] = state[name]
        self.adam.count = updates
        self.scale.restore({name: state[f"scale.{name}"] for name in ("mean", "squares")}, seen)

    def _weights(self) -> dict[str, Floats]:
        return {
            "online": self.online.flat,
            "target": self.target.flat,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
        }
