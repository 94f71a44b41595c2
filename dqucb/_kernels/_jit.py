"""The one decorator of every Numba kernel, and the message shown while kernels compile."""

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

OPTIONS: dict[str, Any] = {
    "nogil": True,
    # Kernels never divide by zero; this drops the check that Python semantics would put on each division.
    "error_model": "numpy",
    # A kernel passes its arrays as tuples of some 70 words; inlining makes that free (2.5 times on the window).
    "forceinline": True,
    # Kernels do not allocate, so they need no reference counts; with them a step of QUCB costs 530 ns, without 20.
    "_nrt": False,
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
    except RuntimeError:
        # Numba found no writable cache folder (a read-only installation): compile in every process.
        return numba.njit(**options)(function)


def _follow_sources(dispatcher: Any) -> Any:
    """Give the disk cache a name that changes when any kernel file does.

    Numba looks only at the file of the function itself, so it would go on using machine code into which an old
    version of an edited callee was inlined, and fail on an index that names a class which has moved since.
    """
    cache: Any = getattr(dispatcher, "_cache", None)
    try:  # private to Numba: where this does not work, the cache is only as careful as Numba
        cache._cache_file = caching.IndexDataCacheFile(
            cache_path=cache._cache_path,
            filename_base=f"{cache._impl.filename_base}-{SOURCES[:12]}",
            source_stamp=cache._cache_file._source_stamp,
        )
    except (AttributeError, TypeError):
        pass
    return dispatcher


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
