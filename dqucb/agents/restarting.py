"""Agents that restart: RestartQ-UCB on a schedule (Mao et al. 2021), and QUCB with known change points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.learners.q.restarting_q import RestartedQ, Schedule, StagedQ
from dqucb._parameters import Within
from dqucb.agents import checkpoint
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.tables import count_type, like_counts
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

SCHEDULES = ("theory", "doubling")
FIRST_EPOCH = 1_000  # episodes of the first epoch with "doubling"
RestartAt = Annotated[Sequence[int] | None, Within(_validate.increasing)]


@AGENTS.register("restart-qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class RestartQUCB(OptimisticQ):
    """RestartQ-UCB: updates at the ends of growing stages, and restarts at the ends of epochs.

    Parameters
    ----------
    epochs : int or str
        A number of epochs of equal length; "doubling": epochs of 1,000, 2,000, 4,000, ... episodes; or "theory": the
        number of epochs of the bound, (K variation^2 / (S A H))^(1/3), at least one.
    variation : float
        Total variation of the problem over the run, for "theory".
    learning_rate_horizon : float, "auto" or None
        H in the lengths of the stages, H, floor((1 + 1/H) H), ...; None uses the horizon of the problem.
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import RestartQUCB, combination_lock
    >>> len(RestartQUCB(epochs=2).train(combination_lock(change_at=(500,)), episodes=1_000))
    1000
    """

    epochs: Annotated[int | str, Within(_validate.integer, also=SCHEDULES)] = "theory"
    variation: Annotated[float, Within(_validate.real, 0.0)] = 1.0

    def restarts(self, sizes: Sizes) -> list[int]:
        """The episodes before which the agent restarts."""
        K = sizes.length
        if self.epochs == "doubling":
            ends = [FIRST_EPOCH * (2**i - 1) for i in range(1, 64)]
            return [end for end in ends if end < K]
        number = self.epochs
        if isinstance(number, str):
            pairs = sizes.n_states * sizes.n_actions * (sizes.horizon or 1)
            number = max(1, round((K * self.variation**2 / pairs) ** (1 / 3)))
        length = math.ceil(K / number)
        return list(range(length, K, length))

    def _new_learner(self, sizes: Sizes) -> Any:
        parts = self._shared_parts(sizes)
        q = parts["q"]
        stage_horizon = max(1, round(q.rate_horizon))
        return StagedQ(
            **parts,
            counts=like_counts(q, count_type(sizes)),
            stage=np.full(q.visits.shape, stage_horizon, count_type(sizes)),
            rewards=like_counts(q, np.float64),
            values=np.zeros_like(q.Q),
            schedule=schedule(self.restarts(sizes)),
            stage_horizon=stage_horizon,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        check_schedule(learner.schedule)
        if ((learner.counts < 0) | (learner.counts >= learner.stage)).any():
            raise ValueError("counts must lie within the stages")


@AGENTS.register("oracle-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class OracleRestart(OptimisticQ):
    """QUCB that restarts at known change points: an oracle reference for agents that have to detect changes.

    Parameters
    ----------
    restart_at : sequence of int or None
        The episodes before which the agent restarts, usually the `change_at` of the problem.
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import OracleRestart, combination_lock
    >>> lock = combination_lock(change_at=(500,))
    >>> len(OracleRestart(restart_at=lock.change_at).train(lock, episodes=1_000).phase_regret())
    2
    """

    restart_at: RestartAt = None

    def _new_learner(self, sizes: Sizes) -> Any:
        parts = self._shared_parts(sizes)
        counts = like_counts(parts["q"], count_type(sizes))
        return RestartedQ(**parts, counts=counts, schedule=schedule(self.restart_at))

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("counts", learner.counts, 0)
        check_schedule(learner.schedule)


def schedule(restart_at: Sequence[int] | None) -> Schedule:
    """A schedule of restarts, none of which has happened."""
    given = () if restart_at is None else _validate.increasing("restart_at", restart_at)
    return Schedule(np.array(given, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


def check_schedule(schedule: Schedule) -> None:
    """Raise a ValueError for a schedule that no kernel can have written."""
    checkpoint.check_range("episodes", schedule.episodes, 0)
    checkpoint.check_range("restarts", schedule.restarts, 0, len(schedule.restart_at))
