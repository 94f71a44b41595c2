"""Does `ShiftCallback(on_alarm="adapt")` help a Stable-Baselines3 model whose environment changes?

    python -m benchmarks.sb3_adaptation --seeds 10 --out sb3_adaptation

DQN on CartPole whose force changes its sign, and SAC on Pendulum whose gravity doubles (the question of
Stable-Baselines3's issue 2100); the same seeds with the callback and without. Each run is one line of runs.jsonl in the
folder; a run that is there is not made again. The table shows the mean return after the change, the worst decile, and
the probability of improvement. The placebo is the same without any change: every alarm is false, and the difference is
what the callback costs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from dqucb._progress import shown
from dqucb.experiments.statistics import probability_of_improvement


class ForceFlips(gym.ActionWrapper):
    """CartPole whose two actions change places at a step."""

    def __init__(self, env: gym.Env, at: float) -> None:
        super().__init__(env)
        self.at, self.steps = at, 0

    def action(self, action: Any) -> Any:
        self.steps += 1
        return action if self.steps <= self.at else 1 - action


class GravityDoubles(gym.Wrapper):
    """Pendulum whose gravity doubles at a step."""

    def __init__(self, env: gym.Env, at: float) -> None:
        super().__init__(env)
        self.at, self.steps = at, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.unwrapped.g = 10.0 if self.steps <= self.at else 20.0  # type: ignore[attr-defined]
        return self.env.step(action)


# RL Baselines3 Zoo's settings for DQN on CartPole; SAC with its defaults and the Zoo's learning rate for Pendulum.
DQN_SETTINGS: dict[str, Any] = {
    "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
    "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]},
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "DQN, CartPole, force flips": {
        "kind": "DQN", "env": "CartPole-v1", "change": ForceFlips, "at": 50_000, "steps": 100_000, "burn_in": 20_000,
        "settings": DQN_SETTINGS,
    },
    "SAC, Pendulum, gravity doubles": {
        "kind": "SAC", "env": "Pendulum-v1", "change": GravityDoubles, "at": 8_000, "steps": 16_000, "burn_in": 3_000,
        "settings": {"learning_rate": 1e-3},
    },
}  # fmt: skip


def one(case: dict[str, Any], seed: int, adapt: bool, placebo: bool) -> dict[str, Any]:
    """One run: the mean return of the episodes after the change, and what the callback did."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.monitor import Monitor

    from dqucb.drift import ShiftCallback

    torch.set_num_threads(1)
    env = Monitor(case["change"](gym.make(case["env"]), np.inf if placebo else case["at"]))
    kind = getattr(stable_baselines3, case["kind"])
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **case["settings"])
    callback = ShiftCallback(burn_in=case["burn_in"], on_alarm="adapt") if adapt else None
    model.learn(case["steps"], callback=callback)
    ends, returns = np.cumsum(env.get_episode_lengths()), np.array(env.get_episode_rewards())
    return {
        "before": float(returns[ends <= case["at"]][-20:].mean()),
        "after": float(returns[ends > case["at"]].mean()),
        "last": float(returns[-20:].mean()),
        "alarms": [] if callback is None else callback.alarms,
    }


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("sb3_adaptation"))
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--parts", nargs="*", default=["change", "placebo"], choices=["change", "placebo"])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "runs.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(run["case"], run["seed"], run["adapt"], run["placebo"]): run for run in known}
    wanted = [
        (name, seed, adapt, placebo)
        for placebo in [part == "placebo" for part in given.parts]
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        for name in given.cases
        for adapt in (False, True)
    ]
    with shown("runs", len(wanted), sum(each in done for each in wanted), True) as bar:
        for name, seed, adapt, placebo in wanted:
            if (name, seed, adapt, placebo) in done:
                continue
            found = {"case": name, "seed": seed, "adapt": adapt, "placebo": placebo}
            found |= one(CASES[name], seed, adapt, placebo)
            with path.open("a") as file:
                file.write(json.dumps(found) + "\n")
            done[name, seed, adapt, placebo] = found
            bar.advance()
    print(
        "| case | seeds | return after: without | with | P(improvement) | last 20 episodes: without | with | alarms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for placebo in [part == "placebo" for part in given.parts]:
        for name in given.cases:
            pairs = [(done.get((name, s, False, placebo)), done.get((name, s, True, placebo))) for _, s, _, _ in wanted]
            whole = {a["seed"]: (a, b) for a, b in pairs if a and b}.values()
            if not whole:
                continue
            without, with_it = ([run[place]["after"] for run in whole] for place in (0, 1))
            better = probability_of_improvement([-each for each in with_it], [-each for each in without])
            cells = [name + " (placebo)" * placebo, len(whole), f"{np.mean(without):.1f}", f"{np.mean(with_it):.1f}"]
            cells += [f"{better.value:.2f} [{better.low:.2f}, {better.high:.2f}]"]
            cells += [f"{np.mean([run[place]['last'] for run in whole]):.1f}" for place in (0, 1)]
            cells += [f"{np.mean([len(run['alarms']) for _, run in whole]):.1f}"]
            print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
