"""UCB-B (Jin et al. 2018, Algorithm 2): QUCB with a bonus by the variance of the next state's value."""

from typing import NamedTuple

import numpy as np

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables


class BernsteinQ(NamedTuple):
    """Tables and settings of one learner; the three tables of its own are laid out as Q."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    mean: tables.Floats  # of the V_{h+1}(s') seen
    squares: tables.Floats  # the sum of their squared distances from the mean
    beta: tables.Floats  # the confidence width after the last visit


@kernel
def learn(learner, transition, rng):
    """Algorithm 2, lines 6 to 13."""
    q, settings = learner.q, learner.bonus
    state, action = np.uint64(transition.state), np.uint64(transition.action)
    row = tables.visit(q, transition)
    t = q.visits[np.uint64(row), state, action]
    alpha = tables.rate(q, t)
    pairs = tables.n_states(q) * tables.n_actions(q)
    first, last = tables.steps_of(q, transition.step, transition.state, transition.action)
    given = 0.0
    for h in range(np.uint64(first), np.uint64(last)):
        value = 0.0
        if not transition.terminated:
            value = tables.value(q, h + np.uint64(1), np.uint64(transition.next_state))
        old_mean = tables.get(q, learner.mean, h, state, action)
        mean = formulas.running_mean(old_mean, value, t)
        squares = tables.get(q, learner.squares, h, state, action) + (value - old_mean) * (value - mean)
        tables.put(q, learner.mean, h, state, action, mean)
        tables.put(q, learner.squares, h, state, action, squares)
        beta = formulas.bernstein_width(
            settings.form, settings.scale, t, squares / t, q.bounds[h], q.bounds[0], settings.horizon, settings.iota,
            pairs,
        )  # fmt: skip
        bonus = formulas.width_to_bonus(beta, tables.get(q, learner.beta, h, state, action), alpha)
        tables.put(q, learner.beta, h, state, action, beta)
        # Reward and bonus first, in the order of `tables.update`.
        target = transition.reward + bonus + value
        tables.put(q, q.Q, h, state, action, formulas.blend(tables.get(q, q.Q, h, state, action), target, alpha))
        if h == transition.step:
            given = bonus
    tables.refresh(q, first, last, state)
    return given, 1.0


rules.register(BernsteinQ, learn=learn)
