"""UCBVI and PSRL of rlberry beside ours, on the same arrays: `python -m benchmarks.rlberry_table`.

rlberry lives in a virtual environment of its own, made on the first run. 0.6.0 is its last release with both agents;
its envs take P and R as arrays and know no changes, so that a subclass of its FiniteMDP puts one phase in the place of
another. Both sides have the defaults of rlberry: one model for all steps, bonus c / sqrt(n) + v / n with c = 1.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import environment
from dqucb import PSRL, UCBVI, Agent, PlanningDQUCB, ShiftingMDP, random_mdp, river_swim
from dqucb.experiments.statistics import mean_interval

PACKAGES = ("rlberry[default]==0.6.0", "gymnasium==0.29.1")
WORK = Path(__file__).with_name("rlberry_work.py")
EPISODES, CHANGE = 2_000, 1_000
PROBLEMS: dict[str, Callable[..., ShiftingMDP]] = {"river-swim": river_swim, "random-mdp": random_mdp}
AGENTS: dict[str, Callable[[], Agent]] = {
    "UCBVI": lambda: UCBVI(stage_dependent=False, bonus="simplified", bonus_scale=1.0),
    "PSRL": PSRL,
    "PlanningDQUCB": PlanningDQUCB,
}
THEIRS = ("UCBVI", "PSRL")


def arrays_of(problem: ShiftingMDP) -> dict[str, NDArray[Any]]:
    """The phases as dense arrays, P (phases, S, A, S) and R (phases, S, A), and where they begin (phases, S)."""
    model, shape = problem.model.written_out(), (problem.n_phases, problem.n_states, problem.n_actions)
    rows = np.repeat(np.arange(len(model.row_start) - 1), np.diff(model.row_start))
    P = np.zeros((np.prod(shape), problem.n_states))
    np.add.at(P, (rows, model.successor), model.probability)
    R = np.bincount(rows, model.probability * model.reward)
    if model.terminal.any() or model.step_stride or not np.allclose(R[rows], model.reward):
        raise ValueError(f"rlberry has no terminal states, steps or random rewards as {problem.name} has")
    initial = np.diff(model.initial_cumulative, axis=1, prepend=0.0)
    return {"P": P.reshape(*shape, -1), "R": R.reshape(shape), "initial": initial}


def best_returns(problem: ShiftingMDP, episodes: int) -> NDArray[np.float64]:
    """What the best policy gets on average in each episode."""
    means = [initial @ problem.optimal_values(i)[0] for i, initial in enumerate(arrays_of(problem)["initial"])]
    return np.array([means[problem.phase_at(episode)] for episode in range(episodes)])


def theirs(python: Path, problem: ShiftingMDP, episodes: int, seeds: list[int]) -> dict[str, Any]:
    """What rlberry's agents got."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "problem.npz")
        np.savez(path, change_at=problem.change_at, horizon=problem.horizon, episodes=episodes, **arrays_of(problem))
        command = [str(python), str(WORK), str(path), ",".join(THEIRS), json.dumps(seeds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(problem: str, agent: str, regrets: list[float], microseconds: float) -> str:
    """One line of the table."""
    mean = mean_interval(regrets)
    interval = f" [{mean.low:,.0f}, {mean.high:,.0f}]" if mean.is_known else ""
    return f"| {problem} | {agent} | {mean.value:,.0f}{interval} | {microseconds:.3g} |"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rlberry_table", description=__doc__.split("\n")[0])
    parser.add_argument("--venv", type=Path, default=Path(".venv-rlberry"), help="rlberry's virtual environment")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    options = parser.parse_args(arguments)
    python = environment(options.venv.resolve(), PACKAGES)
    seeds = list(range(500, 500 + options.seeds))
    print("| problem | agent | final regret | microseconds per step |\n|---|---|---|---|")
    for name, make in PROBLEMS.items():
        for change_at in ((), (CHANGE,)):
            problem = make(change_at=change_at)
            label = name + (", changed once" if change_at else ", still")
            best = best_returns(problem, options.episodes)
            for agent, runs in theirs(python, problem, options.episodes, seeds).items():
                regrets = [float((best - run["returns"]).sum()) for run in runs]
                print(row(label, f"rlberry {agent}", regrets, min(run["us"] for run in runs)), flush=True)
            for agent, new in AGENTS.items():
                made = [new().train(problem, episodes=options.episodes, seed=seed) for seed in seeds]
                speed = min(1e6 * run.seconds / run.steps for run in made)
                print(row(label, agent, [float((best - run.returns).sum()) for run in made], speed), flush=True)


if __name__ == "__main__":
    main()
