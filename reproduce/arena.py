"""The arena: every agent on ten problems, at the same c and at its own best c; ranks, one table, one picture.

Each agent's c is chosen for each problem on seeds 100 to 104 and reported on seeds 300 to 309, which nobody looked at
while the agents were developed. Agents informed of the change points are shown apart and not ranked.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dqucb import (
    DQUCB,
    QUCB,
    UCBB,
    UCBMQ,
    UCBVI,
    Agent,
    DetectReset,
    DiscountedQUCB,
    OracleRestart,
    RestartQUCB,
    SelfTuningDQUCB,
    SlidingWindowQUCB,
)
from dqucb.experiments import make_problem, statistics
from dqucb.experiments.design import varied
from dqucb.problems import Problem
from reproduce._claims import mean_ranks
from reproduce._protocol import PAPER_DQUCB, QUICK_SCALES, SCALES, SMALL, Claim, Figure, begin

# A third of an hour on two idle cores; change points keep their place in proportion.
EPISODES = {
    "gridworld": 20_000,
    "frozen-lake": 20_000,
    "combination-lock": 5_000,
    "river-swim": 20_000,
    "moving-goal": 40_000,
    "drifting-lake": 10_000,
    "periodic-lake": 10_000,
    "random-mdp": 20_000,
    "still-lake": 10_000,
    "still-grid": 10_000,
}


class Entrant(NamedTuple):
    """How to build an agent for a problem, whether it may be ranked, and whether it is a DQUCB of ours."""

    build: Callable[[Problem], Agent]
    informed: bool = False  # of the change points, or of their number where they are evenly spaced
    ours: bool = False


ENTRANTS = {
    "QUCB": Entrant(lambda problem: QUCB()),
    "DQUCB": Entrant(lambda problem: DQUCB(**PAPER_DQUCB), ours=True),
    "DQUCB defaults": Entrant(lambda problem: DQUCB(), ours=True),
    "SelfTuningDQUCB": Entrant(lambda problem: SelfTuningDQUCB(), ours=True),
    "UCBVI": Entrant(lambda problem: UCBVI()),
    "UCBVI real time": Entrant(lambda problem: UCBVI(planning="real_time")),
    "UCBMQ": Entrant(lambda problem: UCBMQ()),
    "UCBB": Entrant(lambda problem: UCBB()),
    "RestartQUCB": Entrant(lambda problem: RestartQUCB()),
    "SlidingWindowQUCB": Entrant(lambda problem: SlidingWindowQUCB()),
    "DiscountedQUCB": Entrant(lambda problem: DiscountedQUCB()),
    "DetectReset pair": Entrant(lambda problem: DetectReset(reset="pair")),
    "DetectReset all": Entrant(lambda problem: DetectReset(reset="all")),
    "RestartQUCB informed": Entrant(lambda problem: RestartQUCB(epochs=problem.n_phases), informed=True),
    "OracleRestart": Entrant(lambda problem: OracleRestart(restart_at=problem.change_at), informed=True),
}
FIRST_SEED = 300  # of those reported
LARGER, SMALLER = (10.0, 30.0), (0.01, 0.003)  # tried where the best c is at an end of the sweep
SETTINGS = {
    "episodes": EPISODES,
    "scales": SCALES,
    "beyond": (*LARGER, *SMALLER),
    "same_c": SMALL,
    "first_seed_reported": FIRST_SEED,
    "agents": list(ENTRANTS),
}
QUICK_PROBLEMS = ("combination-lock", "random-mdp", "still-lake")
LIMIT = 1.05  # times QUCB's regret, where nothing shifts


class Entry(NamedTuple):
    """Final regret of one agent on one problem, on the seeds reported."""

    best: np.ndarray
    best_scale: float | None  # None: the agent has no c to choose
    same: np.ndarray


def enter(figure: Figure, problem: str, agent: str) -> Entry:
    """Choose c on some seeds; report the chosen one and the common one on others. Finished runs are found again."""
    episodes = min(EPISODES[problem], 120) if figure.quick else EPISODES[problem]
    built = make_problem(problem, length=episodes)
    candidate = {agent: ENTRANTS[agent].build(built)}
    folder = f"{problem}/{agent.replace(' ', '-')}"
    report_on = tuple(FIRST_SEED + seed for seed in figure.report_on)

    def finals(seeds: tuple[int, ...], *scales: float) -> dict[float, np.ndarray]:
        agents = varied(candidate, {"bonus_scale": scales}) if scales else candidate
        runs = figure.compare(agents, built, episodes, folder=folder, seeds=seeds, progress=False)
        by_scale = zip(scales or (SMALL,), runs.labels, strict=True)
        return {scale: np.array(list(runs.final_regret(label).values())) for scale, label in by_scale}

    if not isinstance(candidate[agent].parameters().get("bonus_scale"), float):  # it has none, or finds its own
        final = finals(report_on)[SMALL]
        return Entry(final, None, final)
    chosen = choose(lambda *scales: finals(figure.choose_on, *scales), figure.quick)
    reported = finals(report_on, *{SMALL, chosen})
    return Entry(reported[chosen], chosen, reported[SMALL])


def choose(finals: Callable[..., dict[float, np.ndarray]], quick: bool) -> float:
    """The c with the least mean regret; as long as that is the largest or smallest one tried, others beyond it are."""
    tried = finals(*(QUICK_SCALES if quick else SCALES))
    for beyond, end in () if quick else ((LARGER, max), (SMALLER, min)):
        for scale in beyond:
            if end(tried) == min(tried, key=lambda c: tried[c].mean()):
                tried |= finals(scale)
    return min(tried, key=lambda c: tried[c].mean())


def summary(entries: dict[str, dict[str, Entry]]) -> dict[str, Any]:
    """problem -> agent -> what is reported; "QUCB" is the measure if it took part."""
    results: dict[str, Any] = {}
    for problem, by_agent in entries.items():
        results[problem] = {}
        for agent, entry in by_agent.items():
            row: dict[str, Any] = {"c": entry.best_scale}
            for way in ("best", "same"):
                regret = getattr(entry, way)
                interval = statistics.bootstrap(regret)
                row[way] = {"regret": round(interval.value, 1), "interval": np.round(interval[1:], 1).tolist()}
                if "QUCB" in by_agent:
                    measure = getattr(by_agent["QUCB"], way)
                    lower = statistics.probability_lower(regret, measure)
                    row[way]["times_qucb"] = round(interval.value / float(measure.mean()), 3)
                    row[way]["probability_lower_than_qucb"] = np.round(lower, 3).tolist()
            results[problem][agent] = row
    return results


def ranks(entries: dict[str, dict[str, Entry]], way: str) -> dict[str, float]:
    """Mean rank over problems of the agents that were not informed of the changes, best first."""
    agents = [agent for agent in next(iter(entries.values())) if not ENTRANTS[agent].informed]
    table = np.array([[getattr(entries[problem][agent], way).mean() for problem in entries] for agent in agents])
    found = dict(zip(agents, mean_ranks(table).round(2).tolist(), strict=True))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def claims(results: dict[str, Any], best_ranks: dict[str, float], same_ranks: dict[str, float]) -> list[Claim]:
    """What the best DQUCB of ours is to show."""
    ours = next((agent for agent in best_ranks if ENTRANTS[agent].ours), None)
    if ours is None:
        return [Claim("a DQUCB took part", False, {"agents": list(best_ranks)})]
    text = f"{ours} has the best mean rank of all agents that do not know the change points, each at its own best c"
    found = [Claim(text, best_ranks[ours] == min(best_ranks.values()), {"mean_rank": best_ranks})]
    text = f"{ours} has the best mean rank if no agent is tuned to a problem (c = {SMALL:g} for those that have one)"
    found.append(Claim(text, same_ranks[ours] == min(same_ranks.values()), {"mean_rank": same_ranks}))
    still = {
        problem: row[ours]["best"]["times_qucb"]
        for problem, row in results.items()
        if problem.startswith("still") and "QUCB" in row
    }
    if still:
        text = f"{ours} is never above {LIMIT} times QUCB's regret where nothing shifts, each at its own best c"
        found.append(Claim(text, max(still.values()) <= LIMIT, {"times_qucb": still}))
    return found


def markdown(results: dict[str, Any], best_ranks: dict[str, float]) -> str:
    """Regret at each agent's best c, in units of QUCB's (QUCB's own in full), best mean rank first."""
    problems = list(results)
    informed = [agent for agent in results[problems[0]] if ENTRANTS[agent].informed]
    lines = [f"| agent | mean rank | {' | '.join(problems)} |", "|---" * (len(problems) + 2) + "|"]
    for agent in [*best_ranks, *informed]:
        cells = []
        for problem in problems:
            row = results[problem][agent]
            times = row["best"].get("times_qucb")
            cells.append(f"{row['best']['regret']:,.0f}" if agent == "QUCB" or times is None else f"{times:.2f}")
            if row["c"] is not None:
                cells[-1] += f" (c={row['c']:g})"
        lines.append(f"| {agent} | {best_ranks.get(agent, 'informed')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    figure = begin("arena", __doc__, SETTINGS, {"agents": ENTRANTS, "problems": EPISODES})
    problems = [name for name in figure.arguments.problems if not figure.quick or name in QUICK_PROBLEMS]
    entries: dict[str, dict[str, Entry]] = {problem: {} for problem in problems}
    for problem in problems:
        for agent in figure.arguments.agents:
            entries[problem][agent] = enter(figure, problem, agent)
            entry = entries[problem][agent]
            print(f"{problem:18} {agent:20} c={entry.best_scale} regret {entry.best.mean():,.0f}", flush=True)
    results = summary(entries)
    best_ranks, same_ranks = ranks(entries, "best"), ranks(entries, "same")
    table = markdown(results, best_ranks)
    figure.out.mkdir(parents=True, exist_ok=True)
    (figure.out / "table.md").write_text(table)
    print(table)
    if best_ranks and "QUCB" in figure.arguments.agents:
        from reproduce._drawing import draw_ranks

        informed = [agent for agent in figure.arguments.agents if ENTRANTS[agent].informed]
        ours = [agent for agent in figure.arguments.agents if ENTRANTS[agent].ours]
        draw_ranks(results, best_ranks, informed, ours, figure.out / figure.name)
    edges = [
        f"{agent} on {problem}"
        for problem, row in results.items()
        for agent in row
        if row[agent]["c"] in (SMALLER[-1], LARGER[-1])
    ]
    content = {
        "mean_rank_best_c": best_ranks,
        "mean_rank_same_c": same_ranks,
        "best_c_at_an_end_of_what_was_tried": edges,
    }
    figure.write(claims(results, best_ranks, same_ranks), {**content, "problems": results})


if __name__ == "__main__":
    main()
