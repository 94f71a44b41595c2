"""Shared by all transition densities: the registry, parameters, copies, limits, and `make_density`."""

import threading
from collections.abc import Mapping
from copy import deepcopy
from inspect import signature
from typing import Any

from numpy.typing import NDArray

from dqucb import _validate
from dqucb._parameters import as_json
from dqucb._registry import Registry
from dqucb.density.protocol import TransitionDensity

DENSITIES: Registry[type] = Registry("density", ("dqucb.density",))
"""Name -> class; `DENSITIES.facts(name)["states"]` is "finite" or "vectors"."""

LIKELIHOODS = ("normalized", "density")  # p as a ratio of kernel sums, or of two densities
MAX_WINDOW = 2**31 - 1  # positions in a window are 32 bits wide
MAX_BYTES = 2**40
MAX_DIMENSION = 2**20
BANDWIDTHS = (1e-100, 1e100)  # far beyond any use; within them no kernel sum becomes NaN


def checked_window(value: Any, bytes_each: int) -> int:
    """The window as an int; a ValueError with its size if its content, at `bytes_each`, cannot fit in memory."""
    window = _validate.integer("window", value)
    if window > MAX_WINDOW or window * bytes_each > MAX_BYTES:
        largest = min(MAX_WINDOW, MAX_BYTES // bytes_each)
        size = _validate.in_words(window * bytes_each)
        raise ValueError(
            f"window must be an integer in [1, {largest}], got {window}, which takes {size} when it is full"
        )
    return window


def checked_bandwidth(value: Any) -> float:
    """A bandwidth above zero, within `BANDWIDTHS`."""
    return _validate.real("bandwidth", _validate.positive("bandwidth", value), *BANDWIDTHS)


class Density:
    """Base of the densities of this package: parameters by name, and copies that share nothing with the original.

    A class with the methods of `TransitionDensity` need not derive from it. One that does keeps the arguments of its
    constructor in `_params` and gets `get_params`, `describe`, copying, pickling and `repr`.

    Examples
    --------
    >>> from dqucb import TransitionCounts
    >>> isinstance(TransitionCounts(3, 2), Density), TransitionCounts(3, 2).name
    (True, 'counts')
    """

    _params: dict[str, Any]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that was learned, as plain arrays."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue exactly from what `state` returned."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The registered name, or that of the class."""
        return DENSITIES.name_of(type(self)) or type(self).__qualname__

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor by name; `deep` is there for scikit-learn."""
        return dict(self._params)

    def describe(self) -> dict[str, Any]:
        """Name and parameters as JSON values, from which `make_density` builds an equal one.

        Examples
        --------
        >>> from dqucb import TransitionCounts
        >>> TransitionCounts(16, 4, window=50).describe() == {
        ...     "name": "counts", "n_states": 16, "n_actions": 4, "horizon": 1, "window": 50, "scope": "pair",
        ...     "likelihood_floor": 0.0}
        True
        """
        return {"name": self.name, **{name: as_json(value) for name, value in self._params.items()}}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._params, self.state())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._params.items())})"


class LockedDensity(Density):
    """A density whose methods take a lock, because another thread may interrupt them half-way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()


def make_density(
    spec: str | Mapping[str, Any] | TransitionDensity,
    *,
    n_states: int | None = None,
    n_actions: int | None = None,
    horizon: int = 1,
    state_dim: int | None = None,
    action_dim: int | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> TransitionDensity:
    """A new, empty density for a problem of given sizes.

    Parameters
    ----------
    spec : str, mapping or TransitionDensity
        A registered name, a mapping with "name" and parameters (as `describe` returns), or a density for a problem of
        the same sizes, which is returned unchanged.
    n_states, n_actions, horizon : int
        The sizes of a finite problem. A density over vectors takes state and action ids as numbers.
    state_dim, action_dim : int
        The sizes of a problem whose states and actions are vectors.
    defaults : mapping, optional
        Values of parameters that `spec` does not give; those that the density does not have are ignored.

    Returns
    -------
    TransitionDensity

    Examples
    --------
    >>> from dqucb.density import make_density
    >>> make_density({"name": "counts", "window": 50}, n_states=16, n_actions=4)
    TransitionCounts(n_states=16, n_actions=4, horizon=1, window=50, scope='pair', likelihood_floor=0.0)
    >>> make_density("count", n_states=16, n_actions=4)
    Traceback (most recent call last):
    ValueError: unknown density 'count': did you mean counts?
    """
    check_density_spec(spec)
    if not isinstance(spec, str | Mapping) and not hasattr(spec, "get_params"):
        copy = deepcopy(spec)
        copy.reset()
        return copy
    cls, given = _class_and_parameters(spec)
    accepted = signature(cls).parameters
    for name in given:
        _validate.known(f"parameter of the density {DENSITIES.name_of(cls) or cls.__name__}", name, accepted)
    sizes: dict[str, Any]
    if "n_states" in accepted:
        if n_states is None:
            raise ValueError(f"the density {DENSITIES.name_of(cls)!r} is for finite problems, not for vectors: use "
                             f"{' or '.join(_over('vectors'))}")  # fmt: skip
        sizes = {"n_states": n_states, "n_actions": n_actions, "horizon": horizon}
    else:
        sizes = {"state_dim": 1 if n_states is not None else state_dim, "action_dim": action_dim or 1}
    for name, size in sizes.items():
        if given.get(name, size) != size:
            raise ValueError(f"the density is for {name}={given[name]}, the problem has {name}={size}")
    known = {name: value for name, value in (defaults or {}).items() if name in accepted}
    return cls(**{**known, **given, **sizes})


def check_density_spec(spec: Any) -> None:
    """Raise a ValueError unless `spec` is valid for `make_density`.

    Examples
    --------
    >>> check_density_spec("count")
    Traceback (most recent call last):
    ValueError: unknown density 'count': did you mean counts?
    """
    if isinstance(spec, str | Mapping):
        _class_and_parameters(spec)
    elif isinstance(spec, type) or not isinstance(spec, TransitionDensity):
        raise ValueError(
            f"density must be one of {', '.join(DENSITIES)}, a mapping with such a name, or an object with push, "
            f"likelihood, reset, state and restore, got {spec!r}"
        )


def _class_and_parameters(spec: Any) -> tuple[type, dict[str, Any]]:
    if isinstance(spec, str):
        return DENSITIES.find(spec), {}
    if isinstance(spec, Mapping):
        if not isinstance(spec.get("name"), str):
            raise ValueError(f"density must have a name, one of {', '.join(DENSITIES)}, got {dict(spec)!r}")
        return DENSITIES.find(spec["name"]), {str(name): value for name, value in spec.items() if name != "name"}
    return type(spec), dict(spec.get_params())


def _over(states: str) -> list[str]:
    return [repr(name) for name in DENSITIES if DENSITIES.facts(name).get("states") == states]


def _rebuild(cls: type, params: dict[str, Any], state: dict[str, NDArray[Any]]) -> Any:
    density = cls(**params)
    density.restore(state)
    return density
