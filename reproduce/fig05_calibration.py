"""Figure 5: calibration of the intervals of DQN-UCB and deep DQUCB on CartPole, before and after the shift."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib.pyplot as plt
import numpy as np

from dqucb.deep import calibration, fitted_scale
from dqucb.deep.calibration import LEVELS
from dqucb.experiments import statistics
from reproduce._drawing import COLOURS, save
from reproduce._protocol import Claim, Panel, begin
from reproduce.fig03c_cartpole import SETTINGS, trained

WITH_BONUS = ("DQNUCB", "DeepDQUCB")
WELL = 0.1
PHASES = ("before", "after")
FORMS = ("as they are", "fitted")  # fitted: one factor per seed from the visits before the shift


def measure(panel: Panel, label: str) -> dict[str, dict[str, dict[str, Any]]]:
    """form -> phase -> coverage (seeds, levels), and ECE and bias per seed."""
    change = panel.runs.change_at[0]
    found: dict[str, dict[str, dict[str, Any]]] = {
        form: {phase: {"coverage": [], "ece": [], "bias": []} for phase in PHASES} for form in FORMS
    }
    for run in panel.runs_of(label):
        episodes, *visits = (run.extras[f"visit_{name}"] for name in ("episodes", "q", "bonus", "returns"))
        parts = {"before": episodes < change, "after": episodes >= change}
        fitted = fitted_scale(*(values[parts["before"]] for values in visits))
        for form, scale in zip(FORMS, (1.0, fitted), strict=True):
            for phase, part in parts.items():
                curve = calibration(*(values[part] for values in visits), scale=scale)
                for name in ("coverage", "ece", "bias"):
                    found[form][phase][name].append(getattr(curve, name))
    return found


def claims_of(measured: dict[str, Any], labels: dict[str, str], way: str) -> list[Claim]:
    """The paper's claims after the shift, for one form of the intervals."""
    claims = []
    for form in FORMS:
        ours, theirs = (measured[labels[agent]][form] for agent in ("DeepDQUCB", "DQNUCB"))
        x, y = np.array(ours["after"]["ece"]), np.array(theirs["after"]["ece"])
        probability = statistics.probability_lower(x, y)
        numbers = {
            "runs": [labels["DeepDQUCB"], labels["DQNUCB"]],
            **{f"ece_{phase}_ours": round(float(np.mean(ours[phase]["ece"])), 4) for phase in PHASES},
            **{f"ece_{phase}_theirs": round(float(np.mean(theirs[phase]["ece"])), 4) for phase in PHASES},
            "probability_lower_after": probability.rounded(3),
        }
        better = x.mean() < y.mean() and probability.low > 0.5
        text = f"after the shift deep DQUCB is better calibrated than DQN-UCB (intervals {form}, {way})"
        claims.append(Claim(text, bool(better), numbers))
        text = f"after the shift deep DQUCB is well calibrated, ECE at most {WELL} (intervals {form}, {way})"
        claims.append(Claim(text, bool(x.mean() <= WELL), {"ece_after": round(float(x.mean()), 4)}))
        bias = {agent: np.array(measured[labels[agent]][form]["after"]["bias"]) for agent in WITH_BONUS}
        text = f"after the shift DQN-UCB is over-confident (intervals {form}, {way})"
        biases = {f"bias_{agent}": round(float(values.mean()), 4) for agent, values in bias.items()}
        claims.append(Claim(text, bool(bias["DQNUCB"].mean() < 0), biases))
    return claims


def draw(measured: dict[str, Any], labels: dict[str, str], title: str, path: Path) -> None:
    """Coverage against confidence, a column per phase and a row per form of the intervals."""
    figure, axes = plt.subplots(2, 2, figsize=(8, 7.6), layout="constrained", sharex=True, sharey=True)
    for row, form in zip(axes, FORMS, strict=True):
        for axis, phase in zip(row, PHASES, strict=True):
            axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle=(0, (2, 2)))
            for agent in WITH_BONUS:
                found = measured[labels[agent]][form][phase]
                curve = np.array(found["coverage"])
                name = f"{labels[agent]}: ECE {np.mean(found['ece']):.3f}"
                axis.plot(LEVELS, curve.mean(0), "o-", markersize=3, color=COLOURS[agent], label=name)
                if len(curve) > 1:
                    band = statistics.band(curve)
                    axis.fill_between(LEVELS, band.low, band.high, color=COLOURS[agent], alpha=0.2, linewidth=0)
            axis.set(title=f"{phase} the shift, intervals {form}", xlim=(0, 1), ylim=(0, 1))
            axis.legend(frameon=False, fontsize=8, loc="upper left")
    for axis in axes[1]:
        axis.set_xlabel("confidence of the interval")
    for axis in axes[:, 0]:
        axis.set_ylabel("share of returns inside")
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def main() -> None:
    figure = begin("fig05_calibration", __doc__, SETTINGS)
    panel = trained(figure)
    labels_with_bonus = [label for agent in WITH_BONUS for label in panel.runs.groups()[agent]]
    measured = {label: measure(panel, label) for label in labels_with_bonus}
    ways = {"same scale": panel.same(SETTINGS["same_scale"]), "own best scale": panel.best()}
    claims = [claim for way, labels in ways.items() for claim in claims_of(measured, labels, way)]
    for way, labels in ways.items():
        name = figure.name if way == "same scale" else f"{figure.name}_best"
        draw(measured, labels, f"CartPole, {way}: calibration of Q and its bonus", figure.out / name)
    numbers = {
        label: {form: {phase: {"ece": np.mean(found[form][phase]["ece"]), "bias": np.mean(found[form][phase]["bias"])}
                       for phase in PHASES} for form in FORMS}
        for label, found in measured.items()
    }  # fmt: skip
    figure.write(claims, {"definition": "see dqucb.deep.calibration", "mean_over_seeds": numbers})


if __name__ == "__main__":
    main()
