"""What a run leaves to act with: networks and input scales of all its seeds."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.deep.head import HEADS, Head, HeadWithInputs
from dqucb.deep.heads import ends_of_network, inputs_of, q_of
from dqucb.deep.network import StackedMLP
from dqucb.deep.trainer import Trainer


class Policy(NamedTuple):
    """Greedy actions of trained networks, one row per seed."""

    seeds: list[int]
    head: Head
    network: StackedMLP
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def of(cls, trainer: Trainer) -> "Policy":
        """The policy of each seed when it was done, or as it is now."""
        weights, mean, spread = trainer.settled()
        network = trainer.learner.acting.copy()
        network.flat[...] = weights
        return cls(trainer.seeds, trainer.head, network, mean, spread)

    def predict(self, observation: ArrayLike, trained_seed: int | None) -> Any:
        """The greedy action at an observation, or the actions at rows of them."""
        seed = self.seeds[0] if trained_seed is None else trained_seed
        if seed not in self.seeds:
            raise ValueError(f"trained_seed must be one of {self.seeds}, got {trained_seed!r}")
        row = self.seeds.index(seed)
        dimension = self.mean.shape[1]
        given = np.asarray(observation)
        single = given.size == dimension
        rows = _validate.finite_array("observation", given.reshape(1, -1) if single else given, 2, np.float32)
        if rows.shape[1] != dimension:
            raise ValueError(f"observation must have {dimension} numbers, got shape {given.shape}")
        network = self.network.only(row)
        if isinstance(self.head, HeadWithInputs):
            # A head may know a law for each seed, so that all seeds are asked.
            inputs = self.head.inputs(np.broadcast_to(rows, (len(self.seeds), *rows.shape)))[row : row + 1]
            q = q_of(self.head, inputs, network(inputs_of(self.head, inputs)))
        else:
            q = network(((rows - self.mean[row]) / self.spread[row]).astype(np.float32)[None])
        actions = self.head.actions(self.head.best(q, rows[None])[0])
        return actions[0] if single else actions

    def packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(settings, arrays) from which `unpacked` makes the same policy."""
        kind = HEADS.name_of(type(self.head))
        if kind is None:
            raise ValueError(f"the agent cannot be saved: its head {type(self.head).__name__} is not in HEADS")
        head = {"kind": kind, "settings": self.head.settings()}
        settings = {"seeds": self.seeds, "head": head, "sizes": list(self.network.sizes)}
        return settings, {"weights": self.network.flat, "mean": self.mean, "spread": self.spread}

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Policy":
        """The policy that was packed. Raises ValueError, KeyError or TypeError for anything that does not fit."""
        seeds = _validate.seeds(settings["seeds"] if isinstance(settings["seeds"], list) else None)
        sizes = [_validate.integer("sizes", size) for size in settings["sizes"]]
        numbers = len(seeds) * sum((a + 1) * b for a, b in pairwise(sizes))
        if numbers != arrays["weights"].size:  # before a network of any size is made
            raise ValueError(
                f"weights of networks of the sizes {sizes} must be {numbers}, got {arrays['weights'].size}"
            )
        network = StackedMLP(sizes, [np.random.default_rng(0) for _ in seeds])
        head = HEADS.find(settings["head"]["kind"])(**settings["head"]["settings"])
        dimension = head.observation_dim if isinstance(head, HeadWithInputs) else sizes[0]
        shapes = {
            "weights": tuple(network.flat.shape),
            "mean": (len(seeds), dimension),
            "spread": (len(seeds), dimension),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be finite numbers of shape {shape}, got shape {arrays[name].shape}")
        if (sizes[0], sizes[-1]) != ends_of_network(head, dimension):
            raise ValueError(
                f"the head must fit a network of the sizes {sizes}, got {ends_of_network(head, dimension)}"
            )
        network.flat[...] = arrays["weights"]
        return cls(seeds, head, network, arrays["mean"], arrays["spread"])
