"""`check_density`: whether a density satisfies the contract of `TransitionDensity`."""

import copy
import json
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage
from dqucb._validate import demand
from dqucb.density.base import DENSITIES, make_density
from dqucb.density.protocol import TransitionDensity

Transition = tuple[Any, Any, Any, int]


def check_density(density: TransitionDensity, transitions: Sequence[Transition] | None = None) -> None:
    """Check that a density satisfies the contract; an AssertionError says what is wrong.

    Parameters
    ----------
    density : TransitionDensity
        The density; it is copied and not changed.
    transitions : sequence of (state, action, next_state, step), optional
        At least eight, with more than one next state after the first one's state and action. By default they are
        drawn for the sizes in `get_params()`: n_states, n_actions, horizon or state_dim, action_dim.

    Notes
    -----
    The checks: the likelihood is 1 when empty, later finite, at least 0 and (unless it is a ratio of densities) at most
    1; queries change nothing; transitions that left the window do not count; `state` and `restore` are bit-identical,
    through a file as well; `reset` works; invalid input is refused and changes nothing; copies and pickles share
    nothing.

    Examples
    --------
    >>> from dqucb import TransitionCounts, check_density
    >>> check_density(TransitionCounts(n_states=5, n_actions=2))
    """
    demand(isinstance(density, TransitionDensity) and not isinstance(density, type),
            f"a density must have push, likelihood, reset, state and restore, got {density!r}")  # fmt: skip
    stream = list(transitions) if transitions is not None else _drawn(density)
    before = density.state()
    empty = copy.deepcopy(density)
    empty.reset()
    filled = copy.deepcopy(empty)
    for transition in stream:
        filled.push(*transition)
    _check_likelihood(empty, filled, stream)
    _check_repetition(empty, stream)
    _check_state(empty, filled, stream)
    _check_refusals(filled, stream)
    _check_copies(filled, stream)
    _check_window(density, stream)
    _check_parameters(density)
    filled.reset()
    demand(_likelihoods(filled, stream) == [1.0] * len(stream), "after reset every likelihood must be 1")
    demand(_same(before, density.state()), "a copy shares memory with the density: using it changed the original")


def _check_likelihood(empty: TransitionDensity, filled: TransitionDensity, stream: list[Transition]) -> None:
    demand(
        _likelihoods(empty, stream) == [1.0] * len(stream), "an empty density must give every transition likelihood 1"
    )
    before = filled.state()
    values = _likelihoods(filled, stream)
    largest = math.inf if _params(filled).get("likelihood") == "density" else 1.0
    for transition, p in zip(stream, values, strict=True):
        demand(isinstance(p, float), f"likelihood must be a float, got {p!r} for {transition}")
        demand(
            math.isfinite(p) and 0 <= p <= largest,
            f"likelihood must be in [0, {largest:g}], got {p!r} for {transition}",
        )
    demand(_likelihoods(filled, stream) == values and _same(before, filled.state()), "likelihood must change nothing")


def _check_repetition(empty: TransitionDensity, stream: list[Transition]) -> None:
    """A transition seen many times is at least as likely as one never seen."""
    density = copy.deepcopy(empty)
    state, action, next_state, step = stream[0]
    others = [each[2] for each in stream if not np.array_equal(each[2], next_state)]
    for _ in range(20):
        density.push(state, action, next_state, step)
    seen = density.likelihood(state, action, next_state, step)
    for other in others:
        p = density.likelihood(state, action, other, step)
        demand(p <= seen, f"after 20 pushes of {stream[0]} its likelihood is {seen}, that of next state {other} {p}")


def _check_state(empty: TransitionDensity, filled: TransitionDensity, stream: list[Transition]) -> None:
    saved = filled.state()
    kept = {name: np.array(array) for name, array in saved.items()}
    for array in saved.values():
        demand(isinstance(array, np.ndarray), f"state must hold arrays, got {array!r}")
        if array.flags.writeable:
            array[...] = 0
    demand(_same(kept, filled.state()), "state must return copies: changing them changed the density")
    _, read = _storage.unpack(_storage.pack("check_density", {}, kept), "check_density", "the saved state")
    twin, original = copy.deepcopy(empty), copy.deepcopy(filled)
    twin.push(*stream[-1])
    twin.restore(read)
    for transition in [*stream, *reversed(stream)]:
        demand(twin.likelihood(*transition) == original.likelihood(*transition),
                "a restored density must continue with identical bits")  # fmt: skip
        twin.push(*transition)
        original.push(*transition)
    demand(_same(kept, read), "restore must copy what it is given: pushing changed it")


def _check_refusals(density: TransitionDensity, stream: list[Transition]) -> None:
    state, action, next_state, step = stream[0]
    saved = density.state()
    bad: dict[str, Callable[[], Any]] = {
        "push of a state None": lambda: density.push(None, action, next_state, step),
        "push of a next state NaN": lambda: density.push(state, action, _nan_like(next_state), step),
        "likelihood of an action None": lambda: density.likelihood(state, None, next_state, step),
        "restore of an empty state": lambda: density.restore({}),
    }
    for name in saved:
        rest = {other: array for other, array in saved.items() if other != name}
        bad[f"restore of a state without {name!r}"] = lambda rest=rest: density.restore(rest)  # type: ignore[misc]
    for what, call in bad.items():
        try:
            call()
        except (ValueError, TypeError):
            demand(_same(saved, density.state()), f"{what} was refused, but changed the density")
        except Exception as error:
            raise AssertionError(f"{what} must be refused with a ValueError, not {type(error).__name__}") from error
        else:
            raise AssertionError(f"{what} must be refused with a ValueError")


def _check_copies(density: TransitionDensity, stream: list[Transition]) -> None:
    ways: dict[str, Callable[[Any], Any]] = {"copy.copy": copy.copy, "copy.deepcopy": copy.deepcopy}
    try:
        pickle.dumps(type(density))
    except (pickle.PicklingError, AttributeError):
        pass  # a class that is defined inside a function cannot be found by name, whatever its author does
    else:
        ways["pickle"] = lambda each: pickle.loads(pickle.dumps(each))
    for way, copied in ways.items():
        saved = density.state()
        twin = copied(density)
        demand(_same(saved, twin.state()), f"{way} must give an equal density")
        for transition in stream:
            twin.push(*transition)
            twin.likelihood(*transition)
        demand(_same(saved, density.state()), f"{way} shares memory with the original: pushing changed both")


def _check_window(density: TransitionDensity, stream: list[Transition]) -> None:
    """Only the last `window` transitions of one state and action count."""
    params = _params(density)
    if "window" not in params:
        return
    whole, last = (type(density)(**{**params, "window": 5}) for _ in range(2))
    state, action, _, step = stream[0]
    arrivals = [each[2] for each in stream]
    for i, next_state in enumerate(arrivals):
        whole.push(state, action, next_state, step)
        if i >= len(arrivals) - 5:
            last.push(state, action, next_state, step)
    for next_state in arrivals:
        p, wanted = (each.likelihood(state, action, next_state, step) for each in (whole, last))
        demand(math.isclose(p, wanted, rel_tol=1e-9, abs_tol=1e-300),
                f"a window of 5 must forget all but the last 5: got {p}, without the others {wanted}")  # fmt: skip


def _check_parameters(density: TransitionDensity) -> None:
    """Parameters rebuild the density, as JSON too where it has a registered name."""
    if not hasattr(density, "get_params"):
        return
    demand(_params(type(density)(**_params(density))).keys() == _params(density).keys(),
            "get_params must return the arguments of the constructor")  # fmt: skip
    if DENSITIES.name_of(type(density)) is not None:
        description = json.loads(json.dumps(density.describe()))  # type: ignore[attr-defined]
        sizes = {name: description.get(name) for name in ("n_states", "n_actions", "state_dim", "action_dim")}
        again: Any = make_density(description, horizon=description.get("horizon", 1), **sizes)
        demand(
            again.describe() == description, f"describe must rebuild the density: {description} gave {again.describe()}"
        )


def _drawn(density: TransitionDensity) -> list[Transition]:
    """Random transitions for the sizes of the density; the first ten share state, action and step."""
    params, rng = _params(density), np.random.default_rng(0)
    if "n_states" in params:
        sizes = [params["n_states"], params["n_actions"], params["n_states"], params.get("horizon", 1)]
        rows = rng.integers(sizes, size=(60, 4))
        rows[:10, [0, 1, 3]] = rows[0, [0, 1, 3]]
        return [(int(s), int(a), int(n), int(h)) for s, a, n, h in rows]
    if "state_dim" not in params:
        raise ValueError("check_density needs transitions=: the density has no get_params with n_states or state_dim")
    scale = np.broadcast_to(params.get("state_scale", 1.0), params["state_dim"])
    states, nexts = rng.normal(size=(2, 60, params["state_dim"])) * scale
    actions = rng.integers(2, size=(60, params["action_dim"])).astype(float)
    states[:10], actions[:10] = states[0], actions[0]
    return [(s, a, n, 0) for s, a, n in zip(states, actions, nexts, strict=True)]


def _params(density: Any) -> dict[str, Any]:
    return dict(density.get_params()) if hasattr(density, "get_params") else {}


def _likelihoods(density: TransitionDensity, stream: list[Transition]) -> list[float]:
    return [density.likelihood(*transition) for transition in stream]


def _same(left: dict[str, NDArray[Any]], right: dict[str, NDArray[Any]]) -> bool:
    return left.keys() == right.keys() and all(
        np.asarray(left[name]).dtype == np.asarray(right[name]).dtype
        and np.asarray(left[name]).tobytes() == np.asarray(right[name]).tobytes()
        for name in left
    )


def _nan_like(value: Any) -> Any:
    return np.full(np.shape(value), np.nan) if np.ndim(value) else math.nan
