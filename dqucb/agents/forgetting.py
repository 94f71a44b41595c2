"""QUCB with windowed or discounted counts, after the two UCB variants of Garivier and Moulines (2011)."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dqucb._kernels.learners.q.forgetting_q import FadingQ, WindowedQ
from dqucb._parameters import Within
from dqucb._validate import fits, integer, real
from dqucb.agents import checkpoint
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.tables import count_type, like_counts
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("sliding-window-qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowQUCB(OptimisticQ):
    """QUCB whose bonus and learning rate count the visits of the last episodes only.

    Parameters
    ----------
    window : int, optional
        Episodes that count, including the current one; 2 sqrt(K ln K) of K episodes by default, the published choice
        for one change. The value of an action that is not taken does not change: Q-learning updates a pair only when it
        is visited.
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import SlidingWindowQUCB, combination_lock
    >>> SlidingWindowQUCB(window=200).train(combination_lock(change_at=(500,)), episodes=1_000).unit
    'episodes'
    """

    window: Annotated[int | None, Within(integer)] = None

    def _new_learner(self, sizes: Sizes) -> Any:
        length = self.window or math.ceil(2.0 * math.sqrt(sizes.length * math.log(max(2, sizes.length))))
        length = min(length, sizes.length + 1)  # a longer window would hold no more episodes
        fits(f"a window of {length:,} episodes", 4 * length * (1 + (sizes.horizon or 1)))
        parts = self._shared_parts(sizes)
        return WindowedQ(
            **parts,
            counts=like_counts(parts["q"], count_type(sizes)),
            pairs=np.zeros((length, sizes.horizon or 1), np.int32),
            lengths=np.zeros(length, np.int32),
            episodes=np.zeros(1, np.int64),
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("pairs", learner.pairs, 0, learner.counts.size - 1)
        checkpoint.check_range("lengths", learner.lengths, 0, learner.pairs.shape[1])
        checkpoint.check_range("episodes", learner.episodes, 0)
        in_use = np.arange(learner.pairs.shape[1]) < learner.lengths[:, None]
        held = np.bincount(learner.pairs[in_use], minlength=learner.counts.size)
        if not np.array_equal(held, learner.counts.ravel()):
            raise ValueError("counts must count the pairs in the window")


@AGENTS.register("discounted-qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class DiscountedQUCB(OptimisticQ):
    """QUCB whose bonus and learning rate discount visits by their age in episodes.

    Parameters
    ----------
    memory : float, optional
        The discount factor per episode; 1 - 1 / (4 sqrt(K)) of K episodes by default, the published choice for one
        change.
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import DiscountedQUCB, combination_lock
    >>> len(DiscountedQUCB(memory=0.99).train(combination_lock(change_at=(500,)), episodes=1_000))
    1000
    """

    memory: Annotated[float | None, Within(real, 0.0, 1.0, open_left=True)] = None

    def _new_learner(self, sizes: Sizes) -> Any:
        parts = self._shared_parts(sizes)
        return FadingQ(
            **parts,
            counts=like_counts(parts["q"], np.float64),
            last=like_counts(parts["q"], np.int64),
            episodes=np.zeros(1, np.int64),
            memory=float(self.memory or 1.0 - 0.25 / math.sqrt(sizes.length)),
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("counts", learner.counts, 0.0)
        checkpoint.check_range("last", learner.last, 0, int(learner.episodes[0]))
