"""A callback that records losses, errors and gradients of updates, and evaluates the policy during training."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

if TYPE_CHECKING:
    from dqucb.deep.trainer import DeepProgress

OF_UPDATES = ("loss", "td_error", "gradient_norm")


class TrainingRecorder:
    """A callback for deep agents: numbers of the updates and periodic evaluations of every seed, for `run.extras`.

    After training, `run.extras` has "recorded_at" (steps), "loss", "td_error" and "gradient_norm" of the last update
    then, and with a `problem` "evaluations", (records, episodes). All are part of checkpoints.

    Parameters
    ----------
    every : int
        Steps between two records.
    problem : gymnasium.Env, str or callable, optional
        Where the greedy policy is evaluated, as in `Agent.evaluate`; any Gymnasium env.
    episodes : int
        Of an evaluation.
    best : path, optional
        A file to which the agent is saved whenever the mean evaluation of all seeds is the largest so far. It has
        the policies, for any env.

    Examples
    --------
    >>> from dqucb.deep import DQN, TrainingRecorder
    >>> recorder = TrainingRecorder(every=50, problem="CartPole-v1", episodes=2)
    >>> run = DQN(hidden=(8,), learning_starts=20).train("cartpole", steps=100, callback=recorder)
    >>> run.extras["recorded_at"].tolist(), run.extras["evaluations"].shape, bool(run.extras["loss"][0] > 0)
    ([50, 100], (2, 2), True)
    """

    def __init__(self, every: int = 1_000, problem: Any = None, episodes: int = 10,
                 best: str | PathLike[str] | None = None) -> None:  # fmt: skip
        self.every, self.episodes = _validate.integer("every", every), _validate.integer("episodes", episodes)
        if best is not None and problem is None:
            raise ValueError("problem must be given with best: it is where policies are compared")
        self.problem, self.best = problem, None if best is None else Path(best)
        self._rows: dict[int, list[NDArray[np.float64]]] = {}  # seed's place -> steps, numbers and returns
        self._largest = -np.inf

    def __call__(self, progress: "DeepProgress") -> None:
        if progress.step % self.every:
            return
        seeds = progress.trainer.seeds
        means = []
        for i in range(len(seeds)):
            numbers = [float(getattr(progress, name)[i]) for name in OF_UPDATES]
            returns = np.zeros(0)
            if self.problem is not None:
                agent: Any = progress.agent
                returns = agent.evaluate(self.problem, self.episodes, seed=progress.step, trained_seed=seeds[i])
                means.append(returns.mean())
            self._rows.setdefault(i, []).append(np.array([progress.step, *numbers, *returns]))
        if means and np.mean(means) > self._largest:
            self._largest = float(np.mean(means))
            if self.best is not None:
                progress.agent.save(self.best)

    def results(self, i: int) -> dict[str, NDArray[Any]]:
        """Return the records of the i-th seed, for `run.extras`."""
        width = 1 + len(OF_UPDATES) + (self.episodes if self.problem is not None else 0)
        table = np.array(self._rows.get(i, [])).reshape(-1, width)
        found: dict[str, NDArray[Any]] = {"recorded_at": table[:, 0].astype(np.int64)}
        found |= {name: table[:, 1 + k].copy() for k, name in enumerate(OF_UPDATES)}
        if self.problem is not None:
            found["evaluations"] = table[:, 1 + len(OF_UPDATES) :].copy()
        return found

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return arrays from which `restore` continues."""
        arrays = {f"rows.{i}": np.array(rows) for i, rows in self._rows.items()}
        return arrays | {"largest": np.array(self._largest)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore `state()`; other entries are ignored."""
        self._rows = {int(name[5:]): list(table) for name, table in state.items() if name.startswith("rows.")}
        self._largest = float(state.get("largest", -np.inf))
