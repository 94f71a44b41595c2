"""What the episodic relatives of QUCB share: the parameters of the bonus, and QUCB's tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb.agents.confidence import OptimisticQ, horizon_of
from dqucb.agents.qucb import q_learner
from dqucb.agents.training import Sizes

_SHARED = ("Q", "V", "visits", "bounds", "form", "scale", "horizon", "rate_horizon", "iota")


@dataclass(kw_only=True, eq=False, repr=False)
class Optimistic(OptimisticQ):
    """An episodic agent that is QUCB but for one thing."""

    def _tables(self, sizes: Sizes) -> dict[str, Any]:
        """QUCB's fresh tables and settings; an error without a horizon."""
        horizon_of(self, sizes)
        learner = q_learner(
            sizes, bonus=self.bonus, scale=self.bonus_scale, delta=self.delta, rate_horizon=self._rate_horizon(sizes)
        )
        return {name: getattr(learner, name) for name in _SHARED}


def like_visits(tables: dict[str, Any], dtype: Any) -> Any:
    """A table of zeros with one place for each (h, s, a)."""
    return np.zeros(tables["visits"].shape, dtype)
