"""The folder of an experiment: one checked file per finished run, and a manifest of the settings.

    DIR/manifest.json     settings, versions, the command, and a log of the calls
    DIR/runs/<key>.npz    a finished run; `dqucb.Run.load` reads it
    DIR/index/            of a large experiment: subsampled curves of its runs (see index.py); may be deleted
    DIR/checkpoints/      batches that were stopped before their end
    DIR/corrupt/          files that failed their check, moved aside and never read again
    DIR/outdated/         runs of other code of the same version of dqucb, moved aside when they were repeated

Files are written atomically: temporary file, fsync, rename, fsync of the folder. Nothing is ever unpickled.
Settings of later calls are merged into the manifest: more seeds and more agents reuse the existing runs.
"""

import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from dqucb._storage import SavedFileError, read, set_aside, write_atomically
from dqucb.experiments import manifest
from dqucb.experiments.index import Index
from dqucb.experiments.trials import Trial, as_json, spelled_seeds
from dqucb.run import Run, is_outdated, versions

log = logging.getLogger("dqucb")


class Store:
    """The folder of an experiment. Reading needs no lock; `writing` locks it for one process."""

    packed = True  # workers return the bytes of files

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not os.fspath(folder):  # it would mean the current folder
            raise ValueError("out must be the path of a folder, got an empty one")
        try:
            known = b"\0" not in os.fsencode(folder)
        except UnicodeEncodeError:
            known = False
        if not known:
            raise ValueError(f"out must be a path that the system can write, got {os.fspath(folder)!r}")
        self.folder = Path(folder)
        self.runs = self.folder / "runs"
        self.checkpoints = self.folder / "checkpoints"
        self.corrupt = self.folder / "corrupt"
        self.outdated = self.folder / "outdated"

    # ---- finished runs --------------------------------------------------------------------------------

    def path(self, trial: Trial, seed: int) -> Path:
        """The path of the run of a seed, whether it exists or not."""
        return self.runs / f"{trial.key(seed)}.npz"

    def load(self, trial: Trial, seed: int) -> Run | None:
        """The finished run, or None if there is none; a `SavedFileError` if its file is damaged or of another run."""
        path = self.path(trial, seed)
        if not path.exists():
            return None
        run = Run.from_bytes(read(path), str(path))
        if run.seed != seed or not trial.matches(run):
            raise SavedFileError(f"{path}: holds the result of another trial")
        return run

    def load_or_set_aside(self, trial: Trial, seed: int) -> Run | None:
        """Like `load`, but a bad file, or one that other code made, is reported, moved away and counts as missing."""
        path = self.path(trial, seed)
        try:
            run = self.load(trial, seed)
        except SavedFileError as error:
            log.warning("%s; set aside as %s, the run is repeated", error, set_aside(path, self.corrupt))
            return None
        if run is not None and is_outdated(run.versions):
            where = set_aside(path, self.outdated)
            log.warning("%s was made by other code of dqucb %s; set aside as %s, the run is repeated", path,
                        run.versions["dqucb"], where)  # fmt: skip
            return None
        return run

    @property
    def index(self) -> Index:
        """The subsampled curves of many runs."""
        return Index(self.folder)

    def put(self, trial: Trial, seed: int, result: Run | bytes) -> Run:
        """Store the finished run of a seed, given as a run or as the bytes of its file, and return it."""
        run = Run.from_bytes(result) if isinstance(result, bytes) else result
        write_atomically(self.path(trial, seed), result if isinstance(result, bytes) else run.to_bytes())
        return run

    # ---- batches that were stopped --------------------------------------------------------------------

    def batches(self, trial: Trial) -> list[Trial]:
        """The trial as batches: each batch that was stopped before its end, and one with all other seeds."""
        prefix, _, _ = trial.batch.partition("-")
        left, parts = set(trial.seeds), []
        for path in sorted(self.checkpoints.glob(f"{prefix}-*")):
            seeds = spelled_seeds(path.name.removeprefix(f"{prefix}-"), len(left))
            if seeds and left.issuperset(seeds):
                parts.append(trial.only(seeds))
                left -= set(seeds)
        rest = tuple(seed for seed in trial.seeds if seed in left)
        return [*parts, trial.only(rest)] if rest else parts

    def finish(self, trial: Trial) -> None:
        """Remove the checkpoint of a finished batch."""
        for path in self.checkpoints.glob(f"{trial.batch}*"):
            if path.name.partition(".")[0] == trial.batch:
                path.unlink(missing_ok=True)

    # ---- the manifest ---------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The manifest of an existing experiment."""
        path = self.folder / manifest.NAME
        if not path.exists():
            if not self.folder.exists():
                raise SavedFileError(f"{self.folder}: no such folder")
            raise SavedFileError(f"{self.folder}: no {manifest.NAME} here, so not the folder of an experiment")
        return manifest.from_bytes(read(path), str(path))

    @contextmanager
    def writing(self, settings: dict[str, Any], command: str) -> Iterator["Store"]:
        """Lock the folder for writing and merge these settings into its manifest."""
        try:
            self.merged(settings)  # what is refused leaves no trace
            for folder in (self.runs, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"out must be a folder that can be written, got {self.folder}: {error.strerror}") from None
        with self.locked():
            for leftover in [*self.folder.glob(".*.tmp"), *self.runs.glob(".*.tmp"), *self.checkpoints.glob(".*.tmp")]:
                log.info("removed %s, which an interrupted session left behind", leftover)
                leftover.unlink(missing_ok=True)
            merged = self.merged(settings)  # again: another process may have written since
            if not (self.folder / manifest.NAME).exists():
                self.write_manifest(manifest.new(settings, command))
            else:
                found = self.manifest()
                if changed := list(manifest.differences("", found["versions"], versions())):
                    text = "%s was begun with other versions: %s; runs made now may differ"
                    log.warning(text, self.folder, "; ".join(changed))
                if merged != found["settings"]:
                    self.write_manifest(found | {"settings": merged})
            yield self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against all other processes."""
        with ExitStack() as stack:
            try:
                stack.enter_context(_locked(self.folder))
            except OSError as error:
                wrong = "a symbolic link" if error.errno == errno.ELOOP else error.strerror
                raise ValueError(
                    f"out must be a folder that can be written, got {self.folder}: .lock: {wrong}"
                ) from None
            yield

    def merged(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of the folder with new ones added; a `SettingsDifferError` if they contradict each other."""
        asked = as_json(settings)
        if not (self.folder / manifest.NAME).exists():
            return asked
        return manifest.merged(self.manifest()["settings"], asked, self.folder)

    def add_session(self, **facts: Any) -> None:
        """Append the facts of a call to the manifest."""
        found = self.manifest()
        found["sessions"].append(facts)
        self.write_manifest(found)

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Replace the manifest."""
        write_atomically(self.folder / manifest.NAME, manifest.to_bytes(content))


class Memory:
    """A store in memory, for an experiment without a folder."""

    packed = False
    folder = None
    checkpoints = None
    index = None

    def __init__(self, settings: dict[str, Any], command: str) -> None:
        self._manifest = manifest.new(settings, command)
        self._runs: dict[str, Run] = {}

    def load(self, trial: Trial, seed: int) -> Run | None:
        """The finished run, or None."""
        return self._runs.get(trial.key(seed))

    load_or_set_aside = load

    def put(self, trial: Trial, seed: int, result: Run | bytes) -> Run:
        """Store a finished run."""
        assert isinstance(result, Run)
        self._runs[trial.key(seed)] = result
        return result

    def batches(self, trial: Trial) -> list[Trial]:
        """All seeds in one batch."""
        return [trial]

    def finish(self, trial: Trial) -> None:
        """Nothing to remove."""

    def manifest(self) -> dict[str, Any]:
        """The manifest of the experiment."""
        return self._manifest

    def writing(self, settings: dict[str, Any], command: str) -> AbstractContextManager[Any]:
        """Nothing to lock."""
        return nullcontext(self)

    def add_session(self, **facts: Any) -> None:
        """Append the facts of a call to the manifest."""
        self._manifest["sessions"].append(facts)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder for one process at a time; the system releases the lock however the process ends."""
    path = folder / ".lock"
    # Not through a link and not truncated: a file of this name keeps its content.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} must be a file")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows: at worst two processes compute the same runs twice
            pass
        except BlockingIOError:
            raise ValueError(f"{folder} is in use by another sweep: wait for it or choose another folder") from None
        yield
