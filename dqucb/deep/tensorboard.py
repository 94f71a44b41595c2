"""A callback that writes the curves of any agent for TensorBoard."""

import time
from os import PathLike
from typing import Any

from dqucb import _validate
from dqucb.base import Progress
from dqucb.deep.recording import OF_UPDATES
from dqucb.run import Run

CURVES = ("returns", "regret", "likelihood", "lengths")


class TensorBoardCallback:
    """A callback that writes the curves of a run, and loss, TD error and gradient norm of deep agents.

    It works with every agent, tabular or deep, and needs the extra `deep`.

    Parameters
    ----------
    folder : path
        The log directory of TensorBoard, with a subfolder for each agent and seed.
    every : int, optional
        Episodes or steps between two updates of the logs; by default a thousandth of the run.

    Examples
    --------
    >>> import tempfile
    >>> from dqucb import QUCB, combination_lock
    >>> from dqucb.deep import TensorBoardCallback
    >>> with tempfile.TemporaryDirectory() as folder, TensorBoardCallback(folder) as callback:
    ...     run = QUCB().train(combination_lock(change_at=()), episodes=50, callback=callback)
    """

    def __init__(self, folder: str | PathLike[str], every: int | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ImportError(f'this callback needs tensorboard: pip install "dqucb[deep]" ({error})') from error
        self._new_writer, self._new_event, self._new_summary = EventFileWriter, event_pb2.Event, summary_pb2.Summary
        self.folder = folder
        self.every = None if every is None else _validate.integer("every", every)
        self._writers: dict[str, Any] = {}
        self._written: dict[str, int] = {}
        self._next = 0

    def __call__(self, progress: Progress) -> None:
        if progress.done < self._next and progress.done < progress.length:
            return
        self._next = progress.done + (self.every or max(1, progress.length // 1_000))
        for i, run in enumerate(progress.runs()):
            name = f"{run.agent}/seed-{run.seed}"
            self._write(name, run)
            # Only the progress of deep agents has these.
            numbers = {tag: float(getattr(progress, tag)[i]) for tag in OF_UPDATES if hasattr(progress, tag)}
            if numbers:
                self._add(name, int(run.ends[-1]) if len(run) else 0, numbers)

    def _write(self, name: str, run: Run) -> None:
        if name not in self._writers:
            self._writers[name] = self._new_writer(f"{self.folder}/{name}")
        for record in range(self._written.get(name, 0), len(run)):
            self._add(name, int(run.ends[record]), {curve: float(getattr(run, curve)[record]) for curve in CURVES})
        self._written[name] = len(run)

    def _add(self, name: str, step: int, numbers: dict[str, float]) -> None:
        values = [self._new_summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
        event = self._new_event(wall_time=time.time(), step=step, summary=self._new_summary(value=values))
        self._writers[name].add_event(event)

    def state(self) -> dict[str, Any]:
        """Return what has been written, for checkpoints."""
        return {"written": dict(self._written), "next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self._written, self._next = dict(state.get("written", {})), int(state.get("next", 0))

    def close(self) -> None:
        """Flush and close all files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> "TensorBoardCallback":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
