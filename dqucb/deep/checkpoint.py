"""A trainer as arrays and JSON, and back: nothing is left out, so that a run goes on bit for bit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._storage import SavedFileError
from dqucb.deep.trainer import Trainer
from dqucb.running.env_stack import Lockstep
from dqucb.running.session import Packed

_ARRAYS = ("running", "observations", "choices")


def packed(trainer: Trainer, envs: Lockstep | None) -> Packed:
    """(settings, arrays) from which `restore` continues; sessions are packed by their own module."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(trainer, name) for name in _ARRAYS}
    for place, part in (("learner", trainer.learner), ("bonus", trainer.bonus), ("replay", trainer.replay)):
        arrays |= prefixed(f"{place}.", part.state())
    adapting, laws = trainer.adapting.state()
    arrays |= prefixed("adapting.", laws)
    arrays["policy.flat"] = trainer.policy.flat
    arrays["policy.mean"], arrays["policy.spread"] = trainer.policy_scale.mean, trainer.policy_scale.spread
    env = {} if envs is None else envs.state()
    arrays |= prefixed("env.", {name: value for name, value in env.items() if isinstance(value, np.ndarray)})
    settings = {
        "step": trainer.step,
        "begun": trainer.begun,
        "updates": trainer.learner.adam.count,
        "seen": trainer.learner.scale.count,
        "next": trainer.replay.next,
        "adapting": adapting,
        "env": {name: value for name, value in env.items() if not isinstance(value, np.ndarray)},
        "generators": {
            name: [rng.bit_generator.state for rng in generators] for name, generators in trainer.generators.items()
        },
    }
    return settings, arrays


def restore(trainer: Trainer, envs: Lockstep | None, saved: Packed) -> None:
    """Put a fresh trainer and its envs where the packed ones were; `SavedFileError` for what does not fit."""
    try:
        _restore(trainer, envs, *saved)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError, IndexError) as error:
        raise SavedFileError(f"the saved run does not fit its parameters and env ({error})") from error


def _restore(
    trainer: Trainer, envs: Lockstep | None, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    for name in _ARRAYS:
        own = getattr(trainer, name)
        if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
            raise ValueError(f"{name} must be {own.dtype}{own.shape}, got {arrays[name].dtype}{arrays[name].shape}")
        own[...] = arrays[name]
    counts = [_validate.integer(name, settings[name], 0) for name in ("updates", "seen")]
    trainer.learner.restore(below("learner.", arrays), *counts)
    trainer.bonus.restore(below("bonus.", arrays))
    trainer.adapting.restore(settings["adapting"], below("adapting.", arrays))
    trainer.replay.restore(below("replay.", arrays), settings["next"])
    stored, head = trainer.replay.state(), trainer.head
    counters = getattr(trainer.bonus, "hash", None)
    largest = 0 if counters is None else counters.counts.shape[1] - 1
    if stored["cells"].size and not 0 <= stored["cells"].min() <= stored["cells"].max() <= largest:
        raise ValueError(f"replay.cells must be in [0, {largest}]")
    head.choices_of(head.actions(stored["choices"].reshape(-1, head.n_choices)))  # refuses what is out of range
    trainer.policy.flat[...] = arrays["policy.flat"]
    trainer.policy_scale.mean[...] = arrays["policy.mean"]
    trainer.policy_scale.spread[...] = arrays["policy.spread"]
    if envs is not None:
        envs.restore({**settings["env"], **below("env.", arrays)})
    for name, generators in trainer.generators.items():
        for rng, state in zip(generators, settings["generators"][name], strict=True):
            rng.bit_generator.state = state
    trainer.step = _validate.integer("step", settings["step"], 0)
    trainer.begun = _validate.flag("begun", settings["begun"])


def prefixed(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The same arrays under longer names."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def below(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
