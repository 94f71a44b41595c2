from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb._kernels.drift_segments import SegmentTest

def usual_range(column: NDArray[np.float64]) -> tuple[float, float]: ...

class ResidualTest:
    def __init__(
        self,
        n_state: int,
        n_action: int,
        n_actions: int,
        watch_reward: bool,
        products: NDArray[np.int32],
        waves: NDArray[np.float64],
        phases: NDArray[np.float64],
        burn_in: int,
        rate: float,
        smallest: float,
        lag: int,
        model_memory: float,
    ) -> None: ...
    @property
    def n_state(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def targets(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def seen(self) -> int: ...
    @property
    def burn_in(self) -> int: ...
    @property
    def segments(self) -> SegmentTest: ...
    @property
    def level(self) -> tuple[float, float, float, float, float, float]: ...
    def update(
        self, state: ArrayLike, action: ArrayLike, next_state: ArrayLike, reward: float | None, now: float
    ) -> bool: ...
    def state(self) -> dict[str, NDArray[Any]]: ...
    def restore(self, saved: dict[str, NDArray[Any]]) -> None: ...
