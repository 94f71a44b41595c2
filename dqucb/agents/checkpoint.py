"""A tabular run as arrays and JSON, and back."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners.alarms import AlarmLog
from dqucb._kernels.learners.planning.plan_workspace import Workspace
from dqucb._kernels.window_pools import OF_PHASES, DiscreteWindows
from dqucb.density.discrete import pools_of, with_pools
from dqucb.problems.base import unit_of
from dqucb.run import REGRETS
from dqucb.running.compiled import Sizes, Training
from dqucb.running.files import SAVED_CURVES, checked_curves

_WHOLE = DiscreteWindows | Workspace
# Settings that files of earlier versions lack, and what they stood for then.
ADDED = {"learner.low": 0.0, "learner.selective": True, "learner.raised": 1e300, "learner.probing": None}
ADDED_ARRAYS = ("learner.plan.made",)  # and arrays that they lack, which began empty
# Tables whose length depends on what was met.
GROWING = ("learner.bias", "learner.alarms.times", "learner.plan.edges", "learner.ring", "learner.ring_rewards")


def packed(training: Training) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) from which `unpacked` restores the run exactly."""
    arrays = {f"curve.{name}": getattr(training, name) for name in SAVED_CURVES}
    sizes = training.sizes._asdict()
    arrays["bounds"] = sizes.pop("bounds")
    scalars: dict[str, Any] = {}
    for name, value in leaves("learner", training.learner):
        if isinstance(value, DiscreteWindows):
            arrays |= {f"{name}.{pool}": array for pool, array in pools_of(value).items()}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        elif not isinstance(value, Workspace):
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
    unit = unit_of(sizes.horizon)
    fresh = new_learner(sizes)
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = settings["rng"]
    known = [name for name, value in leaves("learner", fresh) if not isinstance(value, _WHOLE | np.ndarray)]
    scalars = {name: value for name, value in ADDED.items() if name in known} | settings["scalars"]
    if sorted(scalars) != sorted(known):
        raise ValueError(f"settings of the learner must be {sorted(known)}, got {sorted(scalars)}")
    learner = _restored("learner", fresh, scalars, arrays, sizes)
    check_tables(learner)
    return Training(
        sizes=sizes,
        learner=learner,
        rng=rng,
        unit=unit,
        length=sizes.length,
        change_at=_validate.increasing("change_at", settings["change_at"]),
        seed=_validate.integer("seed", settings["seed"], 0),
        regret_form=_validate.one_of("regret_form", settings["regret_form"], REGRETS),
        problem=dict(settings["problem"]),
        seconds=_validate.real("seconds", settings["seconds"], 0.0),
        own_loop=len(arrays["curve.ends"]) == 0,
        **checked_curves({name: arrays[f"curve.{name}"] for name in SAVED_CURVES}, sizes.length, unit, sizes.n_states),
    )


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything in nested tuples, names joined by dots; windows and workspaces count as one value."""
    if isinstance(value, tuple) and not isinstance(value, _WHOLE):
        for field, inner in value._asdict().items():  # type: ignore[attr-defined]
            yield from leaves(f"{name}.{field}", inner)
    else:
        yield name, value


def _restored(name: str, fresh: Any, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]], sizes: Sizes) -> Any:
    """`fresh` with the saved arrays in place of its own; what is no array must be as it was."""
    if isinstance(fresh, DiscreteWindows):
        pools = {pool: arrays[f"{name}.{pool}"] for pool in pools_of(fresh)}
        return with_pools(fresh, pools, sizes.n_phases if isinstance(fresh, OF_PHASES) else fresh.n_states)
    if isinstance(fresh, Workspace):
        return fresh
    if isinstance(fresh, tuple):
        parts = fresh._asdict().items()  # type: ignore[attr-defined]
        return type(fresh)(
            **{part: _restored(f"{name}.{part}", value, scalars, arrays, sizes) for part, value in parts}
        )
    if isinstance(fresh, np.ndarray):
        if name in ADDED_ARRAYS and name not in arrays:
            return fresh
        return _validate.like(name, arrays[name], fresh, growing=name in GROWING, finite=True)
    if type(scalars[name]) is not type(fresh) or scalars[name] != fresh:
        raise ValueError(f"{name} must be {fresh!r} for these settings, got {scalars[name]!r}")
    return fresh


def _checked_sizes(sizes: Sizes) -> Sizes:
    for name in ("n_states", "n_actions", "length", "max_successors", "max_shared_successors", "n_phases"):
        _validate.integer(name, getattr(sizes, name))
    if (sizes.horizon is None) == (sizes.discount is None):
        raise ValueError(f"exactly one of horizon={sizes.horizon!r} and discount={sizes.discount!r} must be given")
    if sizes.horizon is not None:
        _validate.integer("horizon", sizes.horizon)
    else:
        _validate.real("discount", sizes.discount, 0.0, 1.0 - 1e-12)
    _validate.real("low", sizes.low, maximum=0.0)
    for name in ("high", "return_bound"):
        if getattr(sizes, name) is not None:
            _validate.positive(name, getattr(sizes, name))
    if sizes.bounds.shape != (1 + (sizes.horizon or 0),):
        raise ValueError(f"bounds must have {1 + (sizes.horizon or 0)} numbers, got shape {sizes.bounds.shape}")
    _validate.like("bounds", sizes.bounds, sizes.bounds.astype(np.float64), finite=True)
    return sizes


def check_range(name: str, array: NDArray[Any], smallest: Any, largest: Any = np.inf) -> None:
    """Raise a ValueError unless all values are within the range."""
    if ((array < smallest) | (array > largest)).any():
        raise ValueError(f"{name} must be in [{smallest}, {largest}], got values from {array.min()} to {array.max()}")


def check_alarms(log: AlarmLog) -> None:
    """Raise a ValueError unless the alarms of a log are in order, and none is later than now."""
    checked = log.times[: check_used("alarms", log.used, len(log.times))]
    check_range("alarms", checked, 0, int(log.now[0]))
    if (np.diff(checked) < 0).any():
        raise ValueError("alarms must be in order of time")


def check_used(name: str, used: NDArray[np.int64], size: int) -> int:
    """How much of a growing table is used; a ValueError if that is more than there is."""
    check_range(f"used places of {name}", used, 0, size)
    return int(used[0])
