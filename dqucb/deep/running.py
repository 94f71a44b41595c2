"""What surrounds a run of deep agents: the threads of BLAS, Ctrl-C, and the parts of a saved run."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from dqucb._storage import SavedFileError

if TYPE_CHECKING:
    from dqucb.deep.trainer import Trainer

Arrays = dict[str, NDArray[Any]]


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


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """A function that answers whether Ctrl-C was pressed: it must not fall into the middle of a step.

    A second Ctrl-C interrupts at once. Outside the main thread signals do not arrive, and nothing changes.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


class SavedRun(NamedTuple):
    """The part of a file that lets a run go on, until an env is there."""

    settings: dict[str, Any]
    arrays: Arrays

    def restore(self, trainer: "Trainer") -> None:
        """Put a fresh trainer where the saved one was."""
        from dqucb.deep import checkpoint

        try:
            checkpoint.restore(trainer, self.settings, self.arrays)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError, IndexError) as error:
            raise SavedFileError(f"the saved run does not fit its parameters and env ({error})") from error
