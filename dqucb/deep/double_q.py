"""Double Q-learning (van Hasselt et al. 2016) on stacked networks: values, and one gradient step."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import huber_loss

from dqucb.deep.head import Head, HeadInParts, HeadWithInputs
from dqucb.deep.heads import ends_of_network, q_of
from dqucb.deep.network import StackedAdam, StackedMLP
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
        device: str,
    ) -> None:
        self.head, self.discount, self.device = head, discount, device
        self.in_parts = isinstance(head, HeadInParts)
        self.value_bound = value_bound / head.n_choices if self.in_parts else value_bound
        self.target_rate, self.target_every, self.largest_error = target_rate, target_every, largest_error
        self.scale = RunningScale(len(generators), observation_dim, freeze_after)
        first, last = ends_of_network(head, observation_dim)
        silent = isinstance(head, HeadWithInputs) and head.known
        self.online = StackedMLP([first, *hidden, last], generators, device, silent)
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

    @torch.no_grad()
    def q(self, observations: NDArray[np.float32]) -> torch.Tensor:
        """Q (seeds, batch, outputs) of the acting networks at raw observations (seeds, batch, dimension)."""
        return q_of(self.acting, self.head, self._inputs(observations))

    def _inputs(self, observations: NDArray[np.float32]) -> torch.Tensor:
        if isinstance(self.head, HeadWithInputs):
            return torch.from_numpy(self.head.inputs(observations)).to(self.device)
        return torch.from_numpy(self.scale(observations).astype(np.float32)).to(self.device)

    def update(self, batch: Batch, bonus: NDArray[np.float64] | float) -> None:
        """One step on r + bonus + discount * Q_target(s', argmax Q_online(s')), by the Huber loss.

        With chains of several transitions r is their discounted sum and s' the state after the last one.
        """
        head = self.head
        value = head.value_parts if isinstance(head, HeadInParts) else head.value
        alive, terminated = batch.alive, batch.terminated
        if self.in_parts:  # every array has an axis of parts more, and each part its share of the bonus
            alive, terminated, bonus = alive[..., None], terminated[..., None], bonus / head.n_choices
        powers = self.discount ** np.arange(alive.shape[2])
        weights = np.where(alive, powers[:, None] if self.in_parts else powers, 0.0)
        rewards = torch.from_numpy(((batch.rewards + bonus) * weights).sum(2).astype(np.float32)).to(self.device)
        lengths = self.discount ** alive.sum(2)
        going_on = torch.from_numpy((lengths * (1.0 - terminated)).astype(np.float32)).to(self.device)
        with torch.no_grad():
            following = self._inputs(batch.next_observations)
            best = head.best(q_of(self.online, head, following), batch.next_observations)
            # V(s') = min(bound, Q(s', a)), as in Algorithm 1: optimism never exceeds what is possible.
            goal = rewards + going_on * value(q_of(self.target, head, following), best).clamp_(max=self.value_bound)
        choices = torch.from_numpy(batch.choices).to(self.device)
        values = value(q_of(self.online, head, self._inputs(batch.observations)), choices)
        # The mean over a seed's batch, summed over seeds: each seed's gradient is that of its own loss.
        loss = huber_loss(values, goal, reduction="sum", delta=self.largest_error) / values.shape[1]
        self.adam.step(self.online.gradient(loss))
        if self.adam.count % self.target_every == 0:
            self.target.flat.lerp_(self.online.flat, self.target_rate)

    def state(self) -> dict[str, NDArray[np.floating]]:
        """Arrays from which `restore` goes on; with `adam.count` and `scale.count`, all there is."""
        tensors = {
            "online": self.online.flat,
            "target": self.target.flat,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
        }
        arrays = {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}
        return arrays | {f"scale.{name}": array for name, array in self.scale.state().items()}

    def restore(self, state: dict[str, NDArray[Any]], updates: int, seen: int) -> None:
        """Go on exactly from `state()`."""
        tensors = {
            "online": self.online.flat,
            "target": self.target.flat,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
        }
        for name, tensor in tensors.items():
            tensor.copy_(torch.from_numpy(state[name]))
        self.adam.count = updates
        self.scale.restore({name: state[f"scale.{name}"] for name in ("mean", "squares")}, seen)
