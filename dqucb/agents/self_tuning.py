"""DQUCB that tunes itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.learners.self_tuning import ALARMS, ARM, SelfTuningQ
from dqucb.agents import checkpoint
from dqucb.agents.base import Agent
from dqucb.agents.training import Sizes
from dqucb.agents.ucbvi import horizon_of


@dataclass(kw_only=True, eq=False, repr=False)
class SelfTuningDQUCB(Agent):
    bonus_scales: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)
    memory: int = 255
    divide: int = 2
    likelihood_floor: float = 0.3
    forgetting: float = 0.999
    exploration: float = 0.3
    threshold: float = 20.0
    sweep: int = 1
    restarts: bool = True

    def _new_learner(self, sizes: Sizes) -> Any:
        H, S, A = horizon_of(self, sizes), sizes.n_states, sizes.n_actions
        scales = np.array(self.bonus_scales, float)
        L = len(scales)
        Q = np.empty((H, S, A, L))
        Q[:] = sizes.bounds[:H, None, None, None]
        V = np.empty((H + 1, S, L))
        V[:] = sizes.bounds[:, None, None]
        pairs = (H, S, A)
        return SelfTuningQ(
            Q=Q, V=V, visits=np.zeros(pairs, np.int32), counts=np.zeros(pairs, np.int32), held=np.zeros(pairs, np.int32),
            outcomes=np.zeros((*pairs, min(2 * S, sizes.max_successors + 2)), np.int64),
            reward=np.zeros(pairs), unsure=np.zeros(pairs), path=np.zeros(H, np.int32), clock=np.zeros(5, np.int64),
            watch=np.zeros(7), bandit=np.zeros((2, L)), scales=scales, bounds=sizes.bounds, memory=self.memory, divide=self.divide,
            floor=self.likelihood_floor, forgetting=self.forgetting, exploration=self.exploration, threshold=self.threshold,
            sweep=self.sweep, restarts=self.restarts,
        )  # fmt: skip

    @property
    def q_(self) -> NDArray[np.float64]:
        learner = self._started().learner
        return learner.Q[..., learner.clock[ARM]].copy()

    @property
    def alarms_(self) -> int:
        return int(self._started().learner.clock[ALARMS])
