"""Exact solutions of a known problem: optimal values and the value of a policy, one phase at a time.

With a horizon, by backward induction: V_h(s) = max_a E[r + V_{h+1}(s')], V_H = 0. With a discount, by
Gauss-Seidel value iteration until the error bound discount/(1-discount) * |V' - V| is within a tolerance
(Puterman 1994). Terminal states have value 0.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb._kernels import planning as kernels

if TYPE_CHECKING:
    from dqucb.problems.base import Problem

DEFAULT_TOLERANCE = 1e-9


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
        reached = kernels.value_iteration(problem.model, phase, discount, limit, sweeps, values, q_values)
        _check_reached(reached, limit)
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
        kernels.policy_values(problem.model, phase, actions, values)
        return values
    values = np.zeros(problem.n_states)
    discount, limit, sweeps = _stopping_rule(problem, tolerance)
    reached = kernels.gauss_seidel(problem.model, phase, kernels.Actions(actions), discount, limit, sweeps, values)
    _check_reached(reached, limit)
    return values


def policy_return(problem: "Problem", policy: Any, phase: int = 0, *, tolerance: float | None = None) -> float:
    """The expected (discounted) return of a policy from the start of the phase."""
    values = evaluate_policy(problem, policy, phase, tolerance=tolerance)
    return float(kernels.value_at_start(problem.model, phase, values if values.ndim == 1 else values[0]))


def tolerance_and_sweeps(problem: "Problem", tolerance: float | None = None) -> tuple[float, int]:
    """The tolerance in force and a number of sweeps that reaches it, for the discounted kernels."""
    return _stopping_rule(problem, tolerance)[1:]


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
