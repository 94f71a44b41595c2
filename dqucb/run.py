"""`Run`: the curves and settings of a training run, and the versions of the code that produced it."""

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _html, _storage, _validate

__all__ = ["Run"]

CURVES = ("ends", "returns", "gaps", "likelihood", "lengths")
REGRETS = ("realized", "expected", "pseudo")  # in the order of the constants of `_kernels.episodes`
_FACTS = ("seconds", "seed", "agent", "parameters", "problem", "unit", "regret_form", "versions")
_EXTRA = "extra."  # before the names of extras in a file


# Modules of this package that cannot change a run: whatever is not listed is part of `code_digest`.
_NO_INFLUENCE = ("cli.py", "_cli_options.py", "_figures.py", "_html.py", "_progress.py", "_lazy.py", "checks.py",
                 "theory.py", "aot.py", "drift/_cli.py", "deep/tensorboard.py", *(f"experiments/{name}.py" for name in (
                     "aggregate", "comparison", "health", "index", "logs", "manifest", "options", "plots", "report",
                     "runner", "sequential", "statistics", "store", "tables")))  # fmt: skip


@cache
def code_digest() -> str:
    """A digest of the sources that decide the bits of a run, which differs between unreleased states of a version."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(each for kind in ("*.py", "*.pyx", "*.pxd") for each in folder.rglob(kind)):
        name = path.relative_to(folder).as_posix()
        if name not in _NO_INFLUENCE:
            digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions that decide the bits of a run."""
    from dqucb import __version__  # not from the metadata: a build trains before anything is installed

    return {
        "python": platform.python_version(),
        "dqucb": __version__,
        "code": code_digest(),
        "numpy": np.__version__,
        "numba": version("numba"),
    }


def is_outdated(found: Mapping[str, str]) -> bool:
    """Whether a run with these versions comes from other code of the same version of dqucb."""
    now = versions()
    return found.get("dqucb") == now["dqucb"] and found.get("code") not in (None, now["code"])


def _no_alarms() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one problem with one seed.

    With a horizon each entry of the arrays is an episode; with a discount it is a record of `lengths[i]` time steps
    that ends at step `ends[i]`.

    Parameters
    ----------
    returns : array
        Undiscounted sums of rewards.
    gaps : array
        Regret of each episode or record; NaN if the optimum is unknown.
    likelihood : array
        Mean over the steps, not clipped; 1 for agents without a density.
    lengths, ends : array of int
        Steps taken, and the number of episodes or steps done at the end of each entry.
    seconds : float
        Time of training.
    seed : int
        The random seed.
    agent, parameters : str, dict
        The name of the agent and its parameters as JSON values.
    problem : dict
        JSON values that identify the problem; "problem" is its name.
    unit : str
        "episodes" or "steps".
    change_at : tuple of int
        Change points of the problem.
    regret_form : str
        "realized", "expected" or "pseudo".
    versions : dict
        Versions that determine the bits of the run.
    alarms : array of int
        Episodes or steps in which the agent detected a change.
    extras : dict
        Evaluations, and arrays recorded by callbacks.

    Examples
    --------
    >>> from dqucb import QUCB, combination_lock
    >>> run = QUCB().train(combination_lock(change_at=(100,)), episodes=200, seed=1)
    >>> run.returns.shape, len(run.phase_regret()), run.alarms.tolist()
    ((200,), 2, [])
    >>> bool(abs(run.regret[-1] - sum(run.phase_regret())) < 1e-9)
    True
    """

    returns: NDArray[np.float64]
    gaps: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    lengths: NDArray[np.int64]
    ends: NDArray[np.int64]
    seconds: float
    seed: int
    agent: str
    parameters: dict[str, Any]
    problem: dict[str, Any]
    unit: str
    change_at: tuple[int, ...]
    regret_form: str
    versions: dict[str, str]
    alarms: NDArray[np.int64] = field(default_factory=_no_alarms)
    extras: dict[str, NDArray[Any]] = field(default_factory=dict)

    @cached_property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative regret against the optimum of the phase in force."""
        return np.cumsum(self.gaps)

    @property
    def steps(self) -> int:
        """Environment steps in all."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        final = f", regret={self.regret[-1]:.6g}" if len(self) else ""
        return (
            f"Run({self.agent} on {self.problem.get('problem')}, seed={self.seed}, {len(self)} records, "
            f"{self.steps} steps in {self.seconds:.3g} s{final})"
        )

    def _repr_html_(self) -> str:
        length = float(self.ends[-1]) if len(self) else 1.0
        facts = {
            "seed": self.seed,
            self.unit: f"{int(length):,}" if len(self) else "0",
            "steps": f"{self.steps:,} in {self.seconds:.3g} s",
            f"regret ({self.regret_form})": f"{self.regret[-1]:,.6g}" if len(self) else "–",
            "regret by phase": ", ".join(f"{value:,.4g}" for value in self.phase_regret()),
            "changes at": ", ".join(f"{index:,}" for index in self.change_at) or "never",
            "alarms": len(self.alarms),
        }
        changes = [index / length for index in self.change_at]
        picture = _html.curve(self.regret, changes, "cumulative regret")
        return _html.card(f"{self.agent} on {self.problem.get('problem')}", facts, picture)

    def phase_regret(self) -> list[float]:
        """Regret collected in each phase."""
        edges = [0, *np.searchsorted(self.ends, self.change_at, side="right").tolist(), len(self)]
        return [float(self.gaps[a:b].sum()) for a, b in pairwise(edges)]

    def detection_delays(self) -> list[int | None]:
        """How long after each change the agent's first alarm came, in episodes or steps.

        A delay of 0 means in the very first episode (or at the first step) after the change. None: no alarm before the
        next change, or the end. Delays mean little without `false_alarms`.
        """
        delays: list[int | None] = []
        for change, end in pairwise([*self.change_at, np.inf]):
            within = self.alarms[(self.alarms >= change) & (self.alarms < end)]
            delays.append(int(within[0] - change) if len(within) else None)
        return delays

    @property
    def false_alarms(self) -> int:
        """Alarms that are not the first one after a change."""
        return len(self.alarms) - sum(delay is not None for delay in self.detection_delays())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the cumulative regret (the returns where it is unknown), changes and alarms.

        Parameters
        ----------
        path : path, optional
            Also write the picture there, as PNG and SVG.

        Returns
        -------
        Figure
            A notebook shows it by itself.
        """
        from dqucb import _figures

        return _figures.saved(_drawn(self), path)

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes: arrays and JSON, no pickle."""
        settings = {name: getattr(self, name) for name in _FACTS} | {"change_at": list(self.change_at)}
        arrays = {name: getattr(self, name) for name in (*CURVES, "alarms")}
        return _storage.pack("Run", settings, arrays | _storage.prefixed(_EXTRA, self.extras))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "run") -> "Run":
        """The run that `to_bytes` gave; anything else is a `SavedFileError` that names it as `name`."""
        settings, arrays = _storage.unpack(data, "Run", name)
        try:
            settings["change_at"] = tuple(settings["change_at"])
            extras = _storage.below(_EXTRA, arrays)
            curves: dict[str, Any] = {key: arrays[key] for key in (*CURVES, "alarms")}
            run = cls(**curves, **settings, extras=extras)
            _check(run)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _storage.SavedFileError(f"{name}: not a complete run ({error})") from error
        return run

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run to one file, atomically."""
        _storage.write_atomically(Path(path), self.to_bytes())
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Run":
        """Read a run that `save` wrote; anything else is a `SavedFileError`."""
        return cls.from_bytes(_storage.read(path), os.fspath(path))


def _check(run: Run) -> None:
    """Raise unless a loaded run is one that `save` can have written."""
    for name in CURVES:
        kind = np.int64 if name in ("ends", "lengths") else np.float64
        _validate.like(name, getattr(run, name), np.zeros(len(run.ends), kind))
    if not np.isfinite(run.returns).all():
        raise ValueError("returns must be finite")
    for name in ("gaps", "likelihood"):  # unknown for the whole run, or for none of it
        array = getattr(run, name)
        if not np.isfinite(array).all() and not np.isnan(array).all():
            raise ValueError(f"{name} must be finite, or NaN throughout where it is unknown")
    if run.alarms.ndim != 1 or run.alarms.dtype != np.int64 or (np.diff(run.alarms, prepend=0) < 0).any():
        raise ValueError("alarms must be int64 and in order")
    if (np.diff(run.ends, prepend=0) < 1).any() or (run.lengths < 1).any():
        raise ValueError("ends must increase from 1 on, and lengths be at least 1")
    _validate.one_of("unit", run.unit, ["episodes", "steps"])
    _validate.one_of("regret_form", run.regret_form, REGRETS)
    _validate.integer("seed", run.seed, 0)
    _validate.real("seconds", run.seconds, 0.0)
    for change in run.change_at:
        _validate.integer("each of change_at", change)
    for name in ("parameters", "problem", "versions"):
        if not isinstance(getattr(run, name), dict):
            raise ValueError(f"{name} must be a mapping, got {getattr(run, name)!r}")
    if not isinstance(run.agent, str):
        raise ValueError(f"agent must be a name, got {run.agent!r}")


def _drawn(run: Run) -> Any:
    """Cumulative regret of one run (or its returns where regret is unknown), with changes and alarms."""
    from dqucb._figures import GREY, colour, figure_of, literal, styled, thousands

    with styled():
        figure, axes = figure_of(5.8, 3.2)
        known = len(run) > 0 and bool(np.isfinite(run.regret[-1]))
        axes.plot(run.ends, run.regret if known else run.returns, color=colour(0))
        for number, index in enumerate(run.change_at):
            axes.axvline(index, color=GREY, linewidth=0.9, linestyle=":", label=None if number else "change")
        if len(run.alarms):
            heights = np.full(len(run.alarms), 0.02)
            axes.plot(run.alarms, heights, linestyle="", marker="^", color=colour(1), label="alarm", clip_on=False,
                      transform=axes.get_xaxis_transform())  # fmt: skip
        if len(run.change_at) or len(run.alarms):
            axes.legend()
        axes.set(xlabel=run.unit[:-1], ylabel="cumulative regret" if known else "return")
        axes.set_title(literal(f"{run.agent} on {run.problem.get('problem')}, seed {run.seed}"))
        thousands(axes.xaxis)
        thousands(axes.yaxis)
    return figure
