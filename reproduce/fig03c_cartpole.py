"""Figure 3c: cumulative regret on CartPole, with noise on both velocities from episode 400 on."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from dqucb.deep import DQN, DQNUCB, CalibrationRecorder, DeepDQUCB, RandomPolicy
from dqucb.experiments.design import varied
from reproduce._drawing import COLOURS, draw_bands, look, mark_changes, save
from reproduce._protocol import Claim, Figure, Panel, band_delays, begin, compared, is_lower

SETTINGS: dict[str, Any] = {
    "episodes": 800,
    "change_at": 400,
    "noise": 0.15,
    "window_of_visits": 100,  # episodes before and after the shift whose visits are kept for calibration
    "scales": (0.01, 0.03, 0.1, 0.3, 1.0),  # a 100-fold range
    "same_scale": 0.1,
}
QUICK = {"episodes": 24, "change_at": 12, "window_of_visits": 8, "scales": (0.1, 0.3)}
QUICK_AGENT: dict[str, Any] = {"learning_starts": 100, "hidden": (16,)}
REFERENCE = 100  # episodes before the shift that define the likelihood's normal band


def trained(figure: Figure) -> Panel:
    """Every agent at every scale, run now or before; figures 3c and 5 share these runs."""
    settings = {**SETTINGS, **QUICK} if figure.quick else SETTINGS
    small = QUICK_AGENT if figure.quick else {}
    agents = {"RandomPolicy": RandomPolicy(), "DQN": DQN(**small), "DQNUCB": DQNUCB(**small),
              "DeepDQUCB": DeepDQUCB(**small)}  # fmt: skip
    change, around = settings["change_at"], settings["window_of_visits"]
    env = partial(gymnasium.make, "dqucb/CartPole-v0", change_at=(change,), noise=settings["noise"])
    runs = figure.compare(
        varied(agents, {"bonus_scale": settings["scales"]}),
        env,
        settings["episodes"],
        seeds=figure.seeds,
        folder="../../cartpole_quick_runs" if figure.quick else "../../cartpole_runs",
        recorder=partial(CalibrationRecorder, [(change - around, change + around)], DQN().discount),
    )
    return Panel("CartPole", env, runs, figure.report_on, figure.choose_on)


def regret_claims(panel: Panel, labels: dict[str, str], way: str) -> list[Claim]:
    """Whether deep DQUCB has the lowest regret of the four, in all and after the shift alone."""
    claims = []
    for what, part in (("in all", slice(None)), ("after the shift", slice(panel.runs.change_at[0], None))):
        totals = {agent: panel.curves(label, "gaps")[:, part].sum(1) for agent, label in labels.items()}
        ours, against = totals["DeepDQUCB"], {}
        for agent, theirs in totals.items():
            if agent != "DeepDQUCB":
                against[agent] = compared(ours, theirs)
        measured = {"runs": labels, "mean_ours": round(float(ours.mean()), 1), "against": against}
        text = f"CartPole: deep DQUCB has the lowest regret of the four {what}, {way}"
        claims.append(Claim(text, all(is_lower(item) for item in against.values()), measured))
    return claims


def learning_claim(panel: Panel) -> Claim:
    """Whether DQN solves the task before the shift."""
    change = panel.runs.change_at[0]
    means = panel.curves("DQN", "returns")[:, max(0, change - 50) : change].mean(1)
    text = "CartPole: DQN has a mean return of at least 195 over the 50 episodes before the shift on most seeds"
    return Claim(text, bool((means >= 195).mean() > 0.5), {"mean_returns": means.round(1).tolist()})


def likelihood_claim(panel: Panel, label: str) -> Claim:
    """Whether the likelihood falls at the shift, and after how many episodes it leaves its normal band."""
    change, likelihood = panel.runs.change_at[0], panel.curves(label, "likelihood")
    before = likelihood[:, max(0, change - 50) : change].mean(1)
    after = likelihood[:, change : change + 50].mean(1)
    measured = {
        "runs": label,
        "before": before.round(4).tolist(),
        "after": after.round(4).tolist(),
        "detection_delays": [band_delays(run, REFERENCE)[0] for run in panel.runs_of(label)],
    }
    text = "CartPole: the mean likelihood falls at the shift on every seed"
    return Claim(text, bool((after < before).all()), measured)


def draw(panel: Panel, ways: dict[str, dict[str, str]], path: Path) -> None:
    """Regret at the same scale and at each agent's best, returns, and the likelihood with its detection."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.8), layout="constrained")
    for axis, (way, labels) in zip(axes[0], ways.items(), strict=True):
        draw_bands(panel, axis, {agent: (label, label) for agent, label in labels.items()})
        axis.set(ylabel="cumulative regret", title=way, ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    few = max(2, panel.length // 40)
    best = panel.best()
    for agent, label in best.items():
        smooth = np.convolve(panel.curves(label, "returns").mean(0), np.ones(few) / few, "valid")
        axes[1, 0].plot(np.arange(few, panel.length + 1), smooth, **look(agent))
    axes[1, 0].set(ylabel=f"return, mean of {few} episodes", ylim=(0, 205), title="returns, own best scale")
    draw_likelihood(axes[1, 1], panel, best["DeepDQUCB"])
    for axis in axes.ravel():
        mark_changes(panel, axis)
    figure.suptitle("CartPole: noise on both velocities from the dashed line on", fontsize=11)
    save(figure, path)


def draw_likelihood(axis: plt.Axes, panel: Panel, label: str) -> None:
    """The mean likelihood per episode, the normal band of the mean, and when each seed left its own."""
    values, change = panel.curves(label, "likelihood"), panel.runs.change_at[0]
    axis.plot(np.arange(1, values.shape[1] + 1), values.mean(0), color=COLOURS["DeepDQUCB"], linewidth=1)
    before = values[:, max(0, change - REFERENCE) : change].mean(0)
    axis.axhspan(before.mean() - 4 * before.std(), before.mean() + 4 * before.std(), color="0.85", zorder=0)
    delays = [band_delays(run, REFERENCE)[0] for run in panel.runs_of(label)]
    found = [delay for delay in delays if delay is not None]
    text = f"left its band on {len(found)} of {len(delays)} seeds"
    if found:
        text += f", median delay {np.median(found):g} episodes"
        axis.plot(np.array(found) + change, np.full(len(found), axis.get_ylim()[0]), "v", color="#D55E00", markersize=5)
    axis.set(ylabel="mean likelihood")
    axis.set_title(f"likelihood ({label}):\n{text}", fontsize=9)


def main() -> None:
    figure = begin("fig03c_cartpole", __doc__, SETTINGS)
    panel = trained(figure)
    ways = {"all at the same scale": panel.same(SETTINGS["same_scale"]), "each at its own best scale": panel.best()}
    draw(panel, ways, figure.out / figure.name)
    claims = [claim for way, labels in ways.items() for claim in regret_claims(panel, labels, way)]
    claims += [likelihood_claim(panel, labels["DeepDQUCB"]) for labels in ways.values()]
    figure.write([*claims, learning_claim(panel)], {"final_regret": panel.table()})


if __name__ == "__main__":
    main()
