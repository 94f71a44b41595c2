"""NumPy's random streams in kernels, through the addresses of their functions.

Numba takes a `Generator` too, but looks these addresses up in Python code at every call. That costs more than the step
that it is for; and a signal handler that raises in it, as Ctrl-C does, ends the process, because Numba 0.68 does not
check what comes back. Uniform numbers of a PCG64, which is what `np.random.default_rng` gives, are drawn in the kernel
itself, in the same stream: a call between two steps cost QUCB about a tenth of its step.
"""

import ctypes
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

from dqucb._kernels._jit import INLINED_OPTIONS
from dqucb._kernels._numba_private import generator_at, instance_class, pcg64_at, pcg64_words


class Draws(NamedTuple):
    """Addresses of a bit generator's state and functions; they hold as long as the generator lives."""

    state: int
    next_uint64: int
    next_double: int


class PCG64Draws(NamedTuple):
    """The address of the four words of a PCG64."""

    words: int


def draws_of(rng: np.random.Generator) -> Any:
    """What kernels take in place of `rng`; the generator itself where there is no JIT."""
    if numba.config.DISABLE_JIT:
        return rng
    address, words = pcg64_words(rng)
    if words and _are_state_of(words, rng):
        return PCG64Draws(address)
    interface = rng.bit_generator.ctypes
    return Draws(interface.state_address, _address(interface.next_uint64), _address(interface.next_double))


def _are_state_of(words: list[int], rng: np.random.Generator) -> bool:
    """Whether they are what NumPy says; without integers of 128 bits it lays them out otherwise."""
    known = rng.bit_generator.state["state"]
    return [words[0] + (words[1] << 64), words[2] + (words[3] << 64)] == [known["state"], known["inc"]]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def generator(draws):
    """The generator in a kernel: `random()` and `standard_normal()` go on in its stream."""
    return draws


@overload(generator, jit_options=INLINED_OPTIONS)
def _generator(draws):
    if instance_class(draws) is PCG64Draws:
        return lambda draws: pcg64_at(draws.words)
    return lambda draws: generator_at(draws.state, draws.next_uint64, draws.next_double)
