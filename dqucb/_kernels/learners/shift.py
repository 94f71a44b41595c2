"""The likelihood that divides the bonus: none, the window's, or the oracle's, chosen by the type of the windows."""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from dqucb._kernels import discrete, window_pools
from dqucb._kernels._jit import OPTIONS, kernel
from dqucb._kernels.model import row_of, transition_probability


def observe(windows, noise, seen, rng):
    """The likelihood of a transition under the window before it; then the window takes it in.

    `windows` may be None: then every transition is certain. `noise` is the standard deviation of a Gaussian error added
    to the likelihood, for studies of what a poor estimate costs. Changes the windows.
    """
    return _rule(type(windows))(windows, noise, seen, rng)


@overload(observe, jit_options=OPTIONS)
def _observe(windows, noise, seen, rng):
    rule = _rule(getattr(windows, "instance_class", type(None)))
    return lambda windows, noise, seen, rng: rule(windows, noise, seen, rng)


def _rule(kind: type) -> Callable[..., Any]:
    if kind is type(None):
        return certain
    return observe_phase if issubclass(kind, window_pools.OF_PHASES) else observe_next_state


@kernel
def certain(windows, noise, seen, rng):
    """Without windows."""
    return 1.0


@kernel
def observe_next_state(windows, noise, seen, rng):
    """p(s' | s, a) under the window."""
    p = discrete.observe(windows, seen.step, seen.next_state, seen.state, seen.action)
    return disturbed(p, noise, windows.floor, rng)


@kernel
def observe_phase(windows, noise, seen, rng):
    """The oracle's."""
    p = oracle_likelihood(windows, seen)
    discrete.push(windows, seen.step, seen.phase, seen.state, seen.action)
    return disturbed(p, noise, windows.floor, rng)


@kernel
def disturbed(p, noise, floor, rng):
    """p with its error, again a likelihood."""
    if noise > 0.0:
        p = min(1.0, max(floor, p + noise * rng.standard_normal()))
    return p


@kernel
def oracle_likelihood(windows, seen):
    """Probability of s' under the phases that fill the window over that under the phase now in force.

    The ratio is 1 while nothing changes, however noisy the transitions; it is floored like every likelihood, and no
    larger than 1 because the theory only lets the bonus grow.
    """
    slot = int(windows.slot[discrete.window_of(windows, seen.step, seen.state, seen.action)])
    if slot == window_pools.NONE:
        return 1.0
    model = seen.model
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
    row = row_of(model, seen.phase, seen.step, seen.state, seen.action)
    now = transition_probability(model, row, seen.next_state)
    return min(1.0, max(windows.floor, mixture / held / now))
