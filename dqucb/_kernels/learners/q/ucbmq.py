"""UCB Momentum Q-learning (Menard, Domingues, Shang, Valko 2021).

With alpha = 1/t and the momentum rate g_t:
    Q  <- (1 - alpha) Q + alpha (r + Vb_{h+1}(s')) + g_t (Vb_{h+1}(s') - W_{h,s,a}(s')),   Qb = Q + b
    Vb_h(s) <- max(w_h, min(max_a Qb, Vb_h(s))),  w_h = 0, or (H - h) times the lowest reward where that is negative
    W_{h,s,a}(y) <- (alpha + g_t) Vb_{h+1}(y) + (1 - alpha - g_t) W_{h,s,a}(y)   for every y
The bias values W take S numbers per visited pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables
from dqucb._kernels.rows import largest


class UcbmqLearner(NamedTuple):
    """Tables of one learner."""

    q: tables.QTables  # Q and V of the optimistic values Qb and Vb
    bonus: tables.BonusSettings
    mean: tables.Floats  # (H, S, A) Q without its bonus
    slot: NDArray[np.int32]  # (H, S, A) row of `bias`, or -1
    bias: tables.Floats  # (pairs visited, S)
    used: tables.Integers  # (1,) used rows of `bias`
    low: float  # the lowest reward of a step, at most 0


@kernel
def has_room(learner, pushes):
    """Each step may visit a new pair."""
    return learner.used[0] + pushes <= learner.bias.shape[0]


@kernel
def learn(learner, seen, rng):
    """One update of the visited pair and of its bias values."""
    step, state, action = seen.step, seen.state, seen.action
    q = learner.q
    t = q.visits[step, state, action] + 1
    q.visits[step, state, action] = t
    next_values = q.V[step + 1]
    if t == 1:
        learner.slot[step, state, action] = learner.used[0]
        learner.used[0] += 1
        learner.bias[learner.slot[step, state, action], :] = q.bounds[step + 1]
    bias = learner.bias[learner.slot[step, state, action]]
    alpha = 1.0 / t
    g = formulas.momentum_rate(t, learner.bonus.horizon)
    # The value of a terminal state and its bias are 0.
    value = 0.0 if seen.terminated else next_values[seen.next_state]
    momentum = 0.0 if seen.terminated else value - bias[seen.next_state]
    mean = formulas.blend(learner.mean[step, state, action], seen.reward + value, alpha) + g * momentum
    learner.mean[step, state, action] = mean
    bonus = tables.bonus_of(learner.bonus, t, q.bounds[step])
    q.Q[step, state, action] = mean + bonus
    for y in range(bias.shape[0]):
        bias[y] = formulas.blend(bias[y], next_values[y], alpha + g)
    lowest = formulas.lowest_return(learner.low, q.Q.shape[0], step)
    q.V[step, state] = max(lowest, min(largest(q.Q[step, state]), q.V[step, state]))
    return bonus, 1.0


rules.register(UcbmqLearner, has_room=has_room, learn=learn)
