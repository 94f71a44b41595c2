"""Running the tasks of deep agents: all missing seeds of an agent at once, in this process."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dqucb.experiments.execution import Result
from dqucb.experiments.settings import LockstepAgent, Variant
from dqucb.experiments.store import encoded
from dqucb.experiments.tasks import Task


@dataclass(frozen=True)
class Lockstep:
    """Who does the work, with what `DeepAgent.learn` has to know besides the tasks."""

    counts_runs: ClassVar[bool] = False  # each agent shows its own progress, as its seeds end together

    variants: Mapping[str, Variant]
    tasks: Mapping[tuple[str, int], Task]
    env: Any
    env_options: dict[str, Any] | None
    max_return: float | None
    out: str | os.PathLike[str] | None
    progress: bool

    def results(self, tasks: Sequence[Task], pack: bool) -> Iterator[Result]:
        """Run the tasks and yield their results, agent by agent."""
        wanted = {task.key for task in tasks}
        for label, variant in self.variants.items():
            own = [task for (name, _), task in self.tasks.items() if name == label and task.key in wanted]
            if own:
                yield from self._learned(variant.agent, own, pack)

    def _learned(self, agent: Any, tasks: Sequence[Task], pack: bool) -> Iterator[Result]:
        assert isinstance(agent, LockstepAgent)
        fresh = type(agent)(**agent.parameters())  # the caller's agent stays as it is
        can_be_saved = fresh.describe(self.env, self.env_options, self.max_return).checkpointable
        checkpoint = self._checkpoint(tasks) if can_be_saved else None
        length: dict[str, Any] = {tasks[0].unit: tasks[0].length}
        runs = fresh.learn(
            self.env,
            seeds=[task.seed for task in tasks],
            env_options=self.env_options,
            max_return=self.max_return,
            progress=self.progress,
            checkpoint=checkpoint,
            **length,
        )
        for task, run in zip(tasks, runs, strict=True):
            yield task.key, encoded(run) if pack else run
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)

    def _checkpoint(self, tasks: Sequence[Task]) -> Path | None:
        """A file that only the same tasks find again."""
        if self.out is None:
            return None
        name = hashlib.sha256("".join(task.key for task in tasks).encode()).hexdigest()[:16]
        folder = Path(self.out) / "checkpoints"
        folder.mkdir(exist_ok=True)
        return folder / name

    def __str__(self) -> str:
        return "this process, all seeds of an agent in lockstep"
