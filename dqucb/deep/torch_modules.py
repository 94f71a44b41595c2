"""Torch modules: the default architecture, the result of `to_torch`, checks of users' modules, devices, export."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dqucb.deep.factories import UnavailableError

PROBE_ROWS = 2  # batch size for checking a module


def device_of(name: str) -> torch.device:
    """Return a torch device; "auto" is cuda or mps if available, else cpu. ValueError if it cannot be used."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise UnavailableError(
            f"device must be 'auto' or an available torch device, got {name!r} ({reason})"
        ) from error
    return device


def mlp(space: gymnasium.Space[Any], n_outputs: int, hidden: Sequence[int] = (64, 64)) -> nn.Module:
    """Return fully connected layers with ReLU between them, the architecture of `StackedMLP`."""
    sizes = [int(np.prod(space.shape or ())), *hidden]
    inner = [part for n_in, n_out in pairwise(sizes) for part in (nn.Linear(n_in, n_out), nn.ReLU())]
    return nn.Sequential(*inner, nn.Linear(sizes[-1], n_outputs))


class QNetwork(nn.Module):
    """Maps raw observations (batch, ...) to Q (batch, outputs): the input scale of a run and its network.

    Parameters
    ----------
    network : nn.Module
        Its inputs are standardised, (batch, *shape), or images scaled to [0, 1].
    shape : tuple of int
        Of one input.
    mean, deviation : array, optional
        Of each coordinate of an observation; None for images.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...], mean: NDArray[Any] | None,
                 deviation: NDArray[Any] | None) -> None:  # fmt: skip
        super().__init__()
        self.network, self.shape = network, shape
        self.register_buffer("mean", None if mean is None else torch.tensor(mean))
        self.register_buffer("deviation", None if deviation is None else torch.tensor(deviation))

    def forward(self, observations: Tensor) -> Tensor:
        if self.mean is None:
            return cast("Tensor", self.network(observations.float() / 255.0))
        scaled = (observations.flatten(1) - self.mean) / self.deviation
        return cast("Tensor", self.network(scaled.float().unflatten(1, self.shape)))


def export_onnx(module: nn.Module, example: NDArray[Any], path: Path) -> Path:
    """Write a module as an ONNX model from `observation` (batch, ...) to `q` (batch, outputs)."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"export_onnx needs onnx and onnxscript: pip install onnx onnxscript ({error})") from error
    batch = torch.from_numpy(np.stack([example] * PROBE_ROWS))
    shapes = {"observations": {0: torch.export.Dim.DYNAMIC}}
    torch.onnx.export(module.eval(), (batch,), path, dynamo=True, dynamic_shapes=shapes, external_data=False,
                      input_names=["observation"], output_names=["q"], verbose=False)  # fmt: skip
    return path


def checked_module(module: Any, shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Return the module if it can learn Q. ValueError otherwise.

    It must map each row of a batch independently and deterministically to `n_outputs` numbers, because the results of a
    seed must depend only on the seed and its transitions.
    """
    if not isinstance(module, nn.Module):
        raise ValueError(f"network must return a torch.nn.Module, got {module!r}")
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    if not weights or any(weight.dtype != torch.float32 for weight in weights):
        found = sorted({str(weight.dtype) for weight in weights})
        raise ValueError(f"network must have trainable weights of float32, got {found}")
    rows = torch.rand(PROBE_ROWS, *shape)
    with torch.no_grad():
        outputs = module(rows)  # initialises lazy layers
        if not torch.is_tensor(outputs) or tuple(outputs.shape) != (PROBE_ROWS, n_outputs):
            got = tuple(outputs.shape) if torch.is_tensor(outputs) else type(outputs).__name__
            expected = (PROBE_ROWS, n_outputs)
            raise ValueError(f"network must map inputs {tuple(rows.shape)} to outputs {expected}, got {got}")
        buffers = [value.clone() for value in module.buffers()]
        steady = torch.equal(outputs, module(rows))
        steady &= all(torch.equal(old, new) for old, new in zip(buffers, module.buffers(), strict=True))
        if not steady or not torch.allclose(outputs[:1], module(rows[:1]), rtol=1e-3, atol=1e-4):
            raise ValueError(f"network must map each row of a batch independently and deterministically, got "
                             f"{type(module).__name__}: it has a layer such as Dropout or BatchNorm")  # fmt: skip
    return module
