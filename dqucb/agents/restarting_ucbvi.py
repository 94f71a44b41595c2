"""UCBVI with restarts: at given episodes, on alarms of R-BOCPD, and on alarms of probes and tests."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.q.restarting_q import Schedule
from dqucb._kernels.learners.ucbvi.planned import Plan
from dqucb._kernels.learners.ucbvi.restarting_ucbvi import Forecasters, Probes, RestartingUcbvi
from dqucb._parameters import Within
from dqucb._validate import flag, real
from dqucb.agents import checkpoint
from dqucb.agents.planned import AlarmedAgent, all_visits, check_plan, new_plan, q_in
from dqucb.agents.restarting import RestartAt, check_schedule, schedule
from dqucb.agents.tables import count_type
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

FORECASTERS = 12  # predictors kept per pair, besides the first


@dataclass(kw_only=True, eq=False, repr=False)
class _RestartingUCBVI(AlarmedAgent):
    """UCBVI with a trigger that restarts it.

    Parameters
    ----------
    stage_dependent : bool
        False has one model for all steps, True one for each.
    """

    stage_dependent: Annotated[bool | str, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> RestartingUcbvi:
        plan = new_plan(self, sizes, bool(self.stage_dependent))
        return RestartingUcbvi(
            plan=plan,
            visits=all_visits(plan),
            bonus=self._bonus_settings(sizes),
            watch=self._trigger(plan, sizes),
            alarms=alarms.new_log(),
        )

    @abstractmethod
    def _trigger(self, plan: Plan, sizes: Sizes) -> Schedule | Forecasters | Probes:
        """The tables that decide when to restart."""

    def _check_tables(self, learner: RestartingUcbvi) -> None:
        super()._check_tables(learner)
        check_plan(learner.plan)
        self._check_trigger(learner.watch)

    @abstractmethod
    def _check_trigger(self, watch: Any) -> None:
        """Raise a ValueError for tables of the trigger that are invalid for the kernels."""

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the last plan, (H, S, A)."""
        learner = self._started().learner
        return q_in(learner.bonus, learner.plan)


@AGENTS.register("oracle-ucbvi")
@dataclass(kw_only=True, eq=False, repr=False)
class OracleUCBVI(_RestartingUCBVI):
    """UCBVI that restarts at known change points: an oracle reference for agents that have to detect changes.

    Parameters
    ----------
    bonus, bonus_scale, delta, stage_dependent
        As in `MASTER`.
    restart_at : sequence of int or None
        The episodes before which the agent restarts, usually the `change_at` of the problem.

    Examples
    --------
    >>> from dqucb import UCBVI, OracleUCBVI
    >>> from dqucb.problems import river_swim
    >>> problem = river_swim(change_at=(1_000,))
    >>> informed = OracleUCBVI(restart_at=problem.change_at).train(problem, episodes=2_000)
    >>> bool(informed.regret[-1] < UCBVI(stage_dependent=False).train(problem, episodes=2_000).regret[-1])
    True
    """

    restart_at: RestartAt = None

    def _trigger(self, plan: Plan, sizes: Sizes) -> Schedule:
        return schedule(self.restart_at)

    @property
    def alarms_(self) -> NDArray[np.int64]:
        """Empty: the agent detects nothing itself."""
        return np.zeros(0, np.int64)

    def _check_trigger(self, watch: Schedule) -> None:
        check_schedule(watch)


@AGENTS.register("r-bocpd-ucrl2")
@dataclass(kw_only=True, eq=False, repr=False)
class RBOCPDUCRL2(_RestartingUCBVI):
    """Optimistic planning with a restarted Bayesian detector of change points for every pair.

    The detector (Alami, Maillard and Feraud 2020; for multinomial outcomes and UCRL2 Alami, Mahfoud and Moulines 2023)
    weights predictors of a pair's outcomes that started at different visits. When one of them outweighs the predictor
    that started at the last restart, the agent restarts after the episode.

    Simplifications: an outcome is (next state, reward), and Laplace's rule counts the observed outcomes and one more
    instead of all states; only the 12 predictors of a pair with the largest weights are kept; the prior weight of one
    that starts at visit s is false_alarms / (S A s (s + 1)); instead of UCRL2's set of models within an L1 distance of
    order 1 / sqrt(n), backward induction adds a bonus of that order.

    Parameters
    ----------
    bonus, bonus_scale, delta, stage_dependent
        As in `MASTER`.
    false_alarms : float
        Order of magnitude of the probability of a false alarm after a restart.

    Examples
    --------
    >>> from dqucb import RBOCPDUCRL2
    >>> from dqucb.problems import river_swim
    >>> RBOCPDUCRL2().train(river_swim(change_at=(1_000,)), episodes=2_000).alarms
    array([1000])
    """

    false_alarms: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.05

    def _trigger(self, plan: Plan, sizes: Sizes) -> Forecasters:
        rows, A, width = plan.model.counts.shape
        return Forecasters(
            counts=np.zeros((rows, A, FORECASTERS, width), count_type(sizes)),
            sizes=np.zeros((rows, A, FORECASTERS), count_type(sizes)),
            weights=np.zeros((rows, A, FORECASTERS + 1)),
            used=np.zeros((rows, A), np.int32),
            sure=np.zeros(1, np.bool_),
            log_prior=math.log(self.false_alarms / (rows * A)),
        )

    def _check_trigger(self, watch: Forecasters) -> None:
        checkpoint.check_range("used", watch.used, 0, FORECASTERS)
        checkpoint.check_range("counts of predictors", watch.counts, 0)


@AGENTS.register("probe-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class ProbeRestart(_RestartingUCBVI):
    """UCBVI with probing episodes, a two-sample test for every pair, and restarts, in the manner of DARLING.

    DARLING (Gerogiannis, Huang and Veeravalli 2026, arXiv 2604.16684) wraps a stationary learner in forced exploration,
    change detectors and restarts. Only its abstract was available, so the parts are those of the published procedures
    for bandits: the rate of forced exploration grows with the square root of the number of restarts, and the test is a
    generalised likelihood ratio. Here a probe takes the least tried action in each state, and the test compares the
    last outcomes of a pair with those before, at one split instead of all.

    Parameters
    ----------
    bonus, bonus_scale, delta, stage_dependent
        As in `MASTER`.
    probe_rate : float or None
        Fraction of probing episodes before the first restart; sqrt(ln K / K) by default.
    false_alarms : float
        Order of magnitude of the probability of a false alarm in a run.

    Examples
    --------
    >>> from dqucb import ProbeRestart
    >>> from dqucb.problems import new_prize
    >>> problem = new_prize(change_at=(1_000,))  # where a learned policy does not go
    >>> [len(ProbeRestart(probe_rate=rate).train(problem, episodes=3_000).alarms) for rate in (0.1, 0.0)]
    [1, 0]
    """

    probe_rate: Annotated[float | None, Within(real, 0.0, 1.0)] = None
    false_alarms: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.05

    def _trigger(self, plan: Plan, sizes: Sizes) -> Probes:
        K = sizes.length
        rows, A, width = plan.model.counts.shape
        return Probes(
            recent=np.zeros((rows, A, width), count_type(sizes)),
            sizes=np.zeros((rows, A), count_type(sizes)),
            clock=np.zeros(3, np.int64),
            sure=np.zeros(1, np.bool_),
            rate=math.sqrt(math.log(K) / K) if self.probe_rate is None else float(self.probe_rate),
            level=math.log(rows * A / self.false_alarms),
        )

    def _check_trigger(self, watch: Probes) -> None:
        checkpoint.check_range("sizes", watch.sizes, 0)
        checkpoint.check_range("recent", watch.recent, 0)
