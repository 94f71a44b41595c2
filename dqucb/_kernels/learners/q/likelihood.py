"""The likelihood that divides the bonus, by the type of the windows: none, the window's, an oracle's, a noisy one."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels import discrete, window_pools
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.model import Model, row_of, transition_probability


class Told(NamedTuple):
    """An oracle's windows, with what it may look at."""

    windows: window_pools.DiscreteWindows
    model: Model
    phase: int


AnyWindows = window_pools.DiscreteWindows | window_pools.NoisyWindows | None


def _observe(kind: type) -> Callable[..., Any]:
    if kind is type(None):
        return certain
    return {Told: observe_phase, window_pools.NoisyWindows: observe_with_error}.get(kind, observe_next_state)


def _told(kind: type) -> Callable[..., Any]:
    if kind is window_pools.NoisyWindows:
        return tell_inner
    return tell if issubclass(kind, window_pools.OF_PHASES) else nothing_to_tell


observe = by_type(
    _observe,
    "(windows, row, seen, rng): the likelihood of a transition under the window before it, which then takes it in.",
)
told = by_type(_told, "(windows, model, phase): the same windows; those of an oracle with model and phase.")


@kernel
def nothing_to_tell(windows, model, phase):
    """Only oracles look."""
    return windows


@kernel
def tell(windows, model, phase):
    """An oracle looks."""
    return Told(windows, model, phase)


@kernel
def tell_inner(windows, model, phase):
    """The windows under the error may be an oracle's."""
    return window_pools.NoisyWindows(told(windows.windows, model, phase), windows.noise, windows.floor)


@kernel
def certain(windows, row, seen, rng):
    """Without windows every transition is certain."""
    return 1.0


@kernel
def observe_next_state(windows, row, seen, rng):
    """p(s' | s, a) under the window."""
    return discrete.observe(windows, row, seen.next_state, seen.state, seen.action)


@kernel
def observe_phase(oracle, row, seen, rng):
    """The oracle's."""
    p = oracle_likelihood(oracle, row, seen)
    discrete.push(oracle.windows, row, oracle.phase, seen.state, seen.action)
    return p


@kernel
def observe_with_error(noisy, row, seen, rng):
    """p with a Gaussian error, again a likelihood: for studies of what a poor estimate costs."""
    p = max(noisy.floor, observe(noisy.windows, row, seen, rng))
    if noisy.noise > 0.0:
        p = min(1.0, max(noisy.floor, p + noisy.noise * rng.standard_normal()))
    return p


@kernel
def oracle_likelihood(oracle, row, seen):
    """Probability of s' under the phases that fill the window over that under the phase now in force.

    The ratio is 1 while nothing changes, however noisy the transitions; it is no larger than 1 because the theory only
    lets the bonus grow.
    """
    windows, model = oracle.windows, oracle.model
    slot = int(windows.slot[discrete.window_of(windows, row, seen.state, seen.action)])
    if slot == window_pools.NONE:
        return 1.0
    start = window_pools.at(windows, slot, window_pools.ENTRY_START)
    mixture = 0.0
    held = 0
    for place in range(start, start + window_pools.at(windows, slot, window_pools.ENTRY_HIGH)):
        tie = window_pools.CHAIN * place
        same = window_pools.in_pair_scope(windows) or (
            windows.chain[tie + window_pools.STATE] == seen.state
            and windows.chain[tie + window_pools.ACTION] == seen.action
        )
        count = window_pools.count_of(windows.held[place])
        if same and count > 0:
            phase = window_pools.next_state_of(windows.held[place])
            then = row_of(model, phase, seen.step, seen.state, seen.action)
            mixture += count * transition_probability(model, then, seen.next_state)
            held += count
    if held == 0:
        return 1.0
    now_row = row_of(model, oracle.phase, seen.step, seen.state, seen.action)
    now = transition_probability(model, now_row, seen.next_state)
    return min(1.0, mixture / held / now)
