"""Figure 6: COVID-19 patients and hospitals whose dynamics change at day 637 of 1274.

Synthetic hospitals by default; with `--data FILE` those of the published HHS file (and `--state-daily FILE`, the
state's daily totals, by which weeks are split into days). After the paper's shift little overflow is left; with
`--shift longer` stays become half as long again at day 340, before a wave. `--parts` says who is compared: rules and
the model, the published learners, or learners that start from what is known.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from dqucb.deep import DAILY, DAILY_KNOWN, DQN, DQNUCB, DeepDQUCB
from dqucb.experiments.design import Variant, varied
from dqucb.hospital import (
    BEFORE_A_WAVE,
    CUCBRA,
    UCBRA,
    GreedyByFreeBeds,
    HospitalAllocationEnv,
    HospitalSystem,
    ModelAllocation,
    ProportionalToFreeBeds,
    RandomAllocation,
    clairvoyant_rewards,
    described,
    load_hospitals,
    synthetic_hospitals,
)
from reproduce import _hospital_drawing as drawing
from reproduce._claims import band_delays, compared, is_lower
from reproduce._protocol import Claim, Figure, Panel, begin

REFERENCES = ("RandomAllocation", "ProportionalToFreeBeds", "GreedyByFreeBeds")
BANDITS = ("UCBRA", "CUCBRA")
DEEP = ("DQN", "DQNUCB", "DeepDQUCB")
MODEL = "ModelAllocation"
PUBLISHED = "DeepDQUCB paper"  # beside the form that follows the stays
PARTS = ("rules", "published", "known")
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
    "known_scale": 0.3,  # of the bonus, in patients, for agents that start from what is known
    "longer_at": BEFORE_A_WAVE[0],
}
QUICK = {"longer_at": 42, "days": 84, "change_at": 42, "hospitals": 6, "same_scale": 3.0,
         "scales": {"DQNUCB": (3.0,), "DeepDQUCB": (3.0,)}}  # fmt: skip
QUICK_DEEP = {"hidden": (16,), "learning_starts": 10, "epsilon_steps": 10, "batch_size": 8}
OPTIONS: dict[str, dict[str, Any]] = {
    "--data": {"help": "the HHS file by facility (.csv or .csv.gz); default: synthetic hospitals"},
    "--state-daily": {"help": "the state's daily totals (.csv or .csv.gz), to split weeks into days"},
    "--state": {"default": "TX", "help": "two letters (default: TX)"},
    "--hospitals": {"type": int, "help": "the largest so many (default: 40)"},
    "--beta-after": {"default": "random", "choices": ["random", "same"],
                     "help": "how beta 'becomes uniform': drawn from [0, 1], or the same for all (default: random)"},
    "--shift": {"default": "paper", "choices": ["paper", "longer"],
                "help": "the paper's, or longer stays before a wave (default: paper)"},
}  # fmt: skip
AROUND = 50  # days before and after the change between which the likelihood is compared
Seeds = tuple[int, ...]


def system_of(figure: Figure, settings: dict[str, Any]) -> HospitalSystem:
    """The hospitals that the command line asks for, all days of them."""
    given = figure.arguments
    hospitals = given.hospitals or settings["hospitals"]
    how = "longer" if given.shift == "longer" else given.beta_after
    if given.data is None:
        return synthetic_hospitals(hospitals, beta_after=how)
    system, report = load_hospitals(
        given.data, state=given.state, hospitals=hospitals, state_daily=given.state_daily, beta_after=how
    )
    print(report)
    return system


def agents(settings: dict[str, Any], parts: list[str]) -> dict[str, Variant]:
    """Every agent of the rules and the published learners at each of its scales."""
    deep, bonus = settings["deep"], settings["deep"] | settings["bonus"]
    every: list[Any] = [RandomAllocation(), ProportionalToFreeBeds(), GreedyByFreeBeds(), ModelAllocation()]
    if "published" in parts:
        every += [UCBRA(), CUCBRA(), DQN(**deep), DQNUCB(**bonus), DeepDQUCB(variant="paper", **bonus)]
    found: dict[str, Variant] = {}
    for agent in every:
        scales = settings["scales"].get(agent.name)
        found |= varied(agent, {"bonus_scale": scales}) if scales else {agent.name: Variant(agent, agent.name, {})}
    return found


def known_agents(settings: dict[str, Any]) -> dict[str, Any]:
    """Learners that start from what is known; for deep DQUCB that follows the stays, unless it is as published."""
    plain = settings["deep_known"]
    bonus = plain | settings["bonus"] | {"bonus_scale": settings["known_scale"]}
    published = DeepDQUCB(variant="paper", **bonus)
    return {"DQN": DQN(**plain), "DQNUCB": DQNUCB(**bonus), "DeepDQUCB": DeepDQUCB(**bonus), PUBLISHED: published}


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


def model_claims(panel: Panel, shift: str) -> list[Claim]:
    """Whether the model has less regret than every rule of thumb, before and after the shift."""
    change = panel.runs.change_at[0]
    claims = []
    for when, part in (("in all", slice(None)), ("before", slice(change)), ("after", slice(change, None))):
        totals = {agent: panel.curves(agent, "gaps")[:, part].sum(1) for agent in (MODEL, *REFERENCES)}
        means = {agent: round(float(values.mean()), 1) for agent, values in totals.items()}
        text = f"Hospitals, shift {shift}: the model has less regret than every rule of thumb, {when}"
        claims.append(Claim(text, means[MODEL] < min(means[agent] for agent in REFERENCES), means))
    return claims


def known_claims(known: Panel, rules: Panel, shift: str) -> list[Claim]:
    """Learners that start from what is known, against each other and against the rules."""
    change = known.runs.change_at[0]
    days = {agent: known.curves(agent, "gaps") for agent in (*DEEP, PUBLISHED)}
    after = {agent: values[:, change:].sum(1) for agent, values in days.items()}
    against = compared(after["DeepDQUCB"], after["DQNUCB"])
    rule = {agent: rules.curves(agent, "gaps").sum(1) for agent in REFERENCES}
    simple = {agent: compared(days["DeepDQUCB"].sum(1), values) for agent, values in rule.items()}
    first = f"Hospitals, shift {shift}: from what is known deep DQUCB has significantly less regret after than DQN-UCB"
    second = f"Hospitals, shift {shift}: from what is known deep DQUCB has less regret than every rule of thumb"
    phases = {agent: np.round([values[:, :change].sum(1).mean(), values[:, change:].sum(1).mean()], 1).tolist()
              for agent, values in days.items()}  # fmt: skip
    return [
        Claim(first, is_lower(against), {**against, "per_phase": phases}),
        Claim(second, all(is_lower(pair) for pair in simple.values()), simple),
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


def regret_table(panel: Panel) -> dict[str, Any]:
    """Mean regret of every agent in all and per phase, over the reporting seeds."""
    return {
        label: {
            "mean": round(float(panel.final(label).mean()), 1),
            "per_phase": np.mean([run.phase_regret() for run in panel.runs_of(label)], 0).round(1).tolist(),
        }
        for label in panel.runs.labels
    }


def results(panel: Panel, system: HospitalSystem) -> dict[str, Any]:
    """Regret of every agent in all and per phase, and what the clairvoyant leaves."""
    best, change = clairvoyant_rewards(system), panel.runs.change_at[0]
    overflow = {"before": round(-best[:change].sum(), 1), "after": round(-best[change:].sum(), 1)}
    return {"system": described(system), "clairvoyant_overflow": overflow, "regret": regret_table(panel)}


def main() -> None:
    figure = begin("fig06_hospital", __doc__, SETTINGS, {"parts": PARTS}, more=OPTIONS)
    given, settings = figure.arguments, {**SETTINGS, "deep_known": DAILY_KNOWN}
    if figure.quick:
        small = {kind: {**settings[kind], **QUICK_DEEP} for kind in ("deep", "deep_known")}
        settings = {**settings, **QUICK, **small}
    figure.name += ("_longer" if given.shift == "longer" else "") + ("_data" if given.data is not None else "")
    figure.settings = {**settings, "beta_after": given.beta_after}
    whole = system_of(figure, settings)
    change = settings["longer_at" if given.shift == "longer" else "change_at"]
    system = whole.shortened(settings["days"], (change,))
    print(system)
    env = partial(HospitalAllocationEnv, system, project=False)
    seeds = figure.seeds if "published" in given.parts else figure.report_on
    runs = figure.compare(agents(settings, given.parts), env, steps=system.days, seeds=seeds)
    panel = Panel("Hospitals", env, runs, figure.report_on, figure.choose_on)
    claims = model_claims(panel, given.shift)
    table = {"hospitals": results(panel, system)}
    if "known" in given.parts:
        env = partial(HospitalAllocationEnv, system, project=False, known=True)
        runs = figure.compare(known_agents(settings), env, steps=system.days, folder="known")
        known = Panel("Hospitals, from what is known", env, runs, figure.report_on, ())
        claims += known_claims(known, panel, given.shift)
        table["known"] = {label: np.mean([run.phase_regret() for run in known.runs_of(label)], 0).round(1).tolist()
                          for label in runs.labels}  # fmt: skip
    if "published" in given.parts:
        ways = {
            "all at the same scale": same_scales(panel, settings["same_scale"]),
            "each at its own best scale": panel.best(),
        }
        drawing.draw(system, panel, ways, figure.out / figure.name)
        claims += [claim for way, labels in ways.items() for claim in regret_claims(panel, labels, way)]
        claims += [likelihood_claim(panel, labels["DeepDQUCB"]) for labels in ways.values()]
    if given.data is not None:
        drawing.draw_beside(synthetic_hospitals(len(whole.names)), whole, figure.out / f"{figure.name}_curves")
    figure.write(claims, table)


if __name__ == "__main__":
    main()
