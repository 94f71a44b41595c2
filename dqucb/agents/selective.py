"""RestartQ-UCB with selective, adaptive and partial restarts (Nonaka et al. 2025)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.q.selective_q import NEVER, SelectiveQ
from dqucb._parameters import Within
from dqucb._validate import integer, positive, real
from dqucb.agents import checkpoint, tables
from dqucb.agents.confidence import RateHorizon, horizon_of
from dqucb.agents.planned import AlarmedAgent
from dqucb.agents.restarting import SCHEDULES, RestartQUCB
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

TO_THE_BOUND = 1e300  # raises any action value to its upper bound


@dataclass(kw_only=True, eq=False, repr=False)
class _RestartingQ(AlarmedAgent):
    """RestartQ-UCB with another kind of restart.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`.
    stage_dependent : bool
        As in `QUCB`, but not "auto".
    learning_rate_horizon : float, "auto" or None
        As in `RestartQUCB`: H in the lengths of the stages.
    """

    learning_rate_horizon: RateHorizon = None

    def _restart_q(self, **schedule: Any) -> RestartQUCB:
        names = ("bonus", "bonus_scale", "delta", "stage_dependent", "learning_rate_horizon")
        return RestartQUCB(**({"epochs": 1} | schedule), **{name: getattr(self, name) for name in names})

    def _learner(self, base: Any, *, threshold: float, selective: bool, raised: float = TO_THE_BOUND) -> SelectiveQ:
        return SelectiveQ(
            base=base,
            visited=np.full(base.q.visits.shape, NEVER, np.int64),
            since=np.zeros(2, np.int64),
            moments=np.zeros(4),
            alarms=alarms.new_log(),
            threshold=threshold,
            selective=selective,
            raised=raised,
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


@AGENTS.register("selective-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class SelectiveRestart(_RestartingQ):
    """RestartQ-UCB whose restarts are adaptive and selective, in the manner of Nonaka et al. (2025, arXiv 2510.11933).

    The paper's restarts depend on the observed rewards and change Q only on observed trajectories. Only its abstract
    was available. Here a CUSUM of the returns triggers a restart and estimates the time of the drop; pairs visited
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

    threshold: Annotated[float, Within(positive)] = 20.0
    _is_selective: ClassVar[bool] = True

    def _new_learner(self, sizes: Sizes) -> SelectiveQ:
        horizon_of(self, sizes)
        base = self._restart_q()._new_learner(sizes)
        return self._learner(base, threshold=float(self.threshold), selective=self._is_selective)


@AGENTS.register("adaptive-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class AdaptiveRestart(SelectiveRestart):
    """RestartQ-UCB that restarts when returns drop, in the manner of Nonaka et al. (2025, arXiv 2510.11933).

    As `SelectiveRestart`, with a restart of all pairs. Only the abstract of the paper was available.

    Parameters
    ----------
    bonus, bonus_scale, delta, stage_dependent, learning_rate_horizon, threshold
        As in `SelectiveRestart`.

    Examples
    --------
    >>> from dqucb import AdaptiveRestart
    >>> from dqucb.problems import combination_lock
    >>> run = AdaptiveRestart().train(combination_lock(change_at=(2_500,)), episodes=5_000, seed=1)
    >>> bool((run.alarms >= 2_500).any())
    True
    """

    _is_selective: ClassVar[bool] = False


@AGENTS.register("partial-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class PartialRestart(_RestartingQ):
    """RestartQ-UCB whose restarts are partial, in the manner of Nonaka et al. (2025, arXiv 2510.11933).

    A restart keeps what was learned as an upper bound: it raises action values by the most that the optimal ones can
    have changed, instead of to the largest return. Only the abstract of the paper was available; the bound is that of
    RestartQ-UCB's analysis (Mao et al. 2021), H times the variation in an epoch.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`.
    stage_dependent : bool
        As in `QUCB`, but not "auto".
    learning_rate_horizon : float, "auto" or None
        As in `RestartQUCB`: H in the lengths of the stages.
    epochs : int or str
        As in `RestartQUCB`.
    variation : float
        Total variation of the problem over the run, in units of the largest reward.

    Examples
    --------
    >>> from dqucb import PartialRestart, RestartQUCB
    >>> from dqucb.problems import random_mdp
    >>> problem = random_mdp(change_at=())
    >>> partial, full = (
    ...     agent(epochs=5, variation=0.1).train(problem, episodes=5_000) for agent in (PartialRestart, RestartQUCB)
    ... )
    >>> bool(partial.regret[-1] < full.regret[-1])
    True
    """

    epochs: Annotated[int | str, Within(integer, also=SCHEDULES)] = "theory"
    variation: Annotated[float, Within(real, 0.0)] = 1.0

    def _restart_q(self, **schedule: Any) -> RestartQUCB:
        return super()._restart_q(epochs=self.epochs, variation=self.variation)

    def _new_learner(self, sizes: Sizes) -> SelectiveQ:
        horizon = horizon_of(self, sizes)
        base = self._restart_q()._new_learner(sizes)
        in_an_epoch = float(self.variation) / (len(base.schedule.restart_at) + 1)
        raised = horizon * in_an_epoch * sizes.highest_reward
        return self._learner(base, threshold=TO_THE_BOUND, selective=False, raised=raised)

    @property
    def alarms_(self) -> NDArray[np.int64]:
        """Empty: the agent detects nothing itself."""
        return np.zeros(0, np.int64)
