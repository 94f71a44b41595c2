"""A callback that writes the curves of any agent for TensorBoard."""

import time
from os import PathLike
from typing import Any

from dqucb import _validate
from dqucb.base import Moment
from dqucb.run import Run

CURVES = ("returns", "regret", "likelihood", "lengths")
OF_UPDATES = ("loss", "gradient_norm")


class TensorBoardCallback:
    """Writes the curves of a run, and the loss and gradient norm of deep agents: `agent.train(..., callback=this)`.

    It works with every agent, tabular or deep, and needs the extra `deep`.

    Parameters
    ----------
    folder : path
        Where TensorBoard looks: one folder below it for each agent and seed.
    every : int, optional
        Episodes or steps between two looks at the curves; by default a thousandth of the run.

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

    def __call__(self, moment: Moment) -> None:
        if moment.done < self._next and moment.done < moment.length:
            return
        self._next = moment.done + (self.every or max(1, moment.length // 1_000))
        for i, run in enumerate(moment.runs()):
            name = f"{run.agent}/seed-{run.seed}"
            self._write(name, run)
            # Deep agents have these of the last update.
            numbers = {tag: float(getattr(moment, tag)[i]) for tag in OF_UPDATES if hasattr(moment, tag)}
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
        """What is written already, for a run that goes on."""
        return {"written": dict(self._written), "next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._written, self._next = dict(state.get("written", {})), int(state.get("next", 0))

    def close(self) -> None:
        """Write what is still in memory."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> "TensorBoardCallback":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
