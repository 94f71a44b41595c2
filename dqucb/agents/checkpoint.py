"""A training run as arrays and JSON, and back; and the progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.discrete import DiscreteWindows
from dqucb.agents.training import Sizes, Training
from dqucb.density.discrete import pools_of, with_pools

_CURVES = ("ends", "returns", "gaps", "likelihood", "lengths", "position")


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
        "done": training.done,
        "seconds": training.seconds,
    }
    return settings, arrays


def unpacked(
    settings: dict[str, Any], arrays: dict[str, NDArray[Any]], new_learner: Callable[[Sizes], Any]
) -> Training:
    """The run that was packed; all is checked against new tables of the same sizes.

    Raises ValueError or KeyError for anything that does not fit, before a kernel could see it.
    """
    sizes = Sizes(**settings["sizes"], bounds=arrays["bounds"])
    fresh = new_learner(sizes)
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = settings["rng"]
    changes: dict[str, Any] = {}
    for name, value in fresh._asdict().items():
        if isinstance(value, DiscreteWindows):
            pools = {pool: arrays[f"window.{pool}"] for pool in pools_of(value)}
            changes[name] = with_pools(value, pools, max(sizes.n_phases, value.n_states))
        elif isinstance(value, np.ndarray):
            changes[name] = _like(name, arrays[f"learner.{name}"], value)
        elif type(settings["scalars"][name]) is not type(value) or settings["scalars"][name] != value:
            raise ValueError(f"{name} must be {value!r} for these settings, got {settings['scalars'][name]!r}")
    curves: dict[str, Any] = {name: arrays[f"curve.{name}"] for name in _CURVES}
    ends = curves["ends"]
    if not 0 <= settings["done"] <= len(ends) or any(
        len(curves[name]) != len(ends) for name in _CURVES if name != "position"
    ):
        raise ValueError("the curves differ in length")
    return Training(
        sizes=sizes,
        learner=fresh._replace(**changes),
        rng=rng,
        done=int(settings["done"]),
        seconds=float(settings["seconds"]),
        **{name: settings[name] for name in ("seed", "regret_form", "problem")},
        **curves,
    )


def _like(name: str, array: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
    growing = name == "bias"  # the one table whose length depends on what was visited
    if array.dtype != fresh.dtype or array.ndim != fresh.ndim or array.shape[growing:] != fresh.shape[growing:]:
        raise ValueError(f"{name} must be {fresh.dtype}{fresh.shape}, got {array.dtype}{array.shape}")
    return np.ascontiguousarray(array)


@contextmanager
def progress_bar(title: str, total: int, done: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function that takes the number done so far and, if `show`, draws it."""
    if not show:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)
