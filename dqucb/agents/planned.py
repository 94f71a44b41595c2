"""Shared by agents that plan in a model of counts: empty tables, their checks, and what is read from them."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.shared_model import new_model
from dqucb._kernels.learners.ucbvi.planned import Plan, q_table
from dqucb._parameters import Within
from dqucb._validate import flag
from dqucb.agents import checkpoint
from dqucb.agents.confidence import BonusAgent, horizon_of
from dqucb.agents.tabular import TabularAgent
from dqucb.running.compiled import Sizes


def new_plan(agent: TabularAgent, sizes: Sizes, stage_dependent: bool) -> Plan:
    """An empty model, and a plan in which every value is its upper bound."""
    H, S, A = horizon_of(agent, sizes), sizes.n_states, sizes.n_actions
    rows = H if stage_dependent else 1
    model = new_model(rows * S, A, sizes.max_successors if stage_dependent else sizes.max_shared_successors)
    V = np.zeros((H + 1, S + 2))
    V[:, :S] = sizes.bounds[:, None]
    V[:, S + 1] = sizes.bounds
    return Plan(
        model=model,
        V=V,
        policy=np.zeros((H, S), np.int32),
        shares=np.zeros((rows * S, A, model.counts.shape[2] + 1)),
        rewards=np.zeros((rows * S, A)),
        bounds=sizes.bounds,
        stride=S if stage_dependent else 0,
    )


def all_visits(plan: Plan) -> NDArray[np.int64]:
    """A table of zeros, (rows, S, A)."""
    S = plan.policy.shape[1]
    rows, A = plan.rewards.shape
    return np.zeros((rows // S, S, A), np.int64)


def check_plan(plan: Plan) -> None:
    """Raise a ValueError for tables that no kernel can have written."""
    model, n_states = plan.model, plan.policy.shape[1]
    checkpoint.check_range("policy", plan.policy, 0, plan.rewards.shape[1] - 1)
    checkpoint.check_range("known", model.known, 0, model.counts.shape[2])
    checkpoint.check_range("next_states", model.next_states, 0, n_states)
    checkpoint.check_range("counts", model.counts, 0)
    if not np.allclose(model.counts.sum(axis=2), model.visits):
        raise ValueError("visits must be the sums of counts")


def q_in(rule: Any, plan: Plan) -> NDArray[np.float64]:
    """The action values of the last plan, (H, S, A)."""
    q = np.zeros((*plan.policy.shape, plan.rewards.shape[1]))
    q_table(rule, plan, q)
    return q


@dataclass(kw_only=True, eq=False, repr=False)
class AlarmedAgent(BonusAgent):
    """An agent that detects changes, with tables per step or shared by all steps.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`.
    stage_dependent : bool
        True has tables for each step of an episode; False assumes the same transitions and rewards at every step.
    """

    stage_dependent: Annotated[bool | str, Within(flag)] = True

    @property
    def visits_(self) -> NDArray[np.integer[Any]]:
        """How often each pair was taken: (H, S, A), or (S, A) with `stage_dependent=False`."""
        visits = self._visits()
        return (visits if self.stage_dependent else visits[0]).copy()

    def _visits(self) -> NDArray[np.integer[Any]]:
        return self._started().learner.visits
