"""Agents that begin anew: RestartQ-UCB on a schedule (Mao et al. 2021), and QUCB that is told of each change."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.learners.restarting_q import RestartedQ, StagedQ
from dqucb.agents import checkpoint
from dqucb.agents.optimistic import Optimistic, like_visits
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS

SCHEDULES = ("theory", "doubling")
FIRST_EPOCH = 1_000  # episodes of the first epoch if they double


@AGENTS.register("restart-qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class RestartQUCB(Optimistic):
    """RestartQ-UCB: updates at the ends of growing stages, and forgets everything at the ends of epochs.

    Parameters, besides those of `QUCB`
    -----------------------------------
    epochs : how many, of equal length; or "doubling", epochs of 1,000, 2,000, 4,000, ... episodes; or "theory", the
        (K variation^2 / (S A H))^(1/3) epochs, at least one, that the bound asks for.
    variation : how much the problem changes in all, for "theory".
    learning_rate_horizon : H in the lengths of the stages, H, floor((1 + 1/H) H), ...; None takes the problem's own.
    """

    epochs: int | str = "theory"
    variation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.epochs, str):
            _validate.one_of("epochs", self.epochs, SCHEDULES)
        else:
            self.epochs = _validate.integer("epochs", self.epochs)
        self.variation = _validate.real("variation", self.variation, 0.0)

    def restarts(self, sizes: Sizes) -> list[int]:
        """The episodes before which everything is forgotten."""
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
        tables = self._tables(sizes)
        stage_horizon = max(1, round(tables.pop("rate_horizon")))
        return StagedQ(
            **tables,
            counts=like_visits(tables, np.int32),
            stage=np.full(tables["visits"].shape, stage_horizon, np.int32),
            rewards=like_visits(tables, np.float64),
            values=like_visits(tables, np.float64),
            restart_at=np.array(self.restarts(sizes), np.int64),
            clock=np.zeros(2, np.int64),
            stage_horizon=stage_horizon,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        _check_clock(learner)
        if ((learner.counts < 0) | (learner.counts >= learner.stage)).any():
            raise ValueError("counts must lie within the stages")


@AGENTS.register("oracle-restart")
@dataclass(kw_only=True, eq=False, repr=False)
class OracleRestart(Optimistic):
    """QUCB that is told when the world changes, and begins anew: a reference for agents that must find out.

    Parameters, besides those of `QUCB`
    -----------------------------------
    restart_at : the episodes before which everything is forgotten; give it the problem's `change_at`.
    """

    restart_at: Iterable[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restart_at is None:
            return
        given = self.restart_at
        try:
            self.restart_at = [_validate.integer("each of restart_at", episode) for episode in given]
        except TypeError:
            raise ValueError(f"restart_at must be a list of episodes, got {given!r}") from None
        if sorted(set(self.restart_at)) != self.restart_at:
            raise ValueError(f"restart_at must increase strictly, got {self.restart_at}")

    def _new_learner(self, sizes: Sizes) -> Any:
        tables = self._tables(sizes)
        return RestartedQ(
            **tables,
            counts=like_visits(tables, np.int32),
            restart_at=np.array(self.restart_at or [], np.int64),
            clock=np.zeros(2, np.int64),
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("counts", learner.counts, 0)
        _check_clock(learner)


def _check_clock(learner: Any) -> None:
    checkpoint.check_range("clock", learner.clock, 0, np.array([np.iinfo(np.int64).max, len(learner.restart_at)]))
