"""QUCB with change detectors that reset what changed."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.q.detecting_q import CUSUM, DETECTORS, DetectingQ, Outcomes
from dqucb._parameters import Within
from dqucb._validate import one_of, positive
from dqucb.agents import checkpoint
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.tables import count_type, like_counts
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

PAGE_HINKLEY_THRESHOLD = 10.0  # a pair with deterministic outcomes is reset after 11 others
REWARDS = 2  # outcomes are (s', r): capacity for this many more than there are successors


@AGENTS.register("detect-reset")
@dataclass(kw_only=True, eq=False, repr=False)
class DetectReset(OptimisticQ):
    """QUCB that monitors the likelihood of next states and rewards, and resets where it drops.

    Parameters
    ----------
    detector : str
        "cusum", on the likelihood ratio of a uniform distribution to the observed outcomes; or "page-hinkley", on the
        drop of the likelihood below its mean.
    reset : str
        "pair" resets only the (step, state, action) with the alarm; "all" resets everything, after the episode.
    threshold : float, optional
        Alarm threshold. By default ln(K H) for "cusum" (with a correct model, one false alarm in as many visits as the
        run has), and 10 for "page-hinkley".
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import DetectReset, combination_lock
    >>> run = DetectReset(reset="all").train(combination_lock(change_at=(1_000,)), episodes=2_000)
    >>> bool((run.alarms >= 1_000).any())
    True
    """

    detector: Annotated[str, Within(one_of, DETECTORS)] = "cusum"
    reset: Annotated[str, Within(one_of, ["pair", "all"])] = "pair"
    threshold: Annotated[float | None, Within(positive)] = None

    def _new_learner(self, sizes: Sizes) -> Any:
        parts = self._shared_parts(sizes)
        q = parts["q"]
        detector = DETECTORS.index(self.detector)
        threshold = self.threshold
        if threshold is None:
            visits = max(2, sizes.length * (sizes.horizon or 1))
            threshold = math.log(visits) if detector == CUSUM else PAGE_HINKLEY_THRESHOLD
        successors = sizes.max_successors if self.stage_dependent is True else sizes.max_shared_successors
        outcomes = (*q.visits.shape, successors + REWARDS)
        return DetectingQ(
            **parts,
            counts=like_counts(q, count_type(sizes)),
            outcomes=Outcomes(np.zeros(outcomes, np.int32), np.zeros(outcomes), np.zeros(outcomes, count_type(sizes))),
            mean=like_counts(q, np.float64),
            evidence=like_counts(q, np.float64),
            alarms=alarms.new_log(),
            sure=np.zeros(1, np.int64),
            detector=detector,
            threshold=float(threshold),
            forget_pair=self.reset == "pair",
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        checkpoint.check_range("counts", learner.counts, 0)
        checkpoint.check_range("times", learner.outcomes.times, 0)
        checkpoint.check_range("evidence", learner.evidence, 0)
        checkpoint.check_range("sure", learner.sure, 0)
