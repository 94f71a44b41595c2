"""Runs of the hospital figure: every agent on one system, kept on disk, the deep ones resumable inside."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dqucb import Run, SavedFileError
from dqucb.agents.allocation import POLICIES, run_policy
from dqucb.problems.hospital import HospitalSystem, clairvoyant_rewards, described
from reproduce._protocol import Figure

REFERENCES = ("RandomAllocation", "ProportionalToFreeBeds", "GreedyByFreeBeds")
BANDITS = ("UCBRA", "CUCBRA")
DEEP = ("DQN", "DQNUCB", "DeepDQUCB")
LABELS = {
    "DeepDQUCB": "deep DQUCB (ours)",
    "DQNUCB": "DQN-UCB",
    "DQN": "DQN (CNeural_RA)",
    "CUCBRA": "CUCB_RA",
    "UCBRA": "UCB_RA",
    "GreedyByFreeBeds": "greedy by free beds",
    "ProportionalToFreeBeds": "proportional to free beds",
    "RandomAllocation": "random",
}


@dataclass
class Group:
    """One agent with its settings on one system, for some seeds."""

    agent: str
    parameters: dict[str, Any]
    system: HospitalSystem
    seeds: tuple[int, ...]
    folder: Path

    @property
    def label(self) -> str:
        """The agent, and its bonus scale if that is varied."""
        scale = self.parameters.get("bonus_scale")
        return self.agent if scale is None else f"{self.agent} bonus_scale={scale:g}"

    @property
    def home(self) -> Path:
        """Named after everything that decides the numbers, so that a change of settings begins anew."""
        told = json.dumps([self.parameters, self.seeds, described(self.system)], sort_keys=True, default=str)
        data = b"".join(
            getattr(self.system, name).tobytes() for name in ("arrivals", "non_covid", "beta", "beta_after")
        )
        return self.folder / f"{self.label.replace(' bonus_scale=', '-')}-{zlib.crc32(told.encode() + data):08x}"

    def runs(self) -> dict[int, Run]:
        """Seed -> its finished run; `SavedFileError` if one is not there."""
        return {seed: Run.load(self.home / f"run-{seed}.npz") for seed in self.seeds}

    def finished(self) -> bool:
        """Whether all runs are there."""
        try:
            return all(len(run) == self.system.days for run in self.runs().values())
        except SavedFileError:
            return False


def make(group: Group) -> str:
    """Run a group, or go on with it; a line about it."""
    group.home.mkdir(parents=True, exist_ok=True)
    if group.agent in POLICIES:
        policy, best = POLICIES[group.agent](**group.parameters), clairvoyant_rewards(group.system)
        runs = [run_policy(policy, group.system, seed=seed, best=best) for seed in group.seeds]
    else:
        from dqucb.deep import DEEP_AGENTS
        from dqucb.envs import HospitalAllocationEnv

        runs = DEEP_AGENTS[group.agent](**group.parameters).learn(
            lambda: HospitalAllocationEnv(group.system, project=False),
            steps=group.system.days,
            seeds=group.seeds,
            checkpoint=group.home / "checkpoint",
            checkpoint_every=100,
        )
        (group.home / "checkpoint").unlink()
    for run in runs:
        run.save(group.home / f"run-{run.seed}.npz")
    return f"{group.label}: {len(runs)} seeds in {sum(run.seconds for run in runs):.0f} s"


def all_groups(figure: Figure, system: HospitalSystem, settings: Mapping[str, Any]) -> dict[str, Group]:
    """Every agent at every bonus scale, run now or before."""
    folder, seeds = figure.out / "runs", (*figure.report_on, *figure.choose_on)
    groups = []
    for agent in (*REFERENCES, *BANDITS, *DEEP):
        given = settings["deep"] if agent in DEEP else {}
        if agent in ("DQNUCB", "DeepDQUCB"):
            given = {**given, **settings["bonus"]}
        for scale in settings["scales"].get(agent, (None,)):
            chosen = dict(given) if scale is None else {**given, "bonus_scale": scale}
            groups.append(Group(agent, chosen, system, seeds, folder))
    todo = [group for group in groups if not group.finished()]
    same = settings["same_scale"]  # these first, so that a run that is stopped has one of the two comparisons
    todo.sort(key=lambda group: group.parameters.get("bonus_scale", same) != same)
    figure.do(make, todo)
    return {group.label: group for group in groups}


def best_scales(groups: Mapping[str, Group], choose_on: tuple[int, ...]) -> dict[str, str]:
    """Agent -> its label with the least mean regret on the choosing seeds."""
    best: dict[str, tuple[float, str]] = {}
    for label, group in groups.items():
        runs = group.runs()
        regret = sum(float(runs[seed].regret[-1]) for seed in choose_on)
        if group.agent not in best or regret < best[group.agent][0]:
            best[group.agent] = (regret, label)
    return {agent: label for agent, (_, label) in best.items()}


def same_scales(groups: Mapping[str, Group], scale: float) -> dict[str, str]:
    """Agent -> its label: deep agents at the common scale, bandits, whose units are others, at the published 1."""
    chosen: dict[str, str] = {}
    for label, group in groups.items():
        wanted = 1.0 if group.agent in BANDITS else scale
        if group.parameters.get("bonus_scale", wanted) == wanted:
            chosen[group.agent] = label
    return chosen
