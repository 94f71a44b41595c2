"""Figure 6: COVID-19 patients and hospitals whose dynamics change at day 637 of 1274.

Synthetic hospitals by default; with `--data FILE` those of the published HHS file (and `--state-daily FILE`, the
state's daily totals, by which weeks are split into days).
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from dqucb.agents.allocation import CUCBRA, UCBRA, GreedyByFreeBeds, ProportionalToFreeBeds, RandomAllocation
from dqucb.deep import DAILY, DQN, DQNUCB, DeepDQUCB
from dqucb.envs import HospitalAllocationEnv
from dqucb.experiments.design import Variant, varied
from dqucb.problems.hospital import HospitalSystem, clairvoyant_rewards, described, load_hospitals, synthetic_hospitals
from reproduce import _hospital_drawing as drawing
from reproduce._protocol import Claim, Figure, Panel, band_delays, begin, compared, is_lower

REFERENCES = ("RandomAllocation", "ProportionalToFreeBeds", "GreedyByFreeBeds")
BANDITS = ("UCBRA", "CUCBRA")
DEEP = ("DQN", "DQNUCB", "DeepDQUCB")
SETTINGS: dict[str, Any] = {
    "days": 1274,
    "change_at": 637,
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
QUICK = {"days": 84, "change_at": 42, "hospitals": 6, "same_scale": 3.0,
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


def agents(settings: dict[str, Any]) -> dict[str, Variant]:
    """Every agent at each of its scales."""
    deep, bonus = settings["deep"], settings["deep"] | settings["bonus"]
    every: list[Any] = [RandomAllocation(), ProportionalToFreeBeds(), GreedyByFreeBeds(), UCBRA(), CUCBRA(),
                        DQN(**deep), DQNUCB(**bonus), DeepDQUCB(**bonus)]  # fmt: skip
    found: dict[str, Variant] = {}
    for agent in every:
        scales = settings["scales"].get(agent.name)
        found |= varied(agent, {"bonus_scale": scales}) if scales else {agent.name: Variant(agent, agent.name, {})}
    return found


def same_scales(panel: Panel, scale: float) -> dict[str, str]:
    """Agent -> its runs: deep agents at the common scale, bandits, whose units are others, at the published 1."""
    ours, published = panel.same(scale), panel.same(1.0)
    return {agent: published[agent] if agent in BANDITS else label for agent, label in ours.items()}


def regret_claims(panel: Panel, labels: dict[str, str], way: str) -> list[Claim]:
    """The paper's two claims about regret, and ours against what a hospital would do without learning."""
    change = panel.runs.change_at[0]
    days = {agent: panel.curves(label, "gaps") for agent, label in labels.items()}
    before = {agent: values[:, :change].sum(1) for agent, values in days.items()}
    after = {agent: values[:, change:].sum(1) for agent, values in days.items()}
    pairs = {
        f"{agent} < {other}": compared(before[agent], before[other])
        for agent in ("DeepDQUCB", "DQNUCB")
        for other in ("DQN", *BANDITS)
    }
    against = compared(after["DeepDQUCB"], after["DQNUCB"])
    simple = {other: compared(days["DeepDQUCB"].sum(1), days[other].sum(1)) for other in REFERENCES}
    used = {agent: labels[agent] for agent in (*BANDITS, *DEEP)}
    first = f"Hospitals: before the shift deep DQUCB and DQN-UCB have less regret than the other three, {way}"
    second = f"Hospitals: after the shift deep DQUCB has significantly less regret than DQN-UCB, {way}"
    third = f"Hospitals (not a claim of the paper): deep DQUCB has less regret than rules without learning, {way}"
    return [
        Claim(first, all(is_lower(pair) for pair in pairs.values()), {"runs": used, **pairs}),
        Claim(second, is_lower(against), {"runs": used, **against}),
        Claim(third, all(is_lower(pair) for pair in simple.values()), {"runs": used, **simple}),
    ]


def likelihood_claim(panel: Panel, label: str) -> Claim:
    """Whether the likelihood falls when beta changes, on every seed."""
    runs, change = panel.runs_of(label), panel.runs.change_at[0]
    few = min(AROUND, change, panel.length - change)
    before = np.array([run.likelihood[change - few : change].mean() for run in runs])
    after = np.array([run.likelihood[change : change + few].mean() for run in runs])
    measured = {
        "runs": label,
        "days_compared": few,
        "before": before.round(4).tolist(),
        "after": after.round(4).tolist(),
        "last_days": np.array([run.likelihood[-few:].mean() for run in runs]).round(4).tolist(),
        "detection_delays": [band_delays(run, 100)[0] for run in runs],
    }
    text = "Hospitals: the likelihood falls after the shift on every seed"
    return Claim(text, bool((after < before).all()), measured)


def results(panel: Panel, system: HospitalSystem) -> dict[str, Any]:
    """Regret of every agent in all and per phase, and what the clairvoyant leaves."""
    best, change = clairvoyant_rewards(system), panel.runs.change_at[0]
    overflow = {"before": round(-best[:change].sum(), 1), "after": round(-best[change:].sum(), 1)}
    return {"system": described(system), "clairvoyant_overflow": overflow, "regret": panel.table()}


def main() -> None:
    figure = begin("fig06_hospital", __doc__, SETTINGS, more=OPTIONS)
    settings = SETTINGS
    if figure.quick:
        settings = {**SETTINGS, **QUICK, "deep": {**SETTINGS["deep"], **QUICK_DEEP}}
    if figure.arguments.data is not None:
        figure.name += "_data"
    figure.settings = {**settings, "beta_after": figure.arguments.beta_after}
    whole = system_of(figure, settings)
    system = whole.shortened(settings["days"], (settings["change_at"],))
    print(system)
    env = partial(HospitalAllocationEnv, system, project=False)
    runs = figure.compare(agents(settings), env, steps=system.days, seeds=figure.seeds)
    panel = Panel("Hospitals", env, runs, figure.report_on, figure.choose_on)
    ways = {
        "all at the same scale": same_scales(panel, settings["same_scale"]),
        "each at its own best scale": panel.best(),
    }
    drawing.draw(system, panel, ways, figure.out / figure.name)
    if figure.arguments.data is not None:
        drawing.draw_beside(synthetic_hospitals(len(whole.names)), whole, figure.out / f"{figure.name}_curves")
    claims = [claim for way, labels in ways.items() for claim in regret_claims(panel, labels, way)]
    claims += [likelihood_claim(panel, labels["DeepDQUCB"]) for labels in ways.values()]
    figure.write(claims, results(panel, system))


if __name__ == "__main__":
    main()
