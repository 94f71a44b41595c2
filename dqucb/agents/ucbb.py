"""UCB-B: Q-learning with a Bernstein bonus (Jin et al. 2018, Algorithm 2)."""

from dataclasses import dataclass

import numpy as np

from dqucb._kernels.learners.q.bernstein_q import BernsteinQ
from dqucb.agents.confidence import AUTO, OptimisticQ
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("ucbb")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBB(OptimisticQ):
    """QUCB whose bonus is smaller where the value of the next state varies little.

    The bonus "theory" is the published one. The other forms have their c multiplied by min(1, sqrt(W / v_0^2 + 1 / H))
    with the variance W of the value of the next state.

    Parameters
    ----------
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import UCBB
    >>> from dqucb.problems import river_swim
    >>> UCBB(bonus_scale=0.5).train(river_swim(change_at=()), episodes=100).steps
    2000
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage_dependent == AUTO:
            raise ValueError(
                "stage_dependent must be True or False for UCBB, whose variances cannot be divided among the steps of "
                f"a pair that is split, got {self.stage_dependent!r}: use QUCB or UCBVI"
            )

    def _new_learner(self, sizes: Sizes) -> BernsteinQ:
        parts = self._shared_parts(sizes)
        return BernsteinQ(**parts, **{name: np.zeros_like(parts["q"].Q) for name in ("mean", "squares", "beta")})
