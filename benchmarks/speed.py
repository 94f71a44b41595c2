"""The cost of a step on the README's lake, in CPU time of one core: `python -m benchmarks.speed`."""

import time

from dqucb import DQUCB, QUCB, PlanningDQUCB, frozen_lake

ROUNDS = 4  # the fastest counts; the first one may compile kernels


def main() -> None:
    lake = frozen_lake(slip=(0, 1 / 2, 2 / 3), change_at=(20_000, 40_000), horizon=500)
    print("| agent | steps of 60,000 episodes | seconds | ns per step |\n|---|---|---|---|")
    for agent in (QUCB(), DQUCB(bonus_scale=0.05), PlanningDQUCB()):
        seconds = []
        for _ in range(ROUNDS):
            began = time.process_time()
            run = agent.clone().train(lake, episodes=60_000, seed=0)
            seconds.append(time.process_time() - began)
        print(f"| {agent.name} | {run.steps:,} | {min(seconds):.2f} | {min(seconds) / run.steps * 1e9:.0f} |")


if __name__ == "__main__":
    main()
