"""NumPy's random streams in kernels, through the addresses of their functions.

Numba supports `Generator`, but looks these addresses up in Python code at every call. That takes longer than a whole
step of an agent; and a signal handler that raises during the look-up, as Ctrl-C does, ends the process, because Numba
0.68 does not check the result. Uniform numbers of a PCG64, which `np.random.default_rng` returns, are drawn in the
kernel itself, from the same stream: a function call between two steps took about a tenth of QUCB's step.
"""

import ctypes
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

from dqucb._kernels._jit import INLINED_OPTIONS
from dqucb._kernels._numba_private import generator_at, instance_class, pcg64_at, pcg64_words


class Draws(NamedTuple):
    """Addresses of a bit generator's state and functions; they are valid as long as the generator lives."""

    state: int
    next_uint64: int
    next_double: int


class PCG64Draws(NamedTuple):
    """The address of the four words of a PCG64."""

    words: int


def draws_of(rng: np.random.Generator) -> Any:
    """The form of `rng` that kernels take; the generator itself without the JIT."""
    if numba.config.DISABLE_JIT:
        return rng
    address, words = pcg64_words(rng)
    if words and _are_state_of(words, rng):
        return PCG64Draws(address)
    interface = rng.bit_generator.ctypes
    return Draws(interface.state_address, _address(interface.next_uint64), _address(interface.next_double))


def _are_state_of(words: list[int], rng: np.random.Generator) -> bool:
    """Whether these words are the state of `rng`; without 128-bit integers NumPy has another memory layout."""
    known = rng.bit_generator.state["state"]
    return [words[0] + (words[1] << 64), words[2] + (words[3] << 64)] == [known["state"], known["inc"]]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def generator(draws):
    """The generator in a kernel: `random()` and `standard_normal()` continue its stream."""
    return draws


@overload(generator, jit_options=INLINED_OPTIONS)
def _generator(draws):
    if instance_class(draws) is PCG64Draws:
        return lambda draws: pcg64_at(draws.words)
    return lambda draws: generator_at(draws.state, draws.next_uint64, draws.next_double)
