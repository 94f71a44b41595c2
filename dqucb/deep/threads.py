"""Limits BLAS to one thread for deep agents."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _libraries() -> Any:
    """Return a controller of all libraries with thread pools, including the BLAS that Numba uses."""
    try:
        import scipy.linalg.cython_blas  # noqa: F401
        from threadpoolctl import ThreadpoolController
    except ImportError as error:
        raise ImportError(f'deep agents need SciPy and threadpoolctl: pip install "dqucb[deep]" ({error})') from error
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: small networks gain nothing from more, and results do not depend on their number."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
