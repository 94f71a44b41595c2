"""Waiting for events in tests: with a limit that no busy machine reaches, and never for a given time."""

import time
from collections.abc import Callable

PATIENCE = 1_800.0  # seconds until a test that hangs is given up


def wait_for(happened: Callable[[], object], what: str, poll: float = 0.01) -> None:
    """Return when `happened()` is true; an AssertionError that says `what` did not happen if it never is."""
    limit = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < limit, f"it never happened: {what}"
        time.sleep(poll)
