"""Optimistic Q-learning with a horizon: QUCB, DQUCB, and epsilon-greedy Q-learning.

Q_h(s, a) <- (1 - alpha_t) Q_h(s, a) + alpha_t [r + V_{h+1}(s') + b_t / p],  V_h(s) <- min(v_h, max_a Q_h(s, a)).
"""

from typing import NamedTuple

import numpy as np

from dqucb._kernels import window_pools
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables
from dqucb._kernels.learners.q import prefetching
from dqucb._kernels.learners.q.likelihood import AnyWindows, observe, with_oracle


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
    """Only the windows grow."""
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
    explores, anything = rules.explore(learner.epsilon, tables.n_actions(learner.q), rng)
    return anything if explores else tables.greedy(learner.q, step, state, anything)


@kernel
def with_model(learner, model, phase):
    """The learner with the model and the phase for the windows of an oracle."""
    windows = with_oracle(learner.windows, model, phase)
    return EpisodicQ(learner.q, learner.bonus, windows, learner.floor, learner.fixed_rate, learner.epsilon)


@kernel
def learn(learner, transition, rng):
    """Algorithm 1, lines 6 to 10."""
    prefetching.ask(learner, transition)
    row = tables.visit(learner.q, transition)
    p = observe(learner.windows, row, transition, rng)
    return update_row(learner, row, transition, p), p


@kernel
def update(learner, transition, p):
    """The update of the visited pair, given the likelihood of its transition; returns the bonus."""
    return update_row(learner, tables.visit(learner.q, transition), transition, p)


@kernel
def update_row(learner, row, transition, p):
    """As `update`, for a visit that has been counted."""
    q = learner.q
    t = q.visits[np.uint64(row), np.uint64(transition.state), np.uint64(transition.action)]
    alpha = learner.fixed_rate
    if alpha == 0.0:
        alpha = tables.rate(q, t)
    return tables.update(q, learner.bonus, transition, t, max(p, learner.floor), alpha)


rules.register(
    EpisodicQ, has_room=has_room, act=act, exploration=exploration, with_model=with_model, learn=learn, update=update
)
