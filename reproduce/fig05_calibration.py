"""Figure 5: calibration of the intervals of DQN-UCB and both forms of deep DQUCB on CartPole, around the shift."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib.pyplot as plt
import numpy as np

from dqucb.deep import Visits, calibration, corrected, fitted_scale
from dqucb.deep.calibration import LEVELS
from dqucb.experiments import statistics
from reproduce._drawing import COLOURS, save
from reproduce._protocol import Claim, Panel, begin
from reproduce.fig03c_cartpole import OPTIONS, OURS, PAPER, SETTINGS, trained

WITH_BONUS = ("DQNUCB", PAPER, OURS)
WELL = 0.1
PHASES = ("before", "after")
# Fitted: a factor per seed, from the visits before the shift. Corrected online: one per level, from the last episodes.
FORMS = ("as they are", "fitted", "corrected online")


def measure(panel: Panel, label: str) -> dict[str, dict[str, dict[str, Any]]]:
    """form -> phase -> coverage (seeds, levels), and ECE and bias per seed."""
    change = panel.runs.change_at[0]
    found: dict[str, dict[str, dict[str, Any]]] = {
        form: {phase: {"coverage": [], "ece": [], "bias": []} for phase in PHASES} for form in FORMS
    }
    for run in panel.runs_of(label):
        visits = Visits(*(run.extras[f"visit_{name}"] for name in ("episodes", "q", "bonus", "returns")))
        early = visits.episodes < change
        before, after = (Visits(*(column[part] for column in visits)) for part in (early, ~early))
        fitted = fitted_scale(*before[1:])
        curves = {
            "as they are": (calibration(*before[1:]), calibration(*after[1:])),
            "fitted": (calibration(*before[1:], scale=fitted), calibration(*after[1:], scale=fitted)),
            # The first half of what was recorded before the shift only corrects.
            "corrected online": (corrected(before, int(np.median(before.episodes))), corrected(visits, change)),
        }
        for form in FORMS:
            for phase, curve in zip(PHASES, curves[form], strict=True):
                for name in ("coverage", "ece", "bias"):
                    found[form][phase][name].append(getattr(curve, name))
    return found


def claims_of(measured: dict[str, Any], labels: dict[str, str], way: str) -> list[Claim]:
    """The paper's claims after the shift, for one form of the intervals."""
    claims = []
    theirs_of = {form: measured[labels["DQNUCB"]][form] for form in FORMS}
    for form in FORMS:
        for agent, name in ((PAPER, "the published deep DQUCB"), (OURS, "deep DQUCB")):
            ours, theirs = measured[labels[agent]][form], theirs_of[form]
            x, y = np.array(ours["after"]["ece"]), np.array(theirs["after"]["ece"])
            probability = statistics.probability_of_improvement(x, y)
            numbers = {
                "runs": [labels[agent], labels["DQNUCB"]],
                **{f"ece_{phase}_ours": round(float(np.mean(ours[phase]["ece"])), 4) for phase in PHASES},
                **{f"ece_{phase}_theirs": round(float(np.mean(theirs[phase]["ece"])), 4) for phase in PHASES},
                "probability_lower_after": probability.rounded(3),
            }
            better = x.mean() < y.mean() and probability.low > 0.5
            text = f"after the shift {name} is better calibrated than DQN-UCB (intervals {form}, {way})"
            claims.append(Claim(text, bool(better), numbers))
            text = f"after the shift {name} is well calibrated, ECE at most {WELL} (intervals {form}, {way})"
            claims.append(Claim(text, bool(x.mean() <= WELL), {"ece_after": round(float(x.mean()), 4)}))
        bias = {agent: np.array(measured[labels[agent]][form]["after"]["bias"]) for agent in WITH_BONUS}
        text = f"after the shift DQN-UCB is over-confident (intervals {form}, {way})"
        biases = {f"bias_{agent}": round(float(values.mean()), 4) for agent, values in bias.items()}
        claims.append(Claim(text, bool(bias["DQNUCB"].mean() < 0), biases))
    return claims


def draw(measured: dict[str, Any], labels: dict[str, str], title: str, path: Path) -> None:
    """Coverage against confidence, a column per phase and a row per form of the intervals."""
    shape = {"nrows": len(FORMS), "ncols": 2, "figsize": (8, 3.8 * len(FORMS))}
    figure, axes = plt.subplots(**shape, layout="constrained", sharex=True, sharey=True)
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
    for axis in axes[-1]:
        axis.set_xlabel("confidence of the interval")
    for axis in axes[:, 0]:
        axis.set_ylabel("share of returns inside")
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def main() -> None:
    figure = begin("fig05_calibration", __doc__, SETTINGS, more=OPTIONS, seeds=20)
    panel, ways = trained(figure)
    used = {label for labels in ways.values() for agent, label in labels.items() if agent in WITH_BONUS}
    measured = {label: measure(panel, label) for label in sorted(used)}
    claims = [claim for way, labels in ways.items() for claim in claims_of(measured, labels, way)]
    for number, (way, labels) in enumerate(ways.items()):
        name = f"{figure.name}_best" if number else figure.name
        draw(measured, labels, f"CartPole, {way}: calibration of Q and its bonus", figure.out / name)
    numbers = {
        label: {form: {phase: {"ece": np.mean(found[form][phase]["ece"]), "bias": np.mean(found[form][phase]["bias"])}
                       for phase in PHASES} for form in FORMS}
        for label, found in measured.items()
    }  # fmt: skip
    figure.write(claims, {"definition": "see dqucb.deep.calibration", "mean_over_seeds": numbers})


if __name__ == "__main__":
    main()
