"""Figure 3c: cumulative regret on CartPole, with noise on both velocities from episode 400 on."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib.pyplot as plt
import numpy as np

from dqucb.experiments import statistics
from reproduce._deep import SETTINGS, Group, all_groups, best_scales, same_scale
from reproduce._drawing import save
from reproduce._protocol import Claim, begin, is_lower

COLOURS = {"DeepDQUCB": "#0072B2", "DQNUCB": "#D55E00", "DQN": "#009E73", "RandomPolicy": "#999999"}
STYLES = {"DeepDQUCB": "-", "DQNUCB": "--", "DQN": "-.", "RandomPolicy": ":"}
REFERENCE = 100  # episodes before the shift that define the likelihood's normal band
Seeds = tuple[int, ...]


def curves(group: Group, seeds: Seeds, name: str) -> np.ndarray:
    """A curve of each seed, (seeds, episodes)."""
    runs = group.runs()
    return np.array([getattr(runs[seed], name) for seed in seeds])


def regret_claims(groups: dict[str, Group], labels: dict[str, str], seeds: Seeds, way: str) -> list[Claim]:
    """Whether deep DQUCB has the lowest regret of the four, in all and after the shift alone."""
    claims = []
    for what, part in (
        ("in all", slice(None)),
        ("after the shift", slice(groups[labels["DQN"]].settings["shift_at"], None)),
    ):
        totals = {agent: curves(groups[label], seeds, "gaps")[:, part].sum(1) for agent, label in labels.items()}
        ours, against = totals["DeepDQUCB"], {}
        for agent, theirs in totals.items():
            if agent != "DeepDQUCB":
                lower = statistics.probability_lower(ours, theirs)
                against[agent] = {
                    "mean_theirs": round(float(theirs.mean()), 1),
                    "ratio": round(float(ours.mean() / theirs.mean()), 3),
                    "probability_lower": [round(value, 3) for value in lower],
                }
        measured = {"runs": labels, "mean_ours": round(float(ours.mean()), 1), "against": against}
        text = f"CartPole: deep DQUCB has the lowest regret of the four {what}, {way}"
        claims.append(Claim(text, all(is_lower(item) for item in against.values()), measured))
    return claims


def learning_claim(group: Group, seeds: Seeds) -> Claim:
    """Whether DQN solves the task before the shift."""
    shift = group.settings["shift_at"]
    means = curves(group, seeds, "returns")[:, max(0, shift - 50) : shift].mean(1)
    text = "CartPole: DQN has a mean return of at least 195 over the 50 episodes before the shift on most seeds"
    return Claim(text, bool((means >= 195).mean() > 0.5), {"mean_returns": means.round(1).tolist()})


def likelihood_claim(group: Group, seeds: Seeds) -> Claim:
    """Whether the likelihood falls at the shift, and after how many episodes it leaves its normal band."""
    shift = group.settings["shift_at"]
    likelihood = curves(group, seeds, "likelihood")
    before = likelihood[:, max(0, shift - 50) : shift].mean(1)
    after = likelihood[:, shift : shift + 50].mean(1)
    runs = group.runs()
    measured = {
        "runs": group.label,
        "before": before.round(4).tolist(),
        "after": after.round(4).tolist(),
        "detection_delays": [runs[seed].detection_delays(REFERENCE)[0] for seed in seeds],
    }
    return Claim(
        "CartPole: the mean likelihood falls at the shift on every seed", bool((after < before).all()), measured
    )


def draw(groups: dict[str, Group], ways: dict[str, dict[str, str]], seeds: Seeds, path: Path) -> None:
    """Regret at the same scale and at each agent's best, returns, and the likelihood with its detection."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.8), layout="constrained")
    for axis, (way, labels) in zip(axes[0], ways.items(), strict=True):
        for agent, label in labels.items():
            band = statistics.band(curves(groups[label], seeds, "regret"))
            episodes = np.arange(1, len(band.mean) + 1)
            axis.plot(episodes, band.mean, label=label, color=COLOURS[agent], linestyle=STYLES[agent])
            axis.fill_between(episodes, band.low, band.high, color=COLOURS[agent], alpha=0.2, linewidth=0)
        axis.set(ylabel="cumulative regret", title=way, ylim=(0, None))
        axis.legend(frameon=False, fontsize=8)
    few = max(2, len(episodes) // 40)
    best = ways["each at its own best scale"]
    for agent, label in best.items():
        mean = curves(groups[label], seeds, "returns").mean(0)
        smooth = np.convolve(mean, np.ones(few) / few, "valid")
        axes[1, 0].plot(np.arange(few, len(mean) + 1), smooth, color=COLOURS[agent], linestyle=STYLES[agent])
    axes[1, 0].set(ylabel=f"return, mean of {few} episodes", ylim=(0, 205), title="returns, own best scale")
    group = groups[best["DeepDQUCB"]]
    draw_likelihood(axes[1, 1], group, seeds)
    for axis in axes.ravel():
        axis.axvline(group.settings["shift_at"], color="0.5", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
        axis.set(xlabel="episode", xlim=(0, len(episodes)))
    figure.suptitle("CartPole: noise on both velocities from the dashed line on", fontsize=11)
    save(figure, path)


def draw_likelihood(axis: plt.Axes, group: Group, seeds: Seeds) -> None:
    """The mean likelihood per episode, the normal band of the mean, and when each seed left its own."""
    values, shift = curves(group, seeds, "likelihood"), group.settings["shift_at"]
    axis.plot(np.arange(1, values.shape[1] + 1), values.mean(0), color=COLOURS["DeepDQUCB"], linewidth=1)
    before = values[:, max(0, shift - REFERENCE) : shift].mean(0)
    axis.axhspan(before.mean() - 4 * before.std(), before.mean() + 4 * before.std(), color="0.85", zorder=0)
    runs = group.runs()
    delays = [runs[seed].detection_delays(REFERENCE)[0] for seed in seeds]
    found = [delay for delay in delays if delay is not None]
    told = f"left its band on {len(found)} of {len(delays)} seeds"
    if found:
        told += f", median delay {np.median(found):g} episodes"
        axis.plot(np.array(found) + shift, np.full(len(found), axis.get_ylim()[0]), "v", color="#D55E00", markersize=5)
    axis.set(ylabel="mean likelihood")
    axis.set_title(f"likelihood ({group.label}):\n{told}", fontsize=9)


def results(groups: dict[str, Group], seeds: Seeds, choose_on: Seeds) -> dict[str, Any]:
    """Final regret, regret per phase and seconds of every group."""
    table: dict[str, Any] = {}
    for label, group in groups.items():
        runs = group.runs()
        final = np.array([runs[seed].regret[-1] for seed in seeds])
        table[label] = {
            "mean": round(float(final.mean()), 1),
            "std": round(float(final.std(ddof=1)), 1) if len(final) > 1 else 0.0,
            "per_phase": np.mean([runs[seed].phase_regret() for seed in seeds], axis=0).round(1).tolist(),
            "mean_on_choosing_seeds": round(float(np.mean([runs[s].regret[-1] for s in choose_on if s in runs])), 1),
            "seconds_all_seeds": round(sum(run.seconds for run in runs.values()), 1),
        }
    return {"final_regret": table}


def main() -> None:
    figure = begin("fig03c_cartpole", __doc__, SETTINGS)
    groups = all_groups(figure)
    seeds, choose_on = figure.report_on, figure.choose_on
    ways = {"all at the same scale": same_scale(groups), "each at its own best scale": best_scales(groups, choose_on)}
    draw(groups, ways, seeds, figure.out / figure.name)
    claims = [claim for way, labels in ways.items() for claim in regret_claims(groups, labels, seeds, way)]
    claims += [likelihood_claim(groups[labels["DeepDQUCB"]], seeds) for labels in ways.values()]
    claims.append(learning_claim(groups["DQN"], seeds))
    figure.write(claims, results(groups, seeds, choose_on))


if __name__ == "__main__":
    main()
