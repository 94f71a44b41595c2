"""The paper's regret bounds as functions, up to absolute constants, and the quantities in them.

Notation: S states, A actions, H horizon, K episodes of which the first `change_at` come before the shift, T steps,
delta the probability of failure, epsilon the error of the estimate of 1/p, gamma the discount.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import formulas
from dqucb.problems.base import Problem

TIE = 1e-9  # smaller gaps are rounding errors of value iteration, not sub-optimality


def learning_rate_weights(t: int, H: float) -> NDArray[np.float64]:
    """alpha_t^i for i = 0..t: the weights in Q of the initial value and of each of t samples after t visits.

    alpha_t^i = alpha_i prod_{j=i+1}^{t} (1 - alpha_j), alpha_t^0 = prod_j (1 - alpha_j).
    """
    t = _validate.integer("t", t, 0)
    H = _validate.positive("H", H)
    rates = np.array([1.0] + [formulas.learning_rate(i, H) for i in range(1, t + 1)])
    kept = np.append(np.cumprod((1.0 - rates[1:])[::-1])[::-1], 1.0)
    return rates * kept


def episodic_bound(S: int, A: int, H: int, K: int, delta: float = 0.05, epsilon: float = 0.0) -> float:
    """sqrt(H^5 (1 + epsilon)^2 S A K ln(S A K H / delta)): DQUCB with a horizon, shift or not (Theorem 4.1)."""
    return (1.0 + epsilon) * math.sqrt(float(H) ** 5 * S * A * K * formulas.confidence_log(float(S), A, K, H, delta))


def episodic_bound_unaware(S: int, A: int, H: int, K: int, change_at: int, delta: float = 0.05) -> float:
    """QUCB under a shift: the bound up to the shift plus H for every episode after it (Remark 4.2)."""
    return episodic_bound(S, A, H, change_at, delta) + float(H) * (K - change_at)


def discounted_bound(S: int, A: int, T: int, gamma: float, gap: float, epsilon: float = 0.0) -> float:
    """S A (1 + epsilon) / ((1 - gamma)^6 gap) ln(S A T / ((1 - gamma) gap)): discounted DQUCB (Theorem 4.3).

    `gap` is the smallest positive sub-optimality gap over all phases.
    """
    head = S * A * (1.0 + epsilon) / ((1.0 - gamma) ** 6 * gap)
    return head * math.log(float(S) * A * T / ((1.0 - gamma) * gap))


def discounted_bound_unaware(S: int, A: int, T: int, change_at: int, gamma: float, gap: float) -> float:
    """Discounted QUCB under a shift: the bound up to the shift plus 1 for every step after it (Remark 4.4)."""
    return discounted_bound(S, A, change_at, gamma, gap) + (T - change_at)


def suboptimality_gaps(problem: Problem, phase: int = 0) -> NDArray[np.float64]:
    """V*(s) - Q*(s, a) of a phase: (H, S, A) with a horizon, (S, A) with a discount."""
    values, q = problem.optimal_values(phase), problem.optimal_q(phase)
    return (values[:-1] if problem.horizon is not None else values)[..., None] - q


def smallest_gap(problem: Problem) -> float:
    """The smallest positive gap over all phases; infinity if every action is always optimal."""
    gaps = np.concatenate([suboptimality_gaps(problem, phase).ravel() for phase in range(problem.n_phases)])
    positive = gaps[gaps > TIE]
    return float(positive.min()) if positive.size else math.inf
