"""The kinds of faults: each starts a command on a folder, disturbs it, and says how the command ended."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.campaigns.fault_processes import Child, nobody_left, session_of

Command = Callable[[Path], None]
LONGEST = {"run": 0.25, "sweep": 0.25, "report": 0.5, "deep": 0.8}  # seconds in which a fault falls
FAST = ("run", "sweep", "report")
OURS = ("done", "killed", "interrupted", "OSError", "ValueError", "SavedFileError", "SettingsDifferError",
        "PermissionError", "FileNotFoundError")  # fmt: skip


class Kind(NamedTuple):
    """What is done to a command, and to which ones."""

    inflict: Callable[[Command, Path, random.Random], str]
    commands: tuple[str, ...] = (*FAST, "deep")


def _ended(child: Child) -> str:
    outcome = child.wait(90)
    if outcome.partition(":")[0] not in OURS:
        raise AssertionError(f"the disturbed command ended with {outcome}")
    return outcome


def _signalled(number: int) -> Callable[[Command, Path, random.Random], str]:
    def inflict(command: Command, folder: Path, chance: random.Random) -> str:
        child = Child(lambda: command(folder))
        child.end_after(chance.uniform(0.0, LONGEST[command.__name__]), number)
        return _ended(child)

    return inflict


def _full_disk(command: Command, folder: Path, chance: random.Random) -> str:
    """After a few files the disk takes no more: a write stops half way, or fsync or rename fails."""
    left, broken = chance.randrange(1, 25), chance.choice(["write", "fsync", "replace"])
    return _ended(Child(lambda: command(folder), lambda: _fill(left, broken, errno.ENOSPC)))


def _read_only(command: Command, folder: Path, chance: random.Random) -> str:
    """The folder is mounted anew without leave to write, at some moment."""
    left = chance.randrange(0, 25)
    return _ended(Child(lambda: command(folder), lambda: _fill(left, "open", errno.EROFS)))


def _fill(left: int, broken: str, number: int) -> None:
    """Let the calls that write fail after `left` of them, in this process."""
    from dqucb import _storage

    real = {"fsync": os.fsync, "replace": os.replace}
    count = [left]

    def failing(*arguments: Any) -> Any:
        count[0] -= 1
        if count[0] < 0:
            raise OSError(number, os.strerror(number))
        return real[broken](*arguments)

    class File:
        """Takes half of what is written, then finds the disk full."""

        def __init__(self, path: Any, mode: str) -> None:
            count[0] -= 1
            if broken == "open" and count[0] < 0:
                raise OSError(number, os.strerror(number), str(path))
            self.file = open(path, mode)  # noqa: SIM115

        def write(self, data: bytes) -> None:
            full = broken == "write" and count[0] < 0
            self.file.write(data[: len(data) // 2] if full else data)
            if full:
                raise OSError(number, os.strerror(number))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> "File":
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

    if broken in real:
        setattr(os, broken, failing)
    else:
        _storage.open = File  # type: ignore[attr-defined]


def _torn(command: Command, folder: Path, chance: random.Random) -> str:
    """A power cut: the process is gone, and some files have lost their ends although they were renamed."""
    outcome = _signalled(signal.SIGKILL)(command, folder, chance)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    for path in chance.sample(files, min(len(files), chance.randrange(1, 4))):
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.truncate(chance.randrange(size) if size else 0)
            if chance.random() < 0.3:
                file.write(bytes(chance.randrange(1, 4_096)))  # zeros, as some file systems leave them
    return outcome


def _slow(command: Command, folder: Path, chance: random.Random) -> str:
    """Each fsync takes its time, so that the kill falls into a write."""
    real, seed = os.fsync, chance.random()

    def nuisance() -> None:
        own = random.Random(seed)

        def slow(descriptor: int) -> None:
            time.sleep(own.uniform(0.0, 0.05))
            real(descriptor)

        os.fsync = slow

    child = Child(lambda: command(folder), nuisance)
    child.end_after(chance.uniform(0.0, 2 * LONGEST[command.__name__]), signal.SIGKILL)
    return _ended(child)


def _two_writers(command: Command, folder: Path, chance: random.Random) -> str:
    """Two at once: one does it, the other is refused or finds it done."""
    first = Child(lambda: command(folder))
    time.sleep(chance.uniform(0.0, 0.2))
    second = Child(lambda: command(folder))
    outcomes = [_ended(first), _ended(second)]
    if "done" not in outcomes:
        raise AssertionError(f"neither writer finished: {outcomes}")
    refused = [outcome for outcome in outcomes if outcome != "done"]
    if refused and "in use by another sweep" not in refused[0]:
        raise AssertionError(f"a second writer ended with {refused[0]}")
    return "refused" if refused else "done"


def _leftover_lock(command: Command, folder: Path, chance: random.Random) -> str:
    """A lock file of somebody who is long gone, and half-written files."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    (folder / ".lock").write_bytes(os.urandom(chance.randrange(50)))
    (folder / "runs" / ".x.npz.0123.tmp").write_bytes(os.urandom(50))
    (folder / ".manifest.json.0123.tmp").write_bytes(b"{")
    outcome = _ended(Child(lambda: command(folder)))
    if outcome != "done":
        raise AssertionError(f"a leftover lock is in the way: {outcome}")
    return outcome


def _clock(command: Command, folder: Path, chance: random.Random) -> str:
    """The clock jumps back while the command runs, and the files that are there are from the future."""
    offset = chance.uniform(-1e9, 1e9)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() + abs(offset),) * 2)

    def nuisance() -> None:
        real, calls = time.time, [0]

        def jumping() -> float:
            calls[0] += 1
            return real() + (offset if calls[0] % 2 else 0.0)

        time.time = jumping

    child = Child(lambda: command(folder), nuisance)
    if chance.random() < 0.5:
        child.end_after(chance.uniform(0.0, LONGEST[command.__name__]), signal.SIGKILL)
    return _ended(child)


def _damaged_checkpoint(command: Command, folder: Path, chance: random.Random) -> str:
    """The batch is killed, and its checkpoint changed in one byte or cut."""
    outcome = _signalled(signal.SIGKILL)(command, folder, chance)
    for path in (folder / "checkpoints").glob("*"):
        data = bytearray(path.read_bytes())
        if data and chance.random() < 0.5:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del data[chance.randrange(len(data) + 1) :]
        path.write_bytes(bytes(data))
    return outcome


# ---- processes of their own ------------------------------------------------------------------------------


def _started(folder: Path, **options: Any) -> "subprocess.Popen[bytes]":
    words = ", ".join(f"{name}={value!r}" for name, value in options.items())
    code = f"from pathlib import Path; from tests.campaigns.faults import run; run(Path({str(folder)!r}), {words})"
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **silent)


def _finished_by_itself(process: "subprocess.Popen[bytes]", seconds: float) -> str:
    try:
        return "done" if process.wait(seconds) == 0 else "OSError"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"the command hangs for {seconds} s") from None


def _killed_parent(command: Command, folder: Path, chance: random.Random) -> str:
    """The parent of worker processes is killed at any moment, of their start above all."""
    process = _started(folder, jobs=3)
    if chance.random() < 0.8:
        limit = time.monotonic() + 60
        while process.poll() is None and len(session_of(process.pid)) < 2 and time.monotonic() < limit:
            time.sleep(0.005)
    time.sleep(chance.uniform(0.0, 3.0))
    process.kill()
    process.wait()
    nobody_left(process.pid)
    return "killed"


def _killed_worker(command: Command, folder: Path, chance: random.Random) -> str:
    """One worker process is killed; the others go on."""
    process = _started(folder, jobs=2)
    limit = time.monotonic() + 60
    while process.poll() is None and len(session_of(process.pid)) < 3 and time.monotonic() < limit:
        time.sleep(0.005)
    time.sleep(chance.uniform(0.0, 2.0))
    workers = [pid for pid in session_of(process.pid) if pid != process.pid]
    if workers:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
    outcome = _finished_by_itself(process, 120)
    nobody_left(process.pid)
    return outcome


CLUSTER = """
import os, sys, time
from distributed import Client, LocalCluster
if __name__ == "__main__":
    kwargs = dict(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    with LocalCluster(**kwargs) as cluster, Client(cluster) as client:
        print(cluster.scheduler_address, *client.run(os.getpid).values(), flush=True)
        time.sleep(600)
"""


def _dask(victim: str) -> Callable[[Command, Path, random.Random], str]:
    def inflict(command: Command, folder: Path, chance: random.Random) -> str:
        code = CLUSTER.replace('__name__ == "__main__"', "True")
        silent: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        cluster = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **silent)
        try:
            assert cluster.stdout is not None
            address, *workers = cluster.stdout.readline().split()
            process = _started(folder, backend="dask", scheduler=address)
            time.sleep(chance.uniform(1.0, 6.0))
            os.kill(int(workers[0]) if victim == "worker" else cluster.pid, signal.SIGKILL)
            return _finished_by_itself(process, 120)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(cluster.pid, signal.SIGKILL)
            cluster.wait()
            nobody_left(cluster.pid)

    return inflict


KINDS = {
    "kill -9": Kind(_signalled(signal.SIGKILL)),
    "interrupt": Kind(_signalled(signal.SIGINT)),
    "full disk": Kind(_full_disk),
    "torn write": Kind(_torn),
    "delayed write and kill": Kind(_slow),
    "read-only folder": Kind(_read_only),
    "two writers": Kind(_two_writers),
    "leftover lock": Kind(_leftover_lock),
    "clock jumps back": Kind(_clock),
    "damaged checkpoint": Kind(_damaged_checkpoint, ("deep",)),
    "killed parent of workers": Kind(_killed_parent, ("run",)),
    "killed worker": Kind(_killed_worker, ("run",)),
    "killed Dask worker": Kind(_dask("worker"), ("run",)),
    "killed Dask scheduler": Kind(_dask("scheduler"), ("run",)),
}
