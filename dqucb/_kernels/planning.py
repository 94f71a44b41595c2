"""Dynamic programming over sparse successors (Puterman 1994, chapters 4 and 6).

Terminal states have value 0 at every step. All functions fill the arrays named last and allocate nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.model import Model, row_of
from dqucb._kernels.rows import largest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel
def backup(model: Model, row: int, discount: float, next_values: Floats) -> Any:
    """The Bellman backup of one row: sum over s' of P(s') * (r(s') + discount * V(s')).

    Unsigned indices spare the test for negative ones on each access, which would double the time.
    """
    total = 0.0
    here = np.uint64(row)
    outcome = np.uint64(model.outcome_start[here])
    for entry in range(np.uint64(model.row_start[here]), np.uint64(model.row_start[here + np.uint64(1)])):
        value = model.reward[outcome] + discount * next_values[np.uint64(model.successor[entry])]
        total += model.probability[outcome] * value
        outcome += np.uint64(1)
    return total


@kernel
def backward_induction(model: Model, phase: int, values: Floats, q_values: Floats) -> None:
    """Fill Q_h(s,a) = E[r + V_{h+1}(s')] and V_h(s) = max_a Q_h(s,a), with V_H = 0.

    Sizes: `values` (H + 1, S), `q_values` (H, S, A).
    """
    horizon = q_values.shape[0]
    values[horizon, :] = 0.0
    for step in range(horizon - 1, -1, -1):
        next_values = values[step + 1]
        for state in range(model.n_states):
            if model.terminal[state]:
                values[step, state] = 0.0
                q_values[step, state, :] = 0.0
                continue
            row = row_of(model, phase, step, state, 0)
            best = -np.inf
            for action in range(model.n_actions):
                value = backup(model, row + action, 1.0, next_values)
                q_values[step, state, action] = value
                best = max(best, value)
            values[step, state] = best


@kernel
def value_at_start(model: Model, phase: int, values: Floats) -> Any:
    """The mean of `values` (S,) over the initial state of the phase."""
    state = model.initial_state[phase]
    if state >= 0:
        return values[state]
    total = 0.0
    below = 0.0
    for state in range(model.n_states):
        reached = model.initial_cumulative[phase, state]
        total += (reached - below) * values[state]
        below = reached
    return total


# ---- the value of a policy --------------------------------------------------------------------------------


class Actions(NamedTuple):
    """A deterministic policy."""

    table: Integers  # (H, S) the action of each step and state; (1, S) with a discount


_state_values: dict[type, Callable[..., Any]] = {}
state_value = by_type(
    _state_values.__getitem__,
    "(policy, model, row, step, state, discount, next_values): the backup of a state under a policy; None is greedy.",
)


@kernel
def _greedy_value(policy, model, row, step, state, discount, next_values):
    best = -np.inf
    for action in range(model.n_actions):
        best = max(best, backup(model, row + action, discount, next_values))
    return best


@kernel
def _action_value(policy, model, row, step, state, discount, next_values):
    return backup(model, row + policy.table[step, state], discount, next_values)


def register_policy(kind: type, value: Callable[..., Any]) -> None:
    """Register the backup of a state under policies of a type."""
    _state_values[kind] = value


register_policy(type(None), _greedy_value)
register_policy(Actions, _action_value)


@kernel
def policy_values(model, phase, policy, horizon, values):
    """Fill V_h(s) = E[r + V_{h+1}(s')] under `policy`: row h of `values` (H + 1, S), or with fewer rows h modulo them.

    Two rows are enough for V_0, which is then in row 0.
    """
    rows = values.shape[0]
    values[horizon % rows, :] = 0.0
    for step in range(horizon - 1, -1, -1):
        here = values[step % rows]
        next_values = values[(step + 1) % rows]
        for state in range(model.n_states):
            if model.terminal[state]:
                here[state] = 0.0
            else:
                row = row_of(model, phase, step, state, 0)
                here[state] = state_value(policy, model, row, step, state, 1.0, next_values)


@kernel
def gauss_seidel(model, phase, policy, discount, tolerance, max_sweeps, values):
    """Gauss-Seidel sweeps of V(s) <- backup under `policy` from the given `values` (S,); a warm start saves sweeps.

    A sweep updates V in place, which is a contraction by `discount` in the maximum norm like the plain operator
    (Puterman 1994, section 6.3.3), so that
      |V - V*| <= discount / (1 - discount) * |change of the last sweep|.
    Stops when this bound is <= tolerance, or after max_sweeps. Returns the bound reached.
    """
    for state in range(model.n_states):
        if model.terminal[state]:
            values[state] = 0.0
    bound = np.inf
    sweeps = 0
    while bound > tolerance and sweeps < max_sweeps:
        change = 0.0
        for state in range(model.n_states):
            if model.terminal[state]:
                continue
            row = row_of(model, phase, 0, state, 0)
            value = state_value(policy, model, row, 0, state, discount, values)
            change = max(change, abs(value - values[state]))
            values[state] = value
        bound = discount / (1.0 - discount) * change
        sweeps += 1
    return bound


@kernel
def value_iteration(
    model: Model,
    phase: int,
    discount: float,
    tolerance: float,
    max_sweeps: int,
    values: Floats,
    q_values: Floats,
) -> Any:
    """Gauss-Seidel value iteration from the given `values` (S,); fills `q_values` (S, A) as well.

    Returns the bound of `gauss_seidel`. A last plain backup, which can only tighten it, gives Q and V = max_a Q.
    """
    bound = gauss_seidel(model, phase, None, discount, tolerance, max_sweeps, values)
    for state in range(model.n_states):
        for action in range(model.n_actions):
            if model.terminal[state]:
                q_values[state, action] = 0.0
            else:
                row = row_of(model, phase, 0, state, action)
                q_values[state, action] = backup(model, row, discount, values)
    for state in range(model.n_states):
        values[state] = largest(q_values[state])
    return bound
