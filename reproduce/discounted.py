"""Algorithm 2, which the paper does not try on tables: continuing GridWorld and FrozenLake with a shift at T/2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from dqucb import DQUCB, QUCB, PlanningDQUCB
from dqucb.experiments.design import labelled, varied
from dqucb.problems import Problem, frozen_lake, gridworld
from reproduce._claims import compared, is_lower
from reproduce._drawing import COLOURS, draw_bands, look, mark_changes, save
from reproduce._protocol import PAPER_DQUCB, QUICK_SCALES, Claim, Panel, begin

SCALES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
SETTINGS = {
    "discount": 0.95,
    "steps": 2_000_000,
    "gridworld_noise": (0.01, 0.2),
    "frozen_lake_slip": (0, 2 / 3),
    "scales": SCALES,
    "regret": "expected: V*(s_t) - V^{pi_t}(s_t) by exact policy evaluation at 1,000 points",
}


def problems(steps: int) -> dict[str, Problem]:
    """Both as continuing tasks: after a hole or the goal the walk begins again."""
    change = (steps // 2,)
    return {
        "GridWorld": gridworld(noise=SETTINGS["gridworld_noise"], change_at=change, discount=SETTINGS["discount"]),
        "FrozenLake": frozen_lake(slip=SETTINGS["frozen_lake_slip"], change_at=change, discount=SETTINGS["discount"]),
    }


def claims_of(panel: Panel, best: dict[str, str]) -> list[Claim]:
    """DQUCB against QUCB, each at its own best c, and PlanningDQUCB against both."""
    claims = []
    for ours, theirs in (("DQUCB", "QUCB"), ("PlanningDQUCB", "QUCB"), ("PlanningDQUCB", "DQUCB")):
        measured = {"best": best, **compared(panel.final(best[ours]), panel.final(best[theirs]))}
        text = f"{panel.title}, discounted: {ours} ends with less regret than {theirs}, each at its own best c"
        claims.append(Claim(text, is_lower(measured), measured))
    return claims


def draw(row: Any, panel: Panel, best: dict[str, str]) -> None:
    """Regret at the best c, final regret against c, and the likelihood."""
    names = {agent: (label, label.replace("bonus_scale", "c")) for agent, label in best.items()}
    draw_bands(panel, row[0], names)
    for agent, members in panel.runs.groups().items():
        finals = [panel.final(label).mean() for label in members]
        if len(finals) == 1:
            row[1].axhline(finals[0], label=agent, **look(agent))
            continue
        row[1].plot([panel.scale_of(label) for label in members], finals, marker="o", markersize=3, label=agent,
                    **look(agent))  # fmt: skip
    ends, values = panel.runs.curves(best["DQUCB"], "likelihood")
    row[2].plot(ends, values.mean(axis=0), color=COLOURS["DQUCB"], linewidth=1)
    for axis in (row[0], row[2]):
        mark_changes(panel, axis)
    row[0].set(ylabel="cumulative regret", title=f"{panel.title}: each at its own best c", ylim=(0, None))
    row[1].set(xscale="log", yscale="log", xlabel="bonus scale c", ylabel="final regret", title="against c")
    row[2].set(ylabel="mean likelihood", ylim=(0, 1.05), title="likelihood of DQUCB's transitions")
    row[0].legend(frameon=False)
    row[1].legend(frameon=False)


def main() -> None:
    figure = begin("discounted", __doc__, SETTINGS)
    steps = 20_000 if figure.quick else SETTINGS["steps"]
    scales = QUICK_SCALES if figure.quick else SCALES
    agents = varied({"DQUCB": DQUCB(**PAPER_DQUCB), "QUCB": QUCB()}, {"bonus_scale": scales})
    agents |= labelled({"PlanningDQUCB": PlanningDQUCB()})
    picture, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    claims, results = [], {}
    for row, (name, problem) in zip(axes, problems(steps).items(), strict=True):
        runs = figure.compare(agents, problem, steps=steps, seeds=figure.seeds, folder=name.lower(), regret="expected")
        panel = Panel(name, problem, runs, figure.report_on, figure.choose_on)
        claims += claims_of(panel, panel.best())
        draw(row, panel, panel.best())
        results[name] = {label: float(np.mean(list(runs.final_regret(label).values()))) for label in runs.labels}
    save(picture, figure.out / figure.name)
    figure.write(claims, results)


if __name__ == "__main__":
    main()
