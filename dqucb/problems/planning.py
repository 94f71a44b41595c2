"""Exact solutions of a known problem: optimal values and the value of a policy, one phase at a time.

With a horizon, by backward induction: V_h(s) = max_a E[r + V_{h+1}(s')], V_H = 0. With a discount, by
Gauss-Seidel value iteration until the error bound discount/(1-discount) * |V' - V| is within a tolerance
(Puterman 1994). Where the discount is so near one that this would take minutes, by policy iteration instead, which
solves (I - discount P) V = r for each policy. Terminal states have value 0.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb._kernels import planning as kernels

if TYPE_CHECKING:
    from dqucb.problems.base import Problem

DEFAULT_TOLERANCE = 1e-9
BLOCK = 1_000_000_000  # backups of entries between two moments in which Ctrl-C is heard, some seconds
MOST_BACKUPS = 20 * BLOCK  # of value iteration, above which a policy is solved for
MOST_STATES = 4_000  # of a system of equations, half a minute


class Solution(NamedTuple):
    """Optimal values: (H + 1, S) and (H, S, A) with a horizon, (S,) and (S, A) with a discount."""

    values: NDArray[np.float64]
    q_values: NDArray[np.float64]

    @property
    def policy(self) -> NDArray[np.int64]:
        """The greedy action of each (step and) state, the lowest id on ties."""
        return self.q_values.argmax(axis=-1)


def solve(problem: "Problem", phase: int = 0, *, tolerance: float | None = None) -> Solution:
    """Optimal V and Q of a phase.

    Parameters
    ----------
    problem : TabularMDP or ShiftingMDP
        The problem.
    phase : int
        Its phase.
    tolerance : float, optional
        Upper bound on |V - V*| of a discounted problem; by default 1e-9, or the resolution of float64 if that is more.
    """
    phase = check.integer("phase", phase, 0, problem.n_phases - 1)
    values: NDArray[np.float64]
    q_values: NDArray[np.float64]
    S, A = problem.n_states, problem.n_actions
    if problem.horizon is not None:
        _no_tolerance(tolerance)
        values = np.empty((problem.horizon + 1, S))
        q_values = np.empty((problem.horizon, S, A))
        kernels.backward_induction(problem.model, phase, values, q_values)
    else:
        values, q_values = np.zeros(S), np.empty((S, A))
        discount, limit, sweeps = _stopping_rule(problem, tolerance)
        if _is_too_long(problem, sweeps):
            values = _policy_iteration(problem, phase, discount)
            sweeps = 2

        def sweep(most: int) -> float:
            return kernels.value_iteration(problem.model, phase, discount, limit, most, values, q_values)

        _check_reached(_in_blocks(problem, sweep, limit, sweeps), limit)
    return Solution(values, q_values)


def evaluate_policy(
    problem: "Problem", policy: Any, phase: int = 0, *, tolerance: float | None = None
) -> NDArray[np.float64]:
    """V of a deterministic policy: (H + 1, S) for actions (H, S); with a discount (S,) for actions (S,).

    With a horizon, a policy of shape (S,) plays the same actions at every step.
    """
    phase = check.integer("phase", phase, 0, problem.n_phases - 1)
    actions = _policy(problem, policy)
    values: NDArray[np.float64]
    if problem.horizon is not None:
        _no_tolerance(tolerance)
        values = np.empty((problem.horizon + 1, problem.n_states))
        kernels.policy_values(problem.model, phase, kernels.Actions(actions), problem.horizon, values)
        return values
    values = np.zeros(problem.n_states)
    discount, limit, sweeps = _stopping_rule(problem, tolerance)
    if _is_too_long(problem, sweeps):
        values = _solved(problem, phase, actions, discount)
        sweeps = 2

    def sweep(most: int) -> float:
        return kernels.gauss_seidel(problem.model, phase, kernels.Actions(actions[None]), discount, limit, most, values)

    _check_reached(_in_blocks(problem, sweep, limit, sweeps), limit)
    return values


def policy_return(problem: "Problem", policy: Any, phase: int = 0, *, tolerance: float | None = None) -> float:
    """The expected (discounted) return of a policy from the start of the phase."""
    values = evaluate_policy(problem, policy, phase, tolerance=tolerance)
    return float(kernels.value_at_start(problem.model, phase, values if values.ndim == 1 else values[0]))


def tolerance_and_sweeps(problem: "Problem", tolerance: float | None = None) -> tuple[float, int]:
    """The tolerance in force and a number of sweeps that reaches it, for the discounted kernels."""
    limit, sweeps = _stopping_rule(problem, tolerance)[1:]
    if sweeps * problem.model.successor.size > MOST_BACKUPS:
        raise ValueError(
            f"discount={problem.discount!r} is too near 1 to evaluate a policy again and again ({sweeps:,} sweeps): "
            'use regret="realized", or a smaller discount'
        )
    return limit, sweeps


def _policy(problem: "Problem", policy: Any) -> NDArray[np.int64]:
    S, A, H = problem.n_states, problem.n_actions, problem.horizon
    array = np.asarray(policy)
    if H is not None and array.shape == (S,):
        array = np.broadcast_to(array, (H, S))
    expected = (S,) if H is None else (H, S)
    if array.shape != expected or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"policy must be integer actions of shape {expected}, got {array.dtype} of shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= A:
        raise ValueError(f"policy must hold actions in [0, {A - 1}], got values from {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _stopping_rule(problem: "Problem", tolerance: float | None) -> tuple[float, float, int]:
    """Discount, tolerance, and the sweeps after which a contraction from V = 0 must have reached it."""
    discount = problem.discount
    assert discount is not None
    largest = float(np.abs(problem.model.reward).max()) / (1.0 - discount)  # bounds |V*|
    # Rounding V in each backup shifts the fixed point by up to this much, whatever the sweeps say.
    resolution = float(np.finfo(np.float64).eps) * largest / (1.0 - discount)
    limit = max(DEFAULT_TOLERANCE, 16 * resolution)
    if tolerance is not None:
        limit = check.positive("tolerance", tolerance)
        _check_reached(resolution, limit)
    if discount == 0.0 or largest == 0.0:
        return discount, limit, 2
    # The n-th sweep changes V by at most discount**(n-1) * 2 * largest; the bound adds discount/(1-discount).
    needed = np.log(limit * (1.0 - discount) / (2.0 * largest)) / np.log(discount)
    return discount, limit, max(2, int(np.ceil(needed)) + 2)


def _is_too_long(problem: "Problem", sweeps: int) -> bool:
    """Whether value iteration would take minutes; a ValueError where policy iteration would take no less."""
    if sweeps * problem.model.successor.size <= MOST_BACKUPS:
        return False
    if problem.n_states > MOST_STATES:
        raise ValueError(
            f"discount={problem.discount!r} is too near 1 for a problem of {problem.n_states:,} states: its values "
            f"would take {sweeps:,} sweeps over all of them; use a smaller discount, or a horizon"
        )
    return True


def _in_blocks(problem: "Problem", sweep: Callable[[int], float], limit: float, sweeps: int) -> float:
    """Sweep until the bound that `sweep` returns is within the limit, in calls short enough for Ctrl-C."""
    block = max(2, BLOCK // problem.model.successor.size)
    reached = sweep(min(block, sweeps))
    while reached > limit and sweeps > block:
        sweeps -= block
        reached = sweep(min(block, sweeps))
    return reached


def _policy_iteration(problem: "Problem", phase: int, discount: float) -> NDArray[np.float64]:
    """V* by Howard's policy iteration. Actions change only for a gain beyond rounding, so that it ends."""
    rewards, transitions = _dense(problem, phase)
    states = np.arange(problem.n_states)
    actions = rewards.argmax(axis=1)
    while True:
        values = _solution_of(rewards[states, actions], transitions[states, actions], discount)
        q_values = rewards + discount * transitions @ values
        rounding = 1e3 * np.finfo(np.float64).eps * np.abs(values).max()
        better = q_values.max(axis=1) > q_values[states, actions] + rounding
        if not better.any():
            return values
        actions[better] = q_values.argmax(axis=1)[better]


def _solved(problem: "Problem", phase: int, actions: NDArray[np.int64], discount: float) -> NDArray[np.float64]:
    rewards, transitions = _dense(problem, phase)
    states = np.arange(problem.n_states)
    return _solution_of(rewards[states, actions], transitions[states, actions], discount)


def _solution_of(
    rewards: NDArray[np.float64], transitions: NDArray[np.float64], discount: float
) -> NDArray[np.float64]:
    return np.asarray(np.linalg.solve(np.eye(len(rewards)) - discount * transitions, rewards), np.float64)


def _dense(problem: "Problem", phase: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean rewards (S, A) and transitions (S, A, S) of a phase without steps; terminal states pay and lead nowhere."""
    model, S, A = problem.model.written_out(), problem.n_states, problem.n_actions
    check.fits(f"transitions of {S:,} states and {A:,} actions", 8 * S * S * A)
    rewards, transitions = np.zeros(S * A), np.zeros((S * A, S))
    first = phase * model.phase_stride
    entries = slice(model.row_start[first], model.row_start[first + S * A])
    rows = np.repeat(np.arange(S * A), np.diff(model.row_start[first : first + S * A + 1]))
    np.add.at(rewards, rows, model.probability[entries] * model.reward[entries])
    np.add.at(transitions, (rows, model.successor[entries]), model.probability[entries])
    alive = np.repeat(~model.terminal, A)
    transitions[:, model.terminal] = 0.0
    return (rewards * alive).reshape(S, A), (transitions * alive[:, None]).reshape(S, A, S)


def _check_reached(reached: float, tolerance: float) -> None:
    if reached > tolerance:
        raise ValueError(
            f"tolerance={tolerance:g} is finer than float64 can resolve for this problem (about "
            f"{reached:.2g}): pass a larger tolerance, or None"
        )


def _no_tolerance(tolerance: float | None) -> None:
    if tolerance is not None:
        raise ValueError(
            f"tolerance is for discounted problems, got {tolerance!r}: with a horizon the solution is exact"
        )
