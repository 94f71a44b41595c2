"""UCBVI: optimism by planning in the estimated model (Azar, Osband, Munos 2017)."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.rules import Transition
from dqucb._kernels.learners.shared_model import place_of
from dqucb._kernels.learners.shared_model import widened as widen_model
from dqucb._kernels.learners.step_test import StepTest
from dqucb._kernels.learners.step_test import widened as widen_test
from dqucb._kernels.learners.ucbvi.shared_ucbvi import SharedUcbvi
from dqucb._kernels.learners.ucbvi.ucbvi import Noise, UcbviLearner, q_table
from dqucb._parameters import Within
from dqucb._validate import flag, one_of, real
from dqucb.agents import checkpoint, tables
from dqucb.agents.confidence import AUTO, BonusAgent, horizon_of
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes, Training


@AGENTS.register("ucbvi")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBVI(BonusAgent):
    """Model-based optimism: counts every transition and plans in the estimated model.

    Parameters
    ----------
    bonus, bonus_scale, delta
        As in `QUCB`, whose note holds here too.
    stage_dependent : bool or "auto"
        True has a model per step, as published. False has one model for all steps, and plans only when the count of a
        pair has grown by a tenth since the last plan. "auto" starts as False and gives a pair (s, a) a model per step
        when a test finds that its outcomes depend on the step.
    planning : str
        "full" backward induction after every episode, or "real_time" backups of visited states only.
    cap_q : bool
        Cap every Q at the bound on the return, as Azar et al. do. Public implementations cap only V, and then an
        untried action is always preferred; on FrozenLake that doubles the regret.
    transition_noise : float
        Standard deviation of a Gaussian error on every entry of the estimated transition matrix in each planning, for
        studies of model error.

    Examples
    --------
    >>> from dqucb import UCBVI
    >>> from dqucb.problems import river_swim
    >>> problem = river_swim(change_at=())
    >>> per_step, shared = (UCBVI(stage_dependent=form).train(problem, episodes=500) for form in (True, False))
    >>> bool(shared.regret[-1] < per_step.regret[-1])
    True
    """

    planning: Annotated[str, Within(one_of, ["full", "real_time"])] = "full"
    cap_q: Annotated[bool, Within(flag)] = True
    transition_noise: Annotated[float, Within(real, 0.0)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage_dependent is not True:
            for name, only in (("planning", "full"), ("cap_q", True), ("transition_noise", 0.0)):
                if getattr(self, name) != only:
                    raise ValueError(
                        f"{name} must be {only!r} with stage_dependent={self.stage_dependent!r}, "
                        f"got {getattr(self, name)!r}"
                    )

    def _new_learner(self, sizes: Sizes) -> Any:
        horizon_of(self, sizes)
        return self._per_step(sizes) if self.stage_dependent is True else self._shared(sizes)

    def _shared(self, sizes: Sizes) -> SharedUcbvi:
        H, S, A = sizes.horizon or 1, sizes.n_states, sizes.n_actions
        V = np.zeros((H + 1, S + 1))
        V[:, :S] = sizes.bounds[:, None]
        Q = np.empty((H, S, A))
        Q[:] = sizes.bounds[:H, None, None]
        splits = self.stage_dependent == AUTO
        model = tables.shared_model(sizes)
        return SharedUcbvi(
            data=tables.step_test(sizes) if splits else model,
            Q=Q,
            V=V,
            policy=np.zeros((H, S), np.int32),
            visits=np.zeros((H, S, A) if splits else (S, A), np.int64),
            shares=np.zeros_like(model.counts),
            rewards=np.zeros((S, A)),
            bounds=sizes.bounds,
            bonus=self._bonus_settings(sizes),
        )

    def _per_step(self, sizes: Sizes) -> UcbviLearner:
        H, S, A = sizes.horizon or 1, sizes.n_states, sizes.n_actions
        V = np.empty((H + 1, S))
        V[:] = sizes.bounds[:, None]
        return UcbviLearner(
            V=V,
            visits=np.zeros((H, S, A), tables.count_type(sizes)),
            reward=np.zeros((H, S, A)),
            successors=np.zeros((H, S, A, sizes.max_successors), np.int32),
            counts=np.zeros((H, S, A, sizes.max_successors), tables.count_type(sizes)),
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
        if isinstance(learner, SharedUcbvi):
            checkpoint.check_range("policy", learner.policy, 0, learner.rewards.shape[1] - 1)
            if isinstance(learner.data, StepTest):
                tables.check_test(learner.data)
            else:
                tables.check_model(learner.data)
            return
        checkpoint.check_range("successors", learner.successors, 0, learner.V.shape[1])
        checkpoint.check_range("counts", learner.counts, 0)
        checkpoint.check_range("latest", learner.latest, -1, len(learner.visits) - 1)
        if (learner.counts.sum(axis=3) != learner.visits).any():
            raise ValueError("counts must sum to visits")
        if ((learner.counts[..., 1:] > 0) & (learner.counts[..., :-1] == 0)).any():
            raise ValueError("counts must be positive up to the end of each list")
        if ((learner.visits == 0).sum(axis=2) != learner.untried).any():
            raise ValueError("untried must count the pairs without visits")

    def _learned(self, training: Training, seen: Transition) -> tuple[float, float]:
        """Learn from a transition; in a user's own loop a pair may have more successors than the problem declares."""
        learner = training.learner
        if isinstance(learner, SharedUcbvi):
            self._make_room(training, seen)
            return super()._learned(training, seen)
        place = (seen.step, seen.state, seen.action)
        n_states = learner.V.shape[1]
        if (
            learner.counts[place][-1] > 0
            and (n_states if seen.terminated else seen.next_state) not in learner.successors[place]
        ):
            more = [(0, 0)] * 3 + [(0, n_states + 1 - learner.counts.shape[3])]
            training.learner = learner._replace(
                successors=np.pad(learner.successors, more), counts=np.pad(learner.counts, more)
            )
            training.sizes = training.sizes._replace(max_successors=n_states + 1)
        return super()._learned(training, seen)

    def _make_room(self, training: Training, seen: Transition) -> None:
        learner, n_states = training.learner, training.sizes.n_states
        data: Any = learner.data
        is_test = isinstance(data, StepTest)
        if place_of(data.model if is_test else data, seen) < 0:
            data = widen_test(data, n_states) if is_test else widen_model(data, n_states)
            width = (data.model if is_test else data).counts.shape[2]
            more = [(0, 0), (0, 0), (0, width - learner.shares.shape[2])]
            training.learner = learner._replace(data=data, shares=np.pad(learner.shares, more))
            training.sizes = training.sizes._replace(max_shared_successors=n_states)

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values in the estimated model, (H, S, A); with shared steps those of the last plan."""
        learner = self._started().learner
        if isinstance(learner, SharedUcbvi):
            return learner.Q.copy()
        q = np.zeros(learner.visits.shape)
        q_table(learner, q)
        return q
