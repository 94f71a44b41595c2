"""QUCB: Q-learning with an upper confidence bound (Jin et al. 2018; Wang et al. 2020 with a discount)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._kernels import formulas
from dqucb._kernels.learners.discounted_q import DiscountedQ
from dqucb._kernels.learners.episodic_q import EpisodicQ
from dqucb._kernels.window_pools import DiscreteWindows
from dqucb.agents.confidence import OptimisticQ
from dqucb.agents.training import Sizes
from dqucb.base import AGENTS


@AGENTS.register("qucb")
@dataclass(kw_only=True, eq=False, repr=False)
class QUCB(OptimisticQ):
    """Optimistic Q-learning that assumes a world that does not change.

    Parameters
    ----------
    bonus : "root" min(c/sqrt(t), v_h), "simplified" min(c/sqrt(t) + v_h/t, v_h) or "theory" c sqrt(H^3 iota / t);
        a discounted problem always uses c/(1-gamma) sqrt(H iota(k) / k).
    bonus_scale : c.
    delta : the probability with which the theory's bound may fail, in iota.
    learning_rate_horizon : H in the learning rate (H+1)/(H+t). None takes the problem's own, as the theory does; "auto"
        at most 30 of it in a problem with a horizon, which `reproduce/study_defaults.py` found best for DQUCB.
    act_on : "qhat" or "q", the table that a discounted agent acts on.
    """

    act_on: str = "qhat"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("act_on", self.act_on, ["qhat", "q"])

    def _new_learner(self, sizes: Sizes) -> Any:
        return q_learner(
            sizes,
            bonus=self.bonus,
            scale=self.bonus_scale,
            delta=self.delta,
            rate_horizon=self._rate_horizon(sizes),
            act_on_qhat=self.act_on == "qhat",
        )


def q_learner(
    sizes: Sizes,
    *,
    bonus: str = "root",
    scale: float = 0.0,
    delta: float = 0.05,
    rate_horizon: float | None = None,
    fixed_rate: float = 0.0,
    epsilon: float = 0.0,
    optimistic: bool = True,
    monotone: bool = True,
    act_on_qhat: bool = True,
    windows: DiscreteWindows | None = None,
    noise: float = 0.0,
) -> EpisodicQ | DiscountedQ:
    """Fresh Q tables, episodic or discounted, for every agent of the Q-learning family."""
    S, A, H = sizes.n_states, sizes.n_actions, sizes.horizon
    start = 1.0 if optimistic else 0.0
    if H is not None:
        Q = np.empty((H, S, A))
        Q[:] = start * sizes.bounds[:H, None, None]
        V = np.empty((H + 1, S))
        V[:] = start * sizes.bounds[:, None]
        return EpisodicQ(
            Q=Q,
            V=V,
            visits=np.zeros((H, S, A), np.int32),
            bounds=sizes.bounds,
            windows=windows,
            noise=noise,
            form=formulas.BONUS_FORMS.index(bonus),
            scale=scale,
            horizon=float(H),
            rate_horizon=float(rate_horizon or H),
            fixed_rate=fixed_rate,
            iota=formulas.confidence_log(float(S), A, sizes.length, H, delta),
            epsilon=epsilon,
        )
    gamma = float(sizes.discount or 0.0)
    H_effective = formulas.effective_horizon(gamma)
    return DiscountedQ(
        Q=np.full((S, A), start * sizes.bounds[0]),
        Qhat=np.full((S, A), start * sizes.bounds[0]),
        visits=np.zeros((S, A), np.int64),
        windows=windows,
        noise=noise,
        gamma=gamma,
        scale=scale,
        horizon=H_effective,
        rate_horizon=float(rate_horizon or H_effective),
        fixed_rate=fixed_rate,
        length=float(sizes.length),
        epsilon=epsilon,
        monotone=monotone,
        act_on_qhat=act_on_qhat,
    )
