"""The conditional likelihood p(s' | s, a) of real-valued transitions over one sliding window.

With (s'_i, s_i, a_i) the n transitions in the window, k a kernel profile with k(0) = 1 and h the bandwidth,

    joint = sum_i k(|(s', s, a) - (s'_i, s_i, a_i)| / h),   marginal = sum_i k(|(s, a) - (s_i, a_i)| / h).

`normalized`: p = joint / marginal, in [0, 1]. `density`: the ratio of the two normalised densities, p =
exp(c(h, d_joint) - c(h, d_marginal)) * joint / marginal, which integrates to one over s' for a Gaussian
kernel. Both sums come from one pass over one ring, relative to the nearest point, so that the ratio is
right far away from every point too.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb._kernels.continuous import TransitionWindow
from dqucb._kernels.profiles import KERNELS, log_normalization
from dqucb.density.protocol import LIKELIHOODS
from dqucb.density.sliding import MAX_WINDOW, checked_bandwidth


class TransitionKDE(TransitionWindow):
    """Exact kernel estimate of p(next_state | state, action) over the last `window` transitions.

    Parameters
    ----------
    state_dim, action_dim : numbers in a state and in an action; a single number stands for a vector of one.
    window, kernel, bandwidth : as in `SlidingKDE`; the bandwidth is a number.
    likelihood : "normalized" (in [0, 1]) or "density" (see the module's formulas).
    likelihood_floor : the smallest value returned.
    state_scale, action_scale : one positive number, or one for each coordinate: coordinates are divided by
        them before distances are taken. `density` stays a density in the caller's units.

    An empty window, or no kernel mass at (state, action), gives likelihood 1: nothing speaks against the
    transition. `push` costs O(d) and `likelihood` O(n d); both ignore `step`: one window serves all steps.

    >>> density = TransitionKDE(state_dim=2, window=50, bandwidth=0.5)
    >>> density.push([1.0, 0.0], [0.0, 0.0], 1)
    >>> density.likelihood([1.0, 0.0], [0.0, 0.0], 1)
    1.0
    >>> round(density.likelihood([0.0, 0.0], [0.0, 0.0], 1), 6)
    0.135335
    """

    # push, likelihood, reset, points, kernel and window come from the compiled class, without a detour.

    def __init__(
        self,
        state_dim: int,
        action_dim: int = 1,
        *,
        window: int = 100,
        kernel: str = "gaussian",
        bandwidth: float = 1.0,
        likelihood: str = "normalized",
        likelihood_floor: float = 0.0,
        state_scale: ArrayLike = 1.0,
        action_scale: ArrayLike = 1.0,
    ) -> None:
        self.state_dim = _validate.integer("state_dim", state_dim, 1, MAX_WINDOW)
        self.action_dim = _validate.integer("action_dim", action_dim, 1, MAX_WINDOW)
        self.bandwidth = checked_bandwidth(bandwidth)
        self.normalization = _validate.one_of("likelihood", likelihood, LIKELIHOODS)
        self.likelihood_floor = _validate.real("likelihood_floor", likelihood_floor, 0.0, 1.0)
        self.state_scale = positive_vector("state_scale", state_scale, self.state_dim)
        self.action_scale = positive_vector("action_scale", action_scale, self.action_dim)
        kernel = _validate.one_of("kernel", kernel, KERNELS)
        super().__init__(
            _validate.integer("window", window, 1, MAX_WINDOW),
            kernel,
            self.bandwidth,
            self.state_scale,
            self.action_scale,
            log_density_factor(self.normalization, kernel, self.bandwidth, self.state_scale, self.action_dim),
            self.likelihood_floor,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """The content: `points`, rows (s, a, s') divided by the scales, oldest first, and `next_slot`."""
        points, next_slot = self.ring()
        return {"points": points, "next_slot": np.array(next_slot)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from `state()` of an estimator with the same settings; a bad state changes nothing."""
        points = _validate.finite_array("points", entry(state, "points"), 2)
        if points.shape[1] != 2 * self.state_dim + self.action_dim:
            raise ValueError(
                f"points must have {2 * self.state_dim + self.action_dim} columns, got shape {points.shape}"
            )
        self.fill(points, scalar_integer("next_slot", entry(state, "next_slot")))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._settings(), self.state())

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{name}={value.tolist() if isinstance(value, np.ndarray) else value!r}"
            for name, value in self._settings().items()
        )
        return f"TransitionKDE({settings}) holding {len(self)} transition{'s' * (len(self) != 1)}"

    def _settings(self) -> dict[str, Any]:
        return {
            "state_dim": self.state_dim,
            "action_dim": self.action_dim,
            "window": self.window,
            "kernel": self.kernel,
            "bandwidth": self.bandwidth,
            "likelihood": self.normalization,
            "likelihood_floor": self.likelihood_floor,
            "state_scale": self.state_scale,
            "action_scale": self.action_scale,
        }


def log_density_factor(
    likelihood: str, kernel: str, bandwidth: float, state_scale: NDArray[np.float64], action_dim: int
) -> float:
    """log of what turns joint / marginal into p: 0, or for `density` the ratio of the normalising constants.

    Dividing s' by its scale before the kernel divides the density over s' by the product of the scales.
    """
    if likelihood == "normalized":
        return 0.0
    marginal = state_scale.size + action_dim
    constants = log_normalization(kernel, bandwidth, marginal + state_scale.size) - log_normalization(
        kernel, bandwidth, marginal
    )
    return float(constants - np.log(state_scale).sum())


def positive_vector(name: str, value: ArrayLike, size: int) -> NDArray[np.float64]:
    """`size` positive numbers; a single one stands for all."""
    values = np.full(size, value) if np.ndim(value) == 0 else value
    array = _validate.vector(name, values, size).copy()  # the caller may change its own later
    if not (array > 0).all():
        raise ValueError(f"{name} must be > 0, got {array.min()}")
    return array


def entry(state: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """One array of a saved state."""
    if name not in state:
        raise ValueError(f"state must hold {name!r}, got {sorted(state)}")
    return state[name]


def scalar_integer(name: str, value: Any) -> int:
    """A non-negative integer from an array without axes."""
    return _validate.integer(name, value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value, 0)


def _rebuild(cls: type[TransitionKDE], settings: dict[str, Any], state: dict[str, NDArray[Any]]) -> TransitionKDE:
    density = cls(**settings)
    density.restore(state)
    return density
