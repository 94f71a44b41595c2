"""What the MuJoCo table trains: cells of one task, one agent and some seeds in lockstep, kept on disk.

A cell is trained in pieces that end where it is evaluated, with checkpoints in between, so that a script that was
stopped goes on inside a piece and gives the numbers of an uninterrupted one. What is finished is read back.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import Run, SavedFileError
from dqucb._storage import write_atomically
from dqucb.deep import DEEP_AGENTS, evaluation_returns, random_policy
from dqucb.envs import PhysicsShift, locomotion
from reproduce._protocol import Figure

LOCKSTEP = 5  # seeds that are trained together: five take three and a half times as long as one
Moment = tuple[int, int]  # steps trained, and the phase of the evaluation


@dataclass(frozen=True)
class Cell:
    """One task, one agent, some seeds; `shifted` says whether the physics ever changes."""

    task: str
    agent: str
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    home: Path
    shifted: bool = True

    def env(self) -> PhysicsShift:
        """The task as it is trained on."""
        return self._made(changes(self.settings), self.settings["values"]) if self.shifted else self.evaluation_env(0)

    def evaluation_env(self, phase: int) -> PhysicsShift:
        """The task under the physics of one phase, from the first step on."""
        return self._made((0,), self.settings["values"][phase - 1 : phase]) if phase else self._made((), ())

    def _made(self, at_steps: tuple[int, ...], values: tuple[float, ...]) -> PhysicsShift:
        chosen = self.settings
        return locomotion(self.task, bins=chosen["bins"], kind=chosen["shift"], at_steps=at_steps, values=values,
                          max_episode_steps=chosen["episode_steps"])  # fmt: skip

    def parameters(self) -> dict[str, Any]:
        """The agent's keywords."""
        return {**self.settings["agent"], **self.settings["agents"][self.agent]}

    @property
    def name(self) -> str:
        """What it is called in files and lists."""
        return f"{self.task}-{self.agent}" + ("" if self.shifted else "-unshifted")

    def moments(self) -> list[Moment]:
        """When and in which phase it is evaluated: at the table's moments and after each change, or at the end."""
        if not self.shifted:
            return last_moments(self.settings)
        first, second = changes(self.settings)
        return sorted({*columns(self.settings), (first, 1), (second, 2)})

    def file(self, seed: int, kind: str) -> Path:
        """Where a seed's run or its evaluations are kept."""
        return self.home / f"{self.name}-{seed}.{kind}"

    def finished(self, seed: int) -> bool:
        """Whether a seed's files hold exactly what is asked for."""
        try:
            run, told = Run.load(self.file(seed, "npz")), self.results(seed)
        except (SavedFileError, OSError, ValueError):
            return False
        wanted = DEEP_AGENTS[self.agent](**self.parameters()).parameters()
        return run.parameters == wanted and run.steps == self.settings["steps"] and told["of"] == self._of()

    def results(self, seed: int) -> dict[str, Any]:
        """The evaluations of a finished seed."""
        return json.loads(self.file(seed, "json").read_text())

    def _of(self) -> dict[str, Any]:
        told = {"task": self.task, "agent": self.agent, "parameters": self.parameters()}
        names = ("steps", "bins", "shift", "values", "episodes", "episode_steps")
        told |= {name: self.settings[name] for name in names}
        return json.loads(json.dumps(told if self.shifted else told | {"shift": None, "values": []}))


def changes(settings: Mapping[str, Any]) -> tuple[int, int]:
    """The steps before which the physics changes: T/2 and 2T/3."""
    return settings["steps"] // 2, 2 * settings["steps"] // 3


def columns(settings: Mapping[str, Any]) -> list[Moment]:
    """The table's moments, each in the phase that was in force before the change that falls on it."""
    steps, (first, second) = settings["steps"], changes(settings)
    return [(first, 0), (second, 1), (3 * steps // 4, 2), (steps, 2)]


def last_moments(settings: Mapping[str, Any]) -> list[Moment]:
    """The last three evaluations of a run without a shift, T/10 apart."""
    return [(settings["steps"] - back * settings["steps"] // 10, 0) for back in (2, 1, 0)]


def evaluated(cell: Cell, phase: int, act: Any, seed: int) -> list[float]:
    """Returns of the evaluation episodes of one policy under the physics of one phase."""
    episodes = cell.settings["episodes"]
    returns = evaluation_returns(act, lambda: cell.evaluation_env(phase), episodes=episodes, seed=1_000 + seed)
    return returns.round(3).tolist()


def train(cell: Cell) -> str:
    """Train and evaluate a cell, going on where it was stopped; a line about it."""
    cell.home.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    agent = DEEP_AGENTS[cell.agent](**cell.parameters())
    name = f"{cell.name}-{cell.seeds[0]}-{cell.seeds[-1]}"
    checkpoint, notes = cell.home / f"{name}.checkpoint", cell.home / f"{name}.notes"
    told = _kept(notes, cell)
    runs: list[Run] = []
    for step in sorted({step for step, _ in cell.moments()}):
        phases = [phase for at, phase in cell.moments() if at == step]
        if step < cell.settings["steps"] and all(f"{step}.{phase}" in told["returns"] for phase in phases):
            continue
        runs = agent.learn(cell.env, steps=cell.settings["steps"], seeds=cell.seeds, stop_at=step,
                           checkpoint=checkpoint, checkpoint_every=cell.settings["checkpoint_every"])  # fmt: skip
        for phase in phases:
            told["returns"][f"{step}.{phase}"] = [
                evaluated(cell, phase, lambda rows, seed=seed: agent.predict(rows, seed=seed), seed)
                for seed in cell.seeds
            ]
        now = time.perf_counter()
        told["wall_seconds"] += now - began
        began = now
        write_atomically(notes, json.dumps(told).encode())
    for i, seed in enumerate(cell.seeds):
        own = {at: returns[i] for at, returns in told["returns"].items()}
        content = {"of": told["of"], "wall_seconds": told["wall_seconds"] / len(cell.seeds), "returns": own}
        runs[i].save(cell.file(seed, "npz"))
        write_atomically(cell.file(seed, "json"), json.dumps(content).encode())
    checkpoint.unlink()
    notes.unlink()
    return f"{cell.name} seeds {list(cell.seeds)}: {told['wall_seconds']:.0f} s with evaluation"


def _kept(notes: Path, cell: Cell) -> dict[str, Any]:
    """What a stopped run of the same cell wrote down, or an empty sheet."""
    empty: dict[str, Any] = {"of": cell._of(), "seeds": list(cell.seeds), "wall_seconds": 0.0, "returns": {}}
    try:
        told = json.loads(notes.read_text())
    except (OSError, ValueError):
        return empty
    return told if told["of"] == empty["of"] and told["seeds"] == empty["seeds"] else empty


def cells(figure: Figure, settings: Mapping[str, Any], home: Path) -> list[Cell]:
    """Every cell of the table with all its seeds, trained now or before."""
    whole = [Cell(task, agent, figure.report_on, settings, home)
             for task in settings["tasks"] for agent in settings["agents"]]  # fmt: skip
    whole += [Cell(task, "DQN", figure.report_on, settings, home, shifted=False) for task in settings["unshifted"]]
    todo = list(_todo(whole))
    figure.do(train, todo)
    return whole


def _todo(whole: list[Cell]) -> Iterator[Cell]:
    """What is not finished, the first seeds of every cell before the next ones."""
    left = [(cell, [seed for seed in cell.seeds if not cell.finished(seed)]) for cell in whole]
    while any(seeds for _, seeds in left):
        for cell, seeds in left:
            if seeds:
                yield replace(cell, seeds=tuple(seeds[:LOCKSTEP]))
                del seeds[:LOCKSTEP]


def random_returns(cell: Cell, phase: int) -> np.ndarray:
    """Evaluation returns of uniformly random actions in one phase."""
    act = random_policy(cell.env().action_space, seed=0)
    return np.array(evaluated(cell, phase, act, seed=0))
