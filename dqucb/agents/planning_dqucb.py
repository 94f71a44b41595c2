"""PlanningDQUCB: plans in the density of transitions, and forgets when the density says that the world has changed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.optimistic_plan import new_plan
from dqucb._kernels.learners.outcomes import AUTO, PER_STEP, SHARED, Outcomes, new_outcomes
from dqucb._kernels.learners.planning_dqucb import FIRST_BOLD, PlanningLearner
from dqucb._kernels.learners.surprise import new_surprise
from dqucb._kernels.learners.worlds import N_WORLDS, NONE, Worlds, new_worlds
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
    - A likelihood ratio between the last outcomes of a pair and those before says whether the pair has changed, and one
      over all pairs whether outcomes have become more surprising, or less, everywhere. Then every pair forgets, the
      more the larger the change is, and the alarm is dated in `alarms_` and `run.alarms`.
    - The last four worlds that were left are remembered. One that explains what is seen after an alarm is taken up
      again.
    - Each time when the number of episodes since the last alarm has doubled, one episode is bolder than the others.

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
        gamma = 1.0 if sizes.discount is None else float(sizes.discount)
        sweeps = 0 if sizes.discount is None else sweeps_for(gamma)
        return PlanningLearner(
            outcomes=outcomes,
            surprise=new_surprise(self.false_alarms),
            worlds=new_worlds(0 if form == PER_STEP else N_WORLDS, S, A, width),
            plan=new_plan(len(outcomes.known), S, A, bounds, gamma, sweeps),
            alarms=alarms.new_log(),
            visits=np.zeros((H if form != SHARED else 1, S, A), np.int64),
            due=np.zeros(1, np.bool_),
            bold_at=np.array([FIRST_BOLD]),
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
    def steps_differ_(self) -> bool:
        """Whether the data of some pair have said that steps differ, so that all are modelled by step."""
        return bool(self._started().learner.outcomes.by_step[0])

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the last plan, (H, S, A) or (S, A)."""
        plan = self._started().learner.plan
        Q = plan.Q.copy()
        Q[: plan.first[0]] = Q[plan.first[0]]
        return Q if plan.sweeps == 0 else Q[0]

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
        check_worlds(learner.worlds)
        checkpoint.check_range("ratio", learner.surprise.ratio, 1)
        checkpoint.check_range("visits", learner.surprise.visits, 0)
        checkpoint.check_range("tested", learner.surprise.tested, 0)
        plan = learner.plan
        for name in ("due_at", "unseen", "novelty", "tried"):
            checkpoint.check_range(name, getattr(plan, name), 0)
        checkpoint.check_range("policy", plan.policy, 0, plan.Q.shape[2] - 1)
        checkpoint.check_range("first", plan.first, 0, len(plan.policy) - 1)
        checkpoint.check_range("bold_at", learner.bold_at, 0)


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
    if outcomes.form != AUTO and outcomes.by_step[0]:
        raise ValueError(f"by_step must be False in tables of {rows} rows")
    for name in ("counts", "recent", "latest"):
        checkpoint.check_range(name, getattr(outcomes, name), 0)
    if (outcomes.recent > outcomes.counts).any() or (outcomes.latest > outcomes.counts).any():
        raise ValueError("recent and latest must be parts of counts")
    modelled = slice(0, 1) if outcomes.form == AUTO and not outcomes.by_step[0] else slice(None)
    beyond = np.arange(width) >= outcomes.known[modelled, ..., None]
    tables: list[NDArray[Any]] = [outcomes.counts, outcomes.recent, outcomes.latest, outcomes.counts > 0]
    for place, table in enumerate(tables):
        is_sum = np.array_equal(table[modelled].sum(axis=-1), outcomes.sizes[modelled, ..., place])
        if (table[modelled][beyond] != 0).any() or not is_sum:
            raise ValueError("counts must be zero beyond the list of a pair, and sizes their sums")


def check_worlds(worlds: Worlds) -> None:
    """Raise a ValueError for worlds that no kernel can have put away."""
    for name in ("counts", "novelty", "left_at", "since"):
        checkpoint.check_range(name, getattr(worlds, name), 0)
    for name in ("current", "before"):
        checkpoint.check_range(name, getattr(worlds, name), NONE, len(worlds.counts) - 1)
