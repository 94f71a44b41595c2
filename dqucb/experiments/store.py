"""The folder of an experiment: one checked file per finished run, and a manifest of the settings.

    DIR/manifest.json     settings, versions, the command, and what each session did
    DIR/runs/<key>.npz    a finished run; `dqucb.Run.load` reads it
    DIR/index/            of a large experiment: thinned curves of its runs (see index.py); may be deleted
    DIR/checkpoints/      batches that were stopped in the middle
    DIR/corrupt/          files that failed their check, set aside and never read again

A file appears whole or not at all: temporary file, fsync, rename, fsync of the folder. Nothing is ever unpickled.
Settings of later calls are merged into the manifest: more seeds and more agents reuse the runs that are there.
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
from dqucb.run import Run

log = logging.getLogger("dqucb")


class Store:
    """The folder of an experiment. Reading needs no more than this; `writing` claims it for a session."""

    packed = True  # workers should send the bytes of files

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not os.fspath(folder):  # it would stand for the folder that one happens to be in
            raise ValueError("out must be the path of a folder, got an empty one")
        self.folder = Path(folder)
        self.runs = self.folder / "runs"
        self.checkpoints = self.folder / "checkpoints"
        self.corrupt = self.folder / "corrupt"

    # ---- finished runs --------------------------------------------------------------------------------

    def path(self, trial: Trial, seed: int) -> Path:
        """Where the run of a seed is, or will be."""
        return self.runs / f"{trial.key(seed)}.npz"

    def load(self, trial: Trial, seed: int) -> Run | None:
        """The finished run; None if there is none; `SavedFileError` if its file is not what it should be."""
        path = self.path(trial, seed)
        if not path.exists():
            return None
        run = Run.from_bytes(read(path), str(path))
        if run.seed != seed or not trial.matches(run):
            raise SavedFileError(f"{path}: holds the result of another trial")
        return run

    def load_or_set_aside(self, trial: Trial, seed: int) -> Run | None:
        """Like `load`, but a bad file is reported, moved to corrupt/ and counts as missing."""
        try:
            return self.load(trial, seed)
        except SavedFileError as error:
            where = set_aside(self.path(trial, seed), self.corrupt)
            log.warning("%s; set aside as %s, the run is repeated", error, where)
            return None

    @property
    def index(self) -> Index:
        """Thinned curves of many runs."""
        return Index(self.folder)

    def put(self, trial: Trial, seed: int, result: Run | bytes) -> Run:
        """Store the finished run of a seed, which may come as the bytes of its file, and return it."""
        run = Run.from_bytes(result) if isinstance(result, bytes) else result
        write_atomically(self.path(trial, seed), result if isinstance(result, bytes) else run.to_bytes())
        return run

    # ---- batches that were stopped --------------------------------------------------------------------

    def batches(self, trial: Trial) -> list[Trial]:
        """The trial in parts: each batch that was stopped in the middle, and all other seeds in one."""
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
        """Remove what was kept of a batch while it ran."""
        for path in self.checkpoints.glob(f"{trial.batch}*"):
            if path.name.partition(".")[0] == trial.batch:
                path.unlink(missing_ok=True)

    # ---- the manifest ---------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The manifest of an existing sweep."""
        path = self.folder / manifest.NAME
        if not path.exists():
            raise SavedFileError(f"{self.folder}: no {manifest.NAME} here, so not the folder of an experiment")
        return manifest.from_bytes(read(path), str(path))

    @contextmanager
    def writing(self, settings: dict[str, Any], command: str) -> Iterator["Store"]:
        """Claim the folder for a session with these settings, which are merged with those that are there."""
        try:
            self.merged(settings)  # what is refused leaves no trace
            for folder in (self.runs, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"out must be a folder that can be written, got {self.folder}: {error.strerror}") from None
        with self.claimed():
            for leftover in [*self.folder.glob(".*.tmp"), *self.runs.glob(".*.tmp"), *self.checkpoints.glob(".*.tmp")]:
                log.info("removed %s, which an interrupted session left behind", leftover)
                leftover.unlink(missing_ok=True)
            merged = self.merged(settings)  # again: another session may have been here since
            if not (self.folder / manifest.NAME).exists():
                self.write_manifest(manifest.new(settings, command))
            else:
                found = self.manifest()
                if changed := list(manifest.differences("", found["versions"], manifest.code_versions())):
                    text = "%s was begun with other versions: %s; runs made now may differ"
                    log.warning(text, self.folder, "; ".join(changed))
                if merged != found["settings"]:
                    self.write_manifest(found | {"settings": merged})
            yield self

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep every other session out of the folder."""
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
        """The settings of the folder with these added; `SettingsDifferError` where the two contradict each other."""
        asked = as_json(settings)
        if not (self.folder / manifest.NAME).exists():
            return asked
        return manifest.merged(self.manifest()["settings"], asked, self.folder)

    def add_session(self, **facts: Any) -> None:
        """Note in the manifest what a session did."""
        found = self.manifest()
        found["sessions"].append(facts)
        self.write_manifest(found)

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Put a manifest in the place of the one that is there."""
        write_atomically(self.folder / manifest.NAME, manifest.to_bytes(content))


class Memory:
    """The same for an experiment without a folder: its runs last as long as this object."""

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
        """Keep a finished run."""
        assert isinstance(result, Run)
        self._runs[trial.key(seed)] = result
        return result

    def batches(self, trial: Trial) -> list[Trial]:
        """All seeds in one batch."""
        return [trial]

    def finish(self, trial: Trial) -> None:
        """Nothing was kept."""

    def manifest(self) -> dict[str, Any]:
        """What a folder's manifest would say."""
        return self._manifest

    def writing(self, settings: dict[str, Any], command: str) -> AbstractContextManager[Any]:
        """Nothing to claim."""
        return nullcontext(self)

    def add_session(self, **facts: Any) -> None:
        """Note what was done."""
        self._manifest["sessions"].append(facts)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One session at a time in a folder; the system drops the lock when the process ends, however it ends."""
    path = folder / ".lock"
    # Never through a link, and never emptied: whatever stands under this name keeps its content.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} must be a file")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows: two sessions would compute the same bits twice, no worse
            pass
        except BlockingIOError:
            raise ValueError(f"{folder} is in use by another sweep: wait for it or choose another folder") from None
        yield
