"""Numbers of short runs of the deep and allocation agents, rounded: `test_golden_deep.py` compares them.

Sums of floats may differ between BLAS libraries, so these are rounded numbers and not digests.
`python tests/golden_deep.py` writes `golden_deep.json` anew; do that only when an algorithm is meant to change.
"""

import json
from functools import partial
from pathlib import Path

import gymnasium

import dqucb.envs  # noqa: F401
from dqucb import AGENTS
from dqucb.deep import DAILY, DQN, DQNUCB, DeepDQUCB, RandomPolicy
from dqucb.envs import DiscretizedActions
from dqucb.hospital import AllocationAgent, HospitalAllocationEnv, synthetic_hospitals

FILE = Path(__file__).with_name("golden_deep.json")
SMALL = {"hidden": (16,), "learning_starts": 100, "epsilon_steps": 100, "freeze_after": 150, "batch_size": 16}


def pendulum():
    """A MultiDiscrete task."""
    return DiscretizedActions(gymnasium.make("Pendulum-v1", max_episode_steps=50), bins=5)


def hospital(system):
    return HospitalAllocationEnv(system)


def rounded(run):
    """Curve -> numbers with 4 decimals."""
    curves = {name: getattr(run, name).round(4).tolist() for name in ("returns", "gaps", "likelihood", "lengths")}
    return curves | {"change_at": list(run.change_at)}


def deep():
    """Name -> curves of each run."""
    system = synthetic_hospitals(5).shortened(40, (20,))
    found = {}
    for kind in (DQN, DQNUCB, DeepDQUCB, RandomPolicy):
        name = kind.__name__
        settings = {} if name == "RandomPolicy" else SMALL
        daily = {} if name == "RandomPolicy" else DAILY | {"learning_starts": 10, "epsilon_steps": 10}
        cartpole = kind(**settings).train_seeds(
            partial(gymnasium.make, "dqucb/CartPole-v0", change_at=6), [3, 5], episodes=12
        )
        for task, runs in (
            ("cartpole", cartpole),
            ("pendulum", kind(**settings).train_seeds(pendulum, [3], steps=220)),
            ("hospital", kind(**daily).train_seeds(partial(hospital, system), [3, 4], steps=40)),
        ):
            found |= {f"{name} on {task}, seed {run.seed}": rounded(run) for run in runs}
    for agent in (kind() for kind in AGENTS.values() if issubclass(kind, AllocationAgent)):
        run = agent.train(partial(hospital, system), steps=40, seed=3)
        found[f"{agent.name} on hospital, seed 3"] = rounded(run)
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(deep(), sort_keys=True).replace('}, "', '},\n "') + "\n")
    print(f"wrote {FILE}")
