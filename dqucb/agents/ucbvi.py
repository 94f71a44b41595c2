"""UCBVI: optimism by planning in the estimated model (Azar, Osband, Munos 2017)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners.rules import Seen
from dqucb._kernels.learners.ucbvi import Noise, UcbviLearner, q_table
from dqucb.agents import checkpoint
from dqucb.agents.confidence import BonusAgent, horizon_of
from dqucb.agents.training import Sizes, Training
from dqucb.base import AGENTS


@AGENTS.register("ucbvi")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBVI(BonusAgent):
    """Model-based optimism: counts every transition and plans in the estimated model.

    Parameters
    ----------
    bonus, bonus_scale, delta : as in `QUCB`.
    planning : "full" backward induction after every episode, or "real_time" backups of visited states only.
    cap_q : cap every Q at the bound on the return, as Azar et al. do. Public implementations cap only V, and then an
        untried action is always preferred; on FrozenLake that doubles the regret.
    transition_noise : standard deviation of a Gaussian error on every entry of the estimated transition matrix in
        each planning, for studies of model error.
    """

    planning: str = "full"
    cap_q: bool = True
    transition_noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("planning", self.planning, ["full", "real_time"])
        _validate.flag("cap_q", self.cap_q)
        _validate.real("transition_noise", self.transition_noise, 0.0)

    def _new_learner(self, sizes: Sizes) -> Any:
        H, S, A = horizon_of(self, sizes), sizes.n_states, sizes.n_actions
        V = np.empty((H + 1, S))
        V[:] = sizes.bounds[:, None]
        return UcbviLearner(
            V=V,
            visits=np.zeros((H, S, A), np.int32),
            reward=np.zeros((H, S, A)),
            successors=np.zeros((H, S, A, sizes.max_successors), np.int32),
            counts=np.zeros((H, S, A, sizes.max_successors), np.int32),
            untried=np.full((H, S), A, np.int32),
            mean_next=sizes.bounds[1:].copy(),
            latest=np.full(1, -1, np.int64),
            bounds=sizes.bounds,
            bonus=self._bonus_settings(sizes),
            noise=Noise(float(self.transition_noise), np.sqrt(S) * sizes.bounds[1:]) if self.transition_noise else None,
            full_planning=self.planning == "full",
            cap_q=self.cap_q,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("successors", learner.successors, 0, learner.V.shape[1] - 1)
        checkpoint.check_range("counts", learner.counts, 0)
        checkpoint.check_range("latest", learner.latest, -1, len(learner.visits) - 1)
        if (learner.counts.sum(axis=3) != learner.visits).any():
            raise ValueError("counts must sum to visits")
        if ((learner.counts[..., 1:] > 0) & (learner.counts[..., :-1] == 0)).any():
            raise ValueError("counts must be positive up to the end of each list")
        if ((learner.visits == 0).sum(axis=2) != learner.untried).any():
            raise ValueError("untried must count the pairs without visits")

    def _learned(self, training: Training, seen: Seen) -> tuple[float, float]:
        """A loop of the user's own may show a pair more successors than the problem it was trained on has."""
        learner = training.learner
        place = (seen.step, seen.state, seen.action)
        if learner.counts[place][-1] > 0 and seen.next_state not in learner.successors[place]:
            more = [(0, 0)] * 3 + [(0, learner.V.shape[1] - learner.counts.shape[3])]
            training.learner = learner._replace(
                successors=np.pad(learner.successors, more), counts=np.pad(learner.counts, more)
            )
            training.sizes = training.sizes._replace(max_successors=learner.V.shape[1])
        return super()._learned(training, seen)

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values in the estimated model, (H, S, A)."""
        learner = self._started().learner
        q = np.zeros(learner.visits.shape)
        q_table(learner, q)
        return q
