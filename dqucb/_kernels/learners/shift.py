"""The likelihood that divides the bonus: none, the window's, or the oracle's."""

from dqucb._kernels import discrete, window_pools
from dqucb._kernels._jit import kernel
from dqucb._kernels.model import row_of, transition_probability

NO_DENSITY, WINDOW, ORACLE = 0, 1, 2


@kernel
def observe(density, noise, windows, seen, rng):
    """The likelihood of a transition under the window before it; then the window takes it in.

    `noise` is the standard deviation of a Gaussian error added to the likelihood, for studies of what a
    poor estimate costs. Changes the windows.
    """
    if density == ORACLE:
        p = oracle_likelihood(windows, seen)
        discrete.push(windows, seen.step, seen.phase, seen.state, seen.action)
    else:
        p = discrete.observe(windows, seen.step, seen.next_state, seen.state, seen.action)
    if noise > 0.0:
        p = min(1.0, max(windows.floor, p + noise * rng.standard_normal()))
    return p


@kernel
def oracle_likelihood(windows, seen):
    """Probability of s' under the phases that fill the window over that under the phase now in force.

    The windows hold phases where they otherwise hold next states. The ratio is 1 while nothing changes,
    however noisy the transitions; it is floored like every likelihood, and no larger than 1 because the
    theory only lets the bonus grow.
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
        same = windows.scope == window_pools.PAIR or (
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
