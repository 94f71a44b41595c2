"""Changes drawn from a seed: which part of an env changes, by how much, and whether it returns.

`drawn_change(seed)` returns a function that makes the env, for `train`, `compare` and detectors. The size of a change
is log-uniform in the range of its kind, small or large. Which env, kind, size and pattern are drawn unless given.
"""

from functools import partial
from typing import Any
from zlib import crc32

import gymnasium
import numpy as np

from dqucb import _validate
from dqucb.envs.discretized import DiscretizedActions
from dqucb.envs.physics import NEUTRAL, PhysicsShift, kinds_of, locomotion

# Short name -> Gymnasium id or MuJoCo task, and steps of an episode.
TASKS: dict[str, tuple[str, int]] = {
    "cartpole": ("CartPole-v1", 200),
    "acrobot": ("Acrobot-v1", 200),
    "mountain-car": ("MountainCar-v0", 200),
    "pendulum": ("Pendulum-v1", 200),
    "half-cheetah": ("HalfCheetah", 200),
    "hopper": ("Hopper", 200),
}
BINS = {"pendulum": 5, "half-cheetah": 3, "hopper": 3}  # values of each dimension of an action
SIZES = ("small", "large")
PATTERNS = ("once", "several", "returning", "placebo")
FACTOR = ((1.1, 1.4), (1.5, 3.0))  # or one over it
# Ranges of the values, small and large; "flip" is a negative "force".
RANGES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "gravity": FACTOR, "mass": FACTOR, "length": FACTOR, "force": FACTOR, "friction": FACTOR,
    "flip": ((0.8, 1.25), (0.8, 1.25)),
    "damping": ((0.005, 0.02), (0.03, 0.15)),
    "process_noise": ((0.03, 0.08), (0.1, 0.3)),
    "observation_noise": ((0.03, 0.1), (0.15, 0.5)),
    "sensor_bias": ((0.1, 0.3), (0.5, 1.5)),
    "stuck_sensor": ((1.0, 1.0), (1.0, 1.0)),
    "delay": ((1.0, 1.0), (2.0, 4.0)),
    "reward": ((0.1, 0.3), (0.5, 1.5)),
}  # fmt: skip
_EITHER_SIGN = ("sensor_bias", "reward")


def task_env(task: str = "cartpole") -> gymnasium.Env[Any, Any]:
    """Return the env of a task, with discrete actions and without a change.

    Parameters
    ----------
    task : str
        One of TASKS. "half-cheetah" and "hopper" need the extra `mujoco`.

    Examples
    --------
    >>> from dqucb.envs.drawn import task_env
    >>> task_env("pendulum").action_space
    MultiDiscrete([5])
    """
    name, steps = TASKS[_validate.known("task", task, TASKS)]
    if not name[-1].isdigit():
        return locomotion(name, bins=BINS[task], max_episode_steps=steps).env
    env = gymnasium.make(name, max_episode_steps=steps, disable_env_checker=True)
    return DiscretizedActions(env, BINS[task]) if task in BINS else env


def changing_env(task: str = "cartpole", kind: str = "gravity", change_at: tuple[int, ...] = (),
                 values: tuple[float, ...] = (), coordinate: int = 0) -> PhysicsShift:  # fmt: skip
    """Return a task that changes at given steps.

    Parameters
    ----------
    task : str
        One of TASKS.
    kind, change_at, values, coordinate
        As in `PhysicsShift`.

    Examples
    --------
    >>> from dqucb.envs import changing_env
    >>> changing_env("cartpole", "force", change_at=(25_000,), values=(-1.0,)).change_at
    (25000,)
    """
    return PhysicsShift(task_env(task), kind, change_at, values, coordinate)


def drawn_kinds(task: str) -> list[str]:
    """Return the kinds of change that are drawn for a task.

    Parameters
    ----------
    task : str
        One of TASKS.

    Examples
    --------
    >>> from dqucb.envs.drawn import drawn_kinds
    >>> drawn_kinds("mountain-car")[:3]
    ['gravity', 'force', 'damping']
    """
    own = kinds_of(task_env(task))
    return [*own, "flip"] if "force" in own else own


def drawn_change(
    seed: int,
    task: str | None = None,
    kind: str | None = None,
    *,
    size: str | None = None,
    pattern: str | None = None,
    change_at: int = 25_000,
    every: int = 15_000,
) -> partial[PhysicsShift]:
    """Draw a change; returns a function that makes the env, whose `keywords` say what was drawn.

    Parameters
    ----------
    seed : int
        The same seed and arguments give the same change.
    task, kind : str, optional
        One of TASKS, and of `drawn_kinds(task)`; drawn by default.
    size : str, optional
        "small" or "large"; drawn by default.
    pattern : str, optional
        "once"; "several", two changes to different values; "returning", a change that is undone; or "placebo", nothing
        changes at the stated step. By default one of the first three is drawn.
    change_at, every : int
        The step of the first change, and the steps from it to the second.

    Examples
    --------
    >>> from dqucb.envs import drawn_change
    >>> make = drawn_change(3, "cartpole", "flip", pattern="once")
    >>> make.keywords["kind"], make.keywords["values"][0] < 0, make().change_at
    ('force', True, (25000,))
    >>> drawn_change(3, "cartpole", "flip", pattern="placebo").keywords["values"]
    (1.0,)
    """
    rng = np.random.default_rng([_validate.integer("seed", seed, 0), 35])
    task = str(rng.choice(list(TASKS))) if task is None else _validate.known("task", task, TASKS)
    kinds = drawn_kinds(task)
    kind = str(rng.choice(kinds)) if kind is None else _validate.one_of("kind", kind, kinds)
    rng = np.random.default_rng([seed, 36, crc32(f"{task} {kind}".encode())])  # other draws for other cases
    size = str(rng.choice(SIZES)) if size is None else _validate.one_of("size", size, SIZES)
    pattern = str(rng.choice(PATTERNS[:3])) if pattern is None else _validate.one_of("pattern", pattern, PATTERNS)
    first = _validate.integer("change_at", change_at, 0)
    steps = (first, first + _validate.integer("every", every))
    own = "force" if kind == "flip" else kind
    low, high = RANGES[kind][SIZES.index(size)]
    drawn = [_value(rng, kind, low, high) for _ in steps]
    values = {"once": drawn[:1], "several": drawn, "returning": [drawn[0], NEUTRAL[own]], "placebo": [NEUTRAL[own]]}
    coordinate = int(rng.integers(task_env(task).observation_space.shape[0]))  # type: ignore[index]
    found = values[pattern]
    return partial(changing_env, task=task, kind=own, change_at=steps[: len(found)], values=tuple(found),
                   coordinate=coordinate if own in ("sensor_bias", "stuck_sensor", "reward") else 0)  # fmt: skip


def _value(rng: np.random.Generator, kind: str, low: float, high: float) -> float:
    value, sign = float(np.exp(rng.uniform(np.log(low), np.log(high)))), float(rng.choice([-1.0, 1.0]))
    if RANGES[kind] is FACTOR:
        value = value**sign
    if kind == "delay":
        return float(round(value))
    return round(-value if kind == "flip" else sign * value if kind in _EITHER_SIGN else value, 4)


def drawn_env(seed: int = 0, **options: Any) -> PhysicsShift:
    """Return the env of `drawn_change(seed, ...)`.

    Parameters
    ----------
    seed : int
        Of the change; not of the run.
    **options
        As in `drawn_change`.

    Examples
    --------
    >>> from dqucb.envs.drawn import drawn_env
    >>> drawn_env(1, task="acrobot", kind="mass").kind
    'mass'
    """
    return drawn_change(seed, **options)()
