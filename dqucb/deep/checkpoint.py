"""A run of the deep agents as arrays and JSON, and back: nothing is left out, so it goes on bit for bit."""

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dqucb import _storage
from dqucb._storage import SavedFileError
from dqucb.deep.loop import Trainer

_ARRAYS = ("running", "observations", "slots", "episodes", "current")


def write(trainer: Trainer, path: str | os.PathLike[str], told: dict[str, Any]) -> None:
    """Save the run; `told` says which run it is."""
    settings, arrays = packed(trainer)
    _storage.save(path, "DeepCheckpoint", {**settings, "run": told}, compress=False, **arrays)


def read(trainer: Trainer, path: str | os.PathLike[str], told: dict[str, Any]) -> None:
    """Put a fresh trainer where the saved run stopped. ValueError: the file is of another run."""
    settings, arrays = _storage.load(path, "DeepCheckpoint")
    for name, ours in told.items():
        theirs = settings.get("run", {}).get(name)
        if theirs != ours:
            raise ValueError(f"checkpoint {os.fspath(path)} is of another run: its {name} is {theirs!r}, not {ours!r}")
    try:
        restore(trainer, settings, arrays)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise SavedFileError(f"{os.fspath(path)}: not a complete checkpoint ({error})") from error


def packed(trainer: Trainer) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) from which `restore` goes on."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(trainer, name) for name in _ARRAYS}
    for place, part in (("learner", trainer.learner), ("bonus", trainer.bonus), ("replay", trainer.replay)):
        arrays |= {f"{place}.{name}": array for name, array in part.state().items()}
    arrays["policy.flat"] = trainer.policy.flat.cpu().numpy()
    arrays["policy.mean"], arrays["policy.spread"] = trainer.policy_scale.mean, trainer.policy_scale.spread
    for i, records in enumerate(trainer.records):
        arrays[f"records.{i}"] = np.array(records, np.float64).reshape(-1, 4)
    env = trainer.envs.state()
    arrays |= {f"env.{name}": value for name, value in env.items() if isinstance(value, np.ndarray)}
    settings = {
        "step": trainer.step,
        "seconds": trainer.seconds,
        "updates": trainer.learner.adam.count,
        "seen": trainer.learner.scale.count,
        "next": trainer.replay.next,
        "env": {name: value for name, value in env.items() if not isinstance(value, np.ndarray)},
        "generators": {
            name: [rng.bit_generator.state for rng in generators] for name, generators in trainer.generators.items()
        },
    }
    return settings, arrays


def restore(trainer: Trainer, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Put a fresh trainer where the packed one was. Raises ValueError, KeyError or TypeError for what does not fit."""
    for name in _ARRAYS:
        own = getattr(trainer, name)
        if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
            raise ValueError(f"{name} must be {own.dtype}{own.shape}, got {arrays[name].dtype}{arrays[name].shape}")
        own[...] = arrays[name]

    def part(place: str) -> dict[str, NDArray[Any]]:
        return {name.removeprefix(place): array for name, array in arrays.items() if name.startswith(place)}

    trainer.learner.restore(part("learner."), settings["updates"], settings["seen"])
    trainer.bonus.restore(part("bonus."))
    trainer.replay.restore(part("replay."), settings["next"])
    trainer.policy.flat.copy_(torch.from_numpy(arrays["policy.flat"]))
    trainer.policy_scale.mean[...] = arrays["policy.mean"]
    trainer.policy_scale.spread[...] = arrays["policy.spread"]
    trainer.records = [[tuple(row) for row in arrays[f"records.{i}"].tolist()] for i in range(len(trainer.seeds))]
    trainer.envs.restore({**settings["env"], **part("env.")})
    for name, generators in trainer.generators.items():
        for rng, state in zip(generators, settings["generators"][name], strict=True):
            rng.bit_generator.state = state
    trainer.step, trainer.seconds, trainer.begun = settings["step"], settings["seconds"], True
