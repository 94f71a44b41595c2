"""UCBMQ: UCB Momentum Q-learning (Menard, Domingues, Shang, Valko 2021)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb._kernels.learners.q.ucbmq import UcbmqLearner
from dqucb.agents import checkpoint
from dqucb.agents.confidence import BonusAgent, horizon_of
from dqucb.agents.tables import q_tables
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("ucbmq")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBMQ(BonusAgent):
    """Q-learning with a momentum term that corrects the bias of old targets; it stores S numbers per visited pair.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`, whose note holds here too.
    stage_dependent : bool
        Must be True.

    Examples
    --------
    >>> from dqucb import UCBMQ, combination_lock
    >>> agent = UCBMQ(bonus_scale=0.1)
    >>> run = agent.train(combination_lock(change_at=()), episodes=500)
    >>> agent.q_.shape
    (5, 10, 2)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage_dependent is not True:
            raise ValueError(
                "stage_dependent must be True for UCBMQ, whose momentum corrects each step's targets by values of that "
                f"step alone: use QUCB or UCBVI for shared steps, got {self.stage_dependent!r}"
            )

    def _new_learner(self, sizes: Sizes) -> UcbmqLearner:
        horizon_of(self, sizes)
        q: Any = q_tables(sizes)
        return UcbmqLearner(
            q=q,
            bonus=self._bonus_settings(sizes),
            mean=np.zeros_like(q.Q),
            slot=np.full(q.Q.shape, -1, np.int32),
            bias=np.zeros((0, sizes.n_states)),
            used=np.zeros(1, np.int64),
            low=sizes.low,
        )

    def _grown(self, learner: Any, pushes: int) -> Any:
        needed = int(learner.used[0]) + pushes
        if needed <= len(learner.bias):
            return learner
        rows = min(max(2 * len(learner.bias), needed + pushes), learner.q.visits.size + pushes)
        bias = np.zeros((rows, learner.bias.shape[1]))
        bias[: len(learner.bias)] = learner.bias
        return learner._replace(bias=bias)

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        used = int(learner.used[0])
        checkpoint.check_range("used", learner.used, 0, len(learner.bias))
        taken = learner.slot[learner.q.visits > 0]
        checkpoint.check_range("slot", taken, 0, used - 1)
        if len(np.unique(taken)) != used or (learner.slot[learner.q.visits == 0] != -1).any():
            raise ValueError("slot must name each used row of bias once, and none for pairs without visits")
