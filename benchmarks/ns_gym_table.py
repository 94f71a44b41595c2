"""Our agents and MCTS of ns-gym on three of its envs: `python -m benchmarks.ns_gym_table`.

Needs `pip install ns-gym`. Each world slips at once from episode `CHANGE` of the run on, by ns-gym's DiscreteScheduler.
Learning agents know nothing of it. MCTS of ns-gym plans in a copy of the env: once in the present one, which no learner
has, and once in the first one, which is out of date after the change. It needs many seconds an episode, so that it
plays few.
The columns are mean returns: of the last episodes before the change, the first after it, and the last of the run. The
first row of each env has the largest means that any policy can have, by backward induction in the env's own table.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from dqucb import DQUCB, QUCB, UCBVI, PlanningDQUCB, QLearning, TabularMDP
from dqucb.envs import from_ns_gym
from dqucb.experiments.statistics import mean_interval

CHANGE, EPISODES, SHOWN, HORIZON = 500, 1_500, 100, 50
AGENTS: dict[str, Callable[[], Any]] = {
    "PlanningDQUCB": PlanningDQUCB, "DQUCB": DQUCB, "QUCB": QUCB, "UCBVI": UCBVI, "QLearning": QLearning,
    "UCBVI, shared steps": lambda: UCBVI(stage_dependent=False),
    "QLearning, shared steps": lambda: QLearning(stage_dependent=False),
}  # fmt: skip
SLIPS = {"FrozenLake": ([1, 0, 0], [0.4, 0.3, 0.3]), "CliffWalking": ([1, 0, 0, 0], [0.7, 0.15, 0.15, 0.0]),
         "Bridge": ([1, 0, 0], [0.6, 0.2, 0.2])}  # fmt: skip


def make(name: str, change: int | None = CHANGE, slips: int = 0) -> Any:
    """A new env of ns-gym that slips from its time `change` on; without one it stays as `slips` says (0 or 1)."""
    from ns_gym import schedulers, update_functions, wrappers

    first, later = SLIPS[name]
    scheduler = schedulers.DiscreteScheduler({10**9 if change is None else change})
    update = update_functions.DistributionStepWiseUpdate(scheduler, [list(later)])
    start = [list(first), list(later)][slips]
    if name == "FrozenLake":
        env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=HORIZON)
        return wrappers.NSFrozenLakeWrapper(env, {"P": update}, initial_prob_dist=start)
    if name == "CliffWalking":
        env = gymnasium.make("CliffWalking-v1", max_episode_steps=HORIZON)
        return wrappers.NSCliffWalkingWrapper(env, {"P": update}, initial_prob_dist=start)
    return wrappers.NSBridgeWrapper(
        gymnasium.make("ns_gym/Bridge-v0", max_episode_steps=HORIZON), {"P": update}, initial_prob_dist=start
    )


def learned(name: str, agent: str, seed: int, episodes: int) -> tuple[float, float, float]:
    """Mean returns before the change, right after it, and at the end, of one run."""
    np.random.seed(seed)  # noqa: NPY002  the Bridge of ns-gym draws from NumPy's global generator
    run = AGENTS[agent]().train(lambda: from_ns_gym(lambda: make(name), "episodes"), episodes=episodes, seed=seed)
    before, after, last = (slice(CHANGE - SHOWN, CHANGE), slice(CHANGE, CHANGE + SHOWN), slice(-SHOWN, None))
    return float(run.returns[before].mean()), float(run.returns[after].mean()), float(run.returns[last].mean())


def best(name: str, slips: int) -> float:
    """The largest mean return of any policy, without (0) or with (1) slips."""
    world = make(name, None, slips)
    state, _ = world.reset(seed=0)
    table = world.transition_matrix if name == "Bridge" else world.unwrapped.P
    return float(TabularMDP(table, horizon=HORIZON).optimal_values()[0, int(state["state"])])


def planned(name: str, knows: int, plays: int, episodes: int, simulations: int) -> list[float]:
    """Returns of MCTS that plans in the world `knows` and plays in the world `plays` (0: before, 1: after)."""
    from ns_gym.benchmark_algorithms.MCTS import MCTS

    returns = []
    for seed in range(episodes):
        world, model = make(name, None, plays), make(name, None, knows)
        observation, _ = world.reset(seed=seed)
        model.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            planning = model.get_planning_env()
            planning.unwrapped.s = int(observation["state"])
            action, _ = MCTS(planning, int(observation["state"]), d=50, m=simulations, c=1.41, gamma=0.99).search()
            observation, reward, terminated, truncated, _ = world.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def shown(values: list[float]) -> str:
    """A mean and its interval."""
    mean = mean_interval(values)
    return f"{mean.value:.2f} [{mean.low:.2f}, {mean.high:.2f}]" if mean.is_known else f"{mean.value:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=EPISODES, help=f"at least {CHANGE + SHOWN}")
    parser.add_argument("--mcts-episodes", type=int, default=5, help="0 leaves MCTS out")
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--envs", default=",".join(SLIPS))
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    parser.add_argument("--mcts-envs", default="FrozenLake", help="where MCTS plays: a minute an episode elsewhere")
    given = parser.parse_args()
    print("| env | agent | before | just after | at the end |\n|---|---|---|---|---|")
    for name in given.envs.split(","):
        first, later = best(name, 0), best(name, 1)
        print(f"| {name} | best possible | {first:.2f} | {later:.2f} | {later:.2f} |")
        for agent in given.agents:
            parts = [learned(name, agent, seed, given.episodes) for seed in range(500, 500 + given.seeds)]
            cells = " | ".join(shown(list(part)) for part in zip(*parts, strict=True))
            print(f"| {name} | {agent} | {cells} |", flush=True)
        if given.mcts_episodes and name in given.mcts_envs.split(","):
            before, stale, present = (
                shown(planned(name, knows, plays, given.mcts_episodes, given.simulations))
                for knows, plays in ((0, 0), (0, 1), (1, 1))
            )
            print(f"| {name} | ns-gym MCTS, first model | {before} | {stale} | {stale} |")
            print(f"| {name} | ns-gym MCTS, present model | {before} | {present} | {present} |", flush=True)
    print(json.dumps(vars(given)))


if __name__ == "__main__":
    main()
