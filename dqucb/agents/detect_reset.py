"""QUCB with change detectors: what changed is forgotten and learned anew."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.learners.detecting_q import CUSUM, DETECTORS, DetectingQ
from dqucb.agents import checkpoint
from dqucb.agents.optimistic import Optimistic, like_visits
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS

PAGE_HINKLEY_THRESHOLD = 10.0  # a pair whose outcomes were certain is forgotten after 11 others
REWARDS = 2  # outcomes are (s', r): room for this many more than there are successors


@AGENTS.register("detect-reset")
@dataclass(kw_only=True, eq=False, repr=False)
class DetectReset(Optimistic):
    """QUCB that watches the likelihood of next states and rewards, and forgets where it drops.

    Parameters, besides those of `QUCB`
    -----------------------------------
    detector : "cusum", on the likelihood ratio of "all outcomes alike" to what was seen; or "page-hinkley", on how far
        the likelihood falls below its mean.
    reset : "pair" forgets only the (step, state, action) whose detector is sure; "all" everything, after the episode.
    threshold : evidence that makes a detector sure. None takes ln(K H) for "cusum" (at a true model, one false alarm in
        as many visits as the whole run has), and 10 for "page-hinkley".
    """

    detector: str = "cusum"
    reset: str = "pair"
    threshold: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("detector", self.detector, DETECTORS)
        _validate.one_of("reset", self.reset, ["pair", "all"])
        if self.threshold is not None:
            self.threshold = _validate.positive("threshold", self.threshold)

    def _new_learner(self, sizes: Sizes) -> Any:
        tables = self._tables(sizes)
        detector = DETECTORS.index(self.detector)
        threshold = self.threshold
        if threshold is None:
            visits = max(2, sizes.length * (sizes.horizon or 1))
            threshold = math.log(visits) if detector == CUSUM else PAGE_HINKLEY_THRESHOLD
        outcomes = (*tables["visits"].shape, sizes.max_successors + REWARDS)
        return DetectingQ(
            **tables,
            counts=like_visits(tables, np.int32),
            next_states=np.zeros(outcomes, np.int32),
            rewards=np.zeros(outcomes),
            times=np.zeros(outcomes, np.int32),
            mean=like_visits(tables, np.float64),
            evidence=like_visits(tables, np.float64),
            alarms=np.zeros(2, np.int64),
            detector=detector,
            threshold=threshold,
            forget_pair=self.reset == "pair",
        )

    @property
    def alarms_(self) -> int:
        """How often a detector was sure of a change."""
        return int(self._started().learner.alarms[1])

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        for name in ("counts", "times", "evidence", "alarms"):
            checkpoint.check_range(name, getattr(learner, name), 0)
