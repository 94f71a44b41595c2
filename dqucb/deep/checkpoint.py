"""Conversion of a trainer to arrays and JSON and back; a resumed run is bit-identical."""

from typing import Any

from numpy.typing import NDArray

from dqucb import _validate
from dqucb._storage import SavedFileError
from dqucb.deep.trainer import Trainer
from dqucb.running.env_stack import Lockstep
from dqucb.running.files import below, prefixed, split
from dqucb.running.session import Packed

_ARRAYS = ("running", "observations", "choices", "largest_reward")


def packed(trainer: Trainer, envs: Lockstep | None) -> Packed:
    """Return (settings, arrays) of a trainer and its envs for `restore`; `running.lockstep` packs the sessions."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(trainer, name) for name in _ARRAYS}
    for place, part in (("learner", trainer.learner), ("bonus", trainer.bonus), ("replay", trainer.replay)):
        arrays |= prefixed(f"{place}.", part.state())
    adaptation, adaptation_arrays = trainer.adaptation.state()
    arrays |= prefixed("adaptation.", adaptation_arrays)
    arrays["policy.weights"] = trainer.policy.weights
    arrays["policy.mean"], arrays["policy.deviation"] = trainer.policy_scale.mean, trainer.policy_scale.deviation
    env = {} if envs is None else envs.state()
    env_settings, env_arrays = split(env, "checkpoint_state()")
    arrays |= prefixed("env.", env_arrays)
    settings = {
        "step": trainer.step,
        "begun": trainer.begun,
        "updates": trainer.learner.online.updates,
        "seen": trainer.learner.scale.count,
        "next": trainer.replay.next,
        "adaptation": adaptation,
        "env": env_settings,
        "generators": {
            name: [rng.bit_generator.state for rng in generators] for name, generators in trainer.generators.items()
        },
    }
    return settings, arrays


def restore(trainer: Trainer, envs: Lockstep | None, saved: Packed) -> None:
    """Restore the state of a new trainer and its envs. Raises `SavedFileError` if it does not fit."""
    try:
        _restore(trainer, envs, *saved)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError, IndexError) as error:
        raise SavedFileError(f"the saved run does not fit its parameters and env ({error})") from error


def _restore(
    trainer: Trainer, envs: Lockstep | None, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    arrays = {"largest_reward": trainer.largest_reward, **arrays}  # files of 0.2.0 did not hold it
    for name in _ARRAYS:
        own = getattr(trainer, name)
        if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
            raise ValueError(f"{name} must be {own.dtype}{own.shape}, got {arrays[name].dtype}{arrays[name].shape}")
        own[...] = arrays[name]
    counts = [_validate.integer(name, settings[name], 0) for name in ("updates", "seen")]
    trainer.learner.restore(below("learner.", arrays), *counts)
    trainer.bonus.restore(below("bonus.", arrays))
    trainer.adaptation.restore(settings["adaptation"], below("adaptation.", arrays))
    trainer.replay.restore(below("replay.", arrays), settings["next"])
    stored, head = trainer.replay.state(), trainer.head
    counters = getattr(trainer.bonus, "hash", None)
    largest = 0 if counters is None else counters.counts.shape[1] - 1
    if stored["cells"].size and not 0 <= stored["cells"].min() <= stored["cells"].max() <= largest:
        raise ValueError(f"replay.cells must be in [0, {largest}]")
    head.choices_of(head.actions(stored["choices"].reshape(-1, head.n_choices)))  # refuses what is out of range
    trainer.policy.load_weights(arrays["policy.weights"])
    trainer.policy_scale.mean[...] = arrays["policy.mean"]
    trainer.policy_scale.deviation[...] = arrays["policy.deviation"]
    if envs is not None:
        envs.restore({**settings["env"], **below("env.", arrays)})
    for name, generators in trainer.generators.items():
        for rng, state in zip(generators, settings["generators"][name], strict=True):
            rng.bit_generator.state = state
    trainer.step = _validate.integer("step", settings["step"], 0)
    trainer.begun = _validate.flag("begun", settings["begun"])
