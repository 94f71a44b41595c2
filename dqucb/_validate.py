"""The one place that checks what users pass in. Each check returns the value, cast once for the kernels.

An error names the argument, the value received and what is allowed.
"""

import difflib
import operator
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_REWARD = 1e100  # learners sum squares of rewards


def integer(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """An integer in [minimum, maximum]; NumPy integers are welcome, 3.0 and True are not."""
    allowed = f"an integer >= {minimum}" if maximum is None else f"an integer in [{minimum}, {maximum}]"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def state_id(name: str, value: Any, size: int) -> int:
    """An integer id in [0, size)."""
    return integer(name, value, 0, size - 1)


def real(name: str, value: Any, minimum: float = -np.inf, maximum: float = np.inf, *, open_left: bool = False) -> float:
    """A finite float in [minimum, maximum], or in (minimum, maximum] with `open_left`."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {_range(minimum, maximum, open_left)}, got {value!r}") from None
    too_small = number <= minimum if open_left else number < minimum
    if not np.isfinite(number) or too_small or number > maximum:
        raise ValueError(f"{name} must be {_range(minimum, maximum, open_left)}, got {value!r}")
    return number


def reward(name: str, value: Any) -> float:
    """A reward whose square, and the sum of many such squares, is finite."""
    return real(name, value, -MAX_REWARD, MAX_REWARD)


def positive(name: str, value: Any) -> float:
    """A finite float above zero."""
    return real(name, value, 0.0, open_left=True)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words; a near miss is answered with the nearest valid one."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return value
    near = difflib.get_close_matches(str(value), words, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}{hint}")


def known(what: str, name: str, names: Iterable[str]) -> str:
    """`name` if it is one of `names`; else a ValueError that offers the nearest ones, or all."""
    words = list(names)
    if name in words:
        return name
    near = difflib.get_close_matches(str(name).lower(), words, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(words) or 'none'}"
    raise ValueError(f"unknown {what} {name!r}: {hint}")


def increasing(name: str, values: Any, minimum: int = 1) -> tuple[int, ...]:
    """Integers that increase strictly; a single one is a sequence of one."""
    try:
        listed = [values] if isinstance(values, int | np.integer) else list(values)
    except TypeError:
        raise ValueError(f"{name} must be a list of integers, got {values!r}") from None
    numbers = tuple(integer(f"each of {name}", value, minimum) for value in listed)
    if any(a >= b for a, b in pairwise(numbers)):
        raise ValueError(f"{name} must increase strictly, got {numbers}")
    return numbers


def seeds(values: Any) -> list[int]:
    """Different seeds, at least one; a single integer is how many: 0, 1, ..."""
    listed = range(integer("seeds", values)) if isinstance(values, int | np.integer) else values
    try:
        numbers = [integer("each of seeds", seed, 0) for seed in listed]
    except TypeError:
        raise ValueError(f"seeds must be a number of seeds or a list of different seeds, got {values!r}") from None
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be a number of seeds or different seeds, got {numbers}")
    return numbers


def finite_array(name: str, value: Any, ndim: int, dtype: Any = np.float64) -> NDArray[Any]:
    """A C-contiguous array of `ndim` axes without NaN or infinity."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf" and given.size:
            raise TypeError(f"not numbers: {given.dtype}")
        array = np.ascontiguousarray(given, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of finite numbers, got {value!r}") from error
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}")
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]!r} at index {where}")
    return array


def vector(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """A finite float vector of the given length; a single number stands for a vector of one."""
    array = finite_array(name, np.atleast_1d(np.asarray(value)), 1)
    if array.size != size:
        raise ValueError(f"{name} must have {size} numbers, got {array.size}")
    return array


def _range(minimum: float, maximum: float, open_left: bool) -> str:
    left = ">" if open_left else ">="
    if maximum == np.inf:
        return "a finite number" if minimum == -np.inf else f"{left} {minimum:g}"
    return f"{left} {minimum:g} and <= {maximum:g}"
