"""Figure 6: COVID-19 patients and hospitals whose dynamics change at day 637 of 1274.

Synthetic hospitals by default; with `--data FILE` those of the published HHS file (and `--state-daily FILE`, the
state's daily totals, by which weeks are split into days).
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from dqucb.deep import DAILY
from dqucb.experiments import statistics
from dqucb.problems.hospital import HospitalSystem, clairvoyant_rewards, described, load_hospitals, synthetic_hospitals
from reproduce import _hospital_drawing as drawing
from reproduce._hospital import BANDITS, DEEP, REFERENCES, Group, all_groups, best_scales, same_scales
from reproduce._protocol import Claim, Figure, begin, is_lower

SETTINGS: dict[str, Any] = {
    "days": 1274,
    "change_day": 637,
    "hospitals": 40,
    "deep": DAILY,  # for all deep agents alike; from a few trials of DQN on seeds 100 to 102, first 400 days
    "bonus": {"hash_bits": 4},
    # Of the deep agents in patients; of the bandits in shares of the largest number of arrivals. 100-fold both.
    "scales": {
        "DQNUCB": (0.3, 3.0, 30.0),
        "DeepDQUCB": (0.3, 3.0, 30.0),
        "UCBRA": (0.01, 0.1, 1.0),
        "CUCBRA": (0.01, 0.1, 1.0),
    },
    "same_scale": 3.0,
}
QUICK = {"days": 84, "change_day": 42, "hospitals": 6, "same_scale": 3.0,
         "scales": {"DQNUCB": (3.0,), "DeepDQUCB": (3.0,)}}  # fmt: skip
QUICK_DEEP = {"hidden": (16,), "learning_starts": 10, "epsilon_steps": 10, "batch": 8}
OPTIONS: dict[str, dict[str, Any]] = {
    "--data": {"help": "the HHS file by facility (.csv or .csv.gz); default: synthetic hospitals"},
    "--state-daily": {"help": "the state's daily totals (.csv or .csv.gz), to split weeks into days"},
    "--state": {"default": "TX", "help": "two letters (default: TX)"},
    "--hospitals": {"type": int, "help": "the largest so many (default: 40)"},
    "--beta-after": {"default": "random", "choices": ["random", "same"],
                     "help": "how beta 'becomes uniform': drawn from [0, 1], or the same for all (default: random)"},
}  # fmt: skip
AROUND = 50  # days before and after the change between which the likelihood is compared
Seeds = tuple[int, ...]


def system_of(figure: Figure, settings: dict[str, Any]) -> HospitalSystem:
    """The hospitals that the command line asks for, all days of them."""
    given = figure.arguments
    hospitals = given.hospitals or settings["hospitals"]
    if given.data is None:
        return synthetic_hospitals(hospitals, beta_after=given.beta_after)
    system, report = load_hospitals(
        given.data, state=given.state, hospitals=hospitals, state_daily=given.state_daily, beta_after=given.beta_after
    )
    print(report)
    return system


def gaps(group: Group, seeds: Seeds) -> np.ndarray:
    """The regret of each day, (seeds, days)."""
    runs = group.runs()
    return np.array([runs[seed].gaps for seed in seeds])


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """Means, their ratio, and how often a run of ours has less regret, with its 95 % interval."""
    return {
        "mean_ours": round(float(ours.mean()), 1),
        "mean_theirs": round(float(theirs.mean()), 1),
        "ratio": round(float(ours.mean() / theirs.mean()), 3) if theirs.mean() > 0 else None,
        "probability_lower": [round(value, 3) for value in statistics.probability_lower(ours, theirs)],
    }


def lower(measured: dict[str, Any]) -> bool:
    """Significantly lower; a ratio means nothing where regret is negative."""
    if measured["ratio"] is None:
        return measured["mean_ours"] < measured["mean_theirs"] and measured["probability_lower"][1] > 0.5
    return is_lower(measured)


def regret_claims(groups: dict[str, Group], labels: dict[str, str], seeds: Seeds, change: int, way: str) -> list[Claim]:
    """The paper's two claims about regret, and ours against what a hospital would do without learning."""
    days = {agent: gaps(groups[label], seeds) for agent, label in labels.items()}
    before = {agent: values[:, :change].sum(1) for agent, values in days.items()}
    after = {agent: values[:, change:].sum(1) for agent, values in days.items()}
    pairs = {
        f"{agent} < {other}": compared(before[agent], before[other])
        for agent in ("DeepDQUCB", "DQNUCB")
        for other in ("DQN", *BANDITS)
    }
    against = compared(after["DeepDQUCB"], after["DQNUCB"])
    simple = {
        other: compared(before["DeepDQUCB"] + after["DeepDQUCB"], before[other] + after[other]) for other in REFERENCES
    }
    used = {agent: labels[agent] for agent in (*BANDITS, *DEEP)}
    first = f"Hospitals: before the shift deep DQUCB and DQN-UCB have less regret than the other three, {way}"
    second = f"Hospitals: after the shift deep DQUCB has significantly less regret than DQN-UCB, {way}"
    third = f"Hospitals (not a claim of the paper): deep DQUCB has less regret than rules without learning, {way}"
    return [
        Claim(first, all(lower(pair) for pair in pairs.values()), {"runs": used, **pairs}),
        Claim(second, lower(against), {"runs": used, **against}),
        Claim(third, all(lower(pair) for pair in simple.values()), {"runs": used, **simple}),
    ]


def likelihood_claim(group: Group, seeds: Seeds, change: int) -> Claim:
    """Whether the likelihood falls when beta changes, on every seed."""
    runs = [group.runs()[seed] for seed in seeds]
    few = min(AROUND, change, len(runs[0]) - change)
    before = np.array([run.likelihood[change - few : change].mean() for run in runs])
    after = np.array([run.likelihood[change : change + few].mean() for run in runs])
    measured = {
        "runs": group.label,
        "days_compared": few,
        "before": before.round(4).tolist(),
        "after": after.round(4).tolist(),
        "last_days": np.array([run.likelihood[-few:].mean() for run in runs]).round(4).tolist(),
        "detection_delays": [run.detection_delays(100)[0] for run in runs],
    }
    return Claim(
        "Hospitals: the likelihood falls after the shift on every seed", bool((after < before).all()), measured
    )


def results(groups: dict[str, Group], system: HospitalSystem, figure: Figure) -> dict[str, Any]:
    """Regret of every group in all and per phase, and what the clairvoyant leaves."""
    table = {}
    for label, group in groups.items():
        runs = group.runs()
        final = np.array([runs[seed].regret[-1] for seed in figure.report_on])
        table[label] = {
            "mean": round(float(final.mean()), 1),
            "std": round(float(final.std(ddof=1)), 1) if len(final) > 1 else 0.0,
            "per_phase": np.mean([runs[s].phase_regret() for s in figure.report_on], axis=0).round(1).tolist(),
            "mean_on_choosing_seeds": round(float(np.mean([runs[s].regret[-1] for s in figure.choose_on])), 1),
            "seconds_all_seeds": round(sum(run.seconds for run in runs.values()), 1),
        }
    best = clairvoyant_rewards(system)
    change = system.change_day or system.days
    overflow = {"before": round(-best[:change].sum(), 1), "after": round(-best[change:].sum(), 1)}
    return {"system": described(system), "clairvoyant_overflow": overflow, "regret": table}


def main() -> None:
    figure = begin("fig06_hospital", __doc__, SETTINGS, more=OPTIONS)
    settings = SETTINGS
    if figure.quick:
        settings = {**SETTINGS, **QUICK, "deep": {**SETTINGS["deep"], **QUICK_DEEP}}
    if figure.arguments.data is not None:
        figure.name += "_data"
    figure.settings = {**settings, "beta_after": figure.arguments.beta_after}
    whole = system_of(figure, settings)
    system = whole.shortened(settings["days"], settings["change_day"])
    print(system)
    groups = all_groups(figure, system, settings)
    seeds, change = figure.report_on, settings["change_day"]
    ways = {
        "all at the same scale": same_scales(groups, settings["same_scale"]),
        "each at its own best scale": best_scales(groups, figure.choose_on),
    }
    drawing.draw(system, groups, ways, seeds, figure.out / figure.name)
    if figure.arguments.data is not None:
        drawing.draw_beside(synthetic_hospitals(len(whole.names)), whole, figure.out / f"{figure.name}_curves")
    claims = [c for way, labels in ways.items() for c in regret_claims(groups, labels, seeds, change, way)]
    claims += [likelihood_claim(groups[labels["DeepDQUCB"]], seeds, change) for labels in ways.values()]
    figure.write(claims, results(groups, system, figure))


if __name__ == "__main__":
    main()
