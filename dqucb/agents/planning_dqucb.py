"""PlanningDQUCB: plans in the density of transitions, and forgets when the density says that the world has changed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.planning import backup_queue, discounted_plan, planning_discounted
from dqucb._kernels.learners.planning.change_test import new_test
from dqucb._kernels.learners.planning.optimistic_plan import new_plan
from dqucb._kernels.learners.planning.outcomes import AUTO, PER_STEP, SHARED, n_rows, new_outcomes
from dqucb._kernels.learners.planning.planning_discounted import FIRST_STATES, DiscountedPlanner
from dqucb._kernels.learners.planning.planning_dqucb import PlanningLearner
from dqucb._kernels.learners.planning.probing import new_probing
from dqucb._kernels.learners.planning.worlds import N_WORLDS, new_worlds
from dqucb.agents import checkpoint
from dqucb.agents.confidence import NeedsHorizonError
from dqucb.agents.diagnosis import Diagnosis, diagnose
from dqucb.agents.planning_checks import (
    check_discounted_plan,
    check_numbers,
    check_outcomes,
    check_plan,
    check_probing,
    check_test,
    check_worlds,
)
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

REPEATS = 4  # outcomes of a pair that may repeat a next state with another reward
LEAST_WIDTH = 64  # next states of a pair that are told apart, if it has as many, however many pairs there are
LIST_BYTES, PLACE_BYTES = 1 << 29, 80  # of the lists of outcomes; of one place in lists, remembered models and plans
AUTO_BYTES = 1 << 28  # tables for every step that would take more are not kept, and steps stay shared
WORLDS_BYTES = 1 << 28  # in a problem with a discount: worlds that would take more are not remembered
SWEEP_ERROR = 1e-4  # of a discounted plan that does not settle, in units of the largest return


@AGENTS.register("planning-dqucb")
@dataclass(kw_only=True, eq=False, repr=False)
class PlanningDQUCB(TabularAgent):
    """The agent to use: the density of transitions is the model that it plans in, and its detector of changes.

    - One density for each pair (s, a), over next state and reward, for all steps of an episode alike.
    - It plans in the mean of the densities, optimistically by their uncertainty, which is followed through the plan.
      It replans when the visits of some pair have grown by half, and at once after the first visit of a pair; in
      problems with thousands of states, as far as a budget of planning allows.
    - Bets on the outcomes of each pair, and of all pairs together, win when something has changed. Then every pair
      forgets, the more the larger the change is, and the alarm is dated in `alarms_` and `run.alarms`.
    - The last four models that were left are remembered. One that explains what is observed after an alarm is adopted
      again.
    - Once per state and episode it looks again at a pair that was given up, as long as its variance, or an outcome that
      it has not shown yet, may make it the best one. The looks at a pair grow with the logarithm of time.
    - Each time when the number of episodes since the last alarm has doubled, one episode is bolder than the others, as
      long as there are states that were never met.

    Nothing has to be tuned: bonuses follow the variance of what was seen, in its own scale.

    Parameters
    ----------
    stage_dependent : bool or "auto"
        False: transitions and rewards are the same at every step of an episode. True: every step learns alone. "auto":
        shared until a likelihood ratio between the steps of some pair says that they differ, then by step for all;
        where tables of every step would take more than 256 MB, as False. A problem with a discount has no steps.
    false_alarms : float
        The order of the probability that a run of any length has a false alarm.
    probes : float
        Share of the return that is spent on episodes that visit what the policy has left, so that a change there can be
        found. With 0.01 it found rewards that appear there in all runs of `benchmarks.probes`. Only for problems with a
        horizon, and while steps are modelled alike.

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
    probes: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.stage_dependent is True or self.stage_dependent is False or self.stage_dependent == "auto"):
            raise ValueError(f'stage_dependent must be True, False or "auto", got {self.stage_dependent!r}')
        self.false_alarms = _validate.real("false_alarms", self.false_alarms, 0.0, 1.0, open_left=True)
        self.probes = _validate.real("probes", self.probes, 0.0, 0.5)

    def _new_learner(self, sizes: Sizes) -> PlanningLearner | DiscountedPlanner:
        if sizes.discount is not None:
            if self.probes > 0.0:
                raise NeedsHorizonError(f"probes must be 0 in a problem without a horizon, got {self.probes:g}")
            return self._new_discounted(sizes, min(sizes.n_states, FIRST_STATES), _n_worlds(sizes))
        H, S, A = sizes.horizon or 1, sizes.n_states, sizes.n_actions
        form = self._form(sizes)
        width = _width(sizes, n_rows(form, H))
        outcomes = new_outcomes(form, H, S, A, width, self._level(H if form == PER_STEP else 1, S, A))
        return PlanningLearner(
            outcomes=outcomes,
            test=new_test(self.false_alarms),
            worlds=new_worlds(0 if form == PER_STEP else N_WORLDS, S, A, width),
            plan=new_plan(len(outcomes.known), S, A, width, sizes.bounds),
            alarms=alarms.new_log(),
            visits=np.zeros((H if form != SHARED else 1, S, A), np.int64),
            due=np.zeros(1, np.bool_),
            probing=new_probing(S, A, self.probes) if self.probes > 0.0 else None,
        )

    def _new_discounted(self, sizes: Sizes, capacity: int, n_worlds: int) -> DiscountedPlanner:
        """Tables with room for `capacity` states of a problem with a discount."""
        S, A, gamma = sizes.n_states, sizes.n_actions, float(sizes.discount or 0.0)
        width = _width(sizes)
        return DiscountedPlanner(
            outcomes=new_outcomes(SHARED, 1, capacity, A, width, self._level(1, S, A)),
            test=new_test(self.false_alarms),
            worlds=new_worlds(n_worlds, S, A, width),
            plan=discounted_plan.new_plan(capacity, A, float(sizes.bounds[0]), gamma, sweeps_for(gamma)),
            alarms=alarms.new_log(),
            visits=np.zeros((1, capacity, A), np.int64),
            due=np.zeros(1, np.bool_),
            number=np.full(S, backup_queue.NONE, np.int32),
            n_met=np.zeros(1, np.int64),
        )

    def _level(self, rows: int, n_states: int, n_actions: int) -> float:
        return math.log(rows * n_states * n_actions / self.false_alarms)

    def _grown(self, learner: Any, pushes: int) -> Any:
        if isinstance(learner, DiscountedPlanner):
            return planning_discounted.enlarged(learner, pushes)
        return super()._grown(learner, pushes)

    def _tables_like(self, sizes: Sizes) -> Callable[[Sizes], Any]:
        n_listed = _width(sizes, n_rows(self._form(sizes), sizes.horizon or 1)) - REPEATS
        n_worlds = _n_worlds(sizes)
        agent = self.clone(stage_dependent=False) if self._form(sizes) == SHARED else self

        def tables_of(smaller: Sizes) -> Any:
            smaller = smaller._replace(max_shared_successors=min(n_listed, smaller.max_shared_successors))
            if sizes.discount is None:
                return agent._new_learner(smaller)
            return self._new_discounted(smaller, 1, n_worlds)  # tables grow with what is met

        return tables_of

    def _form(self, sizes: Sizes) -> int:
        if sizes.horizon is None or self.stage_dependent is False or sizes.horizon == 1:
            return SHARED
        if self.stage_dependent is True:
            return PER_STEP
        width = min(sizes.max_shared_successors, LEAST_WIDTH) + REPEATS
        auto_bytes = (sizes.horizon + 1) * sizes.n_states * sizes.n_actions * width * 32
        return AUTO if auto_bytes <= AUTO_BYTES else SHARED

    # ---- what was learned -----------------------------------------------------------------------------

    @property
    def steps_differ_(self) -> bool:
        """Whether the data of some pair have said that steps differ, so that all are modelled by step."""
        return bool(self._started().learner.outcomes.by_step[0])

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the last plan, (H, S, A) or (S, A)."""
        learner = self._started().learner
        if isinstance(learner, DiscountedPlanner):
            return _of_states(learner, learner.plan.Q, learner.plan.bound)
        Q = learner.plan.Q.copy()
        Q[: learner.plan.first[0]] = Q[learner.plan.first[0]]
        return Q

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) where all steps are shared."""
        learner = self._started().learner
        visits = learner.visits
        if isinstance(learner, DiscountedPlanner):
            return _of_states(learner, visits[0], 0)
        return visits.copy() if len(visits) > 1 else visits[0].copy()

    def diagnose(self) -> Diagnosis:
        """Where the agent acts on few visits, its alarms and its plans; `print` it.

        Examples
        --------
        >>> from dqucb.problems import combination_lock
        >>> agent = PlanningDQUCB()
        >>> run = agent.train(combination_lock(change_at=()), episodes=200, seed=1)
        >>> agent.diagnose().never_tried
        0.0
        """
        return diagnose(self._started().learner)

    def _own_extras(self, i: int) -> dict[str, NDArray[Any]]:
        return {"diagnosis": self.diagnose().numbers()}

    # ---- memory and files -----------------------------------------------------------------------------

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_alarms(learner.alarms)
        check_outcomes(learner.outcomes)
        check_worlds(learner.worlds)
        check_test(learner.test)
        if isinstance(learner, DiscountedPlanner):
            check_numbers(learner)
            check_discounted_plan(learner.plan, int(learner.n_met[0]))
        else:
            check_plan(learner.plan)
            check_probing(learner.probing)

    def _learner_for(self, sizes: Sizes, arrays: Mapping[str, NDArray[Any]]) -> Any:
        if sizes.discount is None:
            return super()._learner_for(sizes, arrays)
        shape = arrays["learner.outcomes.counts"].shape
        capacity = shape[1] if len(shape) == 4 else 0
        if shape != (1, capacity, sizes.n_actions, _width(sizes)) or not 1 <= capacity <= sizes.n_states:
            raise ValueError(
                f"counts must be (1, states, {sizes.n_actions}, {_width(sizes)}) with 1 to {sizes.n_states} states, "
                f"got {shape}"
            )
        return self._new_discounted(sizes, capacity, _n_worlds(sizes))


def _width(sizes: Sizes, rows: int = 1) -> int:
    """The places in the list of a pair's outcomes, in tables of so many rows."""
    affordable = LIST_BYTES // (PLACE_BYTES * rows * sizes.n_states * sizes.n_actions)
    return min(sizes.max_shared_successors, max(LEAST_WIDTH, affordable)) + REPEATS


def _n_worlds(sizes: Sizes) -> int:
    """The worlds that are remembered in a problem with a discount."""
    is_small = N_WORLDS * sizes.n_states * sizes.n_actions * _width(sizes) * 8 <= WORLDS_BYTES
    return N_WORLDS if is_small else 0


def sweeps_for(gamma: float) -> int:
    """Sweeps after which a discounted plan has settled wherever it began."""
    return max(2, math.ceil(math.log(SWEEP_ERROR) / math.log(max(gamma, 1e-3))))


def _of_states(learner: DiscountedPlanner, table: NDArray[Any], unmet: float) -> NDArray[Any]:
    """A table over numbers as one over states, with a value for states that were never met."""
    rows = np.full((len(learner.number), table.shape[1]), unmet, table.dtype)
    is_met = learner.number != backup_queue.NONE
    rows[is_met] = table[learner.number[is_met]]
    return rows
