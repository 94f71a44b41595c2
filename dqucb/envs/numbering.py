"""Envs in the form that an agent takes: finite spaces as numbers 0, 1, ... for tabular agents, vectors for deep ones.

An env that has that form already is returned as it is. Anything that cannot be brought into it is refused in words.
"""

import math
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation

Env = gymnasium.Env[Any, Any]


def numbered(env: Env) -> Env:
    """The env with Discrete spaces that start at 0; any finite space is numbered.

    Examples
    --------
    >>> import gymnasium
    >>> blackjack = gymnasium.make("Blackjack-v1")
    >>> blackjack.observation_space
    Tuple(Discrete(32), Discrete(11), Discrete(2))
    >>> numbered(blackjack).observation_space
    Discrete(704)
    """
    for role in ("observation_space", "action_space"):
        if count(getattr(env, role)) is None:
            raise ValueError(
                f"{role} must be finite (Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of these), got "
                f"{getattr(env, role)}: cut it into pieces with a wrapper, or use an agent of dqucb.deep"
            )
    return env if _is_plain(env.observation_space) and _is_plain(env.action_space) else NumberedSpaces(env)


def flattened(env: Env) -> Env:
    """The env with vectors as observations, if its own ones can be written as such."""
    space = env.observation_space
    if isinstance(space, spaces.Box | spaces.Discrete) or not space.is_np_flattenable:
        return env
    return FlattenObservation(env)


class NumberedSpaces(gymnasium.Wrapper[int, int, Any, Any]):
    """An env whose finite observations and actions are numbered: 0, 1, ... of Discrete spaces."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Discrete(int(count(env.observation_space) or 0))  # type: ignore[assignment]
        self.action_space = spaces.Discrete(int(count(env.action_space) or 0))  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """As the env does."""
        observation, info = self.env.reset(seed=seed, options=options)
        return number_of(self.env.observation_space, observation), info

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """As the env does."""
        observation, *rest = self.env.step(element(self.env.action_space, int(action)))
        return (number_of(self.env.observation_space, observation), *rest)  # type: ignore[return-value]


def count(space: spaces.Space[Any]) -> int | None:
    """The number of elements of a finite space; None for any other."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return math.prod(space.nvec.ravel().tolist())
    if isinstance(space, spaces.MultiBinary):
        return 2 ** int(np.prod(space.shape))
    parts = _parts(space)
    counts = None if parts is None else [count(part) for _, part in parts]
    return None if counts is None or None in counts else math.prod(counts)  # type: ignore[arg-type]


def number_of(space: spaces.Space[Any], value: Any) -> int:
    """The number of an element of a finite space; the last part of it counts fastest."""
    if isinstance(space, spaces.Discrete):
        return int(value) - int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return _mixed((np.asarray(value) - space.start).ravel().tolist(), space.nvec.ravel().tolist())
    if isinstance(space, spaces.MultiBinary):
        digits = np.asarray(value).ravel().tolist()
        return _mixed(digits, [2] * len(digits))
    parts = _parts(space) or []
    return _mixed((number_of(part, value[key]) for key, part in parts), (count(part) or 1 for _, part in parts))


def element(space: spaces.Space[Any], number: int) -> Any:
    """The element of a finite space that has this number."""
    if isinstance(space, spaces.Discrete):
        return number + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = np.array(_digits(number, space.nvec.ravel().tolist()), space.dtype)
        return chosen.reshape(space.nvec.shape) + space.start
    if isinstance(space, spaces.MultiBinary):
        return np.array(_digits(number, [2] * int(np.prod(space.shape))), space.dtype).reshape(space.shape)
    parts = _parts(space) or []
    digits = _digits(number, [count(part) or 1 for _, part in parts])
    found = {key: element(part, digit) for (key, part), digit in zip(parts, digits, strict=True)}
    return found if isinstance(space, spaces.Dict) else tuple(found.values())


def _parts(space: spaces.Space[Any]) -> list[tuple[Any, spaces.Space[Any]]] | None:
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def _is_plain(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Discrete) and int(space.start) == 0


def _mixed(digits: Iterable[int], bases: Iterable[int]) -> int:
    number = 0
    for digit, base in zip(digits, bases, strict=True):
        number = number * base + int(digit)
    return number


def _digits(number: int, bases: list[int]) -> list[int]:
    digits = []
    for base in reversed(bases):
        number, digit = divmod(number, base)
        digits.append(digit)
    return digits[::-1]
