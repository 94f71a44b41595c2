"""Learned policies for the drift harness: augmented random search (Mania, Guy and Recht 2018) in plain NumPy.

A policy is linear in the normalised observation, so that a file holds a few hundred numbers. Two policies per task,
from different seeds and stages of learning, serve the streams whose policy changes while the world does not.
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "drift_data"
DIRECTIONS, KEPT, RATE, NOISE = 16, 8, 0.03, 0.05


class LinearPolicy:
    """action = clip(W (s - mean) / spread)."""

    def __init__(self, W: NDArray[np.float64], mean: NDArray[np.float64], spread: NDArray[np.float64]) -> None:
        self.W, self.mean, self.spread = W, mean, spread

    def __call__(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(self.W @ ((state - self.mean) / self.spread), -1.0, 1.0)


def search(env_id: str, iterations: int, seed: int, out: Path) -> None:
    """Train and write `early` (a third of the way) and `final` policies; prints the return now and then."""
    env = gymnasium.make(env_id, disable_env_checker=True)
    rng = np.random.default_rng(seed)
    size, actions = env.observation_space.shape[0], env.action_space.shape[0]
    W = np.zeros((actions, size))
    count, mean, squares = 1e-3, np.zeros(size), np.zeros(size)

    def spread() -> NDArray[np.float64]:
        return np.sqrt(np.maximum(squares / count, 1e-4))

    def episode(policy: LinearPolicy) -> float:
        nonlocal count, mean, squares
        total, done = 0.0, False
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        while not done:
            count += 1
            gap = state - mean
            mean = mean + gap / count
            squares = squares + gap * (state - mean)
            state, reward, ended, cut, _ = env.step(policy(state))
            total += float(reward) - (1.0 if env_id.startswith(("Hopper", "Walker")) else 0.0)
            done = ended or cut
        return total

    saved = {}
    for i in range(iterations):
        deltas = rng.standard_normal((DIRECTIONS, actions, size))
        now = (mean.copy(), spread())
        pairs = np.array([[episode(LinearPolicy(W + sign * NOISE * d, *now)) for sign in (1, -1)] for d in deltas])
        best = np.argsort(-pairs.max(1))[:KEPT]
        step = ((pairs[best, 0] - pairs[best, 1])[:, None, None] * deltas[best]).mean(0)
        W = W + RATE / (pairs[best].std() + 1e-8) * step
        if i % 10 == 0:
            print(env_id, i, pairs.mean(), flush=True)
        if i == iterations // 3 or i == iterations - 1:
            stage = "final" if i == iterations - 1 else "early"
            saved |= {f"{stage}_W": W, f"{stage}_mean": mean.copy(), f"{stage}_spread": spread()}
    np.savez(out, **saved)


def load(task: str, stage: str = "final") -> LinearPolicy:
    """A stored policy of `task` ("half_cheetah", "hopper")."""
    with np.load(FOLDER / f"{task}.npz", allow_pickle=False) as file:
        return LinearPolicy(*(file[f"{stage}_{part}"] for part in ("W", "mean", "spread")))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for task, env_id in (("half_cheetah", "HalfCheetah-v5"), ("hopper", "Hopper-v5")):
        if len(sys.argv) < 2 or task in sys.argv[1:]:
            search(env_id, 60 if task == "half_cheetah" else 150, 1, FOLDER / f"{task}.npz")
