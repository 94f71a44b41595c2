"""What a change of physics costs on MuJoCo with the recommended setting, and how many steps it takes to regain it."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib.pyplot as plt
import numpy as np

from dqucb import make_agent
from dqucb.experiments import Comparison, Evaluation
from reproduce._drawing import look, save
from reproduce._protocol import Claim, Figure, begin
from reproduce.tab03_mujoco import NAMES, QUICK, QUICK_AGENT, as_recommended, at, in_order, phase_env, training_env
from reproduce.tab03_mujoco import SETTINGS as TABLE

SETTINGS: dict[str, Any] = {
    **as_recommended(TABLE),
    "tasks": ("HalfCheetah", "Hopper"),
    "shifts": {"gravity": 1.5, "observation_noise": 0.15},  # from T/2 on
    "episodes": 5,  # of an evaluation
    "evaluations": 10,  # after the change, evenly
    "agents": {
        "DQN": {},
        "DQNUCB": TABLE["agents"]["DQNUCB"],
        "DeepDQUCB": {**TABLE["agents"]["DeepDQUCB"], "variant": "adaptive"},
    },
}
REGAINED = 0.9  # of the return before the change
OPTIONS: dict[str, dict[str, Any]] = {
    "--steps": {"type": int, "default": SETTINGS["steps"], "help": "of each run (default: 200,000)"},
}


def moments(settings: dict[str, Any]) -> list[int]:
    """Steps at which the world after the change is evaluated, the first at the change itself."""
    change, count = settings["steps"] // 2, settings["evaluations"]
    return [change + k * change // count for k in range(count + 1)]


def trained(figure: Figure, settings: dict[str, Any], task: str, shift: str) -> Comparison:
    """The agents through one change at T/2: evaluated in the old world just before it, in the new one from then on."""
    settings = {**settings, "shift": shift, "values": (settings["shifts"][shift],)}
    change = settings["steps"] // 2
    evaluated = [(change, 0), *((step, 1) for step in moments(settings))]
    return figure.compare(
        {name: make_agent(NAMES[name], **settings["agent"], **given) for name, given in settings["agents"].items()},
        training_env(task, settings, (change,), settings["values"]),
        steps=settings["steps"],
        folder=f"{task}-{shift}",
        regret="none",
        evaluations=[
            Evaluation(f"{step}.{phase}", step, phase_env(task, settings, phase), settings["episodes"])
            for step, phase in evaluated
        ],
    )


def curves(runs: Comparison, agent: str, settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(return before the change, (seeds,); returns after it, (moments, seeds))."""
    before = at(runs, agent, (settings["steps"] // 2, 0))
    return before, np.array([at(runs, agent, (step, 1)) for step in moments(settings)])


def regaining(before: np.ndarray, after: np.ndarray, settings: dict[str, Any]) -> list[int | None]:
    """Steps of each seed from the change until nine tenths of the return before it; None if it never is there."""
    steps = np.array(moments(settings)) - settings["steps"] // 2
    reached = after >= REGAINED * before
    return [int(steps[column.argmax()]) if column.any() else None for column in reached.T]


def claim_of(name: str, runs: Comparison, settings: dict[str, Any]) -> Claim:
    """Whether the agents are in the paper's order by their mean return after the change."""
    found = {agent: curves(runs, agent, settings) for agent in runs.labels}
    means = {agent: after[1:].mean(0) for agent, (_, after) in found.items()}
    measured = {
        agent: {
            "before": before.round().tolist(),
            "at the change": after[0].round().tolist(),
            "after it, mean": means[agent].round().tolist(),
            "at the end": after[-1].round().tolist(),
            "steps to nine tenths": regaining(before, after, settings),
            "alarms": [runs.load_run(agent, seed).alarms.tolist() for seed in runs.seeds_of(agent)],
        }
        for agent, (before, after) in found.items()
    }
    holds, order = in_order(means)
    return Claim(f"{name}: deep DQUCB > DQN-UCB > DQN in mean return after the change", holds, measured | order)


def draw(runs: dict[str, Comparison], settings: dict[str, Any], path: Path) -> None:
    """The mean return of each agent before and after the change."""
    figure, axes = plt.subplots(1, len(runs), figsize=(4.0 * len(runs), 3.6), layout="constrained", squeeze=False)
    steps = np.array(moments(settings))
    for (name, each), axis in zip(runs.items(), axes[0], strict=True):
        for agent in each.labels:
            before, after = curves(each, agent, settings)
            axis.plot(steps, after.mean(1), marker="o", markersize=3, label=agent, **look(agent))
            axis.plot(steps[0], before.mean(), "D", markersize=5, color=look(agent)["color"])
        axis.set(title=name, xlabel="step", ylabel="return in the world after the change")
    axes[0, 0].legend(frameon=False, title="diamonds: just before it")
    save(figure, path)


def main() -> None:
    names = tuple(f"{task}-{shift}" for task in SETTINGS["tasks"] for shift in SETTINGS["shifts"])
    figure = begin("mujoco_recovery", __doc__, SETTINGS, {"cases": names}, more=OPTIONS)
    settings = {**SETTINGS, "steps": figure.arguments.steps}
    if figure.quick:
        settings |= {**QUICK, "training_steps": {}, "evaluations": 2, "agent": {**SETTINGS["agent"], **QUICK_AGENT}}
    figure.settings = settings
    runs = {name: trained(figure, settings, *name.split("-")) for name in figure.arguments.cases}
    draw(runs, settings, figure.out / figure.name)
    figure.write([claim_of(name, each, settings) for name, each in runs.items()], {})


if __name__ == "__main__":
    main()
