"""Double Q-learning (van Hasselt et al. 2016) on the networks of all seeds: values, and one gradient step.

`DoubleQ.update` is the algorithm of all deep agents. It does not depend on the backend of the networks.
"""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.q_values import huber_loss, n_step_targets
from dqucb.deep.head import Head
from dqucb.deep.network import Floats, Network
from dqucb.deep.replay import Batch
from dqucb.deep.scaling import RunningScale


class DoubleQ:
    """Online and target networks of all seeds, and the scale of their inputs.

    Parameters
    ----------
    network : Network
        The online networks; the target networks start as a copy.
    scale : RunningScale
        Standardises observations, except images.
    head : Head
        Converts outputs to actions.
    discount, huber_delta, tau, target_every, act_on, value_bound
        As in `DeepAgent`.
    """

    def __init__(self, network: Network, scale: RunningScale, head: Head, *, discount: float, huber_delta: float,
                 tau: float, target_every: int, act_on: str, value_bound: float) -> None:  # fmt: skip
        self.head, self.discount, self.value_bound = head, discount, value_bound / head.n_parts
        self.tau, self.target_every, self.huber_delta = tau, target_every, huber_delta
        self.scale, self.online, self.target = scale, network, network.copy()
        self.acting = self.target if act_on == "target" else self.online
        # Of the last update, one per seed.
        self.loss = self.gradient_norm = np.full(len(network.weights), np.nan, np.float32)
        self._errors: tuple[NDArray[Any], NDArray[Any]] | None = None  # Q(s, a) and targets

    def update(self, batch: Batch, bonus: NDArray[np.float64], bounds: NDArray[np.float64] | None = None) -> None:
        """Take one gradient step on a batch, and update the target networks if due.

        A row of the batch is a chain of up to n transitions: it starts in state s with action a and ends in s', and its
        discounted rewards and bonuses are summed.

        Parameters
        ----------
        batch : Batch
            From the replay buffer.
        bonus : array
            The bonus of each transition of the chains, in the shape of the rewards.
        bounds : array, optional
            Upper bounds on values, one per seed, besides `value_bound`.
        """
        head, chains = self.head, (*batch.alive.shape, -1)
        # The double estimate: the online network chooses a' in s', the target network values it.
        inputs, prior = self._inputs(batch.next_observations)
        best = head.best(head.q(self.online(inputs), prior), batch.next_observations)
        next_values = head.values(head.q(self.target(inputs), prior), best)
        if bounds is not None:
            next_values = np.minimum(next_values, (bounds / head.n_parts)[:, None, None]).astype(next_values.dtype)
        # target = sum of discounted rewards and bonuses + discount^n min(bound, Q(s', a')).
        targets = np.empty(next_values.shape)
        rewards, bonus = batch.rewards.reshape(chains), bonus.reshape(chains)
        n_step_targets(
            self.discount, self.value_bound, rewards, bonus, batch.alive, batch.terminated, next_values, targets
        )
        # loss = Huber(Q(s, a) - target); its gradients with respect to Q(s, a), the outputs, and the weights.
        inputs, prior = self._inputs(batch.observations)
        outputs, tape = self.online.forward(inputs)
        values = head.values(head.q(outputs, prior), batch.choices)
        self.loss, value_gradients = np.empty(len(values), np.float32), np.empty_like(values)
        huber_loss(self.huber_delta, values, targets, self.loss, value_gradients)
        self._errors = values, targets
        output_gradients = head.backward(value_gradients, batch.choices).reshape(outputs.shape)
        self.gradient_norm = self.online.step(tape, output_gradients)  # clipped to max_grad_norm, then Adam
        if self.online.updates % self.target_every == 0:
            self.target.move_towards(self.online, self.tau)

    @property
    def td_error(self) -> Floats:
        """The mean of |Q(s, a) - target| over the batch of the last update, one per seed; NaN before the first."""
        if self._errors is None:
            return np.full(len(self.loss), np.nan, np.float32)
        values, targets = self._errors
        return np.abs(values - targets).mean((1, 2)).astype(np.float32)

    def q(self, observations: NDArray[Any]) -> Floats:
        """Return Q (seeds, batch, outputs) of the acting networks at raw observations (seeds, batch, dimension)."""
        inputs, prior = self._inputs(observations)
        return self.head.q(self.acting(inputs), prior)

    def _inputs(self, observations: NDArray[Any]) -> tuple[NDArray[Any], Floats | None]:
        return self.head.inputs(observations, self.scale.inputs)

    def only(self, i: int) -> "DoubleQ":
        """Return the learner of one seed, which shares memory with this one."""
        one = copy(self)
        one.online, one.target, one.head = self.online.only(i), self.target.only(i), self.head.of_seed(i)
        one.acting = one.target if self.acting is self.target else one.online
        one.scale = self.scale.only(i)
        return one

    def state(self) -> dict[str, NDArray[np.floating]]:
        """Return arrays for `restore`, which also needs `online.updates` and `scale.count`."""
        arrays = {"online": self.online.weights, "target": self.target.weights, **self.online.state()}
        arrays |= {f"scale.{name}": array for name, array in self.scale.state().items()}
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, state: dict[str, NDArray[Any]], updates: int, seen: int) -> None:
        """Restore `state()`, bit-identically."""
        self.online.load_weights(state["online"])
        self.target.load_weights(state["target"])
        self.online.restore(state, updates)
        self.scale.restore({name: state[f"scale.{name}"] for name in ("mean", "squares")}, seen)
