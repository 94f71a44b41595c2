"""Agents without confidence bounds: epsilon-greedy Q-learning, and uniformly random actions."""

from dataclasses import dataclass
from typing import Annotated, Any

from dqucb._parameters import Within
from dqucb._validate import flag, real
from dqucb.agents.confidence import StageAgent
from dqucb.agents.tables import q_learner
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("q-learning")
@dataclass(kw_only=True, eq=False, repr=False)
class QLearning(StageAgent):
    """Watkins' Q-learning with epsilon-greedy exploration.

    Parameters
    ----------
    epsilon : float
        Probability of a uniformly random action.
    learning_rate : float or None
        A constant, or None for (H+1)/(H+t).
    optimistic : bool
        Start Q at the bound on the return instead of at zero.
    stage_dependent : bool or "auto"
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import QLearning, combination_lock
    >>> agent = QLearning(epsilon=0.2)
    >>> agent.train(combination_lock(change_at=()), episodes=500).seed
    0
    """

    epsilon: Annotated[float, Within(real, 0.0, 1.0)] = 0.1
    learning_rate: Annotated[float | None, Within(real, 0.0, 1.0, open_left=True)] = None
    optimistic: Annotated[bool, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> Any:
        return q_learner(
            sizes,
            epsilon=float(self.epsilon),
            fixed_rate=float(self.learning_rate or 0.0),
            optimistic=self.optimistic,
            monotone=False,
            stage_dependent=self.stage_dependent,
        )


@AGENTS.register("random")
@dataclass(kw_only=True, eq=False, repr=False)
class Random(TabularAgent):
    """Uniformly random actions, a lower reference for every learner.

    Examples
    --------
    >>> from dqucb import Random, combination_lock
    >>> bool(Random().train(combination_lock(change_at=()), episodes=500).returns.mean() < 0.2)
    True
    """

    def _new_learner(self, sizes: Sizes) -> Any:
        return q_learner(sizes, epsilon=1.0, optimistic=False, monotone=False)
