"""Conditional likelihood of integer transitions: an exact sliding kernel density, and the plain count table.

With z = (s', s, a), window tuples z_i and a kernel profile k, k(0) = 1:
    joint    = sum_i k(|z - z_i| / bandwidth)
    marginal = sum_i k(|(s, a) - (s_i, a_i)| / bandwidth)
    p(s' | s, a) = joint / marginal                      `likelihood="normalized"`, in [0, 1]
                 = density(z) / density(s, a)            `likelihood="density"`
`density` equals exp(score_joint - score_marginal) of two scikit-learn `KernelDensity` objects.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import discrete as kernels
from dqucb._kernels import window_pools
from dqucb._kernels.discrete_check import is_consistent
from dqucb._kernels.profiles import KERNELS, log_normalization, profile_values, zero_beyond
from dqucb.density.base import DENSITIES, LIKELIHOODS, LockedDensity, checked_window

MAX_PROFILE = 1 << 24  # table entries, 128 MiB
MAX_TABLE = 2**33  # bytes of the table of windows
MAX_SQUARE = 2**61  # squared distances, summed over s, s' and a, stay exact 64-bit integers
_POOLS = ("slot", "ring", "held", "chain", "first", "used")


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """How windows turn transitions into a likelihood: the parameters that agents and densities share.

    Parameters
    ----------
    window, kernel, bandwidth, scope, likelihood, likelihood_floor, state_features
        As in `DiscreteTransitionKDE`.

    Examples
    --------
    >>> WindowSettings(window=50).kernel
    'gaussian'
    """

    window: int = 100
    kernel: str = "gaussian"
    bandwidth: float = 1.0
    scope: str = "pair"
    likelihood: str = "normalized"
    likelihood_floor: float = 0.0
    state_features: NDArray[np.int32] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checked_window(self.window, 2)
        _validate.one_of("kernel", self.kernel, KERNELS)
        _validate.positive("bandwidth", self.bandwidth)
        _validate.one_of("scope", self.scope, window_pools.SCOPES)
        _validate.one_of("likelihood", self.likelihood, LIKELIHOODS)
        _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0)

    def windows(
        self, n_states: int, n_actions: int, horizon: int, of_phases: bool = False
    ) -> window_pools.DiscreteWindows:
        """Empty windows for a problem of this size; `of_phases` for those of an oracle."""
        pairs = n_states * n_actions
        table = 4 * {"pair": horizon * pairs, "step": horizon * pairs, "shared": pairs}[self.scope]
        if table > MAX_TABLE:
            raise ValueError(
                f"n_states * n_actions * horizon must be small enough for a table of {_validate.in_words(MAX_TABLE)}, "
                f"got {n_states} * {n_actions} * {horizon}, which needs {_validate.in_words(table)}"
            )
        features = _features(self.state_features, n_states)
        axes = max(1, features.shape[1])
        ratio = 1.0
        if self.likelihood == "density":
            ratio = math.exp(
                log_normalization(self.kernel, self.bandwidth, 2 * axes + 1)
                - log_normalization(self.kernel, self.bandwidth, axes + 1)
            )
        return window_pools.new_windows(
            scope=window_pools.SCOPES.index(self.scope),
            horizon=horizon,
            n_states=n_states,
            n_actions=n_actions,
            window=self.window,
            features=features,
            profile=self._profile(features, n_states, n_actions),
            density_ratio=ratio,
            floor=float(self.likelihood_floor),
            of_phases=of_phases,
        )

    def _profile(self, features: NDArray[np.int32], n_states: int, n_actions: int) -> NDArray[np.float64]:
        """The kernel at every possible squared distance, then a zero for all larger ones."""
        if features.shape[1] == 0:
            farthest = (n_states - 1) ** 2
        else:
            farthest = sum(int(span) ** 2 for span in np.ptp(features.astype(np.int64), axis=0))
        if farthest > MAX_SQUARE:
            raise ValueError(
                "state_features must be nearer to each other than 1.5e9, the largest distance whose square is exact, "
                f"got {math.sqrt(farthest):.3g}"
            )
        if self.scope != "pair":
            farthest = 2 * farthest + (n_actions - 1) ** 2
        size = int(min(farthest, math.ceil(zero_beyond(self.kernel, self.bandwidth)))) + 1
        if size > MAX_PROFILE:
            raise ValueError(
                f"bandwidth must be small enough for a table of {MAX_PROFILE} squared distances, "
                f"got {self.bandwidth!r} with {n_states} states, which needs {size}"
            )
        values = profile_values(self.kernel, np.arange(size, dtype=np.float64), self.bandwidth)
        return np.append(values, 0.0)


@DENSITIES.register("discrete-kde", states="finite")
class DiscreteTransitionKDE(LockedDensity):
    """The exact sliding kernel density of integer transitions, conditioned on (s, a).

    Parameters
    ----------
    n_states, n_actions, horizon : int
        The sizes of the problem; a horizon of 1 treats all steps alike.
    window : int
        Number of transitions that count, in each window.
    kernel : str
        "gaussian", "exponential", "linear", "cosine", "epanechnikov" or "tophat".
    bandwidth : float
        The width of the kernel, in the units of the states.
    scope : str
        Which transitions share a window: those of one (step, state, action) ("pair"), of one step ("step"), or all
        ("shared").
    likelihood : str
        "normalized" or "density"; see the formulas of the module.
    likelihood_floor : float
        The smallest value returned.
    state_features : array of int, optional
        Coordinates of the states, of shape (n_states, axes); None takes their numbers. For coordinates that are not
        integers multiply them and the bandwidth by the same factor.

    Examples
    --------
    >>> from dqucb import DiscreteTransitionKDE
    >>> density = DiscreteTransitionKDE(n_states=16, n_actions=4, window=100, bandwidth=0.5)
    >>> for next_state in (1, 1, 1, 4):
    ...     density.push(state=0, action=2, next_state=next_state)
    >>> round(density.likelihood(0, 2, 1), 3)
    0.75
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        horizon: int = 1,
        window: int = 100,
        kernel: str = "gaussian",
        bandwidth: float = 1.0,
        scope: str = "pair",
        likelihood: str = "normalized",
        likelihood_floor: float = 0.0,
        state_features: NDArray[Any] | None = None,
    ) -> None:
        super().__init__()
        self.n_states = _validate.integer("n_states", n_states)
        self.n_actions = _validate.integer("n_actions", n_actions)
        self.horizon = _validate.integer("horizon", horizon)
        own_features = None if state_features is None else np.array(state_features)  # the caller may change its array
        self.settings = WindowSettings(
            window=window,
            kernel=kernel,
            bandwidth=bandwidth,
            scope=scope,
            likelihood=likelihood,
            likelihood_floor=likelihood_floor,
            state_features=own_features,
        )
        sizes = {"n_states": self.n_states, "n_actions": self.n_actions, "horizon": self.horizon}
        self._params = sizes | vars(self.settings) | {"state_features": state_features}
        self.reset()

    def push(self, state: int, action: int, next_state: int, step: int = 0) -> None:
        """Add a transition to its window; a full window drops its oldest one."""
        transition = self._checked(state, action, next_state, step)
        with self._lock:
            if not self._room:
                self._reserve(1024)
            self._room -= 1
            kernels.push(self._windows, *transition)

    def likelihood(self, state: int, action: int, next_state: int, step: int = 0) -> float:
        """p(s' | s, a) under the current window."""
        transition = self._checked(state, action, next_state, step)
        with self._lock:
            return kernels.likelihood(self._windows, *transition)

    def reset(self) -> None:
        """Forget every transition."""
        self._use(self._empty())

    def state(self) -> dict[str, NDArray[Any]]:
        """The windows' content as plain arrays, for `restore`."""
        with self._lock:
            return pools_of(self._windows)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue exactly from what `state` returned; a ValueError leaves the content unchanged."""
        self._use(with_pools(self._empty(), state, self.n_states))

    @property
    def nbytes(self) -> int:
        """Bytes held by the windows, lookup tables included."""
        return bytes_of(self._windows)

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (cls, params, state) = super().__reduce__()
        if "state_features" in params:
            params = params | {"state_features": self.settings.state_features}
        return rebuild, (cls, params, state)

    def _empty(self) -> window_pools.DiscreteWindows:
        return self.settings.windows(self.n_states, self.n_actions, self.horizon)

    def _use(self, windows: window_pools.DiscreteWindows) -> None:
        with self._lock:
            self._windows, self._room = windows, 0

    def _reserve(self, pushes: int) -> None:
        self._windows = window_pools.enlarged(self._windows, pushes)
        self._room = pushes

    def _checked(self, state: int, action: int, next_state: int, step: int) -> tuple[int, int, int, int]:
        return (
            _validate.state_id("step", step, self.horizon),
            _validate.state_id("next_state", next_state, self.n_states),
            _validate.state_id("state", state, self.n_states),
            _validate.state_id("action", action, self.n_actions),
        )


@DENSITIES.register("counts", states="finite")
class TransitionCounts(DiscreteTransitionKDE):
    """The fraction of the transitions of (s, a) in the window that led to s': a kernel density of bandwidth zero.

    Parameters
    ----------
    n_states, n_actions, horizon, window, scope, likelihood_floor
        As in `DiscreteTransitionKDE`.

    Examples
    --------
    >>> from dqucb import TransitionCounts
    >>> counts = TransitionCounts(n_states=3, n_actions=2, window=4)
    >>> for next_state in (1, 1, 1, 2):
    ...     counts.push(0, 0, next_state)
    >>> counts.likelihood(0, 0, 1), counts.likelihood(0, 0, 2), counts.likelihood(0, 1, 2)
    (0.75, 0.25, 1.0)
    """

    def __init__(
        self, n_states: int, n_actions: int, *, horizon: int = 1, window: int = 100, scope: str = "pair",
        likelihood_floor: float = 0.0,
    ) -> None:  # fmt: skip
        shared = {"horizon": horizon, "window": window, "scope": scope, "likelihood_floor": likelihood_floor}
        # A top-hat of radius one contains no second point of the integer lattice.
        super().__init__(n_states, n_actions, kernel="tophat", bandwidth=1.0, **shared)  # type: ignore[arg-type]
        self._params = {name: self._params[name] for name in ("n_states", "n_actions", *shared)}


def pools_of(windows: window_pools.DiscreteWindows) -> dict[str, NDArray[Any]]:
    """The used part of the pools: everything that distinguishes these windows from empty ones."""
    ring, entries = (int(used) for used in windows.used)
    chain = 0 if window_pools.in_pair_scope(windows) else window_pools.CHAIN * entries
    return {
        "slot": windows.slot.copy(),
        "ring": windows.ring[:ring].copy(),
        "held": windows.held[:entries].copy(),
        "chain": windows.chain[:chain].copy(),
        "first": windows.first.copy(),
        "used": windows.used.copy(),
    }


def bytes_of(windows: window_pools.DiscreteWindows) -> int:
    """Bytes of the used part of the pools and of the tables of kernel values."""
    rows = 0 if windows.rows is None else 8 * int(windows.rows.used[0]) + windows.rows.words.nbytes
    return sum(pool.nbytes for pool in pools_of(windows).values()) + windows.profile.nbytes + rows


def with_pools(
    empty: window_pools.DiscreteWindows, pools: Mapping[str, NDArray[Any]], n_next_states: int
) -> window_pools.DiscreteWindows:
    """`empty` filled with saved pools, which are checked first: a damaged file must not reach the kernels."""
    for name in _POOLS:
        _validate.like(name, pools.get(name), getattr(empty, name), growing=name not in ("slot", "first", "used"))
    copies: dict[str, Any] = {name: np.array(pools[name], order="C") for name in _POOLS}
    held = copies.pop("held")
    windows = window_pools.with_held(empty._replace(**copies), window_pools.on_lines(held, len(held)))
    if not is_consistent(windows, n_next_states):
        raise ValueError("the saved windows are inconsistent: the file is damaged")
    return windows


def _features(state_features: NDArray[Any] | None, n_states: int) -> NDArray[np.int32]:
    if state_features is None:
        return np.zeros((n_states, 0), np.int32)
    given = _validate.finite_array("state_features", state_features, 2)
    if given.shape[0] != n_states or given.shape[1] == 0:
        raise ValueError(f"state_features must have shape ({n_states}, axes), got {given.shape}")
    if np.abs(given).max() > np.iinfo(np.int32).max + 1.0:
        raise ValueError(f"state_features must be within 2**31 of zero, got {given.flat[np.abs(given).argmax()]!r}")
    rounded = given.astype(np.int64).clip(-(2**31), 2**31 - 1).astype(np.int32)
    if (rounded != given).any():
        raise ValueError(
            "state_features must be integers (multiply them and the bandwidth by the same factor), "
            f"got {given[(rounded != given)][0]!r}"
        )
    return np.ascontiguousarray(rounded)
