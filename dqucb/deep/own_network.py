"""The methods of deep agents for their networks: names in files, export, and errors for renamed parameters."""

from collections.abc import Callable, Mapping
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dqucb import _validate
from dqucb.base import Agent

if TYPE_CHECKING:
    from torch import nn

    from dqucb.deep.policy import Policy

RENAMED = {"batch": "batch_size", "capacity": "buffer_size", "target_rate": "tau", "largest_error": "huber_delta",
           "largest_gradient": "max_grad_norm"}  # fmt: skip
Kind = TypeVar("Kind", bound=type)


def refuse_old_names(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise a TypeError with the new name of a renamed parameter."""
    for old in RENAMED.keys() & parameters:
        raise TypeError(f"{name} has no parameter {old!r}: it is called {RENAMED[old]!r} now")


def refuses_old_names(kind: Kind) -> Kind:
    """Class decorator: the constructor raises a TypeError with the new name of a renamed parameter."""
    init: Callable[..., None] = kind.__init__  # type: ignore[misc]

    @wraps(init)
    def checked(self: Any, **parameters: Any) -> None:
        refuse_old_names(kind.__name__, parameters)
        init(self, **parameters)

    kind.__init__ = checked  # type: ignore[misc]
    return kind


class OwnNetwork(Agent):
    """The methods of an agent with networks, beyond those of all agents."""

    network: Any
    optimizer: Any
    initial_state: Any
    device: str

    def _greedy(self) -> "Policy":
        raise NotImplementedError

    def _check_network(self) -> None:
        """Validate the parameters for torch, without importing it."""
        from dqucb.deep.factories import NETWORKS

        for name in ("network", "optimizer"):
            value = getattr(self, name)
            if isinstance(value, str) and name == "network" and ":" not in value:
                _validate.known("network", value, NETWORKS)
            if value is not None and not callable(value) and not isinstance(value, str):
                raise ValueError(f"{name} must be a function that makes one, or a name, got {value!r}")
        if self.initial_state is not None and not isinstance(self.initial_state, Mapping):
            raise ValueError(f"initial_state must be a state_dict, got {type(self.initial_state).__name__}")
        if not isinstance(self.device, str):
            raise ValueError(f"device must be a str such as 'auto', 'cpu' or 'cuda', got {self.device!r}")

    def _json_of(self, name: str, value: Any) -> Any:
        """Return a factory as its name and a digest of its code, and weights as their digest."""
        from dqucb.deep import factories

        if name in ("network", "optimizer"):
            return factories.name_of(value)
        return factories.state_digest(value) if name == "initial_state" else super()._json_of(name, value)

    def clone(self, **changes: Any) -> Self:
        """Return an untrained agent with the same parameters except for `changes`."""
        refuse_old_names(self.name, changes)
        return super().clone(**changes)

    @classmethod
    def load(cls, path: str | PathLike[str], **given: Any) -> Self:
        """Read an agent that `save` wrote; anything else is a `SavedFileError`.

        Parameters
        ----------
        path : path
            The file.
        **given
            `network`, `optimizer` and `initial_state`, which a file holds by name only, and `device` if that of the
            file is not available. Networks in `NETWORKS`, and the default of the agent's class, need not be given.
        """
        agent = super().load(path)
        for name, value in given.items():
            _validate.one_of("parameter", name, [*_OF_TORCH, "device"])
            held = agent.parameters()[name]
            setattr(agent, name, value)
            if name != "device" and agent.parameters()[name] != held:
                found = agent.parameters()[name]
                raise ValueError(f"{name} must be {held!r}, with which the agent was saved, got {found!r}")
        agent._check_network()
        return agent

    def to_torch(self, trained_seed: int | None = None) -> "nn.Module":
        """Return the trained network as a `torch.nn.Module` from raw observations (batch, ...) to Q (batch, n_outputs).

        It holds copies on the CPU: the input scale as the buffers `mean` and `deviation`, and the network as `network`.
        Its `state_dict()` is an `initial_state` for another agent.

        Parameters
        ----------
        trained_seed : int, optional
            The seed whose network is used; by default the first.

        Examples
        --------
        >>> from dqucb.deep import DQN
        >>> agent = DQN(hidden=(8,), learning_starts=20)
        >>> run = agent.train("cartpole", steps=40)
        >>> sorted(agent.to_torch().state_dict())  # doctest: +SKIP
        ['deviation', 'mean', 'network.0.bias', 'network.0.weight', 'network.2.bias', 'network.2.weight']
        """
        return self._greedy().to_torch(trained_seed)

    def export_onnx(self, path: str | PathLike[str], trained_seed: int | None = None) -> Path:
        """Write the trained network as an ONNX model with the input `observation` and the output `q`.

        Needs the packages onnx and onnxscript. The first axis of both is the batch, of any size.

        Parameters
        ----------
        path : path
            The file, which is overwritten.
        trained_seed : int, optional
            The seed whose network is used; by default the first.
        """
        from dqucb.deep.torch_modules import export_onnx

        policy = self._greedy()
        return export_onnx(policy.to_torch(trained_seed), policy.observations.example(), Path(path))


_OF_TORCH = ("network", "optimizer", "initial_state")
