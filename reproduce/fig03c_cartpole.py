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
from dqucb.experiments import Comparison
from dqucb.experiments.design import varied
from reproduce._claims import band_delays, compared, is_lower
from reproduce._drawing import COLOURS, draw_bands, look, mark_changes, save
from reproduce._protocol import Claim, Figure, Panel, begin, spread

SETTINGS: dict[str, Any] = {
    "episodes": 800,
    "change_at": 400,
    "noise": 0.15,
    "window_of_visits": 100,  # episodes before and after the shift whose visits are kept for calibration
    "scales": (0.01, 0.1, 1.0),  # a 100-fold range
    "same_scale": 0.01,
}
QUICK = {"episodes": 24, "change_at": 12, "window_of_visits": 8, "scales": (0.01, 0.1)}
QUICK_AGENT: dict[str, Any] = {"learning_starts": 100, "hidden": (16,)}
OPTIONS: dict[str, dict[str, Any]] = {
    "--first-seed": {"type": int, "default": 0, "help": "the first seed that is reported (default: 0)"},
    "--same-only": {"action": "store_true", "help": "only the comparison at the same scale: no scale is chosen"},
}
REFERENCE = 100  # episodes before the shift that define the likelihood's normal band
OURS, PAPER = "DeepDQUCB", "DeepDQUCB paper"
LAST = 100  # episodes at the end whose return counts
LARGEST_RATIO, LARGEST_BEFORE, LEAST_RETURN = 0.75, 1.05, 165.0
Ways = dict[str, dict[str, str]]  # how scales were chosen -> agent -> its runs


def trained(figure: Figure) -> tuple[Panel, Ways]:
    """Every agent at the same scale and at its own best, run now or before; figures 3c and 5 share these runs."""
    settings = {**SETTINGS, **QUICK} if figure.quick else SETTINGS
    report_on = tuple(figure.arguments.first_seed + number for number in figure.report_on)
    small = QUICK_AGENT if figure.quick else {}
    agents = {OURS: DeepDQUCB(**small), "DQN": DQN(**small), "DQNUCB": DQNUCB(**small),
              PAPER: DeepDQUCB(variant="paper", **small), "RandomPolicy": RandomPolicy()}  # fmt: skip
    change, around = settings["change_at"], settings["window_of_visits"]
    env = partial(gymnasium.make, "dqucb/CartPole-v0", change_at=(change,), noise=settings["noise"])
    folder = "../../cartpole_quick_runs" if figure.quick else "../../cartpole_runs"

    def run(scales: dict[str, tuple[float, ...]], seeds: tuple[int, ...], where: str) -> Comparison:
        variants: dict[str, Any] = {}
        for name, agent in agents.items():
            own = varied({name: agent}, {"bonus_scale": scales[name]}) if name in scales else {name: agent}
            variants |= own
        recorder = partial(CalibrationRecorder, [(change - around, change + around)], DQN().discount)
        return figure.compare(variants, env, settings["episodes"], seeds=seeds, folder=f"{folder}/{where}",
                              recorder=recorder)  # fmt: skip

    with_scale = [name for name, agent in agents.items() if "bonus_scale" in agent.get_params()]
    best = dict.fromkeys(with_scale, settings["same_scale"])
    ways = ["all at the same scale"]
    if not figure.arguments.same_only:
        ways.append("each at its own best scale")
        chosen = run(dict.fromkeys(with_scale, settings["scales"]), figure.choose_on, "choosing")
        best = {name: best_scale(chosen, name) for name in with_scale}
    reported = {name: tuple(dict.fromkeys((settings["same_scale"], best[name]))) for name in with_scale}
    runs = run(reported, report_on, "reporting")
    labels = {ways[0]: dict.fromkeys(with_scale, settings["same_scale"]), ways[-1]: best}
    found = {way: {name: f"{name} bonus_scale={scales[name]}" if name in scales else name for name in agents}
             for way, scales in labels.items()}  # fmt: skip
    return Panel("CartPole", env, runs, report_on, figure.choose_on), found


def best_scale(runs: Comparison, agent: str) -> float:
    """The scale with the least mean regret over the choosing seeds."""
    means = {values["bonus_scale"]: np.mean(list(runs.final_regret(label).values()))
             for label, values in runs.groups()[agent].items()}  # fmt: skip
    return float(min(means, key=lambda scale: means[scale]))


def regret_claims(panel: Panel, labels: dict[str, str], way: str) -> list[Claim]:
    """Whether each form of deep DQUCB has the lowest regret, in all and after the shift alone."""
    claims = []
    change = panel.runs.change_at[0]
    for what, part in (("in all", slice(None)), ("after the shift", slice(change, None))):
        totals = {agent: panel.curves(label, "gaps")[:, part].sum(1) for agent, label in labels.items()}
        for ours, name in ((PAPER, "the published deep DQUCB"), (OURS, "deep DQUCB")):
            others = [agent for agent in totals if agent not in (ours, OURS)]
            against = {agent: compared(totals[ours], totals[agent]) for agent in others}
            measured = {"runs": labels, "mean_ours": round(float(totals[ours].mean()), 1), "against": against}
            text = f"CartPole: {name} has the lowest regret {what}, {way}"
            claims.append(Claim(text, all(is_lower(item) for item in against.values()), measured))
    return [*claims, *bar_claims(panel, labels, way)]


def bar_claims(panel: Panel, labels: dict[str, str], way: str) -> list[Claim]:
    """What deep DQUCB is to reach before and after the shift, and at the end."""
    change = panel.runs.change_at[0]
    gaps = {agent: panel.curves(label, "gaps") for agent, label in labels.items()}
    before = {agent: values[:, :change].sum(1) for agent, values in gaps.items()}
    after = {agent: values[:, change:].sum(1) for agent, values in gaps.items()}
    rivals = ("DQN", "DQNUCB")
    pairs = {agent: compared(after[OURS], after[agent]) for agent in rivals}
    earlier = {agent: compared(before[OURS], before[agent]) for agent in rivals}
    last = panel.curves(labels[OURS], "returns")[:, -LAST:].mean(1)
    alarms = [run.alarms.tolist() for run in panel.runs_of(labels[OURS])]
    found = [run.detection_delays()[0] for run in panel.runs_of(labels[OURS])]
    few = all(run.false_alarms == 0 for run in panel.runs_of(labels[OURS]))
    return [
        Claim(f"CartPole: after the shift deep DQUCB has at most {LARGEST_RATIO} of DQN's and DQN-UCB's regret, {way}",
              all(is_lower(pair) and pair["ratio"] <= LARGEST_RATIO for pair in pairs.values()), pairs),
        Claim(f"CartPole: before the shift it has at most {LARGEST_BEFORE} of theirs, {way}",
              all(pair["ratio"] <= LARGEST_BEFORE for pair in earlier.values()), earlier),
        Claim(f"CartPole: it has a mean return of at least {LEAST_RETURN:g} in the last {LAST} episodes, {way}",
              bool(last.mean() >= LEAST_RETURN), {"mean": round(float(last.mean()), 1),
                                                  "by_seed": last.round(1).tolist()}),
        Claim(f"CartPole: its detector notices the shift on every seed and nothing else, {way}",
              few and None not in found, {"alarms": alarms, "delays": found}),
    ]  # fmt: skip


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


def draw(panel: Panel, ways: Ways, path: Path) -> None:
    """Regret at the same scale and at each agent's best, returns, and the likelihood with its detection."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.8), layout="constrained")
    (same, labels), *others = ways.items()
    views = [(same, labels), *others]
    if all(own == labels for _, own in others):  # then there is room to look closer
        title = f"those who learn, {'each at its own best scale' if others else same}"
        views = [(same, labels), (title, {agent: label for agent, label in labels.items() if agent != "RandomPolicy"})]
    for axis, (title, labels) in zip(axes[0], views, strict=True):
        draw_bands(panel, axis, {agent: (label, label) for agent, label in labels.items()})
        axis.set(ylabel="cumulative regret", title=title, ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    few = max(2, panel.length // 40)
    way, best = list(ways.items())[-1]
    for agent, label in best.items():
        smooth = np.convolve(panel.curves(label, "returns").mean(0), np.ones(few) / few, "valid")
        axes[1, 0].plot(np.arange(few, panel.length + 1), smooth, **look(agent))
    axes[1, 0].set(ylabel=f"return, mean of {few} episodes", ylim=(0, 205), title=f"returns, {way}")
    draw_likelihood(axes[1, 1], panel, best[PAPER])
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
    figure = begin("fig03c_cartpole", __doc__, SETTINGS, more=OPTIONS, seeds=20)
    panel, ways = trained(figure)
    draw(panel, ways, figure.out / figure.name)
    claims = [claim for way, labels in ways.items() for claim in regret_claims(panel, labels, way)]
    claims += [likelihood_claim(panel, labels[PAPER]) for labels in ways.values()]
    figure.write([*claims, learning_claim(panel)], {"final_regret": table(panel)})


def table(panel: Panel) -> dict[str, Any]:
    """Regret of every agent in all and per phase, and its return at the end."""
    return {
        label: {
            "mean": round(float(panel.final(label).mean()), 1),
            "std": spread(panel.final(label)),
            "per_phase": np.mean([run.phase_regret() for run in panel.runs_of(label)], axis=0).round(1).tolist(),
            "last_return": round(float(panel.curves(label, "returns")[:, -LAST:].mean()), 1),
            "seconds_a_seed": round(float(np.mean([run.seconds for run in panel.runs_of(label)])), 1),
        }
        for label in panel.runs.labels
    }


if __name__ == "__main__":
    main()
