"""The curves of a run of several seeds while it goes on, and which run it is."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.run import Run, versions

if TYPE_CHECKING:
    from dqucb.base import Agent


@dataclass
class Records:
    """What each seed has played: one record per episode, or per step where the regret of each step is known."""

    seeds: list[int]
    problem: dict[str, Any]
    unit: str
    length: int  # episodes or steps of each seed
    change_at: tuple[int, ...]
    max_return: float | None
    has_gaps: bool  # whether the regret of each step is known
    max_reward: float | None
    seconds: float = 0.0
    steps: int = 0
    episodes: NDArray[np.int64] = field(init=False)
    current: NDArray[np.float64] = field(init=False)  # return, likelihood, length and regret of the record under way
    closed: list[list[tuple[float, float, float, float]]] = field(init=False)
    alarms: list[list[int]] = field(init=False)  # episodes or steps in which each seed saw a change

    def __post_init__(self) -> None:
        n = len(self.seeds)
        self.episodes, self.current, self.closed = np.zeros(n, np.int64), np.zeros((n, 4)), [[] for _ in range(n)]
        self.alarms = [[] for _ in range(n)]

    @property
    def done(self) -> int:
        """Episodes that every seed has played, or steps."""
        return self.steps if self.unit == "steps" else int(self.episodes.min())

    @property
    def is_finished(self) -> bool:
        """Whether every seed has played its length."""
        return self.done >= self.length

    def add(self, rows: NDArray[np.int64], rewards: NDArray[np.float64], likelihood: NDArray[np.float64],
            gaps: NDArray[np.float64] | None) -> None:  # fmt: skip
        """One step of the seeds in `rows`."""
        self.current[rows, 0] += rewards
        self.current[rows, 1] += likelihood
        self.current[rows, 2] += 1.0
        if gaps is not None:
            self.current[rows, 3] += gaps

    def close(self, rows: NDArray[np.int64], ended: NDArray[np.bool_], step: int) -> list[int]:
        """Close the records that are complete at `step`; the seeds whose episode is over."""
        self.steps = step
        over = rows if self.unit == "steps" and step >= self.length else rows[ended]
        for i in rows if self.unit == "steps" and self.has_gaps else over:
            total, likelihood, length, gap = self.current[i]
            self.closed[i].append((total, likelihood / length, length, gap))
            self.current[i] = 0.0
        self.episodes[over] += 1
        return over.tolist()

    def is_done(self, i: int, step: int) -> bool:
        """Whether seed number i has played its length."""
        return (step if self.unit == "steps" else self.episodes[i]) >= self.length

    def run(self, agent: "Agent", i: int, extras: dict[str, NDArray[Any]], alarms: NDArray[np.int64]) -> Run:
        """The curves of seed number i."""
        import scipy

        returns, likelihood, lengths, gaps = np.array(self.closed[i], np.float64).reshape(-1, 4).T.copy()
        if not self.has_gaps:
            gaps = np.full(len(returns), np.nan) if self.max_return is None else self.max_return - returns
        by_episode = self.unit == "episodes"
        return Run(
            returns=returns,
            gaps=gaps,
            likelihood=likelihood,
            lengths=lengths.astype(np.int64),
            ends=np.arange(1, len(returns) + 1) if by_episode else np.cumsum(lengths).astype(np.int64),
            seconds=self.seconds / len(self.seeds),
            seed=self.seeds[i],
            agent=agent.name,
            parameters=agent.parameters(),
            problem=self.problem,
            unit=self.unit,
            change_at=self.change_at,
            regret_form="realized",
            versions={**versions(), "scipy": scipy.__version__},
            extras=extras,
            alarms=np.union1d(np.array(self.alarms[i], np.int64), alarms),
        )

    def identity(self) -> dict[str, Any]:
        """Which run this is, apart from the agent: what must agree for it to go on."""
        return {"problem": self.problem, "unit": self.unit, "length": self.length, "seeds": self.seeds}

    def packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) from which `unpacked` makes the same records."""
        plain = ("max_return", "has_gaps", "max_reward", "seconds", "steps")
        settings = {name: getattr(self, name) for name in plain}
        settings |= {**self.identity(), "change_at": list(self.change_at)}
        arrays = {f"closed.{i}": np.array(rows, np.float64).reshape(-1, 4) for i, rows in enumerate(self.closed)}
        arrays |= {f"alarms.{i}": np.array(each, np.int64) for i, each in enumerate(self.alarms)}
        return settings, {"episodes": self.episodes, "current": self.current, **arrays}

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Records":
        """The records that were packed. Raises ValueError, KeyError or TypeError for what does not fit."""
        _check(settings)
        records = cls(**{**settings, "change_at": tuple(settings["change_at"])})
        for name in ("episodes", "current"):
            own = getattr(records, name)
            if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise ValueError(f"{name} must be {own.dtype}{own.shape}, got {arrays[name].dtype}{arrays[name].shape}")
            own[...] = arrays[name]
        records.closed = [[tuple(row) for row in arrays[f"closed.{i}"].tolist()] for i in range(len(records.seeds))]
        records.alarms = [arrays[f"alarms.{i}"].tolist() for i in range(len(records.seeds))]
        return records


def _check(settings: dict[str, Any]) -> None:
    """Raise a ValueError or KeyError for settings of other types than `packed` gives."""
    _validate.seeds(settings["seeds"] if isinstance(settings["seeds"], list) else None)
    _validate.integer("length", settings["length"])
    _validate.integer("steps", settings["steps"], 0)
    _validate.real("seconds", settings["seconds"], 0.0)
    _validate.flag("has_gaps", settings["has_gaps"])
    for name in ("max_return", "max_reward"):
        if settings[name] is not None:
            _validate.real(name, settings[name])
    _validate.increasing("change_at", settings["change_at"])
    _validate.one_of("unit", settings["unit"], ["episodes", "steps", "stepped"])
    if not isinstance(settings["problem"], dict):
        raise ValueError(f"problem must be a mapping, got {settings['problem']!r}")
