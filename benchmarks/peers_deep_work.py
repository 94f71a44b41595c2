"""A peer's share of `benchmarks.peers_deep`: runs inside its virtual environment and prints one JSON line."""

import json
import os
import sys
from importlib import import_module
from time import process_time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"  # before JAX is loaded

import gymnasium
import numpy as np
import torch

DQN = import_module(sys.argv[1]).DQN  # stable_baselines3 or sbx: the same constructor


class Bins(gymnasium.ActionWrapper):
    """One action dimension as a choice among 100 equally spaced values."""

    def __init__(self, env):
        super().__init__(env)
        self.atoms = np.linspace(env.action_space.low, env.action_space.high, 100).astype(np.float32)
        self.action_space = gymnasium.spaces.Discrete(100)

    def action(self, action):
        return self.atoms[action]


def speed(env, work):
    """Steps per second of CPU time."""
    model = DQN(
        "MlpPolicy", env, policy_kwargs={"net_arch": work["hidden"]}, batch_size=work["batch_size"], seed=0,
        device="cpu",
        train_freq=work["train_every"], gradient_steps=1, buffer_size=work["buffer_size"], gamma=work["discount"],
        learning_starts=work["learning_starts"], learning_rate=work["learning_rate"], tau=work["tau"],
        target_update_interval=work["train_every"], exploration_final_eps=work["epsilon"],
        exploration_fraction=work["epsilon_steps"] / work["steps"],
    )  # fmt: skip
    model.learn(work["learning_starts"] + 100)  # JAX compiles at the first update
    began = process_time()
    model.learn(work["steps"], reset_num_timesteps=False)
    return work["steps"] / (process_time() - began)


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = json.loads(sys.argv[2])
    speeds = {
        "CartPole": speed(gymnasium.make("CartPole-v1", disable_env_checker=True), asked),
        "Pendulum, 100 bins": speed(Bins(gymnasium.make("Pendulum-v1", disable_env_checker=True)), asked),
    }
    sys.stdout.write("\n" + json.dumps(speeds) + "\n")
