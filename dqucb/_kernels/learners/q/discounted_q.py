"""Optimistic Q-learning without a horizon: Algorithm 2, its QUCB form, and plain Q-learning.

Q <- (1 - alpha_k) Q + alpha_k [r + gamma Vhat(s') + b_k / p],  Qhat <- min(Qhat, Q),  Vhat(s) = max_a Qhat(s, a).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules
from dqucb._kernels.learners.q.episodic_q import exploration, has_room
from dqucb._kernels.learners.q.likelihood import AnyWindows, observe, with_oracle
from dqucb._kernels.rows import best_action_from, largest


class DiscountedQ(NamedTuple):
    """Tables and settings of one learner."""

    Q: NDArray[np.float64]  # (S, A)
    Qhat: NDArray[np.float64]  # (S, A)
    visits: NDArray[np.int64]  # (S, A)
    windows: AnyWindows  # None: the bonus is never divided
    floor: float  # the smallest likelihood by which a bonus is divided
    gamma: float
    scale: float  # c
    horizon: float  # effective, in the bonus
    rate_horizon: float  # in the learning rate
    fixed_rate: float  # a constant learning rate, or 0
    length: float  # T
    epsilon: float  # probability of a uniformly random action
    monotone: bool  # Qhat never rises; without it Qhat = Q
    act_on_qhat: bool


@kernel
def greedy(learner, step, state, first):
    """argmax_a of Qhat, or of Q as in the listing of the paper."""
    return best_action_from(learner.Qhat[state] if learner.act_on_qhat else learner.Q[state], first)


@kernel
def act(learner, step, state, rng):
    """Greedy; with epsilon > 0 random that often, with random ties. Draws from `rng` only if epsilon > 0."""
    if learner.epsilon == 0.0:
        return greedy(learner, step, state, 0)
    explores, anything = rules.explore(learner.epsilon, learner.Q.shape[1], rng)
    return anything if explores else greedy(learner, step, state, anything)


@kernel
def with_model(learner, model, phase):
    """The learner with the model and the phase for the windows of an oracle."""
    windows = with_oracle(learner.windows, model, phase)
    return DiscountedQ(
        learner.Q, learner.Qhat, learner.visits, windows, learner.floor, learner.gamma, learner.scale, learner.horizon,
        learner.rate_horizon, learner.fixed_rate, learner.length, learner.epsilon, learner.monotone,
        learner.act_on_qhat,
    )  # fmt: skip


@kernel
def learn(learner, transition, rng):
    """Algorithm 2, lines 4 to 9."""
    p = observe(learner.windows, 0, transition, rng)
    return update(learner, transition, p), p


@kernel
def update(learner, transition, p):
    """The update of the visited pair, given the likelihood of its transition; returns the bonus."""
    state = np.uint64(transition.state)
    action = np.uint64(transition.action)
    k = learner.visits[state, action] + 1
    learner.visits[state, action] = k
    bonus = 0.0
    if learner.scale > 0.0:
        iota = formulas.discounted_log(learner.Q.shape[0], learner.Q.shape[1], learner.length, k)
        bonus = formulas.discounted_bonus(learner.scale, k, learner.gamma, learner.horizon, iota)
        bonus = formulas.shift_aware(bonus, max(p, learner.floor))
    alpha = learner.fixed_rate
    if alpha == 0.0:
        alpha = formulas.learning_rate(k, learner.rate_horizon)
    target = transition.reward + bonus
    if not transition.terminated:  # the value of a terminal state is 0
        row = learner.Qhat[np.uint64(transition.next_state)]
        target += learner.gamma * largest(row)
    q = formulas.blend(learner.Q[state, action], target, alpha)
    learner.Q[state, action] = q
    learner.Qhat[state, action] = min(learner.Qhat[state, action], q) if learner.monotone else q
    return bonus


rules.register(
    DiscountedQ, has_room=has_room, act=act, greedy=greedy, exploration=exploration, with_model=with_model,
    learn=learn, update=update,
)  # fmt: skip
