"""Which scope, floor, likelihood, bonus and learning-rate horizon should be DQUCB's defaults?

The rule, stated beforehand: every setting runs on four problems at three values of c; within each (problem, c) the
settings are ranked by mean final regret; the setting with the smallest mean rank wins. One setting for all problems.
The winner then runs at full length on other seeds, beside the paper's setting and QUCB with both learning rates.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import itertools
from typing import Any

import numpy as np

from dqucb import DQUCB, QUCB, Agent
from dqucb.agents.confidence import AUTO, AUTO_HORIZON
from dqucb.problems import Problem, frozen_lake, gridworld, two_rooms
from reproduce._claims import mean_ranks
from reproduce._protocol import PAPER_DQUCB, Claim, Figure, begin

CHOICES: dict[str, tuple[Any, ...]] = {
    "scope": ("pair", "step", "shared"),
    "likelihood_floor": (0.02, 0.1, 0.3),
    "likelihood": ("normalized", "density"),
    "bonus": ("root", "simplified"),
    "learning_rate_horizon": (None, 30.0, 10.0),
}
SETTINGS = {
    "choices": CHOICES,
    "scales": (0.05, 0.2, 1.0),
    "episodes": 10_000,
    "seeds": (200, 201),
    "confirmed_with": 50_000,
}


def problems(episodes: int) -> dict[str, Problem]:
    """The paper's tabular problems, at a fifth of their length."""
    half, thirds = (episodes // 2,), (episodes // 3, 2 * episodes // 3)
    return {
        "gridworld": gridworld(change_at=half),
        "two-rooms": two_rooms(change_at=half),
        "frozen-lake": frozen_lake(change_at=thirds),
        "frozen-lake, one shift": frozen_lake(slip=(0, 2 / 3), change_at=half),
    }


def variants(choices: dict[str, tuple[Any, ...]], scale: float) -> dict[str, Agent]:
    """DQUCB with every combination, and QUCB with those that it shares."""
    agents: dict[str, Agent] = {}
    for values in itertools.product(*choices.values()):
        chosen = dict(zip(choices, values, strict=True))
        agents["DQUCB " + named(chosen)] = DQUCB(bonus_scale=scale, **chosen)
        shared = {name: chosen[name] for name in ("bonus", "learning_rate_horizon")}
        agents["QUCB " + named(shared)] = QUCB(bonus_scale=scale, **shared)
    return agents


def named(chosen: dict[str, Any]) -> str:
    """A setting in words."""
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def settings_named(label: str, choices: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """The setting that has this label."""
    combinations = (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))
    return next(chosen for chosen in combinations if label == "DQUCB " + named(chosen))


def mean_regret(figure: Figure, choices: dict[str, tuple[Any, ...]], episodes: int) -> dict[str, list[float]]:
    """Setting -> mean final regret for each (problem, c), in a fixed order."""
    regret: dict[str, list[float]] = {}
    for name, problem in problems(episodes).items():
        for scale in SETTINGS["scales"]:
            folder = f"{name.replace(', ', '-').replace(' ', '-')}-{scale:g}"
            runs = figure.compare(variants(choices, scale), problem, episodes, seeds=SETTINGS["seeds"], folder=folder)
            for label in runs.labels:
                regret.setdefault(label, []).append(float(np.mean(list(runs.final_regret(label).values()))))
    return regret


def by_mean_rank(regret: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Settings from best to worst; ties share the mean of their ranks."""
    table = np.array(list(regret.values()))
    mean_rank = mean_ranks(table)
    return {
        label: {"mean_rank": round(float(mean_rank[i]), 2), "regret": table[i].round(1).tolist()}
        for i, label in sorted(enumerate(regret), key=lambda item: mean_rank[item[0]])
    }


def earlier(agents: dict[str, Agent], label: str) -> list[str]:
    """The settings of the agents before this one: if the paper's setting wins, it runs once."""
    return [repr(agents[name]) for name in list(agents)[: list(agents).index(label)]]


def confirmation(figure: Figure, winner: DQUCB, scales: tuple[float, ...]) -> tuple[list[Claim], dict[str, Any]]:
    """The winner, the paper's setting and QUCB with the learning rates of both, at full length on reporting seeds."""
    table: dict[str, dict[str, Any]] = {}
    episodes = 120 if figure.quick else SETTINGS["confirmed_with"]
    same_rate = {"learning_rate_horizon": winner.learning_rate_horizon, "bonus": winner.bonus}
    for (name, problem), scale in itertools.product(problems(episodes).items(), scales):
        agents = {
            "winner": winner.clone(bonus_scale=scale),
            "paper": DQUCB(**PAPER_DQUCB, bonus_scale=scale),
            "QUCB": QUCB(bonus="root", bonus_scale=scale, learning_rate_horizon=None),
            "QUCB, winner's rate": QUCB(bonus_scale=scale, **same_rate),
        }
        different = {label: agent for label, agent in agents.items() if repr(agent) not in earlier(agents, label)}
        folder = f"confirmation/{name.replace(', ', '-').replace(' ', '-')}-{scale:g}"
        runs = figure.compare(different, problem, episodes, folder=folder)
        means = {label: float(np.mean(list(runs.final_regret(label).values()))) for label in runs.labels}
        table[f"{name}, c={scale:g}"] = row = {label: round(mean, 1) for label, mean in means.items()}
    claims = []
    for other in [label for label in row if label != "winner"]:
        ratios = {place: round(row["winner"] / row[other], 3) for place, row in table.items()}
        mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
        measured = {"geometric_mean": round(mean, 3), "ratios": ratios}
        claims.append(Claim(f"on other seeds the winner has less regret than {other}", mean < 1.0, measured))
    return claims, table


def main() -> None:
    figure = begin("study_defaults", __doc__, SETTINGS)
    choices = {name: values[:2] for name, values in CHOICES.items()} if figure.quick else CHOICES
    if figure.quick:
        choices |= {"scope": ("pair",), "likelihood": ("normalized",), "bonus": ("root",)}
    regret = mean_regret(figure, choices, 120 if figure.quick else SETTINGS["episodes"])
    ranked = by_mean_rank({label: values for label, values in regret.items() if label.startswith("DQUCB")})
    plain = {label: np.round(values, 1).tolist() for label, values in regret.items() if label.startswith("QUCB")}
    dqucb = list(ranked)
    present = {name: getattr(DQUCB(), name) for name in choices}
    if present["learning_rate_horizon"] == AUTO:  # what "auto" means here, where every horizon is longer
        present["learning_rate_horizon"] = AUTO_HORIZON
    default = "DQUCB " + named(present)
    place = dqucb.index(default) + 1 if default in dqucb else None
    text = "DQUCB's defaults are the setting with the smallest mean rank over problems and c"
    claim = Claim(text, place == 1, {"best": dqucb[0], "defaults": default, "place_of_the_defaults": place})
    columns = [f"{name}, c={scale:g}" for name in problems(120) for scale in SETTINGS["scales"]]
    best = DQUCB(**settings_named(dqucb[0], choices))
    claims, confirmed = confirmation(figure, best, SETTINGS["scales"][:1] if figure.quick else SETTINGS["scales"])
    results = {"columns": columns, "settings_by_mean_rank": ranked, "qucb": plain, "confirmation": confirmed}
    figure.write([claim, *claims], results)
    for label in list(ranked)[:15]:
        print(f"{ranked[label]['mean_rank']:7.2f}  {label}")


if __name__ == "__main__":
    main()
