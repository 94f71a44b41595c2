"""Processes that are disturbed: forks that tell how they ended, and the members of a session."""

import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class HangError(Exception):
    """A process did not end in time."""


class Child:
    """A fork that does one thing and says how it ended."""

    def __init__(self, action: Callable[[], None], nuisance: Callable[[], None] | None = None) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _live(action, nuisance, writing)
        os.close(writing)
        self._reading = reading

    def end_after(self, seconds: float, number: int) -> None:
        """Send a signal later; sooner, if the process ends by itself."""
        ready, _, _ = select.select([self._reading], [], [], seconds)
        if not ready:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> str:
        """How it ended: "done", "killed", or an error as "Type: message"; `HangError` if it does not."""
        said, limit = b"", time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise HangError(f"no end after {seconds} s")
            piece = os.read(self._reading, 65_536)
            if not piece:
                break
            said += piece
        os.close(self._reading)
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return "killed" if os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGINT) else f"crashed: {status}"
        return said.decode()


def _live(action: Callable[[], None], nuisance: Callable[[], None] | None, writing: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = "done"
    try:
        if nuisance is not None:
            nuisance()
        action()
    except KeyboardInterrupt:
        said = "interrupted"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        if not isinstance(error, OSError | ValueError):
            said += "\n" + traceback.format_exc()
    with suppress(BaseException):
        os.write(writing, said.encode()[:60_000])
    os._exit(0)


def session_of(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


def nobody_left(leader: int, seconds: float = 1_800.0) -> None:
    """Raise an AssertionError if processes of a session outlive its leader for so long; they are ended then."""
    limit = time.monotonic() + seconds
    while left := session_of(leader):
        if time.monotonic() > limit:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{len(left)} processes outlive their parent by {seconds} s")
        time.sleep(0.05)


def later(seconds: float, action: Callable[[], object]) -> None:
    """Do something in a while, in a thread."""
    threading.Timer(seconds, action).start()
