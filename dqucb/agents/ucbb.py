"""UCB-B: Q-learning with a Bernstein bonus (Jin et al. 2018, Algorithm 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb._kernels.learners.bernstein_q import BernsteinQ
from dqucb.agents.optimistic import Optimistic, like_visits
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS


@AGENTS.register("ucbb")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBB(Optimistic):
    """QUCB whose bonus is smaller where the value of the next state varies little.

    Parameters are those of `QUCB`; "theory" is the published bonus, the other forms have their c multiplied by
    min(1, sqrt(W / v_0^2 + 1 / H)) with the variance W of the next state's value.
    """

    def _new_learner(self, sizes: Sizes) -> Any:
        tables = self._tables(sizes)
        return BernsteinQ(**tables, **{name: like_visits(tables, np.float64) for name in ("mean", "squares", "beta")})
