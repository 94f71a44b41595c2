"""The likelihood that divides the bonus, by the type of the windows: none, a window, an oracle, or noisy."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels import discrete, window_pools
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.model import Model, row_of, transition_probability


class OracleWindows(NamedTuple):
    """The windows of an oracle, with the true model and the current phase."""

    windows: window_pools.DiscreteWindows
    model: Model
    phase: int


AnyWindows = window_pools.DiscreteWindows | window_pools.NoisyWindows | None


def _observe(kind: type) -> Callable[..., Any]:
    if kind is type(None):
        return certain
    return {OracleWindows: observe_phase, window_pools.NoisyWindows: observe_with_error}.get(kind, observe_next_state)


def _with_oracle(kind: type) -> Callable[..., Any]:
    if kind is window_pools.NoisyWindows:
        return attach_model_inside
    return attach_model if issubclass(kind, window_pools.OF_PHASES) else no_oracle


observe = by_type(
    _observe,
    "(windows, row, transition, rng): the likelihood of a transition under its window, to which it is then added.",
)
with_oracle = by_type(_with_oracle, "(windows, model, phase): the windows; those of an oracle with model and phase.")


@kernel
def no_oracle(windows, model, phase):
    """The windows themselves: model and phase are used by oracle agents only."""
    return windows


@kernel
def attach_model(windows, model, phase):
    """The windows of an oracle, with model and phase."""
    return OracleWindows(windows, model, phase)


@kernel
def attach_model_inside(windows, model, phase):
    """Noisy windows, whose inner windows may be those of an oracle."""
    return window_pools.NoisyWindows(with_oracle(windows.windows, model, phase), windows.noise, windows.floor)


@kernel
def certain(windows, row, transition, rng):
    """Likelihood 1 without windows."""
    return 1.0


@kernel
def observe_next_state(windows, row, transition, rng):
    """p(s' | s, a) under the window."""
    return discrete.observe(windows, row, transition.next_state, transition.state, transition.action)


@kernel
def observe_phase(oracle, row, transition, rng):
    """The oracle's likelihood; adds the phase to the window."""
    p = oracle_likelihood(oracle, row, transition)
    discrete.push(oracle.windows, row, oracle.phase, transition.state, transition.action)
    return p


@kernel
def observe_with_error(noisy, row, transition, rng):
    """p with a Gaussian error, clipped: for studies of the cost of a poor estimate."""
    p = max(noisy.floor, observe(noisy.windows, row, transition, rng))
    if noisy.noise > 0.0:
        p = min(1.0, max(noisy.floor, p + noisy.noise * rng.standard_normal()))
    return p


@kernel
def oracle_likelihood(oracle, row, transition):
    """Probability of s' under the phases in the window over that under the current phase.

    The ratio is 1 while nothing changes, however noisy the transitions; it is capped at 1 because in the theory the
    bonus only grows.
    """
    windows, model = oracle.windows, oracle.model
    slot = int(windows.slot[discrete.window_of(windows, row, transition.state, transition.action)])
    if slot == window_pools.NONE:
        return 1.0
    start = window_pools.at(windows, slot, window_pools.ENTRY_START)
    mixture = 0.0
    held = 0
    for place in range(start, start + window_pools.at(windows, slot, window_pools.ENTRY_HIGH)):
        tie = window_pools.CHAIN * place
        same = window_pools.in_pair_scope(windows) or (
            windows.chain[tie + window_pools.STATE] == transition.state
            and windows.chain[tie + window_pools.ACTION] == transition.action
        )
        count = window_pools.count_of(windows.held[place])
        if same and count > 0:
            phase = window_pools.next_state_of(windows.held[place])
            then = row_of(model, phase, transition.step, transition.state, transition.action)
            mixture += count * transition_probability(model, then, transition.next_state)
            held += count
    if held == 0:
        return 1.0
    now_row = row_of(model, oracle.phase, transition.step, transition.state, transition.action)
    now = transition_probability(model, now_row, transition.next_state)
    return min(1.0, mixture / held / now)
