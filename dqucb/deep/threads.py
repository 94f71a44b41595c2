"""One thread of BLAS for deep agents."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _libraries() -> Any:
    """The libraries with threads of their own, among them the one that Numba's matrix products use."""
    try:
        import scipy.linalg.cython_blas  # noqa: F401
        from threadpoolctl import ThreadpoolController
    except ImportError as error:
        raise ImportError(f'deep agents need SciPy and threadpoolctl: pip install "dqucb[deep]" ({error})') from error
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks gain nothing from more threads, and the bits stay the same."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
