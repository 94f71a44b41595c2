"""NumPy's random streams in kernels, through the addresses of their functions.

Numba takes a `Generator` too, but looks these addresses up in Python code at every call. That costs more than the step
that it is for; and a signal handler that raises in it, as Ctrl-C does, ends the process, because Numba 0.68 does not
check what comes back.
"""

import ctypes
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

from dqucb._kernels._jit import OPTIONS
from dqucb._kernels._numba_private import generator_at


class Draws(NamedTuple):
    """Addresses of a bit generator's state and functions; they hold as long as the generator lives."""

    state: int
    next_uint64: int
    next_double: int


def draws_of(rng: np.random.Generator) -> Any:
    """What kernels take in place of `rng`; the generator itself where there is no JIT."""
    if numba.config.DISABLE_JIT:
        return rng
    interface = rng.bit_generator.ctypes
    return Draws(interface.state_address, _address(interface.next_uint64), _address(interface.next_double))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def generator(draws):
    """The generator in a kernel: `random()` and `standard_normal()` go on in its stream."""
    return draws


@overload(generator, jit_options=OPTIONS)
def _generator(draws):
    return lambda draws: generator_at(draws.state, draws.next_uint64, draws.next_double)
