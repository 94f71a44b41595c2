"""The arena: every agent on seventeen problems at its own best c; ranks, one table, one picture.

- Each agent's c is chosen for each problem on seeds 100 to 104: all values on two of them, the best three on the others
  too, and values beyond where the best one is at an end. It is reported on seeds 740 to 749, which nobody looked at
  while the agents were developed. PlanningDQUCB has one setting and nothing is chosen for it.
- What is reported is the expected regret of the policies that were followed: on some problems the luck of a run's draws
  is larger than the regret of the best agents, and quotients of realized regret mean nothing there. c is chosen by
  realized regret, which costs nothing to know.
- Agents run in both forms: as published, with tables for each step, and "shared", where steps learn together.
- Agents informed of the change points are shown apart and not ranked.
- Agents that need minutes for a run on a problem are left out there (`Entrant.left_out`) and share the last ranks.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dqucb.agents import (
    DQUCB,
    MASTER,
    PSRL,
    QUCB,
    RBOCPDUCRL2,
    UCBB,
    UCBMQ,
    UCBVI,
    DetectReset,
    DiscountedQUCB,
    DynaQPlus,
    OracleRestart,
    OracleUCBVI,
    PlanningDQUCB,
    ProbeRestart,
    RestartQUCB,
    SelectiveRestart,
    SlidingWindowQUCB,
)
from dqucb.base import Agent
from dqucb.experiments import make_problem, statistics
from dqucb.experiments.design import Variant
from dqucb.problems import Problem
from reproduce._claims import mean_ranks
from reproduce._protocol import PAPER_DQUCB, QUICK_SCALES, SCALES, Claim, Figure, begin

# Less than half an hour on two idle cores; change points keep their place in proportion.
EPISODES = {
    "gridworld": 5_000,
    "frozen-lake": 8_000,
    "combination-lock": 5_000,
    "river-swim": 10_000,
    "moving-goal": 8_000,
    "drifting-lake": 5_000,
    "periodic-lake": 5_000,
    "random-mdp": 10_000,
    "still-lake": 5_000,
    "still-grid": 3_000,
    "frozen-lake-8x8": 4_000,
    "cliff-walking": 4_000,
    "taxi": 3_000,
    "new-prize": 6_000,
    "returning-rooms": 6_000,
    "tidal-river": 6_000,
    "large-rooms": 1_000,
}
LARGE = ("large-rooms", "taxi")  # 2,000 and 500 states


class Entrant(NamedTuple):
    """How to build an agent for a problem, and how it takes part."""

    build: Callable[[Problem], Agent]
    informed: bool = False  # of the change points, or of their number where they are evenly spaced
    ours: bool = False
    scales: tuple[float, ...] = SCALES
    left_out: tuple[str, ...] = ()  # problems on which a run takes minutes


def both_forms(
    name: str, build: Callable[..., Agent], *, left_out: tuple[str, ...] = (), **how: Any
) -> dict[str, Entrant]:
    """An agent with tables for each step, left out on some problems, and the same agent with shared steps."""
    return {
        name: Entrant(functools.partial(build, stage_dependent=True), left_out=left_out, **how),
        f"{name} shared": Entrant(functools.partial(build, stage_dependent=False), **how),
    }


def ignoring(agent: Callable[..., Agent], **settings: Any) -> Callable[..., Agent]:
    """A builder that needs to know nothing of the problem."""
    return lambda problem, **form: agent(**settings, **form)


FEW = (0.1, 0.3, 1.0)  # of PSRL, which plans in every episode
KAPPAS = (1e-4, 1e-3, 1e-2)  # of Dyna-Q+, whose bonus grows with the square root of time; it replays at every step
PLANNED, ORACLE = "PlanningDQUCB", "OracleUCBVI shared"
ENTRANTS = {
    PLANNED: Entrant(ignoring(PlanningDQUCB), ours=True),
    **both_forms("QUCB", ignoring(QUCB)),
    **both_forms("DQUCB", ignoring(DQUCB, **PAPER_DQUCB), ours=True),
    **both_forms("UCBVI", ignoring(UCBVI), left_out=LARGE),
    "UCBVI real time": Entrant(ignoring(UCBVI, planning="real_time"), left_out=LARGE),
    "UCBMQ": Entrant(ignoring(UCBMQ), left_out=LARGE),
    **both_forms("UCBB", ignoring(UCBB), left_out=LARGE),
    **both_forms("RestartQUCB", ignoring(RestartQUCB), left_out=LARGE),
    **both_forms("SlidingWindowQUCB", ignoring(SlidingWindowQUCB), left_out=LARGE),
    **both_forms("DiscountedQUCB", ignoring(DiscountedQUCB), left_out=LARGE),
    **both_forms("DetectReset pair", ignoring(DetectReset, reset="pair"), left_out=LARGE),
    **both_forms("DetectReset all", ignoring(DetectReset, reset="all"), left_out=LARGE),
    **both_forms("SelectiveRestart", ignoring(SelectiveRestart, learning_rate_horizon="auto"), left_out=LARGE),
    **both_forms("R-BOCPD-UCRL2", ignoring(RBOCPDUCRL2), left_out=LARGE),
    **both_forms("ProbeRestart", ignoring(ProbeRestart), left_out=LARGE),
    "PSRL shared": Entrant(ignoring(PSRL), scales=FEW, left_out=LARGE),
    "PSRL shared forgetting": Entrant(ignoring(PSRL, forgetting=0.999), scales=FEW, left_out=LARGE),
    "MASTER shared": Entrant(ignoring(MASTER)),
    "Dyna-Q+ shared": Entrant(ignoring(DynaQPlus), scales=KAPPAS),
    "RestartQUCB informed": Entrant(
        lambda problem: RestartQUCB(epochs=problem.n_phases), informed=True, left_out=LARGE
    ),
    **both_forms(
        "OracleRestart", lambda problem, **form: OracleRestart(restart_at=problem.change_at, **form), informed=True,
        left_out=LARGE,
    ),
    **both_forms(
        "OracleUCBVI", lambda problem, **form: OracleUCBVI(restart_at=problem.change_at, **form), informed=True,
        left_out=LARGE,
    ),
}  # fmt: skip
FIRST_SEED, FIRST_QUICK_SEED = 740, 0  # of those reported; a quick run must not look at the former
SEED_OPTION = {"--first-seed": {"type": int, "default": FIRST_SEED, "help": "the first of the seeds that are reported"}}
BEYOND = 2  # values tried beyond each end of the sweep, as long as the best one is there
SETTINGS = {
    "episodes": EPISODES,
    "scales": {name: entrant.scales for name, entrant in ENTRANTS.items()},
    "left_out": {name: entrant.left_out for name, entrant in ENTRANTS.items() if entrant.left_out},
    "beyond": BEYOND,
    "first_seed_reported": FIRST_SEED,
}
QUICK_PROBLEMS = ("combination-lock", "random-mdp", "still-lake")
QUICK_AGENTS = (PLANNED, "QUCB", "UCBVI shared", "R-BOCPD-UCRL2 shared", "PSRL shared", ORACLE)
STILL, HALF, NEAR = 1.05, 0.5, 1.2  # times the best rival, the best rival, the informed agent
HALVED, FAR = 5, 2  # problems: at least so many, all but so many


class Entry(NamedTuple):
    """Expected final regret of one agent on one problem, on the seeds reported."""

    regret: np.ndarray
    scale: float | None  # None: the agent has no c to choose
    is_at_an_end: bool  # of all values tried


Tried = dict[float, np.ndarray]  # c -> final regret of each seed


def entries_of(figure: Figure, problem: str, agents: Iterable[str]) -> dict[str, Entry]:
    """Choose c on some seeds and report it on others, for all agents at once. Finished runs are found again."""
    episodes = min(EPISODES[problem], 120) if figure.quick else EPISODES[problem]
    first_seed = FIRST_QUICK_SEED if figure.quick else figure.arguments.first_seed
    built = make_problem(problem, length=episodes)
    built_agents = {name: ENTRANTS[name].build(built) for name in agents if problem not in ENTRANTS[name].left_out}
    tuned = {name: agent for name, agent in built_agents.items() if "bonus_scale" in agent.parameters()}

    def finals(
        seeds: Iterable[int], scales: Mapping[str, Iterable[float]], regret: str = "realized"
    ) -> dict[str, Tried]:
        """The regret of each agent at each of its c; that of an agent without a c stands at NaN."""
        variants = {
            f"{name}, c={c:g}": Variant(tuned[name].clone(bonus_scale=c), name, {"bonus_scale": c})
            for name, values in scales.items() if name in tuned for c in values
        } | {name: Variant(built_agents[name], name, {}) for name in scales if name not in tuned}  # fmt: skip
        if not variants:
            return {}
        folder = f"{problem}/{regret}"
        runs = figure.compare(variants, built, episodes, folder=folder, seeds=seeds, progress=False, regret=regret)
        found: dict[str, Tried] = {name: {} for name in scales}
        for label, (_, name, values) in variants.items():
            found[name][values.get("bonus_scale", np.nan)] = np.array(list(runs.final_regret(label).values()))
        return found

    tried = chosen_from(figure, {name: ENTRANTS[name].scales for name in tuned}, finals)
    best = {name: min(found, key=lambda c: found[c].mean()) for name, found in tried.items()}
    reported = finals(
        (first_seed + seed for seed in figure.report_on),
        {name: [best.get(name, np.nan)] for name in built_agents},
        regret="expected",
    )
    return {
        name: Entry(next(iter(found.values())), best.get(name), name in tuned and best[name] in ends(tried[name]))
        for name, found in reported.items()
    }


def ends(tried: Tried) -> tuple[float, float]:
    """The smallest and the largest c."""
    return min(tried), max(tried)


def chosen_from(
    figure: Figure, scales: Mapping[str, tuple[float, ...]], finals: Callable[..., dict[str, Tried]]
) -> dict[str, Tried]:
    """Agent -> the regret on all choosing seeds of its best three c, values beyond an end of the sweep among them."""
    first, rest = figure.choose_on[:2], figure.choose_on[2:]
    if figure.quick:
        return finals(first, dict.fromkeys(scales, QUICK_SCALES))
    tried = finals(first, scales)
    for _ in range(BEYOND):
        further: dict[str, list[float]] = {}
        for name, found in tried.items():
            low, high = ends(found)
            best = min(found, key=lambda c: found[c].mean())
            if best in (low, high):
                further[name] = [low / 3 if best == low else high * 10 / 3]
        for name, found in finals(first, further).items():
            tried[name] |= found
    three = {name: sorted(found, key=lambda c: found[c].mean())[:3] for name, found in tried.items()}
    more = finals(rest, three)
    return {
        name: {c: np.concatenate([tried[name][c], more[name][c]]) for c in values} for name, values in three.items()
    }


def summary(entries: Mapping[str, Mapping[str, Entry]]) -> dict[str, Any]:
    """problem -> agent -> what is reported; "QUCB" is the measure if it took part."""
    results: dict[str, Any] = {}
    for problem, by_agent in entries.items():
        results[problem] = {}
        for agent, entry in by_agent.items():
            interval = statistics.mean_interval(entry.regret)
            best = {"regret": round(interval.value, 1), "interval": interval.rounded(1)[1:]}
            if "QUCB" in by_agent:
                best["times_qucb"] = round(interval.value / float(by_agent["QUCB"].regret.mean()), 4)
            results[problem][agent] = {"c": entry.scale, "c_at_an_end": entry.is_at_an_end, "best": best}
    return results


def ranks(results: Mapping[str, Any], agents: Iterable[str]) -> dict[str, float]:
    """Mean rank over problems of agents that were not informed, best first; those left out share the last ranks."""
    ranked = [agent for agent in agents if not ENTRANTS[agent].informed]
    table = np.array([[regret_of(results[problem], agent, np.inf) for problem in results] for agent in ranked])
    found = dict(zip(ranked, mean_ranks(table).round(2).tolist(), strict=True))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def regret_of(row: Mapping[str, Any], agent: str, missing: float = np.nan) -> float:
    """The mean regret of an agent on a problem."""
    return float(row[agent]["best"]["regret"]) if agent in row else missing


def best_rival(row: Mapping[str, Any]) -> str | None:
    """The agent with the least regret of those that are neither ours nor informed."""
    rivals = [agent for agent in row if not (ENTRANTS[agent].ours or ENTRANTS[agent].informed)]
    return min(rivals, key=lambda agent: regret_of(row, agent), default=None)


def against(results: Mapping[str, Any], other_of: Callable[[Mapping[str, Any]], str | None]) -> dict[str, Any]:
    """problem -> the regret of PlanningDQUCB and of another agent, and their quotient."""
    found = {}
    for problem, row in results.items():
        other = other_of(row)
        if other is not None and PLANNED in row and other in row:
            ours, theirs = regret_of(row, PLANNED), regret_of(row, other)
            found[problem] = {"ours": ours, "other": other, "theirs": theirs, "times": round(ours / theirs, 3)}
    return found


def claims(results: Mapping[str, Any], best_ranks: Mapping[str, float]) -> list[Claim]:
    """What PlanningDQUCB is to show, with its one setting, against agents at their own best c."""
    if PLANNED not in best_ranks:
        return [Claim(f"{PLANNED} took part", False, {"agents": list(best_ranks)})]
    text = f"{PLANNED} has the best mean rank of all agents that are not informed of the changes"
    found = [Claim(text, best_ranks[PLANNED] == min(best_ranks.values()), {"mean_rank": dict(best_ranks)})]
    is_still = {problem: not make_problem(problem).change_at for problem in results}
    rivals, informed = against(results, best_rival), against(results, lambda row: ORACLE)
    still = {problem: row for problem, row in rivals.items() if is_still[problem]}
    shifting = {problem: row for problem, row in rivals.items() if not is_still[problem]}
    if still:
        holds = all(row["times"] <= STILL for row in still.values())
        text = f"{PLANNED} has at most {STILL} times the regret of the best rival where nothing shifts"
        found.append(Claim(text, holds, {"best_rival": still}))
    if shifting:
        halved = [problem for problem, row in shifting.items() if row["times"] <= HALF]
        text = f"{PLANNED} has at most half of the best rival's regret on at least {HALVED} shifting problems"
        found.append(Claim(text, len(halved) >= HALVED, {"halved": halved, "best_rival": shifting}))
    if informed:
        far = [problem for problem, row in informed.items() if row["times"] > NEAR]
        text = (
            f"{PLANNED} has at most {NEAR} times the regret of {ORACLE}, which is informed, on all but {FAR} problems"
        )
        found.append(Claim(text, len(far) <= FAR, {"further": far, "informed": informed}))
    return found


def markdown(results: Mapping[str, Any], best_ranks: Mapping[str, float], agents: Iterable[str]) -> str:
    """Regret at each agent's best c, best mean rank first."""
    problems = list(results)
    informed = [agent for agent in agents if ENTRANTS[agent].informed]
    lines = [f"| agent | mean rank | {' | '.join(problems)} |", "|---" * (len(problems) + 2) + "|"]
    for agent in [*best_ranks, *informed]:
        cells = []
        for problem in problems:
            row = results[problem].get(agent)
            cell = "-" if row is None else f"{row['best']['regret']:,.0f}"
            cells.append(cell + (f" (c={row['c']:.2g})" if row is not None and row["c"] is not None else ""))
        lines.append(f"| {agent} | {best_ranks.get(agent, 'informed')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    figure = begin("arena", __doc__, SETTINGS, {"agents": ENTRANTS, "problems": EPISODES}, SEED_OPTION)
    agents = figure.arguments.agents
    if figure.quick and len(agents) == len(ENTRANTS):  # compiling them all takes minutes
        agents = list(QUICK_AGENTS)
    problems = [name for name in figure.arguments.problems if not figure.quick or name in QUICK_PROBLEMS]
    entries: dict[str, dict[str, Entry]] = {}
    for problem in problems:
        entries[problem] = entries_of(figure, problem, agents)
        for agent, entry in sorted(entries[problem].items(), key=lambda item: item[1].regret.mean()):
            print(f"{problem:18} {agent:25} c={entry.scale} regret {entry.regret.mean():,.0f}", flush=True)
    results = summary(entries)
    best_ranks = ranks(results, agents)
    table = markdown(results, best_ranks, agents)
    figure.out.mkdir(parents=True, exist_ok=True)
    (figure.out / "table.md").write_text(table)
    print(table)
    if best_ranks and "QUCB" in agents:
        from reproduce._drawing import draw_ranks

        informed = [agent for agent in agents if ENTRANTS[agent].informed]
        draw_ranks(
            results, best_ranks, informed, [name for name in agents if ENTRANTS[name].ours], figure.out / figure.name
        )
    at_an_end = [
        f"{agent} on {problem}" for problem, row in results.items() for agent in row if row[agent]["c_at_an_end"]
    ]
    content = {"mean_rank": best_ranks, "best_c_at_an_end_of_what_was_tried": at_an_end}
    figure.write(claims(results, best_ranks), {**content, "problems": results})


if __name__ == "__main__":
    main()
