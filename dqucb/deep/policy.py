"""The greedy policy of a run: the networks and input scales of all its seeds."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.deep.factories import new_network
from dqucb.deep.head import HEADS, Head
from dqucb.deep.network import Network, StackedMLP
from dqucb.running.observations import Observations, space_from_json, space_to_json, vector_space

if TYPE_CHECKING:
    from torch import nn

    from dqucb.deep.base import DeepAgent
    from dqucb.deep.trainer import Trainer


@dataclass
class Policy:
    """Greedy actions of trained networks."""

    seeds: list[int]
    head: Head
    observations: Observations
    network: Network
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    _single: dict[int, Network] = field(default_factory=dict, repr=False)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    @classmethod
    def of(cls, trainer: "Trainer") -> "Policy":
        """Return the policies of all seeds: the frozen ones of finished seeds, else the current ones."""
        weights, mean, deviation = trainer.settled()
        network = trainer.learner.acting.copy()
        network.load_weights(weights)
        return cls(trainer.seeds, trainer.head, trainer.form, network, mean, deviation)

    def row_of(self, trained_seed: int | None) -> int:
        """Return the row of a trained seed; None stands for the first."""
        seed = self.seeds[0] if trained_seed is None else trained_seed
        if seed not in self.seeds:
            raise ValueError(f"trained_seed must be one of {self.seeds}, got {trained_seed!r}")
        return self.seeds.index(seed)

    def predict(self, observation: ArrayLike, trained_seed: int | None, epsilon: float = 0.0) -> Any:
        """Return the greedy action at an observation, or the actions at a batch; see `DeepAgent.predict`."""
        row, (rows, single) = self.row_of(trained_seed), self.observations.rows(observation)
        if row not in self._single:
            self._single[row] = self.network.only(row)
        head = self.head.of_seed(row)
        inputs, prior = head.inputs(rows[None], lambda given: self._scaled(given, row))
        q = head.q(self._single[row](inputs), prior)
        choices = head.best(q, rows[None])[0]
        for k in np.flatnonzero(self._random.random(len(rows)) < epsilon) if epsilon > 0.0 else ():
            choices[k] = head.random(self._random.random(head.n_choices), rows[k])
        actions = head.actions(choices)
        return actions[0] if single else actions

    def _scaled(self, rows: NDArray[Any], row: int) -> NDArray[Any]:
        if rows.dtype == np.uint8:
            return rows
        return ((rows - self.mean[row]) / self.deviation[row]).astype(np.float32)

    def to_torch(self, trained_seed: int | None) -> "nn.Module":
        """Return the network of one seed as a torch module from raw observations to Q, (batch, outputs)."""
        from dqucb.deep.torch_modules import QNetwork, mlp
        from dqucb.deep.torch_network import StackedTorch

        if type(self.head).inputs is not Head.inputs:
            raise ValueError(
                f"a network under {type(self.head).__name__} has inputs that NumPy computes from observations"
            )
        row, network = self.row_of(trained_seed), self.network
        if isinstance(network, StackedMLP):
            shape: tuple[int, ...] = (network.sizes[0],)
            module = mlp(vector_space(*shape), network.sizes[-1], network.sizes[1:-1])
            module.load_state_dict(network.only(row).state_dict())
        else:
            assert isinstance(network, StackedTorch)
            module, shape = network.module_of(row), network.shape
        if self.observations.is_image:
            return QNetwork(module, shape, None, None)
        return QNetwork(module, shape, self.mean[row], self.deviation[row])

    # ---- files ------------------------------------------------------------------------------------------

    def packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (settings, arrays) from which `unpacked` restores the policy."""
        kind = HEADS.name_of(type(self.head))
        if kind is None:
            raise ValueError(f"the agent cannot be saved: its head {type(self.head).__name__} is not in HEADS")
        head = {"kind": kind, "settings": self.head.settings()}
        settings: dict[str, Any] = {"seeds": self.seeds, "head": head, "network": self.network.description(),
                    "observation_space": space_to_json(self.observations.space)}  # fmt: skip
        arrays: dict[str, NDArray[Any]] = {"mean": self.mean, "deviation": self.deviation}
        arrays |= {name: array for name, array in self.network.state().items() if name.startswith("fixed.")}
        return settings, arrays | {"weights": self.network.weights}

    @classmethod
    def unpacked(cls, agent: "DeepAgent", settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Policy":
        """Restore a packed policy. Raises ValueError, KeyError or TypeError for content that does not fit."""
        seeds = _validate.seeds(settings["seeds"] if isinstance(settings["seeds"], list) else None)
        observations = Observations(space_from_json(settings["observation_space"]))
        head = HEADS.find(settings["head"]["kind"])(**settings["head"]["settings"])
        generators = [np.random.default_rng(0) for _ in seeds]
        network: Network
        if settings["network"]["kind"] == "mlp":
            network = _mlp_from(settings["network"], head.network_sizes(observations.dimension), generators, arrays)
        else:
            network = new_network(agent, generators, observations, head, in_torch=True)
            network.restore(arrays, 0)
        shapes = {"weights": network.weights.shape, "mean": (len(seeds), observations.dimension)}
        for name, shape in {**shapes, "deviation": shapes["mean"]}.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be finite numbers of shape {shape}, got shape {arrays[name].shape}")
        network.load_weights(arrays["weights"])
        return cls(seeds, head, observations, network, arrays["mean"], arrays["deviation"])


def _mlp_from(described: dict[str, Any], ends: tuple[int, int], generators: list[np.random.Generator],
              arrays: dict[str, NDArray[Any]]) -> StackedMLP:  # fmt: skip
    """Return compiled networks of the sizes in a file."""
    sizes = [_validate.integer("sizes", size) for size in described["sizes"]]
    numbers = len(generators) * sum((a + 1) * b for a, b in pairwise(sizes))
    if numbers != arrays["weights"].size:  # checked before memory is allocated
        raise ValueError(f"weights of networks of the sizes {sizes} must be {numbers}, got {arrays['weights'].size}")
    if (sizes[0], sizes[-1]) != ends:
        raise ValueError(f"the head must fit a network of the sizes {sizes}, got {ends}")
    return StackedMLP(sizes, generators)
