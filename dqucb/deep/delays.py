"""Actions that act some steps late: found from transitions, and undone.

If actions act d steps late and nothing else has changed, s_{t+1} - s_t = f(s_t, a_{t-d}); before an episode has d
actions, its first one acts. Each d is a candidate, with the deviations from f and their correction (correction.py), and
the most likely one is taken if it leaves less than half of what the present one leaves.

    Transitions keep the action that acted, not the one that was chosen. They are then those of the dynamics before, so
    that values and old transitions stay right.
    The policy reads the state in which its action will act. f predicts it from the d actions that are on their way
    (Walsh, Nouri, Li and Littman 2009, "Learning and planning in environments with delayed feedback").
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dqucb.deep.dynamics import CurrentDynamics

MOST_STEPS = 8


class Delays:
    """The last actions of each of n seeds, and the steps until they act.

    Parameters
    ----------
    n, n_choices : int
        Seeds, and choices in an action.
    memory : int
        Actions that are remembered.
    """

    def __init__(self, n: int, n_choices: int, memory: int) -> None:
        self.steps = np.zeros(n, np.int64)  # until an action acts
        self.chosen = np.zeros((n, memory + MOST_STEPS, n_choices), np.int64)  # a ring
        self.count = np.zeros(1, np.int64)  # of actions so far
        self.age = np.full(n, -1)  # of each episode at its last action, in steps

    def add(self, choices: NDArray[np.int64], begun: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Add one action of each seed, some of them the first of an episode; returns the actions that act now."""
        self.age = np.where(begun, 0, self.age + 1)
        self.chosen[:, self.count[0] % self.chosen.shape[1]] = choices
        self.count += 1
        if not self.steps.any():
            return choices
        return self._ago(np.arange(len(choices)), np.minimum(self.steps, self.age))

    def _ago(self, i: Any, steps: Any) -> NDArray[np.int64]:
        """The actions of seeds i so many steps before their last one."""
        return self.chosen[i, (self.count[0] - 1 - steps) % self.chosen.shape[1]]

    def coming(self, i: int, begins: bool) -> NDArray[np.int64]:
        """The actions of seed i that will act before its next one does, (steps, choices); none if an episode begins."""
        n = 0 if begins else int(self.steps[i])
        # The next action has the age age + 1. The one that acts k steps later was chosen at the age age + 1 + k - n.
        ages = np.maximum(self.age[i] + 1 - n + np.arange(n), 0)
        return self._ago(i, self.age[i] - ages)

    def acted(self, i: int, ended: NDArray[np.bool_], steps: int) -> NDArray[np.int64]:
        """The actions of seed i that acted in its newest transitions if they acted `steps` late, (rows, choices).

        `ended` says which of these transitions ended an episode; the first is taken to be far from a beginning.
        """
        at = np.arange(len(ended))
        begun = np.maximum.accumulate(np.where(np.append(False, ended[:-1]), at, -MOST_STEPS))
        return self._ago(i, len(ended) - 1 - at + np.minimum(steps, at - begun))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays of which `restore` makes the same object."""
        return {name: getattr(self, name) for name in ("steps", "chosen", "count", "age")}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from `state()`."""
        if not (0 <= state["steps"].min() <= state["steps"].max() <= MOST_STEPS) or (state["count"] < 0).any():
            raise ValueError(f"delays must be in [0, {MOST_STEPS}] and the number of actions >= 0")
        for name, own in self.state().items():
            own[...] = state[name]


def likeliest(model: "CurrentDynamics", candidates: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
              present: int) -> int:  # fmt: skip
    """Which of the candidates (inputs, outputs) the transitions come from: the present one unless another predicts
    them, is more likely, and leaves less than half of its deviations."""
    judged = [model.judged(*sides) for sides in candidates]
    best = int(np.argmax([each.likelihood for each in judged]))
    wins = judged[best].predicts and judged[best].left < 0.5 * judged[present].left
    return best if wins else present
