"""NS-NAC (Jali, Pathak, Sharma, Qu and Joshi 2025)."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.q.natural_actor_critic import NaturalActorCritic
from dqucb._parameters import Within
from dqucb._validate import flag, integer, positive, real
from dqucb.agents import checkpoint
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("ns-nac")
@dataclass(kw_only=True, eq=False, repr=False)
class NSNAC(TabularAgent):
    """NS-NAC: a tabular natural actor-critic for the average reward that restarts (arXiv 2504.16415).

    Only the abstract was available. The updates are those of a tabular natural actor-critic with one critic step for
    each actor step; by default step sizes and the number of restarts have the orders at which each term of such a
    regret bound is at most the published T^(5/6) variation^(1/6): alpha = gamma = (variation / T)^(1/3), beta =
    (variation / T)^(1/2) and variation^(5/6) T^(1/6) restarts, T being the steps of the run. Values are limited to the
    bound on the return, where the paper projects on a ball.

    The average reward needs no horizon and no discount: an episode is followed by the next one.

    Parameters
    ----------
    learning_rate : float or None
        alpha, the step size of the critic and of the mean reward.
    policy_rate : float or None
        beta, the step size of the policy.
    restarts : int or None
        The number of segments of equal length into which restarts divide the run.
    variation : float
        Total variation of rewards and transitions over the run, for the defaults of the others.
    stage_dependent : bool
        True has a policy for each step of an episode.

    Examples
    --------
    >>> from dqucb import NSNAC
    >>> from dqucb.problems import random_mdp
    >>> run = NSNAC(restarts=1).train(random_mdp(change_at=()), episodes=2_000)
    >>> bool(run.returns[-200:].mean() > 1.2 * run.returns[:200].mean())
    True
    """

    learning_rate: Annotated[float | None, Within(real, 0.0, 1.0, open_left=True)] = None
    policy_rate: Annotated[float | None, Within(positive)] = None
    restarts: Annotated[int | None, Within(integer)] = None
    variation: Annotated[float, Within(positive)] = 1.0
    stage_dependent: Annotated[bool, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> NaturalActorCritic:
        by_step = bool(self.stage_dependent) and sizes.horizon is not None
        shape = ((sizes.horizon or 1) if by_step else 1, sizes.n_states, sizes.n_actions)
        steps = sizes.length * (sizes.horizon or 1)
        rate = min(1.0, self.variation / steps)
        restarts = self.restarts or max(1, round(self.variation ** (5 / 6) * steps ** (1 / 6)))
        span = sizes.highest_reward - sizes.low
        return NaturalActorCritic(
            Q=np.zeros(shape),
            sums=np.zeros(shape),
            since=np.zeros(shape, np.int64),
            visits=np.zeros(shape, np.int64),
            last=np.array([0, -1, 0, 0]),
            values=np.zeros(2),
            critic_rate=rate ** (1 / 3) if self.learning_rate is None else float(self.learning_rate),
            actor_rate=math.sqrt(rate) if self.policy_rate is None else float(self.policy_rate),
            limit=max(1.0, float(sizes.bounds[0]) / span),
            low=sizes.low,
            span=span,
            segment=math.ceil(steps / restarts),
            by_step=by_step,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        rows, n_states, n_actions = learner.Q.shape
        most = [learner.segment, rows - 1, n_states - 1, n_actions - 1]
        checkpoint.check_range("last", learner.last, [0, -1, 0, 0], most)
        checkpoint.check_range("since", learner.since, 0, int(learner.last[0]))

    @property
    def q_(self) -> NDArray[np.float64]:
        """The critic's values relative to the average reward, for rewards in [0, 1]: (H, S, A), or (S, A)."""
        return self._for_all_steps(self._started().learner.Q)

    @property
    def policy_(self) -> NDArray[np.float64]:
        """The probability of each action, (H, S, A); (S, A) with a discount."""
        learner = self._started().learner
        preferences = learner.sums + learner.actor_rate * learner.Q * (learner.last[0] - learner.since)
        weights = np.exp(preferences - preferences.max(axis=2, keepdims=True))
        return self._for_all_steps(weights / weights.sum(axis=2, keepdims=True))

    def _for_all_steps(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        horizon = self._started().sizes.horizon
        return table[0].copy() if horizon is None else np.repeat(table, horizon // len(table), axis=0)

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) with `stage_dependent=False`."""
        learner = self._started().learner
        return (learner.visits if learner.by_step else learner.visits[0]).copy()
