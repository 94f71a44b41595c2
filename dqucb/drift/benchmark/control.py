"""Gymnasium's classic control tasks with drawn physics; a stream begins again where an episode ends."""

from typing import Any

import numpy as np

from dqucb.drift.benchmark.simulation import Generator
from dqucb.drift.benchmark.streams import Draws, Stream, register

# Task: the attributes that may change, and how many updates an action is held at most.
TASKS: dict[str, tuple[tuple[str, ...], int]] = {
    "Pendulum-v1": (("g", "m", "l"), 5),
    "CartPole-v1": (("gravity", "length", "masspole", "force_mag"), 1),
    "MountainCar-v0": (("force", "gravity"), 20),
    "MountainCarContinuous-v0": (("power",), 20),
    "Acrobot-v1": (("LINK_MASS_1", "LINK_MASS_2", "LINK_LENGTH_1", "LINK_COM_POS_1"), 5),
}


def _multiply(env: Any, name: str, factor: float) -> None:
    setattr(env, name, getattr(env, name) * factor)
    if hasattr(env, "polemass_length"):  # CartPole derives these two from what was set
        env.total_mass = env.masspole + env.masscart
        env.polemass_length = env.masspole * env.length


def family(task: str, policy_alone: bool = False) -> Any:
    """A maker of streams of one task.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    policy_alone : bool
        Whether only the policy changes.
    """

    def make(rng_of: Draws, change_at: int | None, steps: int) -> Stream:
        import gymnasium

        rng, actions = rng_of("world"), rng_of("actions")
        attributes, most = TASKS[task]
        env = gymnasium.make(task, disable_env_checker=True).unwrapped
        for name in attributes:
            _multiply(env, name, rng.uniform(0.8, 1.25))
        changed, factor = str(rng.choice(attributes)), float(rng.choice([rng.uniform(0.4, 0.7), rng.uniform(1.4, 2.0)]))
        hold = rng.integers(1, most + 1, 2)
        favoured = rng.uniform(0.1, 0.9, 2)
        after, left, action = 0, 0, env.action_space.sample()
        state, age = env.reset(seed=int(rng.integers(2**31)))[0], 0
        rows = []
        for t in range(steps):
            if t == change_at:
                after = 1 if policy_alone else 0
                if not policy_alone:
                    _multiply(env, changed, factor)
            if left == 0:
                left, action = int(hold[after]), _drawn(env.action_space, actions, float(favoured[after]))
            left -= 1
            next_state, _, ended, _, _ = env.step(action)
            rows.append((state, np.atleast_1d(action), next_state))
            age += 1
            state = next_state
            if ended or age >= 200:
                state, age = env.reset()[0], 0
        s, a, n = (np.array(column, np.float64) for column in zip(*rows, strict=True))
        return Stream(s, a, n, np.zeros(steps), change_at)

    return make


def _drawn(space: Any, rng: Generator, favoured: float) -> Any:
    """An action; `favoured` is the probability of the upper half of them."""
    upper = rng.random() < favoured
    if hasattr(space, "n"):
        half = space.n // 2
        return int(rng.integers(half, space.n) if upper else rng.integers(0, max(half, 1)))
    middle = (space.low + space.high) / 2.0
    return rng.uniform(middle, space.high) if upper else rng.uniform(space.low, middle)


for _task in TASKS:
    register(f"control, {_task.split('-')[0]}", family(_task), "continuous")
for _task in ("Pendulum-v1", "CartPole-v1", "Acrobot-v1"):
    register(f"policy placebo, {_task.split('-')[0]}", family(_task, policy_alone=True), "continuous", placebo=True)
