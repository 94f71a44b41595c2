"""QUCB: Q-learning with an upper confidence bound (Jin et al. 2018; Wang et al. 2020 with a discount)."""

from dataclasses import dataclass
from typing import Annotated, Any

from dqucb._kernels.learners.q.likelihood import AnyWindows
from dqucb._parameters import Within
from dqucb._validate import one_of
from dqucb.agents import tables
from dqucb.agents.confidence import OptimisticQ
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class QUCB(OptimisticQ):
    """Optimistic Q-learning for problems that do not change.

    Parameters
    ----------
    bonus : str
        "root" min(c/sqrt(t), v_h), "simplified" min(c/sqrt(t) + v_h/t, v_h) or "theory" c sqrt(H^3 iota / t); a
        discounted problem always uses c/(1-gamma) sqrt(H iota(k) / k).
    bonus_scale : float
        c, the scale of the bonus.
    delta : float
        Failure probability of the theoretical bound, in iota.
    learning_rate_horizon : float, "auto" or None
        H in the learning rate (H+1)/(H+t). None uses the horizon of the problem, as in the theory; "auto" the smaller
        of 30 and that horizon, which `reproduce/study_defaults.py` found best for DQUCB.
    stage_dependent : bool or "auto"
        True has tables for each step of an episode, as published. False assumes that transitions and rewards are the
        same at every step, so that one transition updates all steps. "auto" starts as False and switches a pair (s, a)
        to True when a test finds that its outcomes depend on the step. No effect in a discounted problem.
    act_on : str
        "qhat" or "q", the table that a discounted agent acts on.

    Notes
    -----
    With a bonus whose scale is fixed, a pair with unlucky first outcomes may never be tried again: some runs keep a
    suboptimal action even on bandits (docs/consistency.md). That holds for every agent with these parameters.

    Examples
    --------
    >>> from dqucb import QUCB
    >>> from dqucb.problems import gridworld
    >>> problem = gridworld(rows=2, cols=3, horizon=8, noise=0.1, change_at=())
    >>> per_step = QUCB().train(problem, episodes=300)
    >>> shared = QUCB(stage_dependent=False).train(problem, episodes=300)
    >>> bool(shared.regret[-1] < per_step.regret[-1])
    True
    """

    act_on: Annotated[str, Within(one_of, ["qhat", "q"])] = "qhat"

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
