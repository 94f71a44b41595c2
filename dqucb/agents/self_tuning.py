"""DQUCB without a scale to tune: bonuses that follow the horizon, and a memory that a change shortens."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import formulas
from dqucb._kernels.learners.self_tuning import Bandit, Clock, SelfTuningQ, Watch
from dqucb.agents import checkpoint
from dqucb.agents.confidence import horizon_of
from dqucb.agents.tabular import TabularAgent
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS

REWARDS = 2  # outcomes are (s', is the reward near its mean?): room for this many more than there are successors


@AGENTS.register("self-tuning-dqucb")
@dataclass(kw_only=True, eq=False, repr=False)
class SelfTuningDQUCB(TabularAgent):
    """DQUCB without a scale to tune: its bonus follows the horizon, and a change that is noticed makes it unsure again.

    What is different from `DQUCB`:
    - The scale of its bonus is 2.2 / sqrt(H). Given several scales it learns with all of them from every transition,
      and a bandit lets the one act whose returns have been best lately.
    - The density of a pair is its model too: a target is the mean over the remembered outcomes, not the last one.
      Values are refreshed after the episode, backwards along its path and in a few other states per step, in turn.
    - The likelihood is divided by its own expectation, so that noise which is always there costs nothing.
    - The reward belongs to the outcome, so that a goal that moves is noticed.
    - Surprise that lasts (a CUSUM over episodes) is a change: the bandit starts anew, pairs remember less and are
      unsure again.

    `q_` and `greedy_policy()` are those of the learner that acts next. Like UCBVI it exists only with a horizon.

    Parameters
    ----------
    bonus_scales : c sqrt(H) of each learner.
    memory : outcomes that a pair remembers; when it is full, all counts are halved.
    likelihood_floor : the smallest likelihood, so the largest factor on a bonus is its inverse; 1 never divides.
    forgetting : what the bandit keeps of its past in each episode.
    exploration : width of the bandit's confidence bounds, in standard deviations of the return.
    threshold : evidence of a change, in standard deviations of an episode's surprise beyond the first of each episode.
    recall : outcomes that a pair remembers after a change, at most.
    others : states refreshed in turn at each step, besides the visited one; all of them would be full planning.
    """

    bonus_scales: tuple[float, ...] = (2.2,)
    memory: int = 256
    likelihood_floor: float = 0.6
    forgetting: float = 0.99
    exploration: float = 0.3
    threshold: float = 20.0
    recall: int = 64
    others: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bonus_scales, str) or not np.iterable(self.bonus_scales) or not len(self.bonus_scales):
            raise ValueError(f"bonus_scales must be one or more numbers, got {self.bonus_scales!r}")
        for scale in self.bonus_scales:
            _validate.real("each of bonus_scales", scale, 0.0)
        _validate.integer("memory", self.memory, 2, 1 << 30)
        _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0, open_left=True)
        _validate.real("forgetting", self.forgetting, 0.0, 1.0, open_left=True)
        _validate.real("exploration", self.exploration, 0.0)
        _validate.positive("threshold", self.threshold)
        _validate.integer("recall", self.recall, 1, 1 << 30)
        _validate.integer("others", self.others, 0, 1 << 30)

    def _new_learner(self, sizes: Sizes) -> Any:
        pairs = (horizon_of(self, sizes), sizes.n_states, sizes.n_actions)
        learners = len(self.bonus_scales)
        Q = np.empty((*pairs, learners))
        Q[:] = sizes.bounds[:-1, None, None, None]
        V = np.empty((len(sizes.bounds), sizes.n_states, learners))
        V[:] = sizes.bounds[:, None, None]
        width = min(2 * sizes.n_states, sizes.max_successors + REWARDS)
        return SelfTuningQ(
            Q=Q,
            V=V,
            visits=np.zeros(pairs, np.int32),
            counts=np.zeros(pairs, np.int32),
            held=np.zeros(pairs, np.int32),
            outcomes=np.zeros((*pairs, width), np.int64),
            reward=np.zeros(pairs),
            unsure=np.zeros(pairs),
            path=np.zeros(pairs[0], np.int32),
            clock=Clock(*(np.zeros(1, np.int64) for _ in Clock._fields)),
            watch=Watch(*(np.zeros(1) for _ in Watch._fields)),
            bandit=Bandit(np.zeros(learners), np.zeros(learners)),
            scales=np.array([formulas.horizon_scaled(scale, float(pairs[0])) for scale in self.bonus_scales]),
            bounds=sizes.bounds,
            memory=self.memory,
            floor=float(self.likelihood_floor),
            forgetting=float(self.forgetting),
            exploration=float(self.exploration),
            threshold=float(self.threshold),
            recall=self.recall,
            others=min(self.others, sizes.n_states),
        )

    @property
    def q_(self) -> NDArray[np.float64]:
        """The action values (H, S, A) of the learner that acts next."""
        learner = self._started().learner
        return learner.Q[..., learner.clock.arm[0]].copy()

    @property
    def bonus_scale_(self) -> float:
        """The scale of the learner that acts next, times sqrt(H)."""
        return self.bonus_scales[self._started().learner.clock.arm[0]]

    @property
    def alarms_(self) -> int:
        """How often a change was noticed."""
        return int(self._started().learner.clock.alarms[0])

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "bonus_scales": list(self.bonus_scales)}

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        n_states = learner.V.shape[1]
        for name in ("counts", "unsure"):
            checkpoint.check_range(name, getattr(learner, name), 0)
        for totals in (*learner.clock, *learner.bandit):
            checkpoint.check_range("clock and bandit", totals, 0)
        checkpoint.check_range("path", learner.path, 0, n_states - 1)
        checkpoint.check_range("the learner that acts", learner.clock.arm, 0, len(self.bonus_scales) - 1)
        checkpoint.check_range("the length of the path", learner.clock.length, 0, len(learner.path))
        checkpoint.check_range("outcomes", learner.outcomes, 0)
        checkpoint.check_range("outcomes", learner.outcomes >> 32, 0, 2 * n_states - 1)
        if not np.array_equal((learner.outcomes & 0xFFFFFFFF).sum(axis=-1), learner.held):
            raise ValueError("held must be the number of outcomes that each pair remembers")
