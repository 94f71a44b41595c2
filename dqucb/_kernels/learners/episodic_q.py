"""Optimistic Q-learning with a horizon: QUCB, DQUCB, and epsilon-greedy Q-learning as its plain sibling.

Q_h(s, a) <- (1 - alpha_t) Q_h(s, a) + alpha_t [r + V_{h+1}(s') + b_t / p],  V_h(s) <- min(v_h, max_a Q_h(s, a)).
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels import formulas, window_pools
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules
from dqucb._kernels.learners.shift import observe
from dqucb._kernels.rows import best_action, best_action_from, largest


class EpisodicQ(NamedTuple):
    """Tables and settings of one learner."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A)
    bounds: Any  # float64 (H + 1,) v_h
    windows: window_pools.DiscreteWindows | None  # None: the bonus is never divided
    noise: float  # standard deviation of the error added to the likelihood
    form: int  # of the bonus
    scale: float  # c
    horizon: float  # in the bonus
    rate_horizon: float  # in the learning rate
    fixed_rate: float  # a constant learning rate, or 0
    iota: float
    epsilon: float  # probability of a uniformly random action


@kernel
def has_room(learner, pushes):
    """Only the windows take memory as they fill."""
    return window_pools.has_room(learner.windows, pushes)


@kernel
def greedy(learner, step, state, first):
    """argmax_a Q_h(s, a)."""
    return best_action_from(learner.Q[step, state], first)


@kernel
def exploration(learner):
    """Epsilon."""
    return learner.epsilon


@kernel
def act(learner, step, state, rng):
    """Greedy; with epsilon > 0 random that often, with random ties. Draws from `rng` only if epsilon > 0."""
    if learner.epsilon == 0.0:
        return best_action(learner.Q[np.uint64(step), np.uint64(state)])
    explores = rng.random() < learner.epsilon
    anything = int(rng.random() * learner.Q.shape[2])
    return anything if explores else greedy(learner, step, state, anything)


@kernel
def learn(learner, seen, rng):
    """Algorithm 1, lines 6 to 10."""
    p = observe(learner.windows, learner.noise, seen, rng)
    return update(learner, seen, p), p


@kernel
def update(learner, seen, p):
    """The update of the visited pair, given the likelihood of its transition; returns the bonus."""
    step = np.uint64(seen.step)
    state = np.uint64(seen.state)
    action = np.uint64(seen.action)
    t = learner.visits[step, state, action] + 1
    learner.visits[step, state, action] = t
    bonus = formulas.episodic_bonus(learner.form, learner.scale, t, learner.bounds[step], learner.horizon, learner.iota)
    if p != 1.0:  # saves QUCB a division
        bonus = formulas.shift_aware(bonus, p)
    alpha = learner.fixed_rate
    if alpha == 0.0:
        alpha = formulas.learning_rate(t, learner.rate_horizon)
    move(learner, seen, bonus, alpha)
    return bonus


@kernel
def move(learner, seen, bonus, alpha):
    """Move Q of the visited pair towards r + V_{h+1}(s') + bonus, and V with it (all with Q, V, bounds)."""
    step = np.uint64(seen.step)
    state = np.uint64(seen.state)
    action = np.uint64(seen.action)
    target = seen.reward + bonus
    if not seen.terminated:  # a terminal state is worth nothing at any step
        target += learner.V[step + np.uint64(1), np.uint64(seen.next_state)]
    row = learner.Q[step, state]
    row[action] = formulas.blend(row[action], target, alpha)
    learner.V[step, state] = formulas.capped_value(largest(row), learner.bounds[step])


@kernel
def learn_as(learner, seen, t):
    """QUCB's update of a pair that counts as visited t times; returns the bonus."""
    bonus = formulas.episodic_bonus(
        learner.form, learner.scale, t, learner.bounds[np.uint64(seen.step)], learner.horizon, learner.iota
    )
    move(learner, seen, bonus, formulas.learning_rate(t, learner.rate_horizon))
    return bonus


@kernel
def forget_all(learner):
    """Q and V as new: the bounds on the return; terminal states were never read from V."""
    for step in range(learner.Q.shape[0]):
        learner.Q[step] = learner.bounds[step]
        learner.V[step] = learner.bounds[step]


@kernel
def finish_episode(learner, rng):
    """Nothing waits for the end of an episode."""


rules.register(
    EpisodicQ,
    has_room=has_room,
    act=act,
    greedy=greedy,
    exploration=exploration,
    learn=learn,
    update=update,
    finish_episode=finish_episode,
)
