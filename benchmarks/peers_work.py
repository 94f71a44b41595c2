"""The peers' share of `benchmarks.peers`: runs inside their virtual environment and prints one JSON line.

Steps per second of CPU time, as ours are: by the wall clock a busy machine makes a peer look slower than it is.
"""

import json
import logging
import sys
import warnings
from time import process_time

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


def rlberry_ucbvi(episodes, stage_dependent=True, **settings):
    """Steps per second of rlberry-scool's UCBVI on a 5x10 grid, horizon 100, after one episode of warm-up."""
    from rlberry_scool.agents.ucbvi import UCBVIAgent
    from rlberry_scool.envs import GridWorld

    env = GridWorld(nrows=5, ncols=10, walls=(), success_probability=0.99, terminal_states=None)
    agent = UCBVIAgent(env, horizon=100, bonus_scale_factor=0.2, stage_dependent=stage_dependent, seeder=0, **settings)
    agent.fit(budget=1)
    began = process_time()
    agent.fit(budget=episodes)
    return 100 * episodes / (process_time() - began)


def gymnasium_lake(steps):
    """Steps per second of Gymnasium's FrozenLake alone: random actions, nothing learned."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    env.action_space.seed(0)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(steps)]
    began = process_time()
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return steps / (process_time() - began)


WORK = {
    "rlberry-scool UCBVI, as shipped": lambda: rlberry_ucbvi(2),
    "rlberry-scool UCBVI, shared steps": lambda: rlberry_ucbvi(2, stage_dependent=False),
    "rlberry-scool UCBVI, real-time planning": lambda: rlberry_ucbvi(20, real_time_dp=True),
    "Gymnasium FrozenLake, environment only": lambda: gymnasium_lake(20_000),
}

if __name__ == "__main__":
    results = {}
    for name, work in WORK.items():
        try:
            results[name] = work()
        except Exception as error:  # a peer that broke is a line of the table, not the end of it
            results[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write("\n" + json.dumps(results) + "\n")
