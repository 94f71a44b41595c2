"""Parameters that agents with confidence bounds share, checked in one place."""

from dataclasses import dataclass

from dqucb import _validate
from dqucb._kernels import formulas
from dqucb.agents.tabular import TabularAgent
from dqucb.agents.training import Sizes

AUTO, AUTO_HORIZON = "auto", 30.0


@dataclass(kw_only=True, eq=False, repr=False)
class BonusAgent(TabularAgent):
    """An agent with a bonus of one of the common forms.

    Parameters
    ----------
    bonus : "root" min(c/sqrt(t), v_h), "simplified" min(c/sqrt(t) + v_h/t, v_h) or "theory" c sqrt(H^3 iota / t).
    bonus_scale : c.
    delta : the probability with which the theory's bound may fail, in iota.
    """

    bonus: str = "root"
    bonus_scale: float = 0.2
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("bonus", self.bonus, formulas.BONUS_FORMS)
        self.bonus_scale = _validate.real("bonus_scale", self.bonus_scale, 0.0)
        self.delta = _validate.real("delta", self.delta, 0.0, 1.0, open_left=True)


@dataclass(kw_only=True, eq=False, repr=False)
class OptimisticQ(BonusAgent):
    """Q-learning with such a bonus.

    Parameters, besides those of `BonusAgent`
    -----------------------------------------
    learning_rate_horizon : H in the learning rate (H+1)/(H+t). None takes the problem's own, as the theory does; "auto"
        at most 30 of it in a problem with a horizon, which `reproduce/study_defaults.py` found best for DQUCB.
    """

    learning_rate_horizon: float | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate_horizon not in (None, AUTO):
            self.learning_rate_horizon = _validate.positive("learning_rate_horizon", self.learning_rate_horizon)

    def _rate_horizon(self, sizes: Sizes) -> float | None:
        """H in the learning rate, None for the problem's own."""
        given = self.learning_rate_horizon
        if given == AUTO:
            return None if sizes.horizon is None else min(AUTO_HORIZON, float(sizes.horizon))
        return None if given is None else float(given)


class NeedsHorizonError(ValueError):
    """The agent cannot learn a problem with a discount."""


def horizon_of(agent: TabularAgent, sizes: Sizes) -> int:
    """The horizon, for agents that exist only with one."""
    if sizes.horizon is None:
        raise NeedsHorizonError(
            f"{agent.name} needs a problem with a horizon, got discount={sizes.discount}: use QUCB or DQUCB, or "
            "build the problem with horizon="
        )
    return sizes.horizon
