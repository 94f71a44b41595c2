"""The torch implementation of the interface in network.py: any `torch.nn.Module`, one copy per seed.

All trainable weights of a seed are one row of a (seeds, P) matrix, and the parameters of its module are views of that
row. Clipping, the optimiser and the target update are then a few calls for all seeds, for any module. Several seeds run
under `torch.func.vmap` if the module allows it, else one after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dqucb.deep.network import Floats, checked_state
from dqucb.deep.torch_modules import PROBE_ROWS, checked_module, device_of

MakeNetwork = Callable[[gymnasium.Space[Any], int], nn.Module]
MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]

# Elementwise optimisers: one of them can update the weights of all seeds as one matrix.
ELEMENTWISE = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad,
               torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam)  # fmt: skip


class StackedTorch:
    """One module of `make(space, n_outputs)` for each generator, and an optimiser.

    Parameters
    ----------
    make : callable
        Returns a module that maps a batch of float32 inputs (rows, *space.shape) to (rows, n_outputs). Images are
        scaled to [0, 1].
    space : gymnasium.spaces.Box
        Of one input.
    n_outputs : int
        Outputs of the module.
    generators : sequence of numpy.random.Generator
        One per seed, for its initial weights.
    device : str
        "auto", or a torch device.
    learning_rate, max_grad_norm : float
        Of Adam, and the norm to which each seed's gradient is clipped.
    optimizer : callable, optional
        Returns an optimiser for a list of parameters; by default Adam.
    compiled : bool
        Whether to use `torch.compile`.
    starts_at_zero : bool
        Whether the last layer with parameters is initialised to zero.
    """

    def __init__(self, make: MakeNetwork, space: gymnasium.Space[Any], n_outputs: int,
                 generators: Sequence[np.random.Generator], *, device: str = "auto", learning_rate: float = 1e-3,
                 max_grad_norm: float = np.inf, optimizer: MakeOptimizer | None = None, compiled: bool = False,
                 starts_at_zero: bool = False) -> None:  # fmt: skip
        self.device, self.shape, self.n_outputs = device_of(device), tuple(space.shape or ()), n_outputs
        self.max_grad_norm, self.compiled = max_grad_norm, compiled
        fused = self.device.type in ("cpu", "cuda")
        self.make_optimizer = optimizer or (lambda weights: torch.optim.Adam(weights, lr=learning_rate, fused=fused))
        modules = []
        for rng in generators:
            with torch.random.fork_rng(devices=[]):  # initial weights come from the CPU's generator for every device
                torch.manual_seed(int(rng.integers(1 << 62)))
                modules.append(checked_module(make(space, n_outputs), self.shape, n_outputs))
            if starts_at_zero:
                last = [module for module in modules[-1].modules() if any(True for _ in module.parameters(False))][-1]
                for weight in last.parameters(False):
                    nn.init.zeros_(weight)
        self.module = modules[0].to(self.device)  # the architecture; it is called with stacked weights and buffers
        self.names = {name: weight.shape for name, weight in self.module.named_parameters() if weight.requires_grad}
        fixed = [{name: value.detach().to(self.device) for name, value in (*m.named_parameters(), *m.named_buffers())
                  if name not in self.names} for m in modules]  # fmt: skip
        self.fixed = {name: torch.stack([each[name] for each in fixed]) for name in fixed[0]}
        rows = [torch.cat([m.get_parameter(name).detach().flatten() for name in self.names]) for m in modules]
        self._take(torch.stack([row.to(self.device) for row in rows]), self.fixed)
        self.updates = 0

    def _take(self, flat: Tensor, fixed: dict[str, Tensor]) -> None:
        """Set the weights, (seeds, P), and the frozen weights and buffers."""
        self.flat, self.fixed = flat.requires_grad_(), fixed
        self.flat.grad = torch.zeros_like(flat)
        self.optimizers: list[torch.optim.Optimizer] = []  # created at the first step
        # The parameters to differentiate: stacked ones of all seeds, or one dict per seed.
        self._leaves: list[dict[str, Tensor]] = []
        stacked = self._stacked() if len(flat) > 1 else None
        if stacked is not None:
            self._run = self._compiled(stacked)
            return
        self._leaves = [self._parameters(i) for i in range(len(flat))]
        runs = [self._compiled(self._module_with(leaves, i)) for i, leaves in enumerate(self._leaves)]
        if len(runs) == 1:
            self._run = lambda x: runs[0](x[0])[None]
        else:
            self._run = lambda x: torch.stack([run(rows) for run, rows in zip(runs, x, strict=True)])

    def _compiled(self, run: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return torch.compile(run) if self.compiled else run

    def _parameters(self, i: int | slice) -> dict[str, Tensor]:
        """Return parameters that are views of `flat`: of seed i, or stacked ones of several seeds."""
        weights = self.flat.detach()[i]
        parts = weights.split([shape.numel() for shape in self.names.values()], -1)
        return {name: nn.Parameter(part.view(*weights.shape[:-1], *shape))
                for (name, shape), part in zip(self.names.items(), parts, strict=True)}  # fmt: skip

    def _stacked(self) -> Callable[[Tensor], Tensor] | None:
        """Return a function that runs all seeds in one call, or None if the module does not allow it."""
        weights = self._parameters(slice(None))
        one = vmap(lambda weights, fixed, x: functional_call(self.module, (weights, fixed), (x,)))
        run = _batched_mlp(self.module, weights) or (lambda x: one(weights, self.fixed, x))
        rows = torch.zeros(len(self.flat), PROBE_ROWS, *self.shape, device=self.device)
        try:
            with torch.enable_grad():
                torch.autograd.grad(run(rows).sum(), [*weights.values()], allow_unused=True)
        except Exception:  # a user's module may raise anything under vmap
            return None
        self._leaves = [weights]
        return run

    def _module_with(self, weights: dict[str, Tensor], i: int) -> nn.Module:
        """Return a module with these weights and the frozen ones of seed i."""
        module = deepcopy(self.module)
        first = {id(weight): name for name, weight in module.named_parameters()}
        for name, weight in [*module.named_parameters(remove_duplicate=False)]:
            owner, _, last = name.rpartition(".")
            if first[id(weight)] in weights:  # tied weights have two names
                setattr(module.get_submodule(owner), last, weights[first[id(weight)]])
        with torch.no_grad():
            for name, value in (*module.named_parameters(), *module.named_buffers()):
                if name in self.fixed:
                    value.copy_(self.fixed[name][i])
        return module

    def __call__(self, inputs: NDArray[Any]) -> Floats:
        with torch.no_grad():
            return self._run(self._tensor(inputs)).numpy(force=True)

    def forward(self, inputs: NDArray[Any]) -> tuple[Floats, Tensor]:
        outputs = self._run(self._tensor(inputs))
        return outputs.numpy(force=True), outputs

    def _tensor(self, inputs: NDArray[Any]) -> Tensor:
        given = torch.from_numpy(inputs).to(self.device)
        if given.dtype == torch.uint8:
            given = given.float().div_(255.0)
        return given if given.ndim == 2 + len(self.shape) else given.view(*given.shape[:2], *self.shape)

    def gradient(self, tape: Tensor, output_gradients: Floats) -> Floats:
        return self._gradient(tape, output_gradients).numpy(force=True).copy()

    def _gradient(self, tape: Tensor, output_gradients: Floats) -> Tensor:
        """Write the gradient with respect to all weights, (seeds, P), to `flat.grad`."""
        weights = [weight for leaves in self._leaves for weight in leaves.values()]
        given = torch.from_numpy(output_gradients).to(self.device)
        parts = torch.autograd.grad(tape, weights, given, allow_unused=True)
        filled = [torch.zeros_like(w) if part is None else part for part, w in zip(parts, weights, strict=True)]
        gradient = cast("Tensor", self.flat.grad)
        if len(self._leaves) == 1:
            return torch.cat([part.reshape(len(gradient), -1) for part in filled], 1, out=gradient)
        return torch.cat([part.reshape(-1) for part in filled], out=gradient.view(-1)).view_as(gradient)

    def step(self, tape: Tensor, output_gradients: Floats) -> Floats:
        gradient = self._gradient(tape, output_gradients)
        with torch.no_grad():
            norms = torch.linalg.vector_norm(gradient, dim=1)
            if np.isfinite(self.max_grad_norm):
                gradient.mul_((self.max_grad_norm / (norms + 1e-6)).clamp_(max=1.0)[:, None])
        for optimizer in self.optimizers or self._new_optimizers():
            optimizer.step()
        self.updates += 1
        return norms.numpy(force=True)

    def _new_optimizers(self) -> list[torch.optim.Optimizer]:
        """Create one optimiser for all seeds if it is elementwise, else one per seed."""
        self.optimizers = [self.make_optimizer([self.flat])]
        if type(self.optimizers[0]) not in ELEMENTWISE:
            self.optimizers = []
            for i, gradient in enumerate(cast("Tensor", self.flat.grad)):
                weights = [*self._parameters(i).values()]
                for weight, part in zip(weights, gradient.split([w.numel() for w in weights]), strict=True):
                    weight.grad = part.view_as(weight)
                self.optimizers.append(self.make_optimizer(weights))
        return self.optimizers

    @torch.no_grad()
    def move_towards(self, online: "StackedTorch", tau: float) -> None:
        self.flat.lerp_(online.flat, tau)

    def copy(self) -> "StackedTorch":
        twin = copy(self)
        twin._take(self.flat.detach().clone(), self.fixed)
        twin.updates = 0
        return twin

    def only(self, i: int) -> "StackedTorch":
        twin, rows = copy(self), slice(i, i + 1)
        twin._take(self.flat.detach()[rows], {name: value[rows] for name, value in self.fixed.items()})
        if len(self.optimizers) > 1:  # one per seed; gradients are views of the shared matrix
            twin.flat.grad, twin.optimizers = cast("Tensor", self.flat.grad)[rows], [self.optimizers[i]]
        elif self.optimizers:
            shared = self.optimizers[0].state[self.flat]
            twin._new_optimizers()[0].state[twin.flat] = {
                name: value[rows] if torch.is_tensor(value) and value.shape == self.flat.shape else deepcopy(value)
                for name, value in shared.items()
            }
        return twin

    @property
    def weights(self) -> Floats:
        return self.flat.numpy(force=True)

    @torch.no_grad()
    def load_weights(self, weights: Floats, i: int | slice = slice(None)) -> None:
        self.flat[i] = torch.as_tensor(weights[i], device=self.device)

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = {name: tuple(value.shape) for name, value in self.module.state_dict().items()}
        arrays = {name: torch.as_tensor(array) for name, array in checked_state(state, own).items()}
        self.flat[...] = torch.cat([arrays[name].flatten() for name in self.names]).to(self.device)
        for name, value in self.fixed.items():
            if name in arrays:
                value[...] = arrays[name].to(value)
        self._take(self.flat.detach(), self.fixed)

    def state(self) -> dict[str, NDArray[Any]]:
        arrays = {f"fixed.{name}": value.numpy(force=True) for name, value in self.fixed.items()}
        for k, optimizer in enumerate(self.optimizers):
            for index, entries in optimizer.state_dict()["state"].items():
                for name, value in entries.items():
                    if value is not None and not isinstance(value, Tensor | int | float):
                        raise ValueError(f"{type(optimizer).__name__} cannot be saved: its {name} is {type(value)}")
                    if value is not None:
                        form = "tensor" if torch.is_tensor(value) else type(value).__name__
                        arrays[f"optimizer.{k}.{index}.{form}.{name}"] = torch.as_tensor(value).numpy(force=True)
        return arrays

    def restore(self, state: dict[str, NDArray[Any]], updates: int) -> None:
        for name, value in self.fixed.items():
            value[...] = torch.as_tensor(state[f"fixed.{name}"], device=self.device)
        self._take(self.flat.detach(), self.fixed)
        found: dict[int, dict[int, dict[str, Any]]] = {}
        for key, array in state.items():
            if key.startswith("optimizer."):
                _, number, index, form, name = key.split(".", 4)
                # 0-dimensional counters stay on the CPU, as torch has them.
                value = {"tensor": torch.as_tensor, "int": int, "float": float}[form](array)
                found.setdefault(int(number), {}).setdefault(int(index), {})[name] = value
        if found:
            for k, optimizer in enumerate(self._new_optimizers()):
                optimizer.load_state_dict({**optimizer.state_dict(), "state": found[k]})
        self.updates = updates

    def description(self) -> dict[str, Any]:
        return {"kind": "torch", "n_outputs": self.n_outputs}

    def module_of(self, i: int) -> nn.Module:
        """Return a copy of the module of seed i on the CPU."""
        return deepcopy(self._module_with(self._parameters(i), i)).to("cpu")


def _batched_mlp(module: nn.Module, weights: dict[str, Tensor]) -> Callable[[Tensor], Tensor] | None:
    """Return a Sequential of Linear layers and activations as batched products, which are faster than vmap."""
    if type(module) is not nn.Sequential or any(type(layer) not in (nn.Linear, *_ACTIVATIONS) for layer in module):
        return None

    def run(x: Tensor) -> Tensor:
        # With the batch in columns, gradients have the layout of the weights and are not transposed by a copy.
        x = x.mT
        for name, layer in module.named_children():
            if type(layer) is not nn.Linear:
                x = layer(x)
            elif layer.bias is None:
                x = torch.bmm(weights[f"{name}.weight"], x)
            else:
                x = torch.baddbmm(weights[f"{name}.bias"][..., None], weights[f"{name}.weight"], x)
        return x.mT.contiguous()

    return run


_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.ELU, nn.SiLU, nn.LeakyReLU, nn.Sigmoid, nn.Softplus, nn.Identity)
