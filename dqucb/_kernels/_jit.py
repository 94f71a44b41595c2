"""The one decorator of every Numba kernel."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from dqucb._kernels import _numba_private
from dqucb._kernels._cache import KernelCache

OPTIONS: dict[str, Any] = {
    "nogil": True,
    # Kernels never divide by zero; this removes Python's check from each division.
    "error_model": "numpy",
    **_numba_private.OPTIONS,
}

# For `overload(jit_options=...)`: what only kernels call.
INLINED_OPTIONS: dict[str, Any] = OPTIONS | _numba_private.INLINED


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` lazily, cache the machine code, release the GIL. No fastmath: bits matter."""
    return _numba_private.kernel_dispatcher(function, KernelCache(function), OPTIONS)


def rare_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, not inlined: for long code that a hot loop calls rarely, which keeps the loop short."""
    return _numba_private.kernel_dispatcher(function, KernelCache(function), {**OPTIONS, "forceinline": False})


def allocating_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, for the few kernels that allocate arrays; never in a hot loop."""
    options = {**OPTIONS, "_nrt": True}
    return _numba_private.kernel_dispatcher(function, KernelCache(function), options)


def by_type(choose: Callable[[type], Callable[..., Any]], summary: str) -> Callable[..., Any]:
    """A function of kernels whose implementation depends on the type of its first argument.

    `choose` maps that type to the implementation, at compile time in a kernel and at run time without the JIT.
    """

    def chosen(subject, *arguments):
        return choose(type(subject))(subject, *arguments)

    @overload(chosen, jit_options=INLINED_OPTIONS)
    def _chosen(subject, *arguments):
        rule = choose(_numba_private.instance_class(subject))
        return lambda subject, *arguments: rule(subject, *arguments)

    chosen.__doc__ = summary
    return chosen
