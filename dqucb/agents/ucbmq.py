"""UCBMQ: UCB Momentum Q-learning (Menard, Domingues, Shang, Valko 2021)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels.learners.ucbmq import UcbmqLearner
from dqucb.agents import checkpoint
from dqucb.agents.confidence import BonusAgent, horizon_of
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS


@AGENTS.register("ucbmq")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBMQ(BonusAgent):
    """Q-learning with a momentum term that corrects the bias of old targets; S numbers per visited pair.

    Parameters
    ----------
    bonus, bonus_scale, delta : as in `QUCB`.
    """

    def _new_learner(self, sizes: Sizes) -> Any:
        H, S, A = horizon_of(self, sizes), sizes.n_states, sizes.n_actions
        Qb = np.empty((H, S, A))
        Qb[:] = sizes.bounds[:H, None, None]
        Vb = np.empty((H + 1, S))
        Vb[:] = sizes.bounds[:, None]
        return UcbmqLearner(
            Q=np.zeros((H, S, A)),
            Qb=Qb,
            Vb=Vb,
            visits=np.zeros((H, S, A), np.int32),
            slot=np.full((H, S, A), -1, np.int32),
            bias=np.zeros((0, S)),
            used=np.zeros(1, np.int64),
            bounds=sizes.bounds,
            form=formulas.BONUS_FORMS.index(self.bonus),
            scale=self.bonus_scale,
            horizon=float(H),
            iota=formulas.confidence_log(float(S), A, sizes.length, H, self.delta),
        )

    def _grown(self, learner: Any, pushes: int) -> Any:
        rows = min(max(2 * len(learner.bias), int(learner.used[0]) + 2 * pushes), learner.visits.size + pushes)
        bias = np.zeros((max(rows, len(learner.bias)), learner.bias.shape[1]))
        bias[: len(learner.bias)] = learner.bias
        return learner._replace(bias=bias)

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        used = int(learner.used[0])
        checkpoint.check_range("used", learner.used, 0, len(learner.bias))
        taken = learner.slot[learner.visits > 0]
        checkpoint.check_range("slot", taken, 0, used - 1)
        if len(np.unique(taken)) != used or (learner.slot[learner.visits == 0] != -1).any():
            raise ValueError("slot must name each used row of bias once, and none for pairs without visits")

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values, (H, S, A)."""
        return self._started().learner.Qb.copy()
