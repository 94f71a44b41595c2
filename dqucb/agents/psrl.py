"""PSRL: posterior sampling for reinforcement learning (Osband, Russo and Van Roy 2013), optionally with forgetting."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.ucbvi.planned import Posterior
from dqucb._kernels.learners.ucbvi.psrl import PsrlLearner
from dqucb._parameters import Within
from dqucb._validate import flag, positive, real
from dqucb.agents.planned import all_visits, check_plan, new_plan, q_in
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("psrl")
@dataclass(kw_only=True, eq=False, repr=False)
class PSRL(TabularAgent):
    """Posterior sampling: in each episode, the optimal policy of a model drawn from the posterior.

    The posterior of a pair is a Dirichlet distribution over its outcomes (next state, reward), which for rewards of 0
    and 1 contains the Beta posterior of their mean. All unobserved outcomes are represented by one outcome, instead of
    one for each state: it leads to one state, drawn with the model, and has a uniformly random reward.

    Parameters
    ----------
    bonus_scale : float
        Width of the posterior: counts are divided by its square before a model is drawn. 1 is Bayes' rule.
    prior : float
        Visits that the unobserved outcome counts for.
    forgetting : float
        Factor on all counts after each episode; 1 means no forgetting.
    stage_dependent : bool
        False has one model for all steps, True one for each.

    Examples
    --------
    >>> from dqucb import PSRL
    >>> from dqucb.problems import random_mdp
    >>> problem = random_mdp(change_at=(1_000,))
    >>> plain, forgetting = (PSRL(forgetting=x).train(problem, episodes=2_000) for x in (1.0, 0.999))
    >>> bool(forgetting.regret[-1] < plain.regret[-1])
    True
    """

    bonus_scale: Annotated[float, Within(positive)] = 1.0
    prior: Annotated[float, Within(positive)] = 1.0
    forgetting: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 1.0
    stage_dependent: Annotated[bool, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> PsrlLearner:
        plan = new_plan(self, sizes, bool(self.stage_dependent))
        reward = float(sizes.bounds[len(sizes.bounds) - 2])
        return PsrlLearner(
            plan=plan,
            visits=all_visits(plan),
            posterior=Posterior(float(self.bonus_scale), float(self.prior), reward),
            memory=float(self.forgetting),
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        check_plan(learner.plan)

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) with `stage_dependent=False`."""
        visits = self._started().learner.visits
        return (visits if self.stage_dependent else visits[0]).copy()

    @property
    def q_(self) -> NDArray[np.float64]:
        """The action values in the last model drawn, (H, S, A)."""
        learner = self._started().learner
        return q_in(learner.posterior, learner.plan)
