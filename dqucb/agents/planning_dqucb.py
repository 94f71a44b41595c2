"""PlanningDQUCB: plans in the density of transitions, and forgets when the density says that the world has changed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.outcomes import AUTO, PER_STEP, SHARED, Outcomes, new_outcomes
from dqucb._kernels.learners.planning_dqucb import PlanningLearner
from dqucb.agents import checkpoint
from dqucb.agents.tabular import TabularAgent
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS

REPEATS = 4  # outcomes of a pair that may repeat a next state with another reward
WIDEST = 64  # next states of a pair that are told apart, where a problem does not say how many it has
AUTO_BYTES = 1 << 28  # tables for every step that would take more are not kept, and steps stay shared
SWEEP_ERROR = 1e-4  # of a discounted plan, in units of the largest return


@AGENTS.register("planning-dqucb")
@dataclass(kw_only=True, eq=False, repr=False)
class PlanningDQUCB(TabularAgent):
    """The agent to use: the density of transitions is the model that it plans in, and its detector of changes.

    - One density for each pair (s, a), over next state and reward, for all steps of an episode alike.
    - It plans in the mean of the densities, optimistically by their uncertainty, which is followed through the plan.
      Planning is lazy: when some pair has been seen a half more often.
    - A likelihood ratio between the last outcomes of a pair and those before says whether the pair has changed. Then
      every pair forgets, and the alarm is dated in `alarms_` and `run.alarms`.

    Nothing has to be tuned: bonuses follow the variance of what was seen, in its own scale.

    Parameters
    ----------
    stage_dependent : bool or "auto"
        False: transitions and rewards are the same at every step of an episode. True: every step learns alone. "auto":
        shared until a likelihood ratio between the steps of some pair says that they differ, then by step for all;
        where tables of every step would take more than 256 MB, as False. A problem with a discount has no steps.
    false_alarms : float
        The order of the probability that a run of any length has a false alarm.

    Examples
    --------
    >>> from dqucb.problems import frozen_lake
    >>> agent = PlanningDQUCB()
    >>> run = agent.train(frozen_lake(slip=(0.0, 0.5), change_at=(300,), horizon=100), episodes=600, seed=1)
    >>> len(run.alarms), bool(300 <= run.alarms[0] < 310)
    (1, True)
    """

    stage_dependent: bool | str = "auto"
    false_alarms: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.stage_dependent is True or self.stage_dependent is False or self.stage_dependent == "auto"):
            raise ValueError(f'stage_dependent must be True, False or "auto", got {self.stage_dependent!r}')
        self.false_alarms = _validate.real("false_alarms", self.false_alarms, 0.0, 1.0, open_left=True)

    def _new_learner(self, sizes: Sizes) -> PlanningLearner:
        H, S, A = sizes.horizon or 1, sizes.n_states, sizes.n_actions
        width = _width(sizes)
        form = self._form(sizes)
        rows = H if form == PER_STEP else 1
        outcomes = new_outcomes(form, H, S, A, width, math.log(rows * S * A / self.false_alarms))
        bounds = sizes.bounds if sizes.horizon is not None else np.repeat(sizes.bounds, 2)
        V = np.zeros((H + 1, S + 1))
        V[:, :S] = bounds[:, None]
        Q = np.empty((H, S, A))
        Q[:] = bounds[:H, None, None]
        gamma = 1.0 if sizes.discount is None else float(sizes.discount)
        return PlanningLearner(
            outcomes=outcomes,
            alarms=alarms.new_log(),
            visits=np.zeros((H if form != SHARED else 1, S, A), np.int64),
            planned=np.zeros(outcomes.known.shape, np.int64),
            Q=Q,
            V=V,
            U=np.zeros((H + 1, S + 1)),
            policy=np.zeros((H, S), np.int32),
            bounds=bounds,
            first=np.zeros(1, np.int64),
            due=np.zeros(1, np.bool_),
            novelty=np.zeros((2, 64)),
            discount=gamma,
            sweeps=0 if sizes.discount is None else sweeps_for(gamma),
        )

    def _tables_like(self, sizes: Sizes) -> Callable[[Sizes], Any]:
        shared = self._form(sizes) == SHARED
        return self.clone(stage_dependent=False)._new_learner if shared else self._new_learner

    def _form(self, sizes: Sizes) -> int:
        if sizes.horizon is None or self.stage_dependent is False or sizes.horizon == 1:
            return SHARED
        if self.stage_dependent is True:
            return PER_STEP
        auto_bytes = (sizes.horizon + 1) * sizes.n_states * sizes.n_actions * _width(sizes) * 32
        return AUTO if auto_bytes <= AUTO_BYTES else SHARED

    # ---- what was learned -----------------------------------------------------------------------------

    @property
    def split_(self) -> NDArray[np.bool_]:
        """Pairs (S, A) that are modelled by step: all of them once the data of one have said that steps differ."""
        return self._started().learner.outcomes.split.copy()

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the last plan, (H, S, A) or (S, A)."""
        learner = self._started().learner
        Q = learner.Q.copy()
        Q[: learner.first[0]] = Q[learner.first[0]]
        return Q if learner.sweeps == 0 else Q[0]

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) where all steps are shared."""
        visits = self._started().learner.visits
        return visits.copy() if len(visits) > 1 else visits[0].copy()

    # ---- memory and files -----------------------------------------------------------------------------

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_alarms(learner.alarms)
        check_outcomes(learner.outcomes)
        checkpoint.check_range("planned", learner.planned, 0)
        checkpoint.check_range("policy", learner.policy, 0, learner.Q.shape[2] - 1)
        checkpoint.check_range("novelty", learner.novelty, 0)
        checkpoint.check_range("first", learner.first, 0, len(learner.policy) - 1)


def _width(sizes: Sizes) -> int:
    """The places in the list of a pair's outcomes."""
    return min(sizes.max_shared_successors, WIDEST) + REPEATS


def sweeps_for(gamma: float) -> int:
    """Sweeps after which a discounted plan has settled wherever it began."""
    return max(2, math.ceil(math.log(SWEEP_ERROR) / math.log(max(gamma, 1e-3))))


def check_outcomes(outcomes: Outcomes) -> None:
    """Raise a ValueError for lists that no kernel can have written."""
    rows, n_states, _, width = outcomes.counts.shape
    checkpoint.check_range("known", outcomes.known, 0, width)
    checkpoint.check_range("next_states", outcomes.next_states, 0, n_states)
    listed = np.arange(width) < outcomes.known[..., None]
    for place, name in enumerate(("counts", "recent", "latest")):
        table = getattr(outcomes, name)
        checkpoint.check_range(name, table, 0)
        if (table[~listed] != 0).any() or not np.array_equal(table.sum(axis=-1), outcomes.sizes[..., place]):
            raise ValueError(f"{name} must be zero beyond the list of a pair and sum to its size")
    if (outcomes.recent > outcomes.counts).any() or (outcomes.latest > outcomes.counts).any():
        raise ValueError("recent and latest must be parts of counts")
    if outcomes.form != AUTO and outcomes.split.any():
        raise ValueError(f"split must be empty in tables of {rows} rows")
