"""What the CartPole figures share: groups of seeds trained in lockstep, kept on disk, and reused by both scripts.

A part is one agent at one bonus scale with some seeds. It is trained in pieces with a checkpoint after each, so a
script that was stopped goes on inside a part; a finished part is read back.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import Run, SavedFileError
from dqucb.deep import DEEP_AGENTS, CalibrationRecorder
from dqucb.deep.calibration import Visits
from reproduce._protocol import Figure

PIECE = 10_000  # steps between checkpoints
CARTPOLE = "dqucb/CartPole-v0"
SETTINGS: dict[str, Any] = {
    "episodes": 800,
    "shift_at": 400,
    "noise": 0.15,
    "window_of_visits": 100,  # episodes before and after the shift whose visits are kept for calibration
    "scales": (0.01, 0.03, 0.1, 0.3, 1.0),  # a 100-fold range
    "same_scale": 0.1,
    "agents": {"RandomPolicy": {}, "DQN": {}, "DQNUCB": {}, "DeepDQUCB": {}},
}
QUICK = {"episodes": 24, "shift_at": 12, "window_of_visits": 8, "scales": (0.1, 0.3)}
QUICK_AGENT = {"learning_starts": 100, "hidden": (16,)}
WITH_BONUS = ("DQNUCB", "DeepDQUCB")


@dataclass
class Part:
    """One agent at one bonus scale with some seeds: what is trained in one go, and where it is kept."""

    agent: str
    parameters: dict[str, Any]
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    folder: Path

    @property
    def label(self) -> str:
        """The name of its group."""
        scale = self.parameters.get("bonus_scale")
        return self.agent if scale is None else f"{self.agent} bonus_scale={scale}"

    def runs(self) -> dict[int, Run]:
        """Seed -> its finished run."""
        return {seed: Run.load(self.folder / f"run-{seed}.npz") for seed in self.seeds}

    def visits(self) -> dict[int, Visits]:
        """Seed -> its visits around the shift."""
        with np.load(self.folder / "visits.npz") as file:
            return {s: Visits(*(file[f"{s}.{name}"] for name in Visits._fields)) for s in self.seeds}


@dataclass
class Group:
    """One agent at one bonus scale: the seeds that are reported, and those on which the scale is chosen."""

    parts: list[Part]

    def __post_init__(self) -> None:
        self.agent, self.parameters, self.label = self.parts[0].agent, self.parts[0].parameters, self.parts[0].label
        self.settings = self.parts[0].settings
        self._runs: dict[int, Run] | None = None

    def runs(self) -> dict[int, Run]:
        """Seed -> its finished run."""
        if self._runs is None:
            self._runs = {seed: run for part in self.parts for seed, run in part.runs().items()}
        return self._runs

    def visits(self) -> dict[int, Visits]:
        """Seed -> its visits around the shift."""
        return {seed: visits for part in self.parts for seed, visits in part.visits().items()}


def all_groups(figure: Figure) -> dict[str, Group]:
    """Every group of the CartPole figures, trained now or before; in `--out`/cartpole_runs for both scripts."""
    settings = {**SETTINGS, **QUICK} if figure.quick else SETTINGS
    home = Path(figure.arguments.out) / ("cartpole_runs_quick" if figure.quick else "cartpole_runs")
    choose_on = figure.choose_on[:1] if figure.quick else figure.choose_on
    groups = []
    for agent, given in settings["agents"].items():
        parameters = {**given, **(QUICK_AGENT if figure.quick and agent != "RandomPolicy" else {})}
        for scale in settings["scales"] if agent in WITH_BONUS else (None,):
            chosen = parameters if scale is None else {**parameters, "bonus_scale": scale}
            name = agent if scale is None else f"{agent}-{scale}"
            folders = {seeds: home / f"{name}-seeds{seeds[0]}-{seeds[-1]}" for seeds in (figure.report_on, choose_on)}
            groups.append(Group([Part(agent, chosen, settings, *item) for item in folders.items()]))
    figure.do(train, [part for group in groups for part in group.parts if not _finished(part)])
    return {group.label: group for group in groups}


def _finished(part: Part) -> bool:
    """Whether the folder holds exactly what is asked for."""
    try:
        runs = part.runs()
        part.visits()
    except (SavedFileError, OSError, KeyError, ValueError):
        return False
    wanted = DEEP_AGENTS[part.agent](**part.parameters).parameters()
    return all(
        run.parameters == wanted
        and len(run) == part.settings["episodes"]
        and run.problem["noise"] == part.settings["noise"]
        and run.change_at == (part.settings["shift_at"],)
        for run in runs.values()
    )


def train(part: Part) -> str:
    """Train a part piece by piece and keep it; a line about it."""
    shift, around = part.settings["shift_at"], part.settings["window_of_visits"]
    agent = DEEP_AGENTS[part.agent](**part.parameters)
    part.folder.mkdir(parents=True, exist_ok=True)
    checkpoint, visits = part.folder / "checkpoint", part.folder / "visits.npz"
    step = _steps_kept(checkpoint, visits)
    recorder = CalibrationRecorder([(shift - around, shift + around)], agent.discount)
    if step:
        recorder.restore(dict(np.load(visits)))
    else:
        shutil.rmtree(part.folder)
        part.folder.mkdir()
    while True:
        step += PIECE
        runs = agent.learn(
            CARTPOLE,
            episodes=part.settings["episodes"],
            seeds=part.seeds,
            env_options={"shift_at": shift, "noise": part.settings["noise"]},
            callback=recorder,
            checkpoint=checkpoint,
            checkpoint_every=1 << 62,  # only at the end of a piece, together with the visits
            stop_at=step,
        )
        np.savez(visits, **recorder.state(), step=np.array(step))
        if all(len(run) == part.settings["episodes"] for run in runs):
            break
    for run in runs:
        run.save(part.folder / f"run-{run.seed}.npz")
    tables = {seed: recorder.visits(i) for i, seed in enumerate(part.seeds)}
    np.savez(visits, **{f"{s}.{name}": getattr(v, name) for s, v in tables.items() for name in Visits._fields})
    checkpoint.unlink()
    seconds = sum(run.seconds for run in runs)
    return f"{part.label}: {len(runs)} seeds, {sum(run.steps for run in runs)} steps in {seconds:.0f} s"


def _steps_kept(checkpoint: Path, visits: Path) -> int:
    """The step at which both files stand; 0: begin again."""
    from dqucb.deep import storage

    try:
        settings, _ = storage.load_file(checkpoint, "DeepCheckpoint")
        with np.load(visits) as file:
            return int(settings["step"]) if int(file["step"]) == settings["step"] else 0
    except (SavedFileError, OSError, KeyError, ValueError):
        return 0


def best_scales(groups: Mapping[str, Group], choose_on: tuple[int, ...]) -> dict[str, str]:
    """Agent -> its label with the lowest mean regret on the choosing seeds."""
    best: dict[str, tuple[float, str]] = {}
    for label, group in groups.items():
        runs = group.runs()
        regret = float(np.mean([runs[seed].regret[-1] for seed in choose_on if seed in runs]))
        if group.agent not in best or regret < best[group.agent][0]:
            best[group.agent] = (regret, label)
    return {agent: label for agent, (_, label) in best.items()}


def same_scale(groups: Mapping[str, Group]) -> dict[str, str]:
    """Agent -> its label at the common scale, or its only one."""
    scale = SETTINGS["same_scale"]
    return {g.agent: label for label, g in groups.items() if g.parameters.get("bonus_scale", scale) == scale}
