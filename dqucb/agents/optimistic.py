"""What the episodic relatives of QUCB share: the parameters of the bonus, and QUCB's tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels import formulas
from dqucb.agents.base import Agent
from dqucb.agents.qucb import q_learner
from dqucb.agents.training import Sizes
from dqucb.agents.ucbvi import horizon_of

_SHARED = ("Q", "V", "visits", "bounds", "form", "scale", "horizon", "rate_horizon", "iota")


@dataclass(kw_only=True, eq=False, repr=False)
class Optimistic(Agent):
    """An episodic agent that is QUCB but for one thing."""

    bonus: str = "root"
    bonus_scale: float = 0.2
    delta: float = 0.05
    learning_rate_horizon: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("bonus", self.bonus, formulas.BONUS_FORMS)
        self.bonus_scale = _validate.real("bonus_scale", self.bonus_scale, 0.0)
        self.delta = _validate.real("delta", self.delta, 0.0, 1.0, open_left=True)
        if self.learning_rate_horizon is not None:
            self.learning_rate_horizon = _validate.positive("learning_rate_horizon", self.learning_rate_horizon)

    def _tables(self, sizes: Sizes) -> dict[str, Any]:
        """QUCB's fresh tables and settings; an error without a horizon."""
        horizon_of(self, sizes)
        learner = q_learner(
            sizes, bonus=self.bonus, scale=self.bonus_scale, delta=self.delta, rate_horizon=self.learning_rate_horizon
        )
        return {name: getattr(learner, name) for name in _SHARED}


def like_visits(tables: dict[str, Any], dtype: Any) -> Any:
    """A table of zeros with one place for each (h, s, a)."""
    return np.zeros(tables["visits"].shape, dtype)
