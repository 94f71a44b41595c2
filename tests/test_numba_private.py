"""The private parts of Numba that we rely on are where `_numba_private` expects them."""

from typing import NamedTuple

import numba
import numba.core.options
import numpy as np
import pytest
from numba.core import config

from dqucb._kernels import _numba_private
from dqucb._kernels._jit import SOURCES, kernel
from dqucb._kernels.draws import draws_of, generator
from dqucb._kernels.rows import best_action

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


class Point(NamedTuple):
    x: float


@kernel
def three_numbers(draws, out):
    rng = generator(draws)
    for i in range(3):
        out[i] = rng.random()


def test_the_cache_of_a_kernel_follows_all_kernel_files():
    """`_jit` forgives a failure here, at the price of stale machine code: so it must show somewhere."""
    _numba_private.rename_cache(best_action, SOURCES[:12])
    assert SOURCES[:12] in str(best_action._cache._cache_file._index_name)


def test_the_options_are_known_to_numba():
    for option in _numba_private.OPTIONS:
        assert option in vars(numba.core.options.DefaultOptions), option


def test_a_generator_of_addresses_is_the_generator():
    ours, theirs, found = np.random.default_rng(3), np.random.default_rng(3), np.zeros(3)
    three_numbers(draws_of(ours), found)
    np.testing.assert_array_equal(found, theirs.random(3))
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_a_kernel_without_reference_counts_has_none():
    """The option is silently ignored by a Numba that has another name for it; then the machine code counts."""
    out = np.zeros(3)
    three_numbers(draws_of(np.random.default_rng(0)), out)
    assert "NRT_incref" not in "".join(three_numbers.inspect_llvm().values())


def test_the_class_of_a_named_tuple_is_known_to_the_compiler():
    assert _numba_private.instance_class(numba.typeof(Point(1.0))) is Point
    assert _numba_private.instance_class(numba.typeof(None)) is type(None)
