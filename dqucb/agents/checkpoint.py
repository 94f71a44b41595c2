"""A training run as arrays and JSON, and back; and the progress bar."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.position import NOWHERE
from dqucb._kernels.window_pools import OF_PHASES, DiscreteWindows
from dqucb.agents.training import Sizes, Training
from dqucb.density.discrete import pools_of, with_pools
from dqucb.run import CURVES

_CURVES = (*CURVES, "position")


def packed(training: Training) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) from which `unpacked` restores the run exactly."""
    arrays = {f"curve.{name}": getattr(training, name) for name in _CURVES}
    sizes = training.sizes._asdict()
    arrays["bounds"] = sizes.pop("bounds")
    scalars = {}
    for name, value in training.learner._asdict().items():
        if isinstance(value, DiscreteWindows):
            arrays |= {f"window.{pool}": array for pool, array in pools_of(value).items()}
        elif isinstance(value, np.ndarray):
            arrays[f"learner.{name}"] = value
        else:
            scalars[name] = value
    settings = {
        "sizes": sizes,
        "scalars": scalars,
        "rng": training.rng.bit_generator.state,
        "seed": training.seed,
        "regret_form": training.regret_form,
        "problem": training.problem,
        "change_at": list(training.change_at),
        "seconds": training.seconds,
    }
    return settings, arrays


def unpacked(
    settings: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    new_learner: Callable[[Sizes], Any],
    check_tables: Callable[[Any], None],
) -> Training:
    """The run that was packed; all is checked against new tables of the same sizes, and by `check_tables`.

    Raises ValueError or KeyError for anything that does not fit, before a kernel could see it.
    """
    sizes = _checked_sizes(Sizes(**settings["sizes"], bounds=arrays["bounds"]))
    fresh = new_learner(sizes)
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = settings["rng"]
    unknown = sorted(set(settings["scalars"]) - set(fresh._fields))
    if unknown:
        raise ValueError(f"settings of the learner must be among {fresh._fields}, got {unknown}")
    changes: dict[str, Any] = {}
    for name, value in fresh._asdict().items():
        if isinstance(value, DiscreteWindows):
            pools = {pool: arrays[f"window.{pool}"] for pool in pools_of(value)}
            limit = sizes.n_phases if isinstance(value, OF_PHASES) else value.n_states
            changes[name] = with_pools(value, pools, limit)
        elif isinstance(value, np.ndarray):
            changes[name] = _like(name, arrays[f"learner.{name}"], value)
        elif type(settings["scalars"][name]) is not type(value) or settings["scalars"][name] != value:
            raise ValueError(f"{name} must be {value!r} for these settings, got {settings['scalars'][name]!r}")
    learner = fresh._replace(**changes)
    check_tables(learner)
    return Training(
        sizes=sizes,
        learner=learner,
        rng=rng,
        unit="steps" if sizes.horizon is None else "episodes",
        length=sizes.length,
        change_at=_validate.increasing("change_at", settings["change_at"]),
        seed=_validate.integer("seed", settings["seed"], 0),
        regret_form=_validate.one_of("regret_form", settings["regret_form"], ["realized", "expected"]),
        problem=dict(settings["problem"]),
        seconds=_validate.real("seconds", settings["seconds"], 0.0),
        **_checked_curves({name: arrays[f"curve.{name}"] for name in _CURVES}, sizes),
    )


def _checked_sizes(sizes: Sizes) -> Sizes:
    for name in ("n_states", "n_actions", "length", "max_successors", "n_phases"):
        _validate.integer(name, getattr(sizes, name))
    if (sizes.horizon is None) == (sizes.discount is None):
        raise ValueError(f"exactly one of horizon={sizes.horizon!r} and discount={sizes.discount!r} must be given")
    if sizes.horizon is not None:
        _validate.integer("horizon", sizes.horizon)
    else:
        _validate.real("discount", sizes.discount, 0.0, 1.0 - 1e-12)
    _like("bounds", sizes.bounds, np.zeros(1 + (sizes.horizon or 0)))
    return sizes


def _checked_curves(curves: dict[str, NDArray[Any]], sizes: Sizes) -> dict[str, Any]:
    ends = curves["ends"]
    for name, array in curves.items():
        kind = np.int64 if name in ("ends", "lengths", "position") else np.float64
        _like(name, array, np.zeros(2 if name == "position" else len(ends), kind), finite=False)
    if len(ends) and (ends[-1] != sizes.length or (np.diff(ends, prepend=0) < 1).any()):
        raise ValueError(f"ends must increase to {sizes.length}")
    if sizes.horizon is not None and len(ends) not in (0, sizes.length):
        raise ValueError(f"ends must have one place for each of {sizes.length} episodes, got {len(ends)}")
    if sizes.horizon is None and not np.array_equal(curves["lengths"], np.diff(ends, prepend=0)):
        raise ValueError("lengths must be the distances between ends")
    check_range("position", curves["position"], np.array([NOWHERE, 0]), np.array([sizes.n_states - 1, len(ends)]))
    return curves


def check_range(name: str, array: NDArray[Any], smallest: Any, largest: Any = np.inf) -> None:
    """Raise a ValueError unless all values are within the range."""
    if ((array < smallest) | (array > largest)).any():
        raise ValueError(f"{name} must be in [{smallest}, {largest}], got values from {array.min()} to {array.max()}")


def _like(name: str, array: NDArray[Any], fresh: NDArray[Any], finite: bool = True) -> NDArray[Any]:
    growing = name == "bias"  # the one table whose length depends on what was visited
    if array.dtype != fresh.dtype or array.ndim != fresh.ndim or array.shape[growing:] != fresh.shape[growing:]:
        raise ValueError(f"{name} must be {fresh.dtype}{fresh.shape}, got {array.dtype}{array.shape}")
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return np.ascontiguousarray(array)
