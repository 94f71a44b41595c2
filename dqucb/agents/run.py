"""What a training run leaves behind: curves, settings, and where they came from."""

import os
import platform
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage, _validate

CURVES = ("ends", "returns", "gaps", "likelihood", "lengths")


def versions() -> dict[str, str]:
    """The versions that decide the bits of a run."""
    names = ("dqucb", "numpy", "numba")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one problem with one seed.

    With a horizon each place of the arrays is an episode; with a discount it is a record of `lengths[i]` time
    steps that ends at step `ends[i]`.
    """

    returns: NDArray[np.float64]  # undiscounted sum of rewards
    gaps: NDArray[np.float64]  # regret of this episode or record; NaN where the optimum is unknown
    likelihood: NDArray[np.float64]  # mean over the steps; 1 for agents without a density
    lengths: NDArray[np.int64]  # steps taken
    ends: NDArray[np.int64]  # number of episodes or steps done by then
    seconds: float
    seed: int
    agent: str
    parameters: dict[str, Any]
    problem: dict[str, Any]
    unit: str  # "episodes" or "steps"
    change_at: tuple[int, ...]
    regret_form: str  # "realized" or "expected"
    versions: dict[str, str]

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

    def phase_regret(self) -> list[float]:
        """Regret collected in each phase."""
        edges = [0, *np.searchsorted(self.ends, self.change_at, side="right").tolist(), len(self)]
        return [float(self.gaps[a:b].sum()) for a, b in pairwise(edges)]

    def detection_delays(self, reference: int = 500, sigmas: float = 4.0) -> list[int | None]:
        """How long after each change the likelihood first leaves its normal band, in episodes or steps.

        The band is the mean plus and minus `sigmas` standard deviations over the last `reference` records before
        the change; a delay of 0 means in the very first record after it. None: it never left the band before
        the next change (or the end).
        """
        reference = _validate.integer("reference", reference, 2)
        sigmas = _validate.positive("sigmas", sigmas)
        delays: list[int | None] = []
        bounds = [*self.change_at, int(self.ends[-1]) if len(self) else 0]
        for change, end in pairwise(bounds):
            first, last = np.searchsorted(self.ends, [change, end], side="right")
            before = self.likelihood[max(0, first - reference) : first]
            if len(before) < 2:
                delays.append(None)
                continue
            # A deterministic phase has no spread at all; rounding alone must not raise an alarm.
            width = sigmas * float(before.std()) + 1e-9
            outside = np.abs(self.likelihood[first:last] - before.mean()) > width
            hits = np.flatnonzero(outside)
            delays.append(int(self.ends[first + hits[0]] - self.lengths_in_units[first + hits[0]] - change)
                          if len(hits) else None)  # fmt: skip
        return delays

    @cached_property
    def lengths_in_units(self) -> NDArray[np.int64]:
        """How many episodes (always one) or steps each record covers."""
        return np.diff(self.ends, prepend=0)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run to one .npz file (arrays and JSON, no pickle)."""
        settings = {
            "seconds": self.seconds,
            "seed": self.seed,
            "agent": self.agent,
            "parameters": self.parameters,
            "problem": self.problem,
            "unit": self.unit,
            "change_at": list(self.change_at),
            "regret_form": self.regret_form,
            "versions": self.versions,
        }
        return _storage.save(path, "Run", settings, **{name: getattr(self, name) for name in CURVES})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Run":
        """Read a run that `save` wrote; anything else is a `SavedFileError`."""
        settings, arrays = _storage.load(path, "Run")
        try:
            settings["change_at"] = tuple(settings["change_at"])
            run = cls(**{name: arrays[name] for name in CURVES}, **settings)
            _check(run)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _storage.SavedFileError(f"{os.fspath(path)}: not a complete run ({error})") from error
        return run


def _check(run: Run) -> None:
    """Raise unless a loaded run is one that `save` can have written."""
    for name in CURVES:
        array = getattr(run, name)
        kind = np.int64 if name in ("ends", "lengths") else np.float64
        shape = (len(run.ends),)
        if array.shape != shape or array.dtype != kind:
            raise ValueError(f"{name} must be {kind.__name__}{shape}, got {array.dtype}{array.shape}")
    if (np.diff(run.ends, prepend=0) < 1).any() or (run.lengths < 1).any():
        raise ValueError("ends must increase from 1 on, and lengths be at least 1")
    _validate.one_of("unit", run.unit, ["episodes", "steps"])
    _validate.one_of("regret_form", run.regret_form, ["realized", "expected"])
    _validate.integer("seed", run.seed, 0)
    _validate.real("seconds", run.seconds, 0.0)
    for change in run.change_at:
        _validate.integer("each of change_at", change)
    for name in ("parameters", "problem", "versions"):
        if not isinstance(getattr(run, name), dict):
            raise ValueError(f"{name} must be a mapping, got {getattr(run, name)!r}")
    if not isinstance(run.agent, str):
        raise ValueError(f"agent must be a name, got {run.agent!r}")
