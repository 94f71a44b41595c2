"""Optimistic Q-learning with a horizon: QUCB, DQUCB, and epsilon-greedy Q-learning as its plain sibling.

Q_h(s, a) <- (1 - alpha_t) Q_h(s, a) + alpha_t [r + V_{h+1}(s') + b_t / p],  V_h(s) <- min(v_h, max_a Q_h(s, a)).
"""

from typing import NamedTuple

import numpy as np

from dqucb._kernels import window_pools
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules, tables
from dqucb._kernels.learners.q import prefetching
from dqucb._kernels.learners.q.likelihood import AnyWindows, observe, told


class EpisodicQ(NamedTuple):
    """Tables and settings of one learner."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    windows: AnyWindows  # None: the bonus is never divided
    floor: float  # the smallest likelihood by which a bonus is divided
    fixed_rate: float  # a constant learning rate, or 0
    epsilon: float  # probability of a uniformly random action


@kernel
def has_room(learner, pushes):
    """Only the windows take memory as they fill."""
    return window_pools.has_room(learner.windows, pushes)


@kernel
def exploration(learner):
    """Epsilon."""
    return learner.epsilon


@kernel
def act(learner, step, state, rng):
    """Greedy; with epsilon > 0 random that often, with random ties. Draws from `rng` only if epsilon > 0."""
    if learner.epsilon == 0.0:
        return tables.act(learner.q, step, state)
    explores, anything = plain.explore(learner.epsilon, tables.n_actions(learner.q), rng)
    return anything if explores else tables.greedy(learner.q, step, state, anything)


@kernel
def facing(learner, model, phase):
    """An oracle's windows see the model and the phase."""
    windows = told(learner.windows, model, phase)
    return EpisodicQ(learner.q, learner.bonus, windows, learner.floor, learner.fixed_rate, learner.epsilon)


@kernel
def learn(learner, seen, rng):
    """Algorithm 1, lines 6 to 10."""
    prefetching.ask(learner, seen)
    row = tables.visit(learner.q, seen)
    p = observe(learner.windows, row, seen, rng)
    return update_row(learner, row, seen, p), p


@kernel
def update(learner, seen, p):
    """The update of the visited pair, given the likelihood of its transition; returns the bonus."""
    return update_row(learner, tables.visit(learner.q, seen), seen, p)


@kernel
def update_row(learner, row, seen, p):
    """The same for a visit that is counted already."""
    q = learner.q
    t = q.visits[np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)]
    alpha = learner.fixed_rate
    if alpha == 0.0:
        alpha = tables.rate(q, t)
    return tables.update(q, learner.bonus, seen, t, max(p, learner.floor), alpha)


rules.register(
    EpisodicQ,
    **{
        **plain.VERBS,
        "has_room": has_room,
        "act": act,
        "exploration": exploration,
        "facing": facing,
        "learn": learn,
        "update": update,
    },
)
