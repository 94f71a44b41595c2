"""The one decorator of every Numba kernel, and the message shown while kernels compile."""

import functools
import hashlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.extending import overload

from dqucb._kernels import _numba_private

OPTIONS: dict[str, Any] = {
    "nogil": True,
    # Kernels never divide by zero; this drops the check that Python semantics would put on each division.
    "error_model": "numpy",
    **_numba_private.OPTIONS,
}
SOURCES = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
).hexdigest()
SECONDS_BEFORE_MESSAGE = 1.0  # a kernel that comes from the disk cache is ready sooner than this


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` lazily, cache the machine code, release the GIL. No fastmath: bits matter."""
    return _compiled(function, OPTIONS)


def allocating_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the few kernels that make arrays of their own; never in a hot loop."""
    return _compiled(function, {**OPTIONS, "_nrt": True})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    try:
        return _follow_sources(numba.njit(cache=True, **options)(function))
    except RuntimeError as error:
        # Numba found no writable cache folder (a read-only installation): compile in every process.
        _say_once(f"kernels are compiled in every process ({error}): let NUMBA_CACHE_DIR name a folder for them")
        return numba.njit(**options)(function)


@functools.cache
def _say_once(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _follow_sources(dispatcher: Any) -> Any:
    """Give the disk cache a name that changes when any kernel file does.

    Numba looks only at the file of the function itself, so it would go on using machine code into which an old
    version of an edited callee was inlined, and fail on an index that names a class which has moved since.
    """
    try:  # where this does not work, the cache is only as careful as Numba
        _numba_private.rename_cache(dispatcher, SOURCES[:12])
    except (AttributeError, TypeError):
        pass
    return dispatcher


def by_type(choose: Callable[[type], Callable[..., Any]], summary: str) -> Callable[..., Any]:
    """A function of kernels whose implementation follows from the type of its first argument.

    `choose` maps that type to the implementation, at compile time in a kernel and at run time without the JIT.
    """

    def chosen(subject, *arguments):
        return choose(type(subject))(subject, *arguments)

    @overload(chosen, jit_options=OPTIONS)
    def _chosen(subject, *arguments):
        rule = choose(_numba_private.instance_class(subject))
        return lambda subject, *arguments: rule(subject, *arguments)

    chosen.__doc__ = summary
    return chosen


@contextmanager
def compilation_message(dispatcher: Callable[..., Any]) -> Iterator[None]:
    """Print one line to stderr if the first call of `dispatcher` takes long enough to be a compilation."""
    if getattr(dispatcher, "signatures", True):
        yield
        return
    timer = threading.Timer(
        SECONDS_BEFORE_MESSAGE,
        print,
        args=["dqucb: compiling kernels, once per installation ..."],
        kwargs={"file": sys.stderr, "flush": True},
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
