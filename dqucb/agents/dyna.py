"""Dyna-Q+: Q-learning that replays a learned model, with a bonus for pairs not tried for long."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dqucb._kernels.learners.q.dyna import DynaLearner
from dqucb._parameters import Within
from dqucb._validate import flag, integer, real
from dqucb.agents import checkpoint
from dqucb.agents.confidence import horizon_of
from dqucb.agents.tables import bonus_settings, like_counts, q_tables
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("dyna-q-plus")
@dataclass(kw_only=True, eq=False, repr=False)
class DynaQPlus(TabularAgent):
    """Dyna-Q+ (Sutton and Barto 2018, section 8.3) for problems with a horizon.

    Parameters
    ----------
    bonus_scale : float
        kappa in the bonus kappa sqrt(tau), tau being the steps since the pair was last tried.
    learning_rate : float
        The constant alpha.
    epsilon : float
        Probability of a uniformly random action.
    replays : int
        Updates in the model for each step.
    optimistic : bool
        Start Q at the bound on the return; the book starts it at zero.
    stage_dependent : bool
        False assumes that transitions and rewards are the same at every step, so that one transition updates all.

    Notes
    -----
    Its bonus grows while a pair is not tried, and slowly: within some thousand episodes some runs settle for a second
    best even on bandits (docs/consistency.md).

    Examples
    --------
    >>> from dqucb import DynaQPlus
    >>> from dqucb.problems import moving_goal
    >>> run = DynaQPlus().train(moving_goal(change_at=(200,)), episodes=400)
    >>> bool(run.returns[-100:].mean() > run.returns[:100].mean())
    True
    """

    bonus_scale: Annotated[float, Within(real, 0.0)] = 0.001
    learning_rate: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.1
    epsilon: Annotated[float, Within(real, 0.0, 1.0)] = 0.05
    replays: Annotated[int, Within(integer, 0)] = 5
    optimistic: Annotated[bool, Within(flag)] = False
    stage_dependent: Annotated[bool, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> DynaLearner:
        horizon_of(self, sizes)
        q: Any = q_tables(sizes, optimistic=self.optimistic, stage_dependent=bool(self.stage_dependent))
        return DynaLearner(
            q=q,
            none=bonus_settings(sizes),
            next_states=like_counts(q, np.int64),
            rewards=like_counts(q, np.float64),
            ended=like_counts(q, np.bool_),
            tried_at=like_counts(q, np.int64),
            met=np.zeros(q.visits.shape[0] * q.visits.shape[1], np.int64),
            clock=np.zeros(2, np.int64),
            kappa=float(self.bonus_scale),
            alpha=float(self.learning_rate),
            epsilon=float(self.epsilon),
            replays=int(self.replays),
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        rows, n_states, _ = learner.tried_at.shape
        checkpoint.check_range("next_states", learner.next_states, 0, n_states - 1)
        checkpoint.check_range("met", learner.met, 0, rows * n_states - 1)
        checkpoint.check_range("tried_at", learner.tried_at, 0, int(learner.clock[0]))
        if np.count_nonzero(learner.tried_at.any(axis=2)) != learner.clock[1]:
            raise ValueError("clock must count the states met")
