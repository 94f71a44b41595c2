"""RestartQ-UCB with selective restarts: only pairs visited since the returns dropped are reset."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.q.selective_q import SelectiveQ
from dqucb._parameters import Within
from dqucb._validate import positive
from dqucb.agents import checkpoint, tables
from dqucb.agents.confidence import RateHorizon, horizon_of
from dqucb.agents.planned import AlarmedAgent
from dqucb.agents.restarting import RestartQUCB
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("selective-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class SelectiveRestart(AlarmedAgent):
    """RestartQ-UCB whose restarts are adaptive and selective, in the manner of Nonaka et al. (2025, arXiv 2510.11933).

    The paper's restarts depend on the observed rewards and change Q only on observed trajectories. Its exact rules were
    not available. Here a CUSUM of the returns triggers a restart and estimates the time of the drop; pairs visited
    since then are reset.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`.
    stage_dependent : bool
        As in `QUCB`, but not "auto".
    learning_rate_horizon : float, "auto" or None
        As in `RestartQUCB`: H in the lengths of the stages.
    threshold : float
        CUSUM threshold of a restart, in standard deviations of a return.

    Examples
    --------
    >>> from dqucb import SelectiveRestart
    >>> from dqucb.problems import combination_lock
    >>> run = SelectiveRestart().train(combination_lock(change_at=(2_500,)), episodes=5_000, seed=1)
    >>> bool((run.alarms >= 2_500).any())
    True
    """

    learning_rate_horizon: RateHorizon = None
    threshold: Annotated[float, Within(positive)] = 20.0

    def _restart_q(self) -> RestartQUCB:
        names = ("bonus", "bonus_scale", "delta", "stage_dependent", "learning_rate_horizon")
        return RestartQUCB(epochs=1, **{name: getattr(self, name) for name in names})

    def _new_learner(self, sizes: Sizes) -> SelectiveQ:
        horizon_of(self, sizes)
        base = self._restart_q()._new_learner(sizes)
        return SelectiveQ(
            base=base,
            visited=np.full(base.q.visits.shape, -1, np.int64),
            since=np.zeros(2, np.int64),
            moments=np.zeros(4),
            alarms=alarms.new_log(),
            threshold=float(self.threshold),
        )

    def _check_tables(self, learner: Any) -> None:
        self._restart_q()._check_tables(learner.base)
        checkpoint.check_range("since", learner.since, 0)
        checkpoint.check_alarms(learner.alarms)

    @property
    def q_(self) -> NDArray[np.float64]:
        """The learned action values, (H, S, A)."""
        return tables.q_of(self._started().learner.base)

    def _visits(self) -> NDArray[np.integer[Any]]:
        return self._started().learner.base.q.visits
