"""The generated arena: agents on problems that nobody chose, drawn from seeds, family by family.

- Problems are those of `dqucb.problems.generated`, with the kind of change drawn too. Each agent has RUNS runs on each,
  of about STEPS steps, and its regret is their mean. (Single runs favour agents that explore next to nothing: they are
  lucky or stuck, and the least regret of several such agents is that of a lucky one.)
- Rivals have a scale c. It is taken in three ways: one c for all problems; one for each family; and of these last ones
  the best rival of each problem, known in hindsight. Both c are chosen on problems of other seeds than those reported.
  PlanningDQUCB has one setting and nothing is chosen for it.
- The least of several means still profits from luck. So the rival that is best in one half of the runs is also judged
  by the other half; and the form of single runs is given beside, where each run is compared with the least regret of
  all rivals in the run of the same number.
- Regret is the sum of V* - Q* over all actions taken, exploration included (`regret="pseudo"`). Less than FLOOR of one
  optimal return counts as that: a quotient of two such regrets means nothing.
- Statistics over problems: geometric mean of quotients, interquartile mean, performance profile (share of problems
  within a factor of the best agent, Dolan and More 2002), probability of improvement, mean of the worst tenth.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dqucb.experiments import make_problem
from dqucb.experiments.design import Variant
from dqucb.experiments.statistics import interquartile_mean
from dqucb.problems import FAMILIES, Problem
from reproduce._protocol import Claim, Figure, begin
from reproduce.arena import ENTRANTS, PLANNED

STEPS, MOST_EPISODES = 60_000, 20_000  # of a run
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)
CHOOSING, FIRST_CHOOSING = 3, 5_000  # problems of a family on which c is chosen: so many, from this seed on
FIRST_SEED, FIRST_QUICK_SEED = 9_000, 0  # of the problems reported; a quick run must not look at the former
RUNS, QUICK_RUNS = 6, 2  # of an agent on a problem, with seeds 1 to RUNS
FLOOR = 0.1  # of the optimal return of one episode
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)  # of the performance profile
SHARED = {name: entrant for name, entrant in ENTRANTS.items() if name.endswith("shared")}
RIVALS = [name for name, entrant in SHARED.items() if not (entrant.ours or entrant.informed)]
AGENTS = {PLANNED: None, **dict.fromkeys(RIVALS)}
QUICK_FAMILIES, QUICK_AGENTS = ("two-state", "bandit-sure", "chain"), (PLANNED, "UCBVI shared", "PSRL shared")
GOAL, ONE_C, STILL, FAR, FAR_SHARE = 0.85, 0.6, 1.0, 1.5, 0.05
SETTINGS = {"steps": STEPS, "scales": SCALES, "choosing": CHOOSING, "first_choosing_seed": FIRST_CHOOSING,
            "first_seed_reported": FIRST_SEED, "runs": RUNS, "floor": FLOOR}  # fmt: skip
OPTIONS = {"--first-seed": {"type": int, "default": FIRST_SEED, "help": "the first problem seed that is reported"},
           "--runs": {"type": int, "default": RUNS, "help": "runs of an agent on a problem"}}  # fmt: skip

Regrets = dict[tuple[str, float | None], np.ndarray]  # (agent, c) -> final regret of each run


def drawn(figure: Figure, family: str, seed: int) -> tuple[Problem, int]:
    """A problem with change points in proportion to its length, and that length in episodes."""
    given = {"family": family, "seed": seed}
    episodes = min(
        MOST_EPISODES, max(60, (2_000 if figure.quick else STEPS) // make_problem("generated", given).horizon)
    )
    return make_problem("generated", given, length=episodes), episodes


def regrets(figure: Figure, family: str, seed: int, wanted: Mapping[str, Iterable[float | None]]) -> Regrets:
    """The regret of each agent at each of its c on one problem. Finished runs are found again."""
    problem, episodes = drawn(figure, family, seed)
    variants = {}
    for name, scales in wanted.items():
        agent = ENTRANTS[name].build(problem)
        for c in dict.fromkeys(scales):
            given = {} if c is None else {"bonus_scale": c}
            variants[f"{name}, c={c}"] = Variant(agent.clone(**given), name, given)
    numbers = range(1, 1 + (QUICK_RUNS if figure.quick else figure.arguments.runs))
    runs = figure.compare(
        variants, problem, episodes, folder=f"{family}/{seed}", seeds=numbers, progress=False, regret="pseudo"
    )
    values = [problem.optimal_values(i)[0, problem.model.initial_state[i]] for i in range(problem.n_phases)]
    least = 1e-9 + FLOOR * float(np.abs(values).max())
    return {
        (variant.group, variant.varied.get("bonus_scale")): np.maximum(
            [runs.final_regret(label)[number] for number in numbers], least
        )
        for label, variant in variants.items()
    }


def chosen(figure: Figure, families: Iterable[str], rivals: list[str]) -> tuple[dict[str, float], Any]:
    """(c of each rival for all problems, c of each rival for each family), by the geometric mean of mean regrets."""
    seeds = range(FIRST_CHOOSING, FIRST_CHOOSING + (1 if figure.quick else CHOOSING))
    scales = SCALES[2:4] if figure.quick else SCALES
    logs = {
        family: np.mean(
            [[[np.log(found[name, c].mean()) for c in scales] for name in rivals]
             for found in (regrets(figure, family, seed, dict.fromkeys(rivals, scales)) for seed in seeds)], axis=0)
        for family in families
    }  # fmt: skip
    total = np.mean(list(logs.values()), axis=0)
    one = {name: scales[int(total[i].argmin())] for i, name in enumerate(rivals)}
    by_family = {family: {name: scales[int(table[i].argmin())] for i, name in enumerate(rivals)}
                 for family, table in logs.items()}  # fmt: skip
    return one, by_family


def geometric(values: Any) -> float:
    """The geometric mean."""
    return round(float(np.exp(np.log(values).mean())), 3)


def improvement(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """The share of problems on which ours is less, ties counted half, with a bootstrap interval over problems."""
    wins = (ours < theirs) + 0.5 * (ours == theirs)
    rng = np.random.default_rng(0)
    means = rng.choice(wins, (2_000, wins.size)).mean(axis=1)
    return {"share": round(float(wins.mean()), 3), "interval": np.quantile(means, [0.025, 0.975]).round(3).tolist()}


def quotient(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """How two agents compare over problems."""
    times = ours / theirs
    worst = np.sort(times)[-max(1, times.size // 10) :]
    return {
        "geometric_mean": geometric(times),
        "interquartile_mean": round(float(interquartile_mean(times)), 3),
        "deciles_1_5_9": np.quantile(times, [0.1, 0.5, 0.9]).round(3).tolist(),
        "worst_tenth": round(float(worst.mean()), 3),
        f"share_above_{FAR:g}": round(float((times > FAR).mean()), 3),
        "probability_of_improvement": improvement(ours, theirs),
    }


def profiles(table: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Agent -> the share of problems on which its regret is within each of FACTORS of the least one."""
    best = np.min(list(table.values()), axis=0)
    return {name: [round(float((values <= factor * best * (1 + 1e-12)).mean()), 3) for factor in FACTORS]
            for name, values in table.items()}  # fmt: skip


def cross_fitted(runs: np.ndarray) -> np.ndarray:
    """The regret of the best rival of each problem, chosen on one half of the runs and judged by the other.

    `runs` is (rivals, problems, runs); both halves have both parts in turn, and the two are averaged.
    """
    middle = runs.shape[2] // 2
    halves = runs[:, :, :middle].mean(axis=2), runs[:, :, middle:].mean(axis=2)
    problems = np.arange(runs.shape[1])
    judged = [other[one.argmin(axis=0), problems] for one, other in (halves, halves[::-1])]
    return np.asarray(np.mean(judged, axis=0))


def results_of(rows: list[dict[str, Any]], rivals: list[str]) -> dict[str, Any]:
    """All statistics from one row for each problem."""
    our_runs = np.array([row["ours"] for row in rows])
    tuned_runs = np.array([[row["tuned"][name] for row in rows] for name in rivals])
    ours, tuned = our_runs.mean(axis=1), dict(zip(rivals, tuned_runs.mean(axis=2), strict=True))
    one_c = {name: np.array([np.mean(row["one_c"][name]) for row in rows]) for name in rivals}
    best = np.min(list(tuned.values()), axis=0)
    still = np.array([row["change"] == "none" for row in rows])
    parts = {
        kind: {part: {"problems": int(mask.sum()), "geometric_mean": geometric((ours / best)[mask])}
               for part in sorted({row[kind] for row in rows})
               if (mask := np.array([row[kind] == part for row in rows])).any()}
        for kind in ("family", "change")
    }  # fmt: skip
    return {
        "problems": len(rows),
        "over_best_rival_in_hindsight": quotient(ours, best),
        "over_best_rival_of_other_runs": quotient(ours, cross_fitted(tuned_runs)),
        "single_runs_over_luckiest_rival": quotient(our_runs.ravel(), tuned_runs.min(axis=0).ravel()),
        "still_problems": quotient(ours[still], best[still]) if still.any() else None,
        "over_rivals_tuned_by_family": {name: quotient(ours, values) for name, values in tuned.items()},
        "over_rivals_at_one_c": {name: quotient(ours, values) for name, values in one_c.items()},
        "performance_profile": {"factors": FACTORS, **profiles({PLANNED: ours, **tuned})},
        **{f"by_{kind}": found for kind, found in parts.items()},
    }


def claims(results: Mapping[str, Any]) -> list[Claim]:
    """What PlanningDQUCB is to show."""
    best, still = results["over_best_rival_in_hindsight"], results["still_problems"]
    one = {name: row["geometric_mean"] for name, row in results["over_rivals_at_one_c"].items()}
    far = best[f"share_above_{FAR:g}"]
    text = f"{PLANNED} has at most {GOAL} of the mean regret of the best rival in hindsight, each tuned to the family"
    found = [
        Claim(text, best["geometric_mean"] <= GOAL, best),
        Claim(f"it loses by more than {FAR} on at most {FAR_SHARE:.0%} of them", far <= FAR_SHARE, {"share": far}),
        Claim(f"it has at most {ONE_C} of the regret of each rival at one c", max(one.values()) <= ONE_C, one),
    ]  # fmt: skip
    if still is not None:
        found.append(Claim(f"where nothing changes, at most {STILL} of it", still["geometric_mean"] <= STILL, still))
    return found


def draw(results: Mapping[str, Any], path: Path) -> None:
    """The performance profiles."""
    import matplotlib.pyplot as plt

    from reproduce._drawing import save

    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, shares in results["performance_profile"].items():
        if name != "factors":
            axis.plot(FACTORS, shares, label=name, linewidth=2.5 if name == PLANNED else 1.0)
    axis.set(xscale="log", xlabel="times the least regret on a problem", ylabel="share of problems", ylim=(0, 1))
    axis.legend(fontsize=7)
    save(figure, path)


def main() -> None:
    choices = {"agents": AGENTS, "families": FAMILIES}
    figure = begin("generated_arena", __doc__, SETTINGS, choices, OPTIONS, seeds=10)
    families, agents = figure.arguments.families, figure.arguments.agents
    if figure.quick:
        families = [family for family in families if family in QUICK_FAMILIES] or families[:1]
        agents = [name for name in agents if name in QUICK_AGENTS]
    if figure.arguments.runs < 2:
        raise SystemExit("runs must be at least 2: the best rival of one half is judged by the other half")
    rivals = [name for name in agents if name != PLANNED]
    if not rivals:
        raise SystemExit("agents must hold at least one rival of PlanningDQUCB")
    one, by_family = chosen(figure, families, rivals)
    first = FIRST_QUICK_SEED if figure.quick else figure.arguments.first_seed
    rows = []
    for family in families:
        for seed in (first + number for number in figure.report_on):
            wanted = {name: (by_family[family][name], one[name]) for name in rivals}
            found = regrets(figure, family, seed, {PLANNED: (None,), **wanted})
            change = drawn(figure, family, seed)[0].description["change"]
            rows.append({
                "family": family, "seed": seed, "change": change, "ours": found[PLANNED, None].tolist(),
                "tuned": {name: found[name, by_family[family][name]].tolist() for name in rivals},
                "one_c": {name: found[name, one[name]].tolist() for name in rivals},
            })  # fmt: skip
        times = [
            np.mean(row["ours"]) / min(map(np.mean, row["tuned"].values())) for row in rows if row["family"] == family
        ]
        print(f"{family:27} {geometric(times):6.2f} times the best rival", flush=True)
    results = results_of(rows, rivals)
    draw(results, figure.out / figure.name)
    figure.write(claims(results), {**results, "one_c": one, "c_by_family": by_family, "rows": rows})


if __name__ == "__main__":
    main()
