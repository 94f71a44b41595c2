"""MASTER (Wei and Luo 2021) over UCBVI."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.ucbvi.master import MasterLearner, tables_of
from dqucb._parameters import Within
from dqucb._validate import flag, positive
from dqucb.agents import checkpoint
from dqucb.agents.planned import AlarmedAgent, all_visits, check_plan, new_plan, q_in
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("master")
@dataclass(kw_only=True, eq=False, repr=False)
class MASTER(AlarmedAgent):
    """MASTER: runs UCBVI on several time scales at once, and restarts when one of two tests fails.

    Simplification: the bound on the mean error of an instance is rho^(t) = test_scale sqrt(S A / t) in units of the
    largest return. The published factor is 6 (log2 K + 1) ln(K / delta) instead of `test_scale`; with it no test fails
    at practical lengths (Gerogiannis, Huang and Veeravalli 2024, arXiv 2410.13772).

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`.
    stage_dependent : bool
        False has one model for all steps in each instance, True one for each step.
    test_scale : float
        rho^ in units of sqrt(S A / t).

    Notes
    -----
    New instances start at random throughout a run: on bandits it takes a suboptimal arm in a good part of the episodes
    (docs/consistency.md).

    Examples
    --------
    >>> from dqucb import MASTER
    >>> from dqucb.problems import river_swim
    >>> agent = MASTER(test_scale=0.5)
    >>> run = agent.train(river_swim(change_at=(3_000,)), episodes=6_000, seed=1)
    >>> bool((run.alarms >= 3_000).any())
    True
    """

    stage_dependent: Annotated[bool | str, Within(flag)] = False
    test_scale: Annotated[float, Within(positive)] = 1.0

    def _new_learner(self, sizes: Sizes) -> MasterLearner:
        plan = new_plan(self, sizes, bool(self.stage_dependent))
        orders = max(1, math.ceil(math.log2(sizes.length + 1)))  # blocks of 1, 2, 4, ... episodes

        def of_all(table: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(table[None], orders, axis=0)

        return MasterLearner(
            next_states=of_all(plan.model.next_states),
            outcome_rewards=of_all(plan.model.rewards),
            counts=of_all(plan.model.counts),
            known=of_all(plan.model.known),
            distinct=of_all(plan.model.distinct),
            model_visits=of_all(plan.model.visits),
            planned=of_all(plan.model.planned),
            due=of_all(plan.model.due),
            V=of_all(plan.V),
            policy=of_all(plan.policy),
            shares=of_all(plan.shares),
            rewards=of_all(plan.rewards),
            visits=all_visits(plan),
            alive=np.arange(orders) == 0,
            begun=np.zeros(orders),
            clock=np.zeros(3, np.int64),
            sums=np.array([0.0, 0.0, 1.0, 0.0]),
            bounds=sizes.bounds,
            bonus=self._bonus_settings(sizes),
            alarms=alarms.new_log(),
            extra=plan.model.extra,
            stride=plan.stride,
            pairs=float(plan.rewards.size),
            width=float(self.test_scale),
            low=sizes.low,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        orders = len(learner.begun)
        checkpoint.check_range("clock", learner.clock, 0, np.array([orders - 1, 2**orders, orders - 1]))
        for order in range(orders):
            check_plan(tables_of(learner, order))

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the instance that acts, (H, S, A)."""
        learner = self._started().learner
        return q_in(learner.bonus, tables_of(learner, learner.clock[2]))
