"""How large is a change of HalfCheetah's world, against what our model does not explain?

    python -m benchmarks.drift_effect

At every state that the learned policy visits the same step is done under both laws, from the same position, velocity
and action. The difference of the next states is the effect of the change. It is compared with the residuals of the
features of `ContinuousDriftDetector`, fitted to the first 3,000 transitions, on the next 1,000.

Nats per step: what a test could gain at most, if it knew the effect at each state ("known"), or only the part that is
linear in (s, a), which is what the test "structure" looks for ("linear"). That test gains nothing below its allowance,
and the linear part has to be estimated from 300 transitions, at half a nat per 300 steps for each coefficient.
"""

import argparse

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_policies import load
from benchmarks.drift_streams import change_physics
from dqucb.drift.continuous import ALLOWANCE, features

CHANGES = {"friction": 0.5, "gravity": 1.5, "mass": 1.5}
FITTED, STEPS, MEMORY = 3_000, 4_000, 300
Columns = NDArray[np.float64]


def effects(kind: str, seed: int) -> tuple[Columns, Columns, Columns]:
    """Inputs (s, a), movements s' - s, and what the change adds to them."""
    env, other = (gymnasium.make("HalfCheetah-v5", disable_env_checker=True) for _ in range(2))
    here, there = env.unwrapped, other.unwrapped
    state, _ = env.reset(seed=seed)
    other.reset(seed=seed)
    change_physics(there, kind, CHANGES[kind])
    policy, rng, rows = load("half_cheetah"), np.random.default_rng([seed, 2]), []
    for _ in range(STEPS):
        action = np.clip(policy(state) + 0.1 * rng.standard_normal(6), -1, 1)
        there.set_state(here.data.qpos.copy(), here.data.qvel.copy())  # type: ignore[attr-defined]
        there.data.qacc_warmstart[:] = here.data.qacc_warmstart  # type: ignore[attr-defined]
        following, _, ended, cut, _ = env.step(action)
        rows.append((np.concatenate([state, action]), following - state, there.step(action)[0] - following))
        state = env.reset()[0] if ended or cut else following
    inputs, moved, added = (np.array(column) for column in zip(*rows, strict=True))
    return inputs, moved, added


def measured(kind: str, seed: int) -> dict[str, float]:
    """Effects in units of the residuals, and nats per step."""
    inputs, moved, added = effects(kind, seed)
    x = (inputs - inputs.mean(0)) / inputs.std(0)
    products, waves, phases = features(x.shape[1])
    one = np.ones((len(x), 1))
    waved = np.sqrt(2) * np.cos(x @ waves.T + phases)
    phi = np.hstack([one, x, x[:, products[:, 0]] * x[:, products[:, 1]], waved])
    first, later = slice(0, FITTED), slice(FITTED, None)
    W = np.linalg.solve(phi[first].T @ phi[first] + np.eye(phi.shape[1]), phi[first].T @ moved[first])
    spread = (moved[later] - phi[later] @ W).std(0)
    effect, linear = added[later] / spread, np.hstack([one, np.clip(x, -4, 4)])[later]
    seen = linear @ np.linalg.lstsq(linear, effect, rcond=None)[0]
    return {
        "steps without any effect": float((abs(added) < 1e-12).all(1).mean()),
        "effect / residual, median coordinate": float(np.median(np.sqrt((effect**2).mean(0)))),
        "largest coordinate": float(np.sqrt((effect**2).mean(0)).max()),
        "nats, known": float(0.5 * np.minimum(effect**2, 100.0).sum(1).mean()),
        "nats, linear": float(0.5 * (seen**2).sum(1).mean()),
        "allowance": ALLOWANCE * effect.shape[1],
        "cost of estimation": 0.5 * effect.shape[1] * linear.shape[1] / MEMORY,
    }


def main() -> None:
    """Print a Markdown table of the means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1_700)
    given = parser.parse_args()
    for number, (kind, factor) in enumerate(CHANGES.items()):
        found = [measured(kind, given.first_seed + i) for i in range(given.seeds)]
        if number == 0:
            print("| change | " + " | ".join(found[0]) + " |\n|" + "---|" * (len(found[0]) + 1))
        means = (np.mean([row[name] for row in found]) for name in found[0])
        print(f"| {kind} times {factor} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |", flush=True)


if __name__ == "__main__":
    main()
