"""UCB Momentum Q-learning (Menard, Domingues, Shang, Valko 2021).

With alpha = 1/t and the momentum rate g_t:
    Q  <- (1 - alpha) Q + alpha (r + Vb_{h+1}(s')) + g_t (Vb_{h+1}(s') - W_{h,s,a}(s')),   Qb = Q + b
    Vb_h(s) <- max(0, min(max_a Qb, Vb_h(s)))
    W_{h,s,a}(y) <- (alpha + g_t) Vb_{h+1}(y) + (1 - alpha - g_t) W_{h,s,a}(y)   for every y
The bias values W take S numbers per pair, and only pairs that were visited have them.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.rows import best_action, best_action_from, largest


class UcbmqLearner(NamedTuple):
    """Tables of one learner."""

    Q: Any  # float64 (H, S, A)
    Qb: Any  # float64 (H, S, A) optimistic
    Vb: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A)
    slot: Any  # int32 (H, S, A) row of `bias`, or -1
    bias: Any  # float64 (pairs visited, S)
    used: Any  # int64 (1,) rows of `bias` taken
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    iota: float


@kernel
def has_room(learner, pushes):
    """Each step may visit a new pair."""
    return learner.used[0] + pushes <= learner.bias.shape[0]


@kernel
def greedy(learner, step, state, first):
    """argmax_a Qb_h(s, a)."""
    return best_action_from(learner.Qb[step, state], first)


@kernel
def act(learner, step, state, rng):
    """Always greedy, the lowest action on ties."""
    return best_action(learner.Qb[np.uint64(step), np.uint64(state)])


@kernel
def learn(learner, seen, rng):
    """One update of the visited pair and of its bias values."""
    step, state, action = seen.step, seen.state, seen.action
    t = learner.visits[step, state, action] + 1
    learner.visits[step, state, action] = t
    v_h = learner.bounds[step]
    next_values = learner.Vb[step + 1]
    if t == 1:
        learner.slot[step, state, action] = learner.used[0]
        learner.used[0] += 1
        learner.bias[learner.slot[step, state, action], :] = learner.bounds[step + 1]
    bias = learner.bias[learner.slot[step, state, action]]
    alpha = 1.0 / t
    g = formulas.momentum_rate(t, learner.horizon)
    # A terminal state is worth nothing, and neither is its bias.
    value = 0.0 if seen.terminated else next_values[seen.next_state]
    momentum = 0.0 if seen.terminated else value - bias[seen.next_state]
    q = formulas.blend(learner.Q[step, state, action], seen.reward + value, alpha) + g * momentum
    learner.Q[step, state, action] = q
    bonus = formulas.episodic_bonus(learner.form, learner.scale, t, v_h, learner.horizon, learner.iota)
    learner.Qb[step, state, action] = q + bonus
    for y in range(bias.shape[0]):
        bias[y] = formulas.blend(bias[y], next_values[y], alpha + g)
    row = learner.Qb[step, state]
    learner.Vb[step, state] = max(0.0, min(largest(row), learner.Vb[step, state]))
    return bonus, 1.0


rules.register(UcbmqLearner, **{**plain.VERBS, "has_room": has_room, "act": act, "greedy": greedy, "learn": learn})
