"""Writes tests/archive: one small file of every kind, as this version saves it, and what each must hold when loaded.

    python tests/make_archive.py [VERSION]

Done once per released version, before its tag, into a folder of that version's name; older folders are never changed.
`test_archive.py` loads all of them with every later version.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np

import dqucb
from dqucb import AGENTS, DQUCB, Agent, Run, SlidingKDE, TabularAgent, compare, gridworld
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector
from dqucb.experiments import load_comparison

FOLDER = Path(__file__).parent / "archive"
STEPS = [(0, 1, 0.5, 2, 0), (2, 0, 1.0, 1, 1), (1, 1, 0.0, 0, 2), (0, 0, 0.25, 0, 0)]


def digest(*arrays):
    """A short hash of numbers, rounded so that no later summation order can change it."""
    rounded = b"".join(np.round(np.asarray(array, np.float64), 9).tobytes() for array in arrays)
    return hashlib.sha256(rounded).hexdigest()[:16]


def held(path):
    """What a file of the archive holds, in a form to compare."""
    kind = path.name.partition(".")[0]
    if kind == "kde":
        return digest(SlidingKDE.load(path).points)
    if kind == "finite-detector":
        return FiniteDriftDetector.load(path).n_updates
    if kind == "continuous-detector":
        return ContinuousDriftDetector.load(path).n_updates
    if kind == "run":
        run = Run.load(path)
        return digest(run.returns, run.gaps, run.likelihood, run.ends, run.alarms)
    if kind == "folder":
        loaded = load_comparison(path)
        return {label: digest(list(loaded.final_regret(label).values())) for label in loaded.labels}
    agent = Agent.load(path)
    if isinstance(agent, TabularAgent):
        return digest(agent.q_, agent.visits_)
    return [int(agent.predict(np.full(4, 0.01 * k, np.float32))) for k in range(-3, 4)]


def fill(folder):
    """Write the files."""
    folder.mkdir(parents=True)
    kde = SlidingKDE(5, kernel="gaussian", bandwidth=0.7)
    for row in np.random.default_rng(0).random((8, 2)):
        kde.push(row)
    kde.save(folder / "kde.npz")
    finite, vectors = FiniteDriftDetector(n_states=3, n_actions=2), ContinuousDriftDetector(burn_in=100)
    for k in range(60):
        state, action, _, reached, _ = STEPS[k % 4]
        finite.update(state, action, reached)
        vectors.update([0.1 * (k % 7), 0.5], [0.3], [0.2, 0.1 * (k % 5)])
    finite.save(folder / "finite-detector.npz")
    vectors.save(folder / "continuous-detector.npz")
    agents = {name: AGENTS[name]() for name in AGENTS if issubclass(AGENTS[name], TabularAgent)}
    agents |= {"dqucb-auto": DQUCB(stage_dependent="auto", window=5), "dqucb-step": DQUCB(scope="step", window=6)}
    for name, agent in agents.items():
        agent.start(3, 2, horizon=3, length=40)
        for number, step in enumerate(STEPS * 6):
            agent.observe(*step)
            if number % 3 == 2:
                agent.end_episode()
        agent.save(folder / f"agent.{name}.npz")
    problem = gridworld((0.1, 0.4), change_at=(5,), rows=2, cols=2, horizon=4)
    AGENTS["planning-dqucb"]().train(problem, episodes=12, seed=3).save(folder / "run.npz")
    compare(["qucb", "random"], problem, 12, seeds=2, jobs=1, out=folder / "folder")
    (folder / "folder" / ".lock").unlink()
    (folder / "folder" / "checkpoints").rmdir()
    from dqucb.deep import DQN, DeepDQUCB

    for kind in (DQN, DeepDQUCB):
        agent = kind(hidden=(4,), learning_starts=10, buffer_size=30, batch_size=4)
        agent.train_seeds("cartpole", seeds=2, steps=60, stop_at=40, max_return=200.0)
        agent.save(folder / f"deep.{kind.__name__}.npz")


if __name__ == "__main__":
    target = FOLDER / (sys.argv[1] if len(sys.argv) > 1 else dqucb.__version__)
    if target.exists():
        shutil.rmtree(target)
    fill(target)
    contents = {path.name: held(path) for path in sorted(target.iterdir())}
    (target / "contents.json").write_text(json.dumps(contents, indent=1) + "\n")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target}: {len(contents)} files, {size / 1000:.0f} kB")
