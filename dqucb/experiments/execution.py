"""Running tasks: in this process, in processes of this machine, or on a Dask cluster. The bits are the same.

A worker returns the bytes of the result's file, and the process that was asked writes them: no worker needs to see
the folder, and what is compressed in parallel travels small.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dqucb import _validate
from dqucb.base import Agent
from dqucb.experiments.store import encoded
from dqucb.experiments.tasks import Task
from dqucb.run import Run

log = logging.getLogger("dqucb")

BACKENDS = ("processes", "dask")
ATTEMPTS = 3  # at a set of tasks of which workers died without finishing a single one
_PARENT_CHECK_SECONDS = 0.5

Result = tuple[str, Run | bytes]  # of a task: its key, and the run or, packed, the bytes of its file


def execute(task: Task, threads: int, pack: bool) -> Result:
    """Run one task with this many compute threads."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(threads):
        run = task.run()
        return task.key, encoded(run) if pack else run


@dataclass(frozen=True)
class Workers:
    """Who does the work."""

    counts_runs: ClassVar[bool] = True  # progress is one run after the other

    backend: str = "processes"
    jobs: int = -1
    scheduler: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        _validate.one_of("backend", self.backend, BACKENDS)
        _validate.integer("threads", self.threads)
        if self.jobs == 0 or self.jobs < -1:
            raise ValueError(f"jobs must be a number of processes, or -1 for one per core, got {self.jobs!r}")
        if self.backend == "dask" and self.scheduler is None:
            raise ValueError('scheduler must be the address of a Dask scheduler, such as "tcp://host:8786", got None')

    def results(self, tasks: Sequence[Task], pack: bool) -> Iterator[Result]:
        """Run the tasks and yield each result as it comes."""
        if not tasks:
            return
        if self.backend == "dask":
            yield from _on_dask(tasks, str(self.scheduler), self.threads, pack)
        elif (jobs := min(self._jobs(), len(tasks))) == 1:
            for task in tasks:
                yield execute(task, self.threads, pack)
        else:
            warm_up(tasks)
            yield from _in_processes(tasks, jobs, self.threads, pack)

    def _jobs(self) -> int:
        from joblib import cpu_count

        return cpu_count() if self.jobs == -1 else self.jobs

    def __str__(self) -> str:
        if self.backend == "dask":
            return f"the Dask cluster at {self.scheduler}"
        return f"{self._jobs()} process{'es' * (self._jobs() > 1)}"


def _in_processes(tasks: Sequence[Task], jobs: int, threads: int, pack: bool) -> Iterator[Result]:
    """On processes of this machine; dead workers are replaced."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = {task.key: task for task in tasks}
    failures = 0
    while left:
        before = len(left)
        calls = [delayed(_in_worker)(task, threads, pack, os.getpid()) for task in left.values()]
        try:
            with parallel_config(backend="loky", inner_max_num_threads=threads):
                parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
                for key, result in parallel(calls):
                    del left[key]
                    yield key, result
        except TerminatedWorkerError:
            failures = 1 if len(left) < before else failures + 1
            if failures >= ATTEMPTS:
                raise
            log.warning("a worker process died; its tasks start again (%d left)", len(left))


_settled = False


def _in_worker(task: Task, threads: int, pack: bool, parent: int) -> Result:
    """`execute` in a process that leaves Ctrl-C to its parent, and does not outlive it."""
    global _settled
    if not _settled and os.getppid() == parent:
        _settled = True
        threading.Thread(target=_end_with, args=[parent], daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return execute(task, threads, pack)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot stop its workers, so they look for themselves."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


def _on_dask(tasks: Sequence[Task], scheduler: str, threads: int, pack: bool) -> Iterator[Result]:
    """On a Dask cluster, whose scheduler gives a lost worker's tasks to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise ValueError(
            'backend="dask" needs the package distributed: install it with pip install "dqucb[dask]"'
        ) from error
    try:
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise OSError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client:
        # pure=False: the cluster may remember a result that another version of this package made.
        futures = client.map(execute, list(tasks), threads=threads, pack=pack, pure=False, retries=ATTEMPTS)
        for future, result in as_completed(futures, loop=client.loop, with_results=True):
            yield result
            future.release()


def warm_up(tasks: Iterable[Task]) -> None:
    """Compile once, here, what the tasks need, so that the workers find it in Numba's cache."""
    seen = set()
    for task in tasks:
        if (task.agent, task.unit) not in seen:
            seen.add((task.agent, task.unit))
            cls, problem = task.ingredients()
            length: dict[str, Any] = {task.unit: 1}
            cls(**task.parameters).train(problem.phases[0], regret=task.regret, **length)


def warmup(report: Callable[[str], None] = lambda what: None) -> float:
    """Compile every kernel of the tabular agents, once per installation; returns the seconds it took."""
    from dqucb.base import AGENTS
    from dqucb.problems import gridworld

    began = time.perf_counter()
    small: dict[str, Any] = {"noise": (0.1, 0.2), "change_at": (2,), "rows": 2, "cols": 2}
    episodic, endless = gridworld(**small, horizon=4), gridworld(**small, discount=0.5)
    for name, cls in AGENTS.items():
        report(name)
        for form in ("realized", "expected"):
            cls().train(episodic, episodes=4, regret=form)
            if _takes_discount(cls):
                cls().train(endless, steps=4, regret=form)
    return time.perf_counter() - began


def _takes_discount(cls: type[Agent]) -> bool:
    try:
        cls().start(1, 1, discount=0.5)
    except ValueError:
        return False
    return True
