"""Agents that restart: RestartQ-UCB on a schedule (Mao et al. 2021), and QUCB with known change points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.learners.q.restarting_q import RestartedQ, Schedule, StagedQ
from dqucb.agents import checkpoint
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.tables import count_type, like_counts
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

SCHEDULES = ("theory", "doubling")
FIRST_EPOCH = 1_000  # episodes of the first epoch with "doubling"


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

    Notes
    -----
    With a bonus whose scale is fixed, a pair that was unlucky at first may never be tried again: some runs settle for a
    second best even on bandits (docs/consistency.md).

    Examples
    --------
    >>> from dqucb import RestartQUCB, combination_lock
    >>> len(RestartQUCB(epochs=2).train(combination_lock(change_at=(500,)), episodes=1_000))
    1000
    """

    epochs: int | str = "theory"
    variation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.epochs, str):
            _validate.one_of("epochs", self.epochs, SCHEDULES)
        else:
            _validate.integer("epochs", self.epochs)
        _validate.real("variation", self.variation, 0.0)

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

    restart_at: Sequence[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_restarts(self.restart_at)

    def _new_learner(self, sizes: Sizes) -> Any:
        parts = self._shared_parts(sizes)
        restarts = schedule(checked_restarts(self.restart_at))
        return RestartedQ(**parts, counts=like_counts(parts["q"], count_type(sizes)), schedule=restarts)

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("counts", learner.counts, 0)
        check_schedule(learner.schedule)


def checked_restarts(restart_at: Sequence[int] | None) -> list[int]:
    """The episodes of the restarts, increasing; a ValueError for anything else."""
    if restart_at is None:
        return []
    try:
        given = [_validate.integer("each of restart_at", episode) for episode in restart_at]
    except TypeError:
        raise ValueError(f"restart_at must be a list of episodes, got {restart_at!r}") from None
    if sorted(set(given)) != given:
        raise ValueError(f"restart_at must increase strictly, got {given}")
    return given


def schedule(restart_at: list[int]) -> Schedule:
    """A schedule of restarts, none of which has happened."""
    return Schedule(np.array(restart_at, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


def check_schedule(schedule: Schedule) -> None:
    """Raise a ValueError for a schedule that no kernel can have written."""
    checkpoint.check_range("episodes", schedule.episodes, 0)
    checkpoint.check_range("restarts", schedule.restarts, 0, len(schedule.restart_at))
