"""`DiscretizedActions`: continuous actions discretised into bins, one choice per dimension."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from dqucb import _validate as check


class DiscretizedActions(gymnasium.ActionWrapper, RecordConstructorArgs):
    """Each dimension of a Box of actions becomes a choice among `bins` equally spaced values, both bounds included.

    Choice j of dimension d stands for the atom 2j/(bins-1) - 1 of [-1, 1], scaled to that dimension's range (Tang and
    Agrawal 2020). The action space is MultiDiscrete, which the deep agents answer with one branch per dimension.

    Parameters
    ----------
    env : gymnasium.Env
        Any env whose actions are a Box with finite bounds, of any shape.
    bins : int
        Choices per dimension, at least 2.

    Examples
    --------
    >>> import gymnasium
    >>> env = DiscretizedActions(gymnasium.make("Pendulum-v1"), bins=5)
    >>> env.action_space, env.action([4]).tolist()
    (MultiDiscrete([5]), [2.0])
    """

    def __init__(self, env: gymnasium.Env[Any, Any], bins: int = 100) -> None:
        RecordConstructorArgs.__init__(self, bins=bins)
        gymnasium.ActionWrapper.__init__(self, env)
        self.bins = check.integer("bins", bins, 2)
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(f"env must have Box actions, got {space}")
        if not space.is_bounded():
            raise ValueError(f"env must have finite action bounds to cut into bins, got {space}")
        low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
        unit = 2.0 * np.arange(self.bins) / (self.bins - 1) - 1.0
        middle, half = (high + low)[:, None] / 2, (high - low)[:, None] / 2
        # Rounding must not move the outermost values beyond the bounds.
        self.atoms = np.clip(middle + half * unit, low[:, None], high[:, None]).astype(
            space.dtype
        )  # (dimensions, bins)
        self._dimensions = np.arange(len(low))
        self._shape = space.shape
        self.action_space = gymnasium.spaces.MultiDiscrete(np.full(len(low), self.bins))

    def action(self, action: Any) -> NDArray[Any]:
        """The env's own action for one choice per dimension."""
        chosen = np.asarray(action)
        if chosen.shape != self._dimensions.shape or chosen.dtype.kind not in "iu":
            raise ValueError(f"action must be {len(self._dimensions)} integers, got {action!r}")
        if chosen.min() < 0 or chosen.max() >= self.bins:
            raise ValueError(f"action must lie in [0, {self.bins - 1}], got {action!r}")
        return self.atoms[self._dimensions, chosen].reshape(self._shape)

    def __str__(self) -> str:
        return f"<DiscretizedActions({self.bins}){self.env}>"
