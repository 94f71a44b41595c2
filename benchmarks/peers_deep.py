"""The DQN of Stable-Baselines3 and of SBX (JAX) beside ours: `python -m benchmarks.peers_deep --out DIR`.

The same work for all: network, batch, update frequency, target update and replay size, one seed, on CartPole and on
Pendulum with its one action dimension cut into 100 bins. Ours also learns ten seeds in lockstep, which its peers would
do one by one. CPU time of one thread after compilation, rounds in turn, the fastest counts; theirs is Q-learning
without the double estimate, so ours makes one forward pass more in each update. Each peer has a virtual environment of
its own, made on the first run.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import workloads
from benchmarks.peers import ROUNDS, environment, markdown
from dqucb._validate import known

PACKAGES = {
    "stable_baselines3": ("stable-baselines3==2.9.2", "gymnasium==1.4.0", "numpy==2.4.6", "torch==2.13.0"),
    "sbx": ("sbx-rl==0.28.0", "gymnasium==1.4.0"),
}
NAMES = {"stable_baselines3": "Stable-Baselines3", "sbx": "SBX"}
WORK = Path(__file__).with_name("peers_deep_work.py")
# (peer's row, seeds of ours)
ROWS = (("CartPole", 1), ("CartPole", 10), ("Pendulum, 100 bins", 1), ("Pendulum, 100 bins", 10))


def ours(task: str, seeds: int, work: dict[str, Any]) -> float:
    """Steps of all seeds per second of CPU time."""
    import gymnasium

    from dqucb.deep import DQN
    from dqucb.envs import DiscretizedActions

    make = {
        "CartPole": lambda: gymnasium.make("CartPole-v1", disable_env_checker=True),
        "Pendulum, 100 bins": lambda: DiscretizedActions(gymnasium.make("Pendulum-v1", disable_env_checker=True)),
    }[task]
    agent = DQN(
        hidden=tuple(work["hidden"]), batch_size=work["batch_size"], train_every=work["train_every"],
        buffer_size=work["buffer_size"],
        learning_starts=work["learning_starts"], discount=work["discount"], learning_rate=work["learning_rate"],
        tau=work["tau"], epsilon=work["epsilon"], epsilon_steps=work["epsilon_steps"], n_steps=1,
        act_on="online", freeze_after=0, huber_delta=1.0,
    )  # fmt: skip
    began = process_time()
    agent.train_seeds(make, range(seeds), steps=work["steps"])
    return work["steps"] * seeds / (process_time() - began)


def measure(pythons: dict[str, Path], rounds: int, work: dict[str, Any]) -> list[dict[str, Any]]:
    """The fastest round of each, in turn."""
    theirs: dict[tuple[str, str], list[float]] = {}
    mine: dict[tuple[str, int], list[float]] = {row: [] for row in ROWS}
    for _ in range(rounds):
        for peer, python in pythons.items():
            command = [str(python), str(WORK), peer, json.dumps(work)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            for task, speed in json.loads(done.stdout.strip().splitlines()[-1]).items():
                theirs.setdefault((peer, task), []).append(speed)
        for task, seeds in ROWS:
            mine[task, seeds].append(ours(task, seeds, work))
    return [
        {
            "peer": f"{NAMES[peer]} DQN, {task}",
            "peer_steps_per_second": max(theirs[peer, task]),
            "ours": f"DQN, {seeds} seed{'s' if seeds > 1 else ''}",
            "our_steps_per_second": max(mine[task, seeds]),
            "ratio": max(mine[task, seeds]) / max(theirs[peer, task]),
        }
        for peer in pythons
        for task, seeds in ROWS
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers_deep", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/peers"))
    parser.add_argument("--venv", type=Path, default=Path(".venv-peers-deep"), help="folder of the peers' environments")
    parser.add_argument("--peers", default=",".join(PACKAGES), help="some of these, with commas (default: all)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=6_000)
    options = parser.parse_args(arguments)
    chosen = [known("peers", peer.strip(), PACKAGES) for peer in options.peers.split(",")]
    work = {"steps": options.steps, "hidden": [64, 64], "batch_size": 64, "train_every": 2, "buffer_size": 50_000,
            "learning_starts": 100, "discount": 0.98, "learning_rate": 1e-3, "tau": 0.01, "epsilon": 0.05,
            "epsilon_steps": 1_000}  # fmt: skip
    with workloads.one_core():
        pythons = {peer: environment(options.venv.resolve() / peer, PACKAGES[peer]) for peer in chosen}
        rows = measure(pythons, options.rounds, work)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "peers_deep.json").write_text(json.dumps({"work": work, "rows": rows}, indent=1) + "\n")
    (options.out / "peers_deep.md").write_text(markdown(rows))
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
