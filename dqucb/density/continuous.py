"""The conditional likelihood p(s' | s, a) of real-valued transitions over one sliding window.

With (s'_i, s_i, a_i) the n transitions in the window, k a kernel profile with k(0) = 1 and h the bandwidth,

    joint = sum_i k(|(s', s, a) - (s'_i, s_i, a_i)| / h),   marginal = sum_i k(|(s, a) - (s_i, a_i)| / h).

`normalized`: p = joint / marginal, in [0, 1]. `density`: the ratio of the two normalised densities, p =
exp(c(h, d_joint) - c(h, d_marginal)) * joint / marginal, which integrates to one over s' for a Gaussian
kernel. Both sums come from one pass over one ring, relative to the nearest point, so that the ratio is
correct far away from every point as well.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb._kernels.continuous import TransitionWindow
from dqucb._kernels.profiles import KERNELS, log_normalization
from dqucb.density.base import DENSITIES, LIKELIHOODS, MAX_DIMENSION, Density, checked_bandwidth, checked_window


@DENSITIES.register("kde", states="vectors")
class TransitionKDE(Density, TransitionWindow):
    """Exact kernel estimate of p(next_state | state, action) over the last `window` transitions.

    Parameters
    ----------
    state_dim, action_dim : int
        Numbers in a state and in an action; a single number stands for a vector of one.
    window : int
        Number of transitions that count. Memory grows with the content up to this number.
    kernel : str
        "gaussian", "exponential", "linear", "cosine", "epanechnikov" or "tophat".
    bandwidth : float
        The width of the kernel, in scaled units.
    likelihood : str
        "normalized" (in [0, 1]) or "density" (see the formulas of the module).
    likelihood_floor : float
        The smallest value returned.
    state_scale, action_scale : float or sequence of float
        One positive number, or one for each coordinate: coordinates are divided by them before distances are taken.
        `density` stays a density in the caller's units.

    Notes
    -----
    An empty window, or no kernel mass at (state, action), gives likelihood 1: there is no evidence against the
    transition. `push` costs O(d) and `likelihood` O(n d); both ignore `step`, since all steps share one window.

    Examples
    --------
    >>> from dqucb import TransitionKDE
    >>> density = TransitionKDE(state_dim=2, window=50, bandwidth=0.5)
    >>> density.push(state=[0.0, 0.0], action=1, next_state=[1.0, 0.0])
    >>> density.likelihood([0.0, 0.0], 1, [1.0, 0.0])
    1.0
    >>> round(density.likelihood([0.0, 0.0], 1, [0.0, 0.0]), 6)
    0.135335
    """

    # push, likelihood, reset, points, kernel and window are inherited from the compiled class, for speed.

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
        params = checked_vectors(
            state_dim, action_dim, bandwidth, likelihood, likelihood_floor, state_scale, action_scale
        )
        columns = 2 * params["state_dim"] + params["action_dim"]
        params |= {"window": checked_window(window, 8 * columns), "kernel": _validate.one_of("kernel", kernel, KERNELS)}
        super().__init__(
            params["window"],
            kernel,
            params["bandwidth"],
            as_vector(params["state_scale"], params["state_dim"]),
            as_vector(params["action_scale"], params["action_dim"]),
            log_density_factor(params, kernel),
            params["likelihood_floor"],
        )
        self._params, self._columns = params, columns

    def state(self) -> dict[str, NDArray[Any]]:
        """The content: `points`, rows (s, a, s') divided by the scales, oldest first, and `next_slot`."""
        points, next_slot = self.ring()
        return {"points": points, "next_slot": np.array(next_slot)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `state()` of an estimator with the same parameters; a bad state changes nothing."""
        points = _validate.finite_array("points", entry(state, "points"), 2)
        if points.shape[1] != self._columns:
            raise ValueError(f"points must have {self._columns} columns, got shape {points.shape}")
        self.fill(points, scalar_integer("next_slot", entry(state, "next_slot")))

    def __repr__(self) -> str:
        return f"{super().__repr__()} holding {len(self)} transition{'s' * (len(self) != 1)}"


def checked_vectors(
    state_dim: Any, action_dim: Any, bandwidth: Any, likelihood: Any, floor: Any, state_scale: Any, action_scale: Any
) -> dict[str, Any]:
    """The parameters of a density over vectors, checked, by their names in the constructor."""
    sizes = {"state": _validate.integer("state_dim", state_dim, 1, MAX_DIMENSION),
             "action": _validate.integer("action_dim", action_dim, 1, MAX_DIMENSION)}  # fmt: skip
    return {
        "state_dim": sizes["state"],
        "action_dim": sizes["action"],
        "bandwidth": checked_bandwidth(bandwidth),
        "likelihood": _validate.one_of("likelihood", likelihood, LIKELIHOODS),
        "likelihood_floor": _validate.real("likelihood_floor", floor, 0.0, 1.0),
        "state_scale": positive("state_scale", state_scale, sizes["state"]),
        "action_scale": positive("action_scale", action_scale, sizes["action"]),
    }


def positive(name: str, value: ArrayLike, size: int) -> float | tuple[float, ...]:
    """One positive number, or a tuple of `size` of them."""
    if np.ndim(value) == 0:
        return _validate.positive(name, value.item() if isinstance(value, np.ndarray) else value)
    array = _validate.vector(name, value, size)
    if not (array > 0).all():
        raise ValueError(f"{name} must be > 0, got {array.min()}")
    # The same tuple again: scikit-learn's clone requires that a parameter is stored as it was given.
    return value if isinstance(value, tuple) and all(type(each) is float for each in value) else tuple(array.tolist())


def as_vector(scale: float | tuple[float, ...], size: int) -> NDArray[np.float64]:
    """A scale for each of `size` coordinates."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(scale, np.float64), size))


def log_density_factor(params: Mapping[str, Any], kernel: str) -> float:
    """Log of the factor from joint / marginal to p: 0, or for `density` the ratio of the normalising constants.

    Dividing s' by its scale before the kernel divides the density over s' by the product of the scales.
    """
    if params["likelihood"] == "normalized":
        return 0.0
    size, bandwidth = params["state_dim"], params["bandwidth"]
    marginal = size + params["action_dim"]
    constants = log_normalization(kernel, bandwidth, marginal + size) - log_normalization(kernel, bandwidth, marginal)
    return float(constants - np.log(as_vector(params["state_scale"], size)).sum())


def entry(state: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """One array of a saved state."""
    if name not in state:
        raise ValueError(f"state must hold {name!r}, got {sorted(state)}")
    return state[name]


def scalar_integer(name: str, value: Any) -> int:
    """A non-negative integer from an array without axes."""
    return _validate.integer(name, value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value, 0)
