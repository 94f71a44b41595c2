"""Algorithm 2, which the paper does not try on tables: continuing GridWorld and FrozenLake with a shift at T/2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from dqucb.agents import DQUCB, QUCB
from dqucb.experiments import Comparison, statistics, sweep
from dqucb.problems import Problem, frozen_lake, gridworld
from reproduce._drawing import COLOURS, STYLES, save
from reproduce._protocol import PAPER_DQUCB, QUICK_SCALES, Claim, begin

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


def claim(name: str, runs: Comparison, choose_on: Any, report_on: Any) -> Claim:
    """DQUCB against QUCB, each at its own best c."""
    best = {agent: choice.value for agent, choice in runs.best(choose_on, report_on).items()}
    final = {agent: np.array([runs.final_regret(label)[seed] for seed in report_on]) for agent, label in best.items()}
    lower = statistics.probability_lower(final["DQUCB"], final["QUCB"])
    measured = {
        "best": best,
        "mean": {agent: round(float(values.mean()), 1) for agent, values in final.items()},
        "ratio": round(float(final["DQUCB"].mean() / final["QUCB"].mean()), 3),
        "probability_lower": [round(value, 3) for value in lower],
    }
    holds = measured["ratio"] < 1 and lower.low > 0.5
    return Claim(f"{name}, discounted: DQUCB ends with less regret than QUCB, each at its own best c", holds, measured)


def main() -> None:
    figure = begin("discounted", __doc__, SETTINGS)
    steps = 20_000 if figure.quick else SETTINGS["steps"]
    scales = QUICK_SCALES if figure.quick else SCALES
    picture, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    claims, results = [], {}
    for row, (name, problem) in zip(axes, problems(steps).items(), strict=True):
        runs = sweep(
            {"DQUCB": DQUCB(**PAPER_DQUCB), "QUCB": QUCB()},
            problem,
            {"bonus_scale": list(scales)},
            steps=steps,
            seeds=[*figure.report_on, *figure.choose_on],
            jobs=figure.arguments.jobs,
            out=figure.out / "runs" / name.lower(),
            regret="expected",
            progress=True,
            command="python reproduce/discounted.py",
        )
        claims.append(claim(name, runs, figure.choose_on, figure.report_on))
        best = claims[-1].measured["best"]
        for agent, label in best.items():
            look: dict[str, Any] = {"color": COLOURS[agent], "linestyle": STYLES[agent]}
            places = [runs.seeds_of(label).index(seed) for seed in figure.report_on]
            ends, values = runs.curves(label)
            band = statistics.band(values[places])
            row[0].plot(ends, band.mean, label=label.replace("bonus_scale", "c"), **look)
            row[0].fill_between(ends, band.low, band.high, color=COLOURS[agent], alpha=0.2, linewidth=0)
            finals = [
                np.mean([runs.final_regret(f"{agent} bonus_scale={scale}")[seed] for seed in figure.report_on])
                for scale in scales
            ]
            row[1].plot(scales, finals, marker="o", markersize=3, label=agent, **look)
        ends, values = runs.curves(best["DQUCB"], "likelihood")
        row[2].plot(ends, values.mean(axis=0), color=COLOURS["DQUCB"], linewidth=1)
        for axis in (row[0], row[2]):
            axis.axvline(problem.change_at[0], color="0.5", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
            axis.set(xlabel="step")
        row[0].set(ylabel="cumulative regret", title=f"{name}: each at its own best c", ylim=(0, None))
        row[1].set(xscale="log", yscale="log", xlabel="bonus scale c", ylabel="final regret", title="against c")
        row[2].set(ylabel="mean likelihood", ylim=(0, 1.05), title="likelihood of DQUCB's transitions")
        row[0].legend(frameon=False)
        row[1].legend(frameon=False)
        results[name] = {label: float(np.mean(list(runs.final_regret(label).values()))) for label in runs.labels}
    save(picture, figure.out / figure.name)
    figure.write(claims, results)


if __name__ == "__main__":
    main()
