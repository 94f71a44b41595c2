"""The parts of Numba that are used here and are not public; `tests/test_numba_private.py` fails if one moves."""

from typing import Any

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

from dqucb._kernels._cache_file import checked

# Options of `njit` that Numba does not document. Kernels pass their arrays as tuples of some 70 words, and inlining
# makes that free (2.5 times on the window). They do not allocate, so they need no reference counts: with them a step of
# QUCB costs 530 ns, without 20.
OPTIONS: dict[str, Any] = {"forceinline": True, "_nrt": False}
_GENERATOR: Any = numba.typeof(np.random.default_rng(0))
_BITS: Any = numba.typeof(np.random.PCG64(0))


def rename_cache(dispatcher: Any, suffix: str) -> None:
    """Let the disk cache of `dispatcher` live in checked files that end in `suffix`; AttributeError if that fails."""
    cache = dispatcher._cache
    checked(cache, f"{cache._impl.filename_base}-{suffix}")


def instance_class(numba_type: Any) -> type:
    """The NamedTuple class that a Numba type stands for; NoneType for None."""
    return getattr(numba_type, "instance_class", type(None))


@intrinsic
def generator_at(context, state, next_uint64, next_double):
    """A Numba generator over the addresses of a bit generator's state and functions."""

    def generate(context, builder, signature, arguments):
        made = cgutils.create_struct_proxy(_GENERATOR)(context, builder)
        bits = cgutils.create_struct_proxy(_BITS)(context, builder)
        bits.state_address = bits.state = arguments[0]
        bits.fnptr_next_uint64, bits.fnptr_next_double = arguments[1:]
        made.bit_generator = bits._getvalue()
        return made._getvalue()

    return _GENERATOR(state, next_uint64, next_double), generate
