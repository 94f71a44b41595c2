"""Parameters shared by agents with confidence bounds, and their validation."""

from dataclasses import dataclass
from typing import Annotated, Any

from dqucb._kernels import formulas
from dqucb._kernels.learners.tables import BonusSettings
from dqucb._parameters import Within
from dqucb._validate import one_of, positive, real
from dqucb.agents import tables
from dqucb.agents.tabular import TabularAgent
from dqucb.running.compiled import Sizes

AUTO, AUTO_HORIZON = "auto", 30.0
RateHorizon = Annotated[float | str | None, Within(positive, also=(AUTO,))]


@dataclass(kw_only=True, eq=False, repr=False)
class StageAgent(TabularAgent):
    """An agent whose tables are per step of the episode or shared by all steps.

    Parameters
    ----------
    stage_dependent : bool or "auto"
        True has tables for each step of an episode, as published. False assumes that transitions and rewards are the
        same at every step, so that one transition updates all steps. "auto" starts as False and switches a pair (s, a)
        to True when a test finds that its outcomes depend on the step. No effect in a discounted problem.
    """

    stage_dependent: bool | str = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.stage_dependent, bool) and self.stage_dependent != AUTO:
            raise ValueError(f'stage_dependent must be True, False or "auto", got {self.stage_dependent!r}')


@dataclass(kw_only=True, eq=False, repr=False)
class BonusAgent(StageAgent):
    """An agent with an exploration bonus in one of the common forms.

    Parameters
    ----------
    bonus : str
        "root" min(c/sqrt(t), v_h), "simplified" min(c/sqrt(t) + v_h/t, v_h) or "theory" c sqrt(H^3 iota / t).
    bonus_scale : float
        c, the scale of the bonus.
    delta : float
        Failure probability of the theoretical bound, in iota.
    """

    bonus: Annotated[str, Within(one_of, formulas.BONUS_FORMS)] = "root"
    bonus_scale: Annotated[float, Within(real, 0.0)] = 0.2
    delta: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.05

    def _bonus_settings(self, sizes: Sizes) -> BonusSettings:
        return tables.bonus_settings(sizes, self.bonus, self.bonus_scale, self.delta)


@dataclass(kw_only=True, eq=False, repr=False)
class OptimisticQ(BonusAgent):
    """Q-learning with an exploration bonus.

    Parameters
    ----------
    learning_rate_horizon : float, "auto" or None
        H in the learning rate (H+1)/(H+t). None uses the horizon of the problem, as in the theory; "auto" the smaller
        of 30 and that horizon, which `reproduce/study_defaults.py` found best for DQUCB.
    """

    learning_rate_horizon: RateHorizon = None

    def _rate_horizon(self, sizes: Sizes) -> float | None:
        """H in the learning rate, or None for the horizon of the problem."""
        given = self.learning_rate_horizon
        if given == AUTO:
            return None if sizes.horizon is None else min(AUTO_HORIZON, float(sizes.horizon))
        return None if given is None else float(given)

    def _shared_parts(self, sizes: Sizes) -> dict[str, Any]:
        """The tables and the bonus shared by the episodic learners of this family; an error without a horizon."""
        horizon_of(self, sizes)
        q = tables.q_tables(sizes, rate_horizon=self._rate_horizon(sizes), stage_dependent=self.stage_dependent)
        return {"q": q, "bonus": self._bonus_settings(sizes)}


class NeedsHorizonError(ValueError):
    """The agent supports only problems with a horizon."""


def horizon_of(agent: TabularAgent, sizes: Sizes) -> int:
    """The horizon of a problem; a `NeedsHorizonError` without one."""
    if sizes.horizon is None:
        raise NeedsHorizonError(
            f"{agent.name} needs a problem with a horizon, got discount={sizes.discount}: use QUCB or DQUCB, or "
            "build the problem with horizon="
        )
    return sizes.horizon
