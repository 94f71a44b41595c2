"""Run trials in this process, in processes of this machine, or on a Dask cluster, with bit-identical results.

Workers return the compressed bytes of their run files and the calling process writes them, so that workers of a cluster
need no access to the folder.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dqucb import _validate
from dqucb.aot import exercise, usual_agents
from dqucb.experiments.trials import Trial
from dqucb.problems import Problem
from dqucb.run import Run

log = logging.getLogger("dqucb")

BACKENDS = ("processes", "threads", "dask")
ATTEMPTS = 3  # attempts after all workers died without finishing a trial
WORKER_SECONDS = 30  # seconds to wait for the first worker of a cluster
_PARENT_CHECK_SECONDS = 0.5
_POLL_SECONDS = 0.05

Results = Sequence[Run | bytes]  # the results of a trial in the order of its seeds; bytes are the content of a file


def split(trials: Iterable[Trial]) -> list[Trial]:
    """One trial per seed for agents that train one seed at a time; trials in lockstep are not split.

    The outer loop is over seeds, so that all agents progress together and an experiment that is stopped early is
    comparable.
    """
    whole = list(trials)
    single = [(place, trial.only((seed,))) for trial in whole if not trial.live.agent.in_lockstep
              for place, seed in enumerate(trial.seeds)]  # fmt: skip
    batches = [trial for trial in whole if trial.live.agent.in_lockstep]
    return [*batches, *(trial for _, trial in sorted(single, key=lambda item: item[0]))]


@dataclass(frozen=True)
class Job:
    """How a worker runs a trial."""

    threads: int  # compute threads
    pack: bool  # whether results are returned as the bytes of files
    checkpoints: Path | None = None  # a folder for checkpoints of unfinished batches
    progress: bool | None = False  # whether a batch in lockstep shows its own progress bar

    def __call__(self, number: int, trial: Trial) -> tuple[int, Results]:
        """Run one trial; return its number and its results."""
        from threadpoolctl import threadpool_limits

        checkpoint = None if self.checkpoints is None else self.checkpoints / trial.batch
        with threadpool_limits(self.threads):
            _, runs = trial.train(checkpoint, self.progress if trial.live.agent.in_lockstep else False)
            return number, [run.to_bytes() for run in runs] if self.pack else runs


@dataclass(frozen=True)
class Workers:
    """Where trials run: in this process, in several processes, or on a Dask cluster."""

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

    def results(
        self,
        trials: Sequence[Trial],
        pack: bool,
        checkpoints: Path | None = None,
        progress: bool | None = False,
        say: Callable[[str], None] = lambda stage: None,
    ) -> Iterator[tuple[Trial, Results]]:
        """Run the trials and yield each with its results as it finishes; `say` receives progress messages."""
        # An env object cannot be shared between processes.
        here = any(hasattr(trial.live.problem, "step") for trial in trials)
        jobs = 1 if here else min(self._jobs(), len(trials))
        if self.backend == "dask" and trials:
            found = _on_dask(trials, str(self.scheduler), Job(self.threads, pack))
        elif jobs <= 1:
            job = Job(self.threads, pack, checkpoints, progress)
            found = (job(number, trial) for number, trial in enumerate(trials))
        elif self.backend == "threads":
            for trial in one_per_agent(trials):
                say(f"preparing kernels of {trial.agent}")
                prepare_kernels(0, trial)
            say("")
            found = _in_threads(trials, jobs, Job(self.threads, pack, checkpoints))
        else:
            _prepare_in_processes(one_per_agent(trials), jobs, self.threads, say)
            found = _in_processes(Job(self.threads, pack, checkpoints), trials, jobs, self.threads)
        for number, results in found:
            yield trials[number], results

    def _jobs(self) -> int:
        from joblib import cpu_count

        return cpu_count() if self.jobs == -1 else self.jobs

    def __str__(self) -> str:
        if self.backend == "dask":
            return f"the Dask cluster at {self.scheduler}"
        kind, ending = ("thread", "s") if self.backend == "threads" else ("process", "es")
        return f"{self._jobs()} {kind}{ending * (self._jobs() > 1)}"


def _in_threads(trials: Sequence[Trial], jobs: int, job: Job) -> Iterator[tuple[int, Results]]:
    """Run in threads of this process, which start fast; the compiled loops of tabular agents release the GIL."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(jobs)
    try:
        futures = [pool.submit(job, number, trial) for number, trial in enumerate(trials)]
        yield from (future.result() for future in as_completed(futures))
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare_in_processes(trials: Sequence[Trial], jobs: int, threads: int, say: Callable[[str], None]) -> None:
    """Compile every kernel once, in the worker processes, so that all of them load it from disk."""
    waiting = {number: trial.agent for number, trial in enumerate(trials)}

    def name_them() -> None:
        say(f"preparing kernels of {', '.join(waiting.values())}" if waiting else "")

    name_them()
    for number, _ in _in_processes(prepare_kernels, trials, jobs, threads):
        del waiting[number]
        name_them()


def _in_processes(
    job: Callable[[int, Trial], tuple[int, Any]], trials: Sequence[Trial], jobs: int, threads: int
) -> Iterator[tuple[int, Any]]:
    """Run in processes of this machine; dead workers are replaced."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left = dict(enumerate(trials))
    failures = 0
    while left:
        before = len(left)
        try:
            with parallel_config(backend="loky", inner_max_num_threads=threads):
                # The initializer runs before a worker waits for its first task, so that there is no moment at which
                # the parent can be killed without the worker noticing.
                parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered",
                                    initializer=_prepare_worker, initargs=(os.getpid(),))  # fmt: skip
                for number, results in parallel([delayed(job)(*item) for item in left.items()]):
                    del left[number]
                    yield number, results
        except TerminatedWorkerError:
            failures = 1 if len(left) < before else failures + 1
            if failures >= ATTEMPTS:
                raise
            log.warning("a worker process died; its trials start again (%d left)", len(left))


def _prepare_worker(parent: int) -> None:
    """Make a worker process ignore Ctrl-C, which its parent handles, and exit with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()


def _end_with(parent: int) -> None:
    """Exit when the parent is gone: a parent that was killed cannot stop its workers.

    Linux can signal the death of the thread that started the process, but joblib's threads come and go. Polling twice a
    second costs nothing and works on every system.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


def _on_dask(trials: Sequence[Trial], scheduler: str, job: Job) -> Iterator[tuple[int, Results]]:
    """Run on a Dask cluster, whose scheduler reassigns the trials of a lost worker."""
    try:
        from concurrent.futures import CancelledError

        from distributed import Client, as_completed
        from distributed.comm import CommClosedError
    except ImportError as error:
        raise ValueError(
            'backend="dask" needs the package distributed: install it with pip install "dqucb[dask]"'
        ) from error
    try:
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise OSError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
        # pure=False: the cluster may have cached a result of another version of this package.
        futures = client.map(job, range(len(trials)), list(trials), pure=False, retries=ATTEMPTS)
        finished = as_completed(futures, loop=client.loop, with_results=True)
        since = time.monotonic()  # the last sign of life
        while not finished.is_empty():
            if not finished.has_ready():
                time.sleep(_POLL_SECONDS)
                if time.monotonic() - since > WORKER_SECONDS:
                    client.wait_for_workers(1, timeout=WORKER_SECONDS)
                    since = time.monotonic()
                continue
            future, result = next(finished)
            if isinstance(result, CancelledError):  # raised in place of a result
                raise result
            yield result
            future.release()
            since = time.monotonic()
    except TimeoutError:
        raise OSError(
            f"the Dask cluster at {scheduler} has no workers: start some with dask worker {scheduler}; what was "
            "finished before is kept where there is a folder, and the same call continues from there"
        ) from None
    except (CancelledError, CommClosedError) as error:
        raise OSError(
            f"the Dask scheduler at {scheduler} is gone ({type(error).__name__}): what was finished before is kept "
            "where there is a folder, and the same call continues from there"
        ) from error
    finally:
        with suppress(TimeoutError):  # the scheduler is gone
            client.close(timeout=5)


def one_per_agent(trials: Iterable[Trial]) -> list[Trial]:
    """The first trial of each agent class and unit on a finite problem: these compile all kernels."""
    first: dict[tuple[str, str], Trial] = {}
    for trial in trials:
        if isinstance(trial.live.problem, Problem):
            first.setdefault((trial.agent, trial.unit), trial)
    return list(first.values())


def prepare_kernels(number: int, trial: Trial) -> tuple[int, None]:
    """Compile what a trial on a finite problem needs, or load it from disk, by a run of length one."""
    length: dict[str, Any] = {trial.unit: 1}
    trial.live.agent.clone().train(trial.live.problem.phases[0], regret=trial.regret, **length)
    return number, None


def warmup(report: Callable[[str], None] = lambda what: None) -> float:
    """Compile the kernels of every tabular agent with default parameters; return the seconds it took.

    Kernels shipped with the installation are used as they are. Where they do not fit (another CPU, another version of
    Numba) this compiles for a minute or two, once.

    Parameters
    ----------
    report : callable, optional
        Called with the name of each agent before its kernels are compiled.

    Examples
    --------
    >>> from dqucb import warmup
    >>> seconds = warmup(print)  # doctest: +SKIP
    dqucb
    ...
    """
    began = time.perf_counter()
    for name, agent in usual_agents():
        report(name)
        exercise(agent)
    return time.perf_counter() - began
