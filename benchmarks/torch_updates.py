"""CPU time of one update: compiled networks, torch networks, and the DQN of Stable-Baselines3.

`python -m benchmarks.torch_updates --out DIR` needs the extras `deep` and `sb3`. An update is the same work for all:
sample 64 transitions, one gradient step, one Polyak update of the target network. Ours makes one forward pass more,
for the double estimate. Ten seeds learn in lockstep here, and one after the other with Stable-Baselines3. One thread,
rounds in turn, the fastest counts. `limit` is the ratio of a program that does the matrix products of an update and
nothing else, each by one call of `torch.mm`.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

BATCH, UPDATES, FILLED = 64, 100, 2_000
SIZES = {"64-64": (4, 64, 64, 2), "256-256": (4, 256, 256, 2)}


def ours(sizes: tuple[int, ...], seeds: int, in_torch: bool) -> Callable[[], None]:
    """One update of all seeds."""
    from dqucb.deep import DiscreteHead, Replay, StackedMLP
    from dqucb.deep.double_q import DoubleQ
    from dqucb.deep.scaling import RunningScale
    from dqucb.deep.torch_modules import mlp
    from dqucb.deep.torch_network import StackedTorch
    from dqucb.running.observations import vector_space

    rng, generators = np.random.default_rng(0), [np.random.default_rng(seed) for seed in range(seeds)]
    settings: dict[str, Any] = {"learning_rate": 1e-3, "max_grad_norm": 10.0}
    make = partial(mlp, hidden=sizes[1:-1])
    network: Any = (
        StackedTorch(make, vector_space(sizes[0]), sizes[-1], generators, device="cpu", **settings)
        if in_torch
        else StackedMLP(sizes, generators, **settings)
    )
    learner = DoubleQ(network, RunningScale(seeds, sizes[0], 0), DiscreteHead(sizes[-1]), discount=0.99,
                      huber_delta=1.0, tau=0.01, target_every=1, act_on="online", value_bound=np.inf)  # fmt: skip
    replay = Replay(seeds, FILLED, sizes[0], 1)
    for _ in range(FILLED):
        replay.add(rng.standard_normal((seeds, sizes[0])), rng.integers(sizes[-1], size=(seeds, 1)), rng.random(seeds),
                   rng.standard_normal((seeds, sizes[0])), rng.random(seeds) < 0.1, np.zeros(seeds, bool),
                   np.zeros((seeds, 1)), np.ones(seeds))  # fmt: skip

    def update() -> None:
        batch = replay.sample(generators, BATCH)
        learner.update(batch, np.zeros(batch.alive.shape))

    return update


def theirs(sizes: tuple[int, ...]) -> Callable[[], None]:
    """One update of one seed of Stable-Baselines3."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.utils import polyak_update

    model = DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": list(sizes[1:-1])}, batch_size=BATCH, seed=0,
                device="cpu", learning_starts=10, buffer_size=FILLED, train_freq=FILLED,
                target_update_interval=10**9)  # fmt: skip
    model.learn(FILLED)

    def update() -> None:
        model.train(1, BATCH)
        polyak_update(model.q_net.parameters(), model.q_net_target.parameters(), 0.01)

    return update


def products(sizes: tuple[int, ...], forward_passes: int) -> Callable[[], None]:
    """The matrix products of one update of one seed: forward passes, and a backward pass without input gradients."""
    import torch

    layers = []
    for n_in, n_out in pairwise(sizes):
        x, w, y = torch.randn(BATCH, n_in), torch.randn(n_in, n_out), torch.randn(BATCH, n_out)
        layers += forward_passes * [(x, w, torch.empty_like(y))] + [(x.mT, y, torch.empty_like(w))]
        if n_in != sizes[0]:
            layers.append((y, w.mT, torch.empty_like(x)))

    def update() -> None:
        for left, right, out in layers:
            torch.mm(left, right, out=out)

    return update


def seconds(update: Callable[[], None], updates: int) -> float:
    """CPU time of one update."""
    began = process_time()
    for _ in range(updates):
        update()
    return (process_time() - began) / updates


def measure(rounds: int, updates: int) -> list[dict[str, Any]]:
    """The fastest round of each, in turn."""
    import torch

    from dqucb.deep.threads import one_thread

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    with one_thread():
        for name, sizes in SIZES.items():
            work = {("sb3", 1): theirs(sizes)}
            work |= {("products", passes): products(sizes, passes) for passes in (2, 3)}
            for seeds in (1, 10):
                work |= {("compiled", seeds): ours(sizes, seeds, False), ("torch", seeds): ours(sizes, seeds, True)}
            for update in work.values():
                seconds(update, 10)
            turns = [{key: seconds(update, updates) for key, update in work.items()} for _ in range(rounds)]
            found = {key: min(turn[key] for turn in turns) for key in work}
            theirs_took = found["sb3", 1]
            for backend in ("compiled", "torch"):
                for seeds in (1, 10):
                    took = found[backend, seeds]
                    rows.append({"network": name, "backend": backend, "seeds": seeds, "microseconds": 1e6 * took,
                                 "sb3_microseconds": 1e6 * theirs_took, "times_sb3": seeds * theirs_took / took,
                                 "limit": theirs_took / found["products", 3],
                                 "limit_of_one_estimate": theirs_took / found["products", 2]})  # fmt: skip
    torch.set_num_threads(threads)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_updates", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/peers"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=UPDATES)
    options = parser.parse_args(arguments)
    rows = measure(options.rounds, options.updates)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "torch_updates.json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print("{network:8} {backend:9} {seeds:2} seeds {microseconds:8.0f} us, {times_sb3:5.2f} x SB3 "
              "(limit {limit:.2f}, with one estimate {limit_of_one_estimate:.2f})".format(**row))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
