"""The private parts of Numba that we rely on are where `_numba_private` expects them."""

from typing import NamedTuple

import numba
import numba.core.options
import numpy as np
import pytest
from numba.core import config
from numba.core.registry import cpu_target

from dqucb._kernels import _numba_private
from dqucb._kernels._jit import OPTIONS, kernel
from dqucb._kernels.draws import draws_of, generator
from dqucb._kernels.learners.q.prefetching import ask_for
from dqucb._kernels.rows import best_action

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


class Point(NamedTuple):
    x: float


@kernel
def best_of(row):
    return best_action(row)


@kernel
def three_numbers(draws, out):
    rng = generator(draws)
    for i in range(3):
        out[i] = rng.random()


@kernel
def asking(row, place):
    ask_for(row, place)
    return row[0]


class Shelf(_numba_private.Cache):
    """A cache in memory."""

    def __init__(self):
        self.packed = {}

    def load_overload(self, signature, context):
        found = self.packed.get(_numba_private.signature_name(signature))
        return None if found is None else _numba_private.unpacked(found, context)

    def save_overload(self, signature, compiled):
        self.packed[_numba_private.signature_name(signature)] = _numba_private.packed(compiled)


def fresh(function, cache=None):
    """The same kernel, not compiled."""
    return _numba_private.kernel_dispatcher(function.py_func, cache or Shelf(), OPTIONS)


def test_a_compiled_kernel_goes_into_bytes_and_back():
    shelf, row = Shelf(), np.array([1.0, 3.0, 2.0])
    assert fresh(best_of, shelf)(row) == 1
    assert len(shelf.packed) == 1
    again = fresh(best_of, shelf)
    assert again(row) == 1
    assert sum(again.stats.cache_hits.values()) == 1


def test_kernels_call_what_was_compiled_for_them():
    """Else each of them would be compiled with wrappers for Python, which takes twice as long."""
    assert numba.typeof(best_action).dispatcher is best_action.inner
    caller, row = fresh(best_of), np.array([1.0, 3.0, 2.0])
    before = len(best_action.overloads)
    assert caller(row) == 1
    assert len(best_action.overloads) == before
    assert any(len(signature) == 1 for signature in best_action.inner.overloads)


def test_signatures_of_tuples_with_the_same_name_differ():
    names = [_numba_private.signature_name((numba.typeof(made(1.0)),)) for made in (Point, _other_point())]
    assert names[0] != names[1]


def _other_point():
    class Point(NamedTuple):
        x: float

    return Point


def test_the_host_is_known():
    assert _numba_private.host_features()
    assert _numba_private.host_triple() == _numba_private.target_of(cpu_target.target_context)[0]
    assert not _numba_private.cpu_is_chosen()


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
    compiled, rng = fresh(three_numbers), np.random.default_rng(0)  # it must outlive its addresses
    compiled(draws_of(rng), np.zeros(3))
    code = "".join(compiled.inspect_llvm().values())
    assert "three_numbers" in code
    assert "NRT_incref" not in code


def test_the_class_of_a_named_tuple_is_known_to_the_compiler():
    assert _numba_private.instance_class(numba.typeof(Point(1.0))) is Point
    assert _numba_private.instance_class(numba.typeof(None)) is type(None)


def test_memory_can_be_asked_for_wherever_it_is():
    made = fresh(asking)
    assert made(np.array([1.0, 2.0]), 1 << 40) == 1.0
    assert "prefetch" in next(iter(made.inspect_asm().values()))
