"""The folder of an experiment: one checked file per finished run, and a manifest of the settings.

    DIR/manifest.json     settings, versions, the command, and what each session did
    DIR/runs/<key>.npz    a finished run; `dqucb.Run.load` reads it
    DIR/checkpoints/      batches that were stopped in the middle
    DIR/corrupt/          files that failed their check, set aside and never read again

A file appears whole or not at all: temporary file, fsync, rename, fsync of the folder. Nothing is ever unpickled.
Settings of later calls are merged into the manifest: more seeds and more agents reuse the runs that are there.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from dqucb._kernels._cache import SOURCES
from dqucb._storage import SavedFileError, write_atomically
from dqucb.experiments.trials import Trial, as_json, spelled_seeds
from dqucb.run import Run, versions

log = logging.getLogger("dqucb")

MANIFEST = "manifest.json"
KIND = "dqucb experiment"


class SettingsDifferError(ValueError):
    """The folder belongs to a sweep with other settings."""


def code_versions() -> dict[str, str]:
    """What decides the bits of a run besides its settings; `kernels` tells unreleased states of one version apart."""
    return {**versions(), "kernels": SOURCES[:12]}


class Store:
    """The folder of an experiment. Reading needs no more than this; `writing` claims it for a session."""

    packed = True  # workers should send the bytes of files

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / "runs"
        self.checkpoints = self.folder / "checkpoints"

    # ---- finished runs --------------------------------------------------------------------------------

    def path(self, trial: Trial, seed: int) -> Path:
        """Where the run of a seed is, or will be."""
        return self.runs / f"{trial.key(seed)}.npz"

    def load(self, trial: Trial, seed: int) -> Run | None:
        """The finished run; None if there is none; `SavedFileError` if its file is not what it should be."""
        path = self.path(trial, seed)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        run = Run.from_bytes(data, str(path))
        if run.seed != seed or not trial.matches(run):
            raise SavedFileError(f"{path}: holds the result of another trial")
        return run

    def load_or_set_aside(self, trial: Trial, seed: int) -> Run | None:
        """Like `load`, but a bad file is reported, moved to corrupt/ and counts as missing."""
        try:
            return self.load(trial, seed)
        except SavedFileError as error:
            log.warning("%s; set aside as %s, the run is repeated", error, self._set_aside(self.path(trial, seed)))
            return None

    def put(self, trial: Trial, seed: int, result: Run | bytes) -> Run:
        """Store the finished run of a seed, which may come as the bytes of its file, and return it."""
        run = Run.from_bytes(result) if isinstance(result, bytes) else result
        write_atomically(self.path(trial, seed), result if isinstance(result, bytes) else run.to_bytes())
        return run

    def _set_aside(self, path: Path) -> Path:
        corrupt = self.folder / "corrupt"
        corrupt.mkdir(exist_ok=True)
        number = sum(1 for _ in corrupt.glob(f"{path.name}.*"))
        target = corrupt / f"{path.name}.{number}"
        os.replace(path, target)
        return target

    # ---- batches that were stopped --------------------------------------------------------------------

    def batches(self, trial: Trial) -> list[Trial]:
        """The trial in parts: each batch that was stopped in the middle, and all other seeds in one."""
        prefix, _, _ = trial.batch.partition("-")
        left, parts = set(trial.seeds), []
        for path in sorted(self.checkpoints.glob(f"{prefix}-*")):
            seeds = spelled_seeds(path.name.removeprefix(f"{prefix}-"))
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
        path = self.folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if manifest["kind"] != KIND or not isinstance(manifest["settings"], dict):
                raise ValueError(f"kind is not {KIND!r}")
        except FileNotFoundError:
            raise SavedFileError(f"{self.folder}: no {MANIFEST} here, so not the folder of an experiment") from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise SavedFileError(f"{path}: not a readable manifest ({error})") from error
        return manifest

    @contextmanager
    def writing(self, settings: dict[str, Any], command: str) -> Iterator["Store"]:
        """Claim the folder for a session with these settings, which are merged with those that are there."""
        merged = self.merged(settings)
        try:
            for folder in (self.runs, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / ".lock", "wb")  # noqa: SIM115
        except OSError as error:
            raise ValueError(f"out must be a folder that can be written, got {self.folder}: {error.strerror}") from None
        with _locked(lock, self.folder):
            for leftover in [*self.folder.glob(".*.tmp"), *self.runs.glob(".*.tmp"), *self.checkpoints.glob(".*.tmp")]:
                log.info("removed %s, which an interrupted session left behind", leftover)
                leftover.unlink(missing_ok=True)
            if not (self.folder / MANIFEST).exists():
                self._write_manifest(_new_manifest(settings, command))
            else:
                manifest = self.manifest()
                if changed := list(_differences("", manifest["versions"], code_versions())):
                    text = "%s was begun with other versions: %s; runs made now may differ"
                    log.warning(text, self.folder, "; ".join(changed))
                if merged != manifest["settings"]:
                    self._write_manifest(manifest | {"settings": merged})
            yield self

    def merged(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of the folder with these added; `SettingsDifferError` where the two contradict each other."""
        asked = as_json(settings)
        if not (self.folder / MANIFEST).exists():
            return asked
        found = self.manifest()["settings"]
        differences = list(_differences("", _meaning(found, asked), _meaning(asked, found)))
        if differences:
            shown = "; ".join(differences[:5]) + ("; ..." if len(differences) > 5 else "")
            raise SettingsDifferError(f"{self.folder} was made with other settings: {shown}. Choose another folder")
        agents = {**found["agents"], **asked["agents"]}
        for label, agent in agents.items():
            each = [side["agents"][label]["seeds"] for side in (found, asked) if label in side["agents"]]
            agents[label] = {**agent, "seeds": list(dict.fromkeys(seed for seeds in each for seed in seeds))}
        return {**found, "seeds": list(dict.fromkeys([*found["seeds"], *asked["seeds"]])), "agents": agents}

    def add_session(self, **facts: Any) -> None:
        """Note in the manifest what a session did."""
        manifest = self.manifest()
        manifest["sessions"].append(facts)
        self._write_manifest(manifest)

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        text = json.dumps(manifest, indent=2, allow_nan=False)
        write_atomically(self.folder / MANIFEST, text.encode())


class Memory:
    """The same for an experiment without a folder: its runs last as long as this object."""

    packed = False
    folder = None
    checkpoints = None

    def __init__(self, settings: dict[str, Any], command: str) -> None:
        self._manifest = _new_manifest(settings, command)
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


def _new_manifest(settings: dict[str, Any], command: str) -> dict[str, Any]:
    return {
        "kind": KIND,
        "settings": as_json(settings),
        "command": command,
        "versions": code_versions(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sessions": [],
    }


def _meaning(settings: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in two calls that share a folder: all but the seeds, and only agents that both have."""
    agents = {
        label: {"agent": agent["agent"], "parameters": agent["parameters"]}
        for label, agent in settings["agents"].items()
        if label in other["agents"]
    }
    return {**settings, "seeds": None, "agents": agents}


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
def _locked(file: IO[bytes], folder: Path) -> Iterator[None]:
    """One session at a time in a folder; the system drops the lock when the process ends, however it ends."""
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows: two sessions would compute the same bits twice, no worse
            pass
        except BlockingIOError:
            raise ValueError(f"{folder} is in use by another sweep: wait for it or choose another folder") from None
        yield
