"""The network of an agent: the registry of factories, and the names of factories in files.

A file holds only the name of a factory, and loading never imports code: the name is looked up in the registry and in
the class of the agent; otherwise the user passes the factory to `load`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from dqucb._fingerprint import UnidentifiedError, fingerprint
from dqucb._registry import Registry
from dqucb.deep.scaling import RunningScale

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent
    from dqucb.deep.head import Head
    from dqucb.deep.network import Network
    from dqucb.running.observations import Observations


class UnavailableError(ValueError):
    """A network cannot be created: its factory is unknown, or its device is missing."""


DIGEST = "sha256"
# Name -> make_network(observation_space, n_outputs), which returns a torch.nn.Module.
NETWORKS: Registry[Callable[[Any, int], Any]] = Registry("network", ())


@NETWORKS.register("cnn")
def cnn(space: gymnasium.Space[Any], n_outputs: int) -> Any:
    """Return two 3 x 3 convolutions and a hidden layer of 64 units, for small images (channels, height, width)."""
    from torch import nn

    channels = int(np.prod((space.shape or ())[:-2]))
    return nn.Sequential(nn.Flatten(1, -3) if len(space.shape or ()) > 3 else nn.Identity(),
                         nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU(),
                         nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
                         nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, n_outputs))  # fmt: skip


def name_of(factory: Any) -> str | None:
    """Return the name of a factory in files and in the identity of a run; it depends on its code and arguments.

    Examples
    --------
    >>> name_of("cnn"), name_of(NETWORKS["cnn"])
    ('cnn', 'cnn')
    """
    if factory is None or isinstance(factory, str):
        return factory
    registered = NETWORKS.name_of(factory)
    if registered is not None:
        return registered
    inner = factory.func if isinstance(factory, partial) else factory
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    where = f"{named.__module__}:{named.__qualname__}"
    try:
        return f"{where}#{fingerprint(factory)}"
    except UnidentifiedError as error:
        raise ValueError(f"{where} must say what it is: register it with @NETWORKS.register(name) ({error})") from error


def resolved(agent: "DeepAgent", parameter: str) -> Callable[..., Any] | None:
    """Return the factory that an agent has as "network" or "optimizer"; None stands for the default.

    Raises
    ------
    ValueError
        If it is a name from a file that is not registered and not the default of the agent's class.
    """
    given = getattr(agent, parameter)
    if given is None or callable(given):
        return given
    default = getattr(type(agent), parameter, None)
    if callable(default) and name_of(default) == given:
        return default
    if parameter == "network" and given in NETWORKS:
        return NETWORKS[given]
    raise UnavailableError(
        f"{parameter} {given!r} is a name from a file, and files import no code: pass it with "
        f"load(path, {parameter}=...)" + (" or register it with @NETWORKS.register" if parameter == "network" else "")
    )


def uses_torch(agent: "DeepAgent") -> bool:
    """Whether an agent uses torch: for its network, device or optimiser."""
    return agent.network is not None or agent.optimizer is not None or agent.device not in ("auto", "cpu")


def new_network(agent: "DeepAgent", generators: Sequence[np.random.Generator], observations: "Observations",
                head: "Head", in_torch: bool = False) -> "Network":  # fmt: skip
    """Create the networks of all seeds: compiled ones, or torch modules if needed or `in_torch`."""
    inputs, outputs = head.network_sizes(observations.dimension)
    settings: dict[str, Any] = {"learning_rate": agent.learning_rate, "max_grad_norm": agent.max_grad_norm,
                                "starts_at_zero": head.starts_at_zero}  # fmt: skip
    if not in_torch and not uses_torch(agent):
        if observations.is_image:
            raise ValueError(
                f"network must be given for images of shape {observations.space.shape}, got None: network='cnn', or "
                "your own make_network(observation_space, n_outputs)"
            )
        from dqucb.deep.network import StackedMLP

        return StackedMLP([inputs, *agent.hidden, outputs], generators, **settings)
    try:
        from dqucb.deep import torch_modules, torch_network
    except ImportError as error:
        raise ImportError(f'network and device need torch: pip install "dqucb[deep]" ({error})') from error
    from dqucb.running.observations import vector_space

    make, space = resolved(agent, "network"), observations.network_space
    if make is None:
        make = partial(torch_modules.mlp, hidden=agent.hidden)
    if agent.network is None or inputs != observations.dimension:
        space = vector_space(inputs)
    return torch_network.StackedTorch(
        make, space, outputs, generators, device=agent.device, optimizer=resolved(agent, "optimizer"),
        compiled=agent.compile_network, **settings
    )  # fmt: skip


def start_from(state: Mapping[str, Any] | None, network: "Network", scale: RunningScale) -> None:
    """Set the initial weights of all seeds, and the input scale, from a `state_dict` of a network or of `to_torch()`.

    Raises
    ------
    ValueError
        If names or shapes do not fit, or if a file holds only a digest of the weights.
    """
    if state is None:
        return
    if set(state) == {DIGEST}:
        raise ValueError("initial_state is not in the file of an agent: pass it with load(path, initial_state=...)")
    if any(name.startswith("network.") for name in state):
        own = {name.removeprefix("network."): value for name, value in state.items() if name.startswith("network.")}
        given = {name: np.asarray(state[name], np.float64) for name in ("mean", "deviation") if name in state}
        if given:
            for name, array in given.items():
                expected = scale.mean.shape[1:]
                if array.shape != expected or not np.isfinite(array).all():
                    raise ValueError(f"initial_state[{name!r}] must be finite numbers {expected}, got {array}")
            scale.fix(given["mean"], given["deviation"])
        state = own
    network.load_state_dict(state)


def state_digest(state: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return a digest of an initial state, which identifies it in files and runs."""
    if state is None or set(state) == {DIGEST}:
        return None if state is None else dict(state)
    return {DIGEST: fingerprint({name: np.asarray(value) for name, value in sorted(state.items())})}
