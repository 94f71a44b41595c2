"""`verify` and `repair` the folder of an experiment: find damaged and missing files, move damaged ones aside.

Nothing is ever deleted. Damaged files are moved to corrupt/, where nothing reads them; running the experiment's command
again then computes the missing runs.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqucb import _storage
from dqucb._storage import SavedFileError, set_aside
from dqucb.base import Agent
from dqucb.experiments import index, manifest
from dqucb.experiments.comparison import trace
from dqucb.experiments.design import trials_of
from dqucb.experiments.store import Store
from dqucb.experiments.trials import EVALUATIONS, Trial
from dqucb.run import Run


@dataclass
class Health:
    """The state of an experiment's folder.

    Parameters
    ----------
    folder : Path
        The folder.
    manifest : str
        "whole", or what is wrong with it.
    runs : int
        Undamaged runs that belong to the experiment.
    missing : int
        Runs in the manifest without an undamaged file.
    damaged : dict
        Path -> what is wrong with it, for runs, checkpoints and parts of the index.
    strangers : list of Path
        Undamaged runs that belong to no trial of the manifest, and files of other kinds.
    leftovers : list of Path
        Temporary files of killed processes; the next call removes them.
    moved : dict
        Path -> where `repair` moved it.

    Examples
    --------
    >>> Health(Path("results"), runs=9, missing=1).lines()
    ['manifest: whole', 'runs: 9 whole, 1 missing']
    """

    folder: Path
    manifest: str = "whole"
    runs: int = 0
    missing: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    strangers: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    moved: dict[Path, Path] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged; runs may be missing if the experiment was stopped."""
        return self.manifest == "whole" and not self.damaged

    def lines(self) -> list[str]:
        """The findings as lines of text."""
        found = [f"manifest: {self.manifest}", f"runs: {self.runs} whole, {self.missing} missing"]
        found += [f"damaged: {what}" for what in self.damaged.values()]
        found += [f"set aside: {path} as {where}" for path, where in self.moved.items()]
        found += [f"not of this experiment: {path}" for path in self.strangers]
        found += [f"left by a session that was killed: {path}" for path in self.leftovers]
        return found


def verify(folder: str | os.PathLike[str]) -> Health:
    """Read every file of an experiment's folder, the index included, and report its state. Changes nothing.

    Examples
    --------
    >>> import tempfile
    >>> from dqucb import compare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = compare("random", "combination-lock", 200, seeds=3, jobs=1, out=folder)
    ...     next(made.folder.glob("runs/*")).unlink()
    ...     verify(folder).lines()
    ['manifest: whole', 'runs: 2 whole, 1 missing']
    """
    store = _existing(folder)
    health = Health(store.folder)
    trials: dict[str, Trial] = {}
    try:
        trials = trials_of(store.manifest()["settings"])
    except SavedFileError as error:
        health.manifest = str(error)
    wanted = _places(trials)
    for path in _files(store.runs):
        if _is_leftover(path):
            health.leftovers.append(path)
        elif path.suffix != ".npz":
            health.strangers.append(path)
        elif (wrong := _wrong_run(path, wanted.get(path.stem))) is not None:
            health.damaged[path] = wrong
        elif path.stem in wanted:
            health.runs += 1
        elif trials:
            health.strangers.append(path)
    health.missing = len(wanted) - health.runs
    for path in _files(store.checkpoints):
        if _is_leftover(path):
            health.leftovers.append(path)
        elif (wrong := _wrong_checkpoint(path)) is not None:
            health.damaged[path] = wrong
    for path in _files(store.index.folder):
        if (wrong := store.index.problem_with(path)) is not None:
            health.damaged[path] = wrong
    health.leftovers += [path for path in _files(store.folder) if _is_leftover(path)]
    return health


def repair(folder: str | os.PathLike[str]) -> Health:
    """Move damaged files aside, and rebuild the manifest from the runs if it is damaged or missing.

    Returns what `verify` found before, and where each damaged file was moved. The index of a large experiment is
    completed.

    Examples
    --------
    >>> import tempfile
    >>> from dqucb import compare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = compare("random", "combination-lock", 200, seeds=3, jobs=1, out=folder)
    ...     written = next(made.folder.glob("runs/*")).write_bytes(b"?")
    ...     len(repair(folder).moved), verify(folder).is_whole, verify(folder).missing
    (1, True, 1)
    """
    store = _existing(folder)
    with store.locked():
        health = verify(folder)
        for path in health.damaged:
            health.moved[path] = set_aside(path, store.corrupt)
        if health.manifest != "whole":
            content = _manifest_of(store)
            path = store.folder / manifest.NAME
            if os.path.lexists(path):
                health.moved[path] = set_aside(path, store.corrupt)
            store.write_manifest(content)
        _index(store)
    return health


def _existing(folder: str | os.PathLike[str]) -> Store:
    store = Store(folder)
    if not store.runs.is_dir():
        raise SavedFileError(f"{store.folder}: no folder of an experiment: it has no runs/")
    return store


def _places(trials: dict[str, Trial]) -> dict[str, tuple[Trial, int]]:
    """File name of a run -> its trial and seed."""
    return {trial.key(seed): (trial, seed) for trial in trials.values() for seed in trial.seeds}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path != folder / ".lock") if folder.is_dir() else []


def _is_leftover(path: Path) -> bool:
    return path.name.startswith(".") and path.suffix == ".tmp"


def _wrong_run(path: Path, place: tuple[Trial, int] | None) -> str | None:
    try:
        run = Run.load(path)
    except SavedFileError as error:
        return str(error)
    if place is not None and not (run.seed == place[1] and place[0].matches(run)):
        return f"{path}: holds the result of another trial"
    return None


def _wrong_checkpoint(path: Path) -> str | None:
    try:
        if path.suffix == ".evaluations":
            _storage.load(path, EVALUATIONS)
        else:
            Agent.load(path)
    except SavedFileError as error:
        return str(error)
    return None


def _manifest_of(store: Store) -> dict[str, Any]:
    """A manifest consistent with the undamaged runs of a folder; a `SavedFileError` if there is none."""
    settings: dict[str, Any] = {}
    seeds: dict[int, None] = {}
    for path in _files(store.runs):
        if path.suffix != ".npz":
            continue
        run = Run.load(path)
        common = {"problem": run.problem, "change_at": list(run.change_at), "length": int(run.ends[-1])}
        common |= {"unit": run.unit, "regret": run.regret_form}
        if not settings:
            settings = {**common, "agents": {}}
        elif common != {name: settings[name] for name in common}:
            raise SavedFileError(f"{path}: is of another experiment than the runs before it: no manifest fits both")
        identity = {"agent": run.agent, "parameters": run.parameters}
        agent: dict[str, Any] | None = next(
            (each for each in settings["agents"].values() if identity.items() <= each.items()), None
        )
        if agent is None:
            label = run.agent if run.agent not in settings["agents"] else f"{run.agent} {len(settings['agents'])}"
            agent = {**identity, "group": label, "varied": {}, "seeds": []}
            settings["agents"][label] = agent
        agent["seeds"].append(run.seed)
        seeds[run.seed] = None
    if not settings:
        raise SavedFileError(f"{store.folder}: no manifest, and no whole run to make one from")
    settings["seeds"], settings["agents"] = sorted(seeds), dict(sorted(settings["agents"].items()))
    for agent in settings["agents"].values():
        agent["seeds"].sort()
    trials = trials_of(settings)
    if not _places(trials).keys() >= {path.stem for path in _files(store.runs) if path.suffix == ".npz"}:
        raise SavedFileError(
            f"{store.folder}: the runs do not tell all settings (evaluations, a recorder, regret unknown): repeat the "
            "command that made them with another folder, and copy runs/ there"
        )
    return manifest.new(settings, "dqucb repair")


def _index(store: Store) -> None:
    """Add the missing entries to the index of a large experiment."""
    trials = trials_of(store.manifest()["settings"])
    places = _places(trials)
    if len(places) < index.WORTH_WHILE:
        return
    known, fresh = store.index.traces(), {}
    for key, (trial, seed) in places.items():
        if key not in known and (run := store.load(trial, seed)) is not None:
            fresh[key] = trace(run)
    items = list(fresh.items())
    for first in range(0, len(items), index.SHARD):
        store.index.add(dict(items[first : first + index.SHARD]))
