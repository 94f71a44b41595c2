"""Progress of long work on stderr: a bar on a terminal, a line every few seconds in a log file."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """How much of some work is done; does nothing unless shown."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self.title, self.total, self.done, self.stage = title, total, done, ""

    def advance(self, amount: int = 1) -> None:
        """Count this much more as done."""
        self.done += amount

    def say(self, stage: str) -> None:
        """Show the current stage; an empty string removes it."""
        self.stage = stage


@contextmanager
def shown(title: str, total: int, done: int = 0, show: bool | None = True) -> Iterator[Progress]:
    """Progress from `done` to `total` while the block runs.

    Parameters
    ----------
    title : str
        What is counted, such as "runs".
    total, done : int
        How much there is, and how much was there before.
    show : bool or None
        True shows it at once, False never, None after five seconds if somebody is likely to see it: on a terminal or
        in a notebook.
    """
    progress = Progress(title, total, done)
    if show is False or done >= total or (show is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        yield progress
        return
    over = threading.Event()
    draw = _draw_bar if sys.stderr.isatty() else _print_lines

    def wait_and_draw() -> None:
        if show or not over.wait(SECONDS_BETWEEN_LINES):
            draw(progress, over)

    thread = threading.Thread(target=wait_and_draw, daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        over.set()
        thread.join()


def _draw_bar(progress: Progress, over: threading.Event) -> None:
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.TextColumn(progress.title), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    left = (rich.TextColumn("left"), rich.TimeRemainingColumn(), rich.TextColumn("{task.description}"))
    with rich.Progress(*columns, *left, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=progress.total, completed=progress.done)
        while not over.wait(0.1):
            bar.update(task, completed=progress.done, description=progress.stage)
        bar.update(task, completed=progress.done, description="")


def _print_lines(progress: Progress, over: threading.Event) -> None:
    began, said = time.monotonic(), ""
    while not over.wait(SECONDS_BETWEEN_LINES if said == progress.stage else 0.1):
        said = progress.stage
        stage = f", {said}" if said else ""
        line = f"dqucb: {progress.done} of {progress.total} {progress.title}, {time.monotonic() - began:.0f} s{stage}"
        print(line, file=sys.stderr, flush=True)
