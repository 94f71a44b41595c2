"""What PlanningDQUCB promises: alarms, their delay and no false ones, "auto" against other forms, the cost of a step,
and a million states.

python -m benchmarks.planning [--first-seed 800] [--seeds 20] [--runs 1000] [--parts alarms,still,...] [--quick]
"""

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks import workloads
from dqucb import DQUCB, QUCB, PlanningDQUCB, Run
from dqucb.problems import (
    FAMILIES,
    Problem,
    frozen_lake,
    generated,
    gridworld,
    moving_goal,
    periodic_lake,
    random_mdp,
    returning_rooms,
    river_swim,
    still_grid,
    still_lake,
    tidal_river,
)

PARTS = ("alarms", "still", "steps", "cost", "scale")
STILL_RUNS, STILL_STEPS = 1_000, 60_000
MILLION = 1_000_000  # states, and steps


def runs_of(agent: PlanningDQUCB, problem: Problem, episodes: int, seeds: range, regret: str = "realized") -> list[Run]:
    """One run for each seed."""
    return [agent.clone().train(problem, episodes=episodes, seed=seed, regret=regret) for seed in seeds]


def report_alarms(seeds: range, scale: int) -> None:
    """Delays at changes that matter, at a small one and at a placebo; false alarms where nothing changes."""
    third = 20_000 // scale
    worlds: dict[str, tuple[Problem, int]] = {
        "lake, slip 0, 1/2, 2/3": (frozen_lake(change_at=(third, 2 * third)), 3 * third),
        "lake, placebo: slip 1/2 all along": (frozen_lake(slip=(0.5, 0.5), change_at=(third,)), 2 * third),
        "lake, small change: slip 1/2, 0.55": (frozen_lake(slip=(0.5, 0.55), change_at=(third,)), 2 * third),
    }
    for name, (problem, episodes) in worlds.items():
        runs = runs_of(PlanningDQUCB(), problem, episodes, seeds)
        print(f"{name}: {sum(run.false_alarms for run in runs)} false alarms in {len(runs)} runs")
        for change, delays in zip(
            problem.change_at, zip(*(run.detection_delays() for run in runs), strict=True), strict=True
        ):
            found = [delay for delay in delays if delay is not None]
            middle = f"median delay {np.median(found):g} episodes" if found else "no delay"
            print(f"  change at {change}: found in {len(found)} of {len(runs)}, {middle}", flush=True)
    still: dict[str, Callable[[], Problem]] = {
        "still lake": still_lake,
        "still grid": still_grid,
        "still random MDP": lambda: random_mdp(change_at=()),
    }
    for name, build in still.items():
        runs = runs_of(PlanningDQUCB(), build(), 20_000 // scale, seeds)
        steps = sum(int(run.lengths.sum()) for run in runs)
        print(f"{name}: {sum(len(run.alarms) for run in runs)} alarms in {steps:,} steps", flush=True)


def report_still(first_seed: int, runs: int, scale: int) -> None:
    """How many runs on drawn problems that do not change have a false alarm: about one in 1,000 is asked for."""
    wrong: dict[str, int] = {}
    steps = STILL_STEPS // scale
    for number in range(runs := max(1, runs // scale)):
        family = list(FAMILIES)[number % len(FAMILIES)]
        problem = generated(family, first_seed + number // len(FAMILIES), change="none")
        run = PlanningDQUCB().train(
            problem, episodes=max(60, min(20_000, steps // (problem.horizon or 1))), seed=number
        )
        if len(run.alarms):
            wrong[family] = wrong.get(family, 0) + 1
    print(
        f"{sum(wrong.values())} of {runs:,} runs on {len(FAMILIES)} still families have a false alarm {wrong}",
        flush=True,
    )


def report_steps(seeds: range, scale: int) -> None:
    """Expected regret of "auto" over that of the form that knows whether steps differ."""
    half = 10_000 // scale
    worlds = {
        "tidal river": (tidal_river(change_at=(half,)), True),
        "grid": (gridworld(noise=(0.01, 0.2), change_at=(half,)), False),
        "lake": (frozen_lake(slip=(0, 0.5), change_at=(half,)), False),
        "river": (river_swim(change_at=(half,)), False),
        "moving goal": (moving_goal(change_at=(half,)), False),
        "periodic lake": (periodic_lake(change_at=(half // 2, half, 3 * half // 2)), False),
        "returning rooms": (returning_rooms(change_at=(half // 2, half, 3 * half // 2)), False),
        "random MDP": (random_mdp(change_at=(half,)), False),
    }
    for name, (problem, differ) in worlds.items():
        auto, known = (
            np.mean([run.regret[-1] for run in runs_of(agent, problem, 2 * half, seeds, "expected")])
            for agent in (PlanningDQUCB(), PlanningDQUCB(stage_dependent=differ))
        )
        print(f'{name}: "auto" {auto:,.0f}, stage_dependent={differ} {known:,.0f}: {auto / known:.2f}', flush=True)


def report_cost(rounds: int, scale: int) -> None:
    """CPU time of a step in units of DQUCB's, all in turn; and the bytes of the tables."""
    worlds = {"grid": (workloads.grid_problem, 50_000), "lake": (workloads.lake_problem, 60_000)}
    agents = {
        "DQUCB": DQUCB(),
        "PlanningDQUCB": PlanningDQUCB(),
        "PlanningDQUCB, False": PlanningDQUCB(stage_dependent=False),
        "QUCB": QUCB(),
        "QUCB, False": QUCB(stage_dependent=False),
    }
    for name, (build, episodes) in worlds.items():
        problem = build(episodes // scale)
        timed: dict[str, list[workloads.Timed]] = {label: [] for label in agents}
        for _ in range(rounds + 1):  # the first round compiles
            for label, agent in agents.items():
                timed[label].append(workloads.train(agent.clone(), problem, episodes // scale))
        fastest = {label: min(found[1:], key=lambda run: run.per_step) for label, found in timed.items()}
        for label, run in fastest.items():
            ratio = run.per_step / fastest["DQUCB"].per_step
            print(
                f"{name}, {label}: {1e9 * run.per_step:.1f} ns a step, {ratio:.2f} of DQUCB's; "
                f"{run.nbytes / 1e6:.2f} MB",
                flush=True,
            )


def report_scale(scale: int) -> None:
    """CPU time of grids of 100 to 10,000 states with a horizon of 100, and of a million states with a discount."""
    for side in (10, 20, 45, 100):
        grid = gridworld(0.1, (), rows=side, cols=side, horizon=100)
        for steps in (MILLION // scale // 10, MILLION // scale):
            timed = workloads.train(PlanningDQUCB(), grid, steps // 100)
            cost = f"{timed.per_step * 1e6:.2f} microseconds a step"
            print(f"{grid.n_states:,} states, horizon 100, {steps:,} steps: {cost}", flush=True)
    problem = workloads.endless_grid(MILLION // scale)
    for steps in (MILLION // scale // 10, MILLION // scale):
        agent = PlanningDQUCB()
        timed = workloads.train(agent, problem, steps)
        met = np.count_nonzero(agent.visits_.any(axis=1))
        print(
            f"{problem.n_states:,} states, discount {problem.discount}, {steps:,} steps: {1 / timed.per_step:,.0f} a "
            f"second; {met:,} states visited, tables of {timed.nbytes / 1e6:,.0f} MB",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__.split("\n")[0])
    parser.add_argument("--first-seed", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=STILL_RUNS, help="of the part still")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}, with commas")
    parser.add_argument("--quick", action="store_true", help="shorter runs of two seeds")
    options = parser.parse_args(arguments)
    parts = options.parts.split(",")
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error(f"--parts must be some of {', '.join(PARTS)}, got {unknown[0]!r}")
    scale = 20 if options.quick else 1
    seeds = range(options.first_seed, options.first_seed + (2 if options.quick else options.seeds))
    if "alarms" in parts:
        report_alarms(seeds, scale)
    if "still" in parts:
        report_still(options.first_seed, options.runs, scale)
    if "steps" in parts:
        report_steps(seeds[: len(seeds) // 2], scale)
    if "cost" in parts:
        with workloads.one_core():
            report_cost(1 if options.quick else 5, scale)
    if "scale" in parts:
        with workloads.one_core():
            report_scale(scale)


if __name__ == "__main__":
    main()
