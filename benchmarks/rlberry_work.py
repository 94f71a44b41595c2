"""rlberry's share of `benchmarks.rlberry_table`: runs inside its virtual environment and prints one JSON line."""

import json
import logging
import sys
import warnings
from time import process_time

import numpy as np

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


def main(path, agents, seeds):
    """Returns of every episode and microseconds per step, by agent and seed."""
    from rlberry.agents.psrl import PSRLAgent
    from rlberry.agents.ucbvi import UCBVIAgent
    from rlberry.envs.finite import FiniteMDP

    given = dict(np.load(path))

    class Changing(FiniteMDP):
        """One phase after the other; a change comes at the beginning of an episode."""

        episode = -2  # FiniteMDP resets itself once when it is made

        def reset(self, seed=None, options=None):
            self.episode += 1
            phase = int(np.searchsorted(given["change_at"], max(self.episode, 0), side="right"))
            self.P, self.R, self.initial_state_distribution = (given[name][phase] for name in ("P", "R", "initial"))
            return super().reset(seed=seed, options=options)

        def _check(self):
            pass  # it asks for sums that are 1 within 1e-15

    kinds = {"UCBVI": UCBVIAgent, "PSRL": PSRLAgent}
    horizon, episodes = int(given["horizon"]), int(given["episodes"])
    results = {}
    for name in agents:
        for seed in seeds:
            env = Changing(given["R"][0].copy(), given["P"][0].copy(), given["initial"][0])
            agent = kinds[name](env, horizon=horizon, seeder=seed)
            agent.env.episode = -1
            began, returns = process_time(), []
            for _ in range(episodes):
                returns.append(float(agent._run_episode()))
            seconds = process_time() - began
            results.setdefault(name, []).append({"returns": returns, "us": 1e6 * seconds / (horizon * episodes)})
    return results


if __name__ == "__main__":
    file, names, numbers = sys.argv[1:]
    sys.stdout.write("\n" + json.dumps(main(file, names.split(","), json.loads(numbers))) + "\n")
