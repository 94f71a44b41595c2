"""An entry for the competition of ns-gym, and its scores: `python -m benchmarks.ns_gym_entry`.

Needs `pip install ns-gym`. The first two envs are those of the competition's template, built here from ns-gym's parts;
the others are of the same kind and were not looked at while the planners were written. Scores are those of the
competition's evaluator: the mean total reward of an episode at each notification level, with its standard deviation.
`--write FOLDER` puts the entry into a clone of the template, whose own evaluator then runs it. `--mcts` adds the MCTS
of ns-gym as the template configures it, which needs minutes for each episode.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium

from dqucb.envs import LakePlanner, PolePlanner, ns_gym_scores, write_ns_gym_entry


def lake(change: Callable[[], Any]) -> Callable[..., Any]:
    """FrozenLake whose slips change within each episode."""

    def make(**notification: bool) -> Any:
        from ns_gym.wrappers import NSFrozenLakeWrapper

        env = gymnasium.make("FrozenLake-v1", disable_env_checker=True)
        return NSFrozenLakeWrapper(env, {"P": change()}, initial_prob_dist=[1, 0, 0], **notification)

    return make


def pole(change: Callable[[], dict[str, Any]]) -> Callable[..., Any]:
    """CartPole whose physics change within each episode."""

    def make(**notification: bool) -> Any:
        from ns_gym.wrappers import NSClassicControlWrapper

        return NSClassicControlWrapper(gymnasium.make("CartPole-v1"), change(), **notification)

    return make


def envs() -> dict[str, tuple[Callable[..., Any], Callable[[], Any]]]:
    """Name -> (a function that makes the env, a function that makes the planner for it)."""
    from ns_gym import schedulers, update_functions

    every, third, later = (
        schedulers.ContinuousScheduler,
        lambda: schedulers.PeriodicScheduler(period=3),
        lambda: schedulers.DiscreteScheduler({5}),
    )
    slower = update_functions.DistributionDecrementUpdate
    at_once = update_functions.DistributionStepWiseUpdate
    raised, walk = update_functions.IncrementUpdate, update_functions.RandomWalk
    return {
        "FrozenLake, example": (lake(lambda: slower(every(), k=0.025)), LakePlanner),
        "CartPole, example": (
            pole(lambda: {"masspole": raised(every(), k=0.1), "gravity": walk(third())}),
            PolePlanner,
        ),
        "FrozenLake, slower": (lake(lambda: slower(every(), k=0.005)), LakePlanner),
        "FrozenLake, at once": (lake(lambda: at_once(later(), [[0.5, 0.25, 0.25]])), LakePlanner),
        "CartPole, longer pole": (pole(lambda: {"length": raised(every(), k=0.01)}), PolePlanner),
        "CartPole, heavier cart": (pole(lambda: {"masscart": raised(every(), k=0.02)}), PolePlanner),
        "CartPole, gravity": (pole(lambda: {"gravity": raised(every(), k=0.1)}), PolePlanner),
        "CartPole, weaker motor": (pole(lambda: {"force_mag": raised(every(), k=-0.015)}), PolePlanner),
    }


class MCTSPlanner:
    """MCTS of ns-gym with the settings of the template."""

    def __init__(self, depth: int, iterations: int) -> None:
        self.depth, self.iterations = depth, iterations

    def __call__(self, observation: Any, planning_env: Any) -> int:
        """Its action."""
        from ns_gym.benchmark_algorithms.MCTS import MCTS

        state = observation["state"]
        return int(MCTS(planning_env, state, d=self.depth, m=self.iterations, c=1.4, gamma=0.99).search()[0])


def shown(scores: dict[str, dict[str, float]]) -> str:
    """The cells of a row."""
    return " | ".join(f"{x['mean_total_reward']:.2f} ({x['std_total_reward']:.2f})" for x in scores.values())


def main() -> None:
    """Print the table, or write the entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FOLDER", help="a clone of the template")
    parser.add_argument("--episodes", type=int, default=10, help="for each env and level, as the evaluator has it")
    parser.add_argument("--first-seed", type=int, default=42)
    parser.add_argument("--envs", nargs="*", help="only these")
    parser.add_argument("--mcts", action="store_true")
    given = parser.parse_args()
    if given.write:
        for path in write_ns_gym_entry(given.write):
            print(f"wrote {path}")
        return
    warnings.filterwarnings("ignore", module="ns_gym")
    options = {"episodes": given.episodes, "first_seed": given.first_seed}
    print("| env | agent | notify-full | notify-change | notify-none |\n|---|---|---|---|---|")
    for name, (make, planner) in envs().items():
        if given.envs and name not in given.envs:
            continue
        print(f"| {name} | {planner.__name__} | {shown(ns_gym_scores(make, planner, **options))} |", flush=True)
        if given.mcts:
            settings = (50, 100) if planner is LakePlanner else (5, 20)
            scores = ns_gym_scores(make, lambda settings=settings: MCTSPlanner(*settings), **options)
            print(f"| {name} | MCTS of ns-gym | {shown(scores)} |", flush=True)


if __name__ == "__main__":
    main()
