"""The folder of a sweep: one checked file per finished task, and a manifest of the settings.

    DIR/manifest.json     settings, versions, the command, and what each session did
    DIR/runs/<key>.npz    a finished run; `dqucb.Run.load` reads it
    DIR/corrupt/          files that failed their check, set aside and never read again

A file appears whole or not at all: temporary file, fsync, rename, fsync of the folder. Its last 64 bytes are the
SHA-256 of all others, which the zip format holds as a comment. Nothing here is ever unpickled.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from dqucb._kernels._jit import SOURCES
from dqucb._storage import SavedFileError, write_atomically
from dqucb.experiments.tasks import Task, as_json
from dqucb.run import Run, versions

log = logging.getLogger("dqucb")

MANIFEST = "manifest.json"
KIND = "dqucb sweep"
_DIGEST = 64  # hexadecimal digits


class SettingsDifferError(ValueError):
    """The folder belongs to a sweep with other settings."""


def code_versions() -> dict[str, str]:
    """What decides the bits of a run besides its settings; `kernels` tells unreleased states of one version apart."""
    return {**versions(), "kernels": SOURCES[:12]}


def encoded(run: Run) -> bytes:
    """A run as the bytes of its file, checksum included."""
    return run.to_bytes()


def verified(data: bytes) -> bool:
    """Whether the bytes of a file agree with the checksum at their end."""
    return hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() == data[-_DIGEST:]


class Store:
    """A sweep's folder. Reading needs no more than this; `writing` claims it for a sweep."""

    packed = True  # workers should send the bytes of files

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / "runs"

    # ---- finished tasks -------------------------------------------------------------------------------

    def path(self, task: Task) -> Path:
        """Where the result of a task is, or will be."""
        return self.runs / f"{task.key}.npz"

    def load(self, task: Task) -> Run | None:
        """The finished run; None if there is none; `SavedFileError` if its file is not what it should be."""
        path = self.path(task)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if not verified(data):
            raise SavedFileError(f"{path}: the checksum does not agree with the content")
        run = Run.load(path)
        if not task.matches(run):
            raise SavedFileError(f"{path}: holds the result of another task")
        return run

    def load_or_set_aside(self, task: Task) -> Run | None:
        """Like `load`, but a bad file is reported, moved to corrupt/ and counts as missing."""
        try:
            return self.load(task)
        except SavedFileError as error:
            log.warning("%s; set aside as %s, the task is redone", error, self._set_aside(self.path(task)))
            return None

    def put(self, task: Task, result: Run | bytes) -> None:
        """Store a finished task: its run, or what `encoded` made of it."""
        write_atomically(self.path(task), result if isinstance(result, bytes) else encoded(result))

    def _set_aside(self, path: Path) -> Path:
        corrupt = self.folder / "corrupt"
        corrupt.mkdir(exist_ok=True)
        number = sum(1 for _ in corrupt.glob(f"{path.name}.*"))
        target = corrupt / f"{path.name}.{number}"
        os.replace(path, target)
        return target

    # ---- the manifest ---------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The manifest of an existing sweep."""
        path = self.folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if manifest["kind"] != KIND or not isinstance(manifest["settings"], dict):
                raise ValueError(f"kind is not {KIND!r}")
        except FileNotFoundError:
            raise SavedFileError(f"{self.folder}: no {MANIFEST} here, so not a folder that a sweep made") from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise SavedFileError(f"{path}: not a readable manifest ({error})") from error
        return manifest

    @contextmanager
    def writing(self, settings: dict[str, Any], command: str) -> Iterator["Store"]:
        """Claim the folder for a sweep with these settings; refuse if it was made with others."""
        self.check(settings)
        self.runs.mkdir(parents=True, exist_ok=True)
        with _lock(self.folder):
            for leftover in [*self.folder.glob(".*.tmp"), *self.runs.glob(".*.tmp")]:
                log.info("removed %s, which an interrupted sweep left behind", leftover)
                leftover.unlink(missing_ok=True)
            if not (self.folder / MANIFEST).exists():
                self._write_manifest(_new_manifest(settings, command))
            elif changed := list(_differences("", self.manifest()["versions"], code_versions())):
                log.warning(
                    "%s was begun with other versions: %s; runs made now may differ", self.folder, "; ".join(changed)
                )
            yield self

    def check(self, settings: dict[str, Any]) -> None:
        """Raise `SettingsDifferError` if the folder holds a sweep with other settings; changes nothing."""
        if not (self.folder / MANIFEST).exists():
            return
        found = self.manifest()["settings"]
        differences = list(_differences("", found, as_json(settings)))
        if differences:
            shown = "; ".join(differences[:5]) + ("; ..." if len(differences) > 5 else "")
            raise SettingsDifferError(f"{self.folder} was made with other settings: {shown}. Choose another folder")

    def add_session(self, **facts: Any) -> None:
        """Note in the manifest what a session did."""
        manifest = self.manifest()
        manifest["sessions"].append(facts)
        self._write_manifest(manifest)

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        text = json.dumps(manifest, indent=2, allow_nan=False)
        write_atomically(self.folder / MANIFEST, text.encode())


class Memory:
    """The same for a sweep without a folder: its runs last as long as this object."""

    packed = False
    folder = None

    def __init__(self, settings: dict[str, Any], command: str) -> None:
        self._manifest = _new_manifest(settings, command)
        self._runs: dict[str, Run] = {}

    def load(self, task: Task) -> Run | None:
        """The finished run, or None."""
        return self._runs.get(task.key)

    load_or_set_aside = load

    def put(self, task: Task, result: Run | bytes) -> None:
        """Keep a finished run."""
        assert isinstance(result, Run)
        self._runs[task.key] = result

    def manifest(self) -> dict[str, Any]:
        """What a folder's manifest would say."""
        return self._manifest

    def writing(self, settings: dict[str, Any], command: str) -> AbstractContextManager[Any]:
        """Nothing to claim."""
        return nullcontext(self)

    def add_session(self, **facts: Any) -> None:
        """Note what was done."""
        self._manifest["sessions"].append(facts)


def _new_manifest(settings: dict[str, Any], command: str) -> dict[str, Any]:
    return {
        "kind": KIND,
        "settings": as_json(settings),
        "command": command,
        "versions": code_versions(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sessions": [],
    }


def _differences(where: str, there: Any, here: Any) -> Iterator[str]:
    """Each setting that differs, as 'name is X there, Y here'."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in [*there, *(key for key in here if key not in there)]:
            name = f"{where}.{key}" if where else key
            if key not in here:
                yield f"{name} is only there"
            elif key not in there:
                yield f"{name} is only here"
            else:
                yield from _differences(name, there[key], here[key])
    elif there != here:
        yield f"{where} is {_short(there)} there, {_short(here)} here"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One sweep at a time in a folder; the system drops the lock when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows: two sweeps would compute the same bits twice, no worse
        yield
        return
    file: IO[bytes]
    with open(folder / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder} is in use by another sweep: wait for it or choose another folder") from None
        yield
