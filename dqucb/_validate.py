"""Validation of user input. Each check returns the value, cast once for the kernels.

An error names the argument, the value received and what is allowed.
"""

import difflib
import functools
import operator
import os
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_REWARD = 1e100  # learners sum squares of rewards
MAX_SEEDS = 1_000_000
MAX_LENGTH = 2**53  # episodes or steps; the largest exact integer of a float
MAX_GB = "DQUCB_MAX_GB"  # an environment variable
MEMORY_SHARE = 0.75  # fraction of the machine's memory


def demand(holds: Any, otherwise: str) -> None:
    """An assert that `python -O` does not leave out, for checks that users run."""
    if not holds:
        raise AssertionError(otherwise)


def integer(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """An integer in [minimum, maximum]; NumPy integers are allowed, 3.0 and True are not."""
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


def length(name: str, value: Any, minimum: int = 1) -> int:
    """A number of episodes or steps, at most the largest exact integer of a float."""
    if (number := integer(name, value, minimum)) > MAX_LENGTH:
        raise ValueError(f"{name} must be at most 2**53, got {value!r}")
    return number


@functools.cache
def memory_limit() -> int:
    """The largest size of tables in bytes: `DQUCB_MAX_GB`, or a fraction of the memory of machine or container."""
    if given := os.environ.get(MAX_GB):
        try:
            return int(positive(MAX_GB, float(given)) * 10**9)
        except ValueError:
            raise ValueError(f"{MAX_GB} must be a number above 0, got {given!r}") from None
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        found = 16 * 10**9
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        found = min(found, int(file.read()))
    return int(MEMORY_SHARE * found)


def fits(what: str, size: int) -> None:
    """Raise a ValueError if `what` would need more bytes than `memory_limit()`."""
    if size > memory_limit():
        raise ValueError(
            f"{what} would take {in_words(size)}, more than the {in_words(memory_limit())} that this machine can spare "
            f"({MAX_GB} sets another limit)"
        )


def in_words(size: int) -> str:
    """A number of bytes as text.

    >>> in_words(8_000_000_000_000)
    '8.0 TB'
    """
    if size >= 10**18:
        return "more than a million TB"
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"


def state_id(name: str, value: Any, size: int) -> int:
    """An integer id in [0, size)."""
    return integer(name, value, 0, size - 1)


def real(name: str, value: Any, minimum: float = -np.inf, maximum: float = np.inf, *, open_left: bool = False) -> float:
    """A finite float in [minimum, maximum], or in (minimum, maximum] with `open_left`."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {_range(minimum, maximum, open_left)}, got {value!r}") from None
    too_small = number <= minimum if open_left else number < minimum
    if not np.isfinite(number) or too_small or number > maximum:
        raise ValueError(f"{name} must be {_range(minimum, maximum, open_left)}, got {value!r}")
    return number


def reward(name: str, value: Any) -> float:
    """A reward whose square, and the sum of many such squares, is finite."""
    return real(name, real(name, value), -MAX_REWARD, MAX_REWARD)


def env_reward(value: Any) -> float:
    """What an env paid, as a float that may not be finite; true and false are 1 and 0."""
    if type(value) is float:  # nearly always
        return value
    if isinstance(value, str | bytes) or np.ndim(value) != 0 or np.iscomplexobj(value) or value is None:
        raise ValueError(f"reward of the env must be a number, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A finite float above zero."""
    return real(name, value, 0.0, open_left=True)


def flag(name: str, value: Any) -> bool:
    """True or False, no other type."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed strings; the error for a typo names the nearest one."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return value
    near = difflib.get_close_matches(str(value), words, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}{hint}")


def known(what: str, name: str, names: Iterable[str], otherwise: str | None = None) -> str:
    """`name` if it is one of `names`; else a ValueError that lists the nearest ones, or `otherwise`, or all."""
    words = list(names)
    if name in words:
        return name
    near = difflib.get_close_matches(str(name).lower(), words, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise or f"there is {', '.join(words) or 'none'}"
    raise ValueError(f"unknown {what} {name!r}: {hint}")


def increasing(name: str, values: Any, minimum: int = 1) -> tuple[int, ...]:
    """Strictly increasing integers; a single integer is a sequence of one."""
    try:
        listed = [values] if isinstance(values, int | np.integer) else list(values)
    except TypeError:
        raise ValueError(f"{name} must be a list of integers, got {values!r}") from None
    numbers = tuple(integer(f"each of {name}", value, minimum) for value in listed)
    if any(a >= b for a, b in pairwise(numbers)):
        raise ValueError(f"{name} must increase strictly, got {numbers}")
    return numbers


def labels(name: str, values: Iterable[Any]) -> list[str]:
    """Values as the text that stands for them in tables and files; each must read differently from all others."""
    texts = [str(value) for value in values]
    seen = set()
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} must be text that can be written as UTF-8, got {text!r}") from None
        if not text.isprintable() or not text.strip():
            raise ValueError(f"{name} must be printable text on one line, got {text!r}")
        shown = " ".join(unicodedata.normalize("NFC", text).split())
        if shown in seen:
            raise ValueError(f"{name} must differ as text, got {shown!r} twice")
        seen.add(shown)
    return texts


def seeds(values: Any) -> list[int]:
    """Distinct seeds, at least one; a single integer n means 0, ..., n - 1."""
    listed = range(integer("seeds", values, 1, MAX_SEEDS)) if isinstance(values, int | np.integer) else values
    try:
        numbers = [integer("each of seeds", seed, 0) for seed in islice(listed, MAX_SEEDS + 1)]
    except TypeError:
        raise ValueError(f"seeds must be a number of seeds or a list of different seeds, got {values!r}") from None
    if len(numbers) > MAX_SEEDS:
        raise ValueError(f"seeds must be at most {MAX_SEEDS:,}, got more")
    if not numbers or len(set(numbers)) < len(numbers):
        shown = numbers if len(numbers) < 100 else f"{len(numbers):,} with repetitions"
        raise ValueError(f"seeds must be a number of seeds or different seeds, got {shown}")
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


def like(name: str, value: Any, expected: NDArray[Any], *, growing: bool = False, finite: bool = False) -> NDArray[Any]:
    """A C-contiguous array with the type and shape of another one; if `growing`, of any length along its first axis."""
    array = np.asarray(value)
    same = [(each.dtype, each.ndim, each.shape[growing:]) for each in (array, expected)]
    if same[0] != same[1]:
        raise ValueError(f"{name} must be {expected.dtype}{expected.shape}, got {array.dtype}{array.shape}")
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return np.ascontiguousarray(array)


def vector(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """A finite float vector of the given length; a single number is a vector of length one."""
    array = finite_array(name, np.atleast_1d(np.asarray(value)), 1)
    if array.size != size:
        raise ValueError(f"{name} must have {size} numbers, got {array.size}")
    return array


def _range(minimum: float, maximum: float, open_left: bool) -> str:
    left = ">" if open_left else ">="
    if maximum == np.inf:
        return "a finite number" if minimum == -np.inf else f"{left} {minimum:g}"
    return f"{left} {minimum:g} and <= {maximum:g}"
