"""QUCB: Q-learning with an upper confidence bound (Jin et al. 2018; Wang et al. 2020 with a discount)."""

from dataclasses import dataclass
from typing import Any

from dqucb import _validate
from dqucb._kernels.learners.q.likelihood import AnyWindows
from dqucb.agents import tables
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS


@AGENTS.register("qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class QUCB(OptimisticQ):
    """Optimistic Q-learning that assumes a world that does not change.

    Parameters
    ----------
    bonus : str
        "root" min(c/sqrt(t), v_h), "simplified" min(c/sqrt(t) + v_h/t, v_h) or "theory" c sqrt(H^3 iota / t); a
        discounted problem always uses c/(1-gamma) sqrt(H iota(k) / k).
    bonus_scale : float
        c.
    delta : float
        The probability with which the theory's bound may fail, in iota.
    learning_rate_horizon : float, "auto" or None
        H in the learning rate (H+1)/(H+t). None takes the problem's own, as the theory does; "auto" the smaller one of
        30 and the problem's own, which `reproduce/study_defaults.py` found best for DQUCB.
    stage_dependent : bool or "auto"
        True learns each step of an episode alone, as published. False takes transitions and rewards to be the same at
        every step, so that one transition updates all of them. "auto" begins as False and treats a pair (s, a) as True
        does as soon as its outcomes say that its steps differ. Without effect in a discounted problem.
    act_on : str
        "qhat" or "q", the table that a discounted agent acts on.

    Notes
    -----
    With a bonus whose scale is fixed, a pair that was unlucky at first may never be tried again: some runs settle for a
    second best even on bandits (docs/consistency.md).

    Examples
    --------
    >>> from dqucb import QUCB
    >>> from dqucb.problems import gridworld
    >>> problem = gridworld(rows=2, cols=3, horizon=8, noise=0.1, change_at=())
    >>> alone = QUCB().train(problem, episodes=300)
    >>> together = QUCB(stage_dependent=False).train(problem, episodes=300)
    >>> bool(together.regret[-1] < alone.regret[-1])
    True
    """

    act_on: str = "qhat"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("act_on", self.act_on, ["qhat", "q"])

    def _new_learner(self, sizes: Sizes, windows: AnyWindows = None, floor: float = 0.0) -> Any:
        return tables.q_learner(
            sizes,
            bonus=self.bonus,
            scale=self.bonus_scale,
            delta=self.delta,
            rate_horizon=self._rate_horizon(sizes),
            act_on_qhat=self.act_on == "qhat",
            windows=windows,
            floor=floor,
            stage_dependent=self.stage_dependent,
        )
