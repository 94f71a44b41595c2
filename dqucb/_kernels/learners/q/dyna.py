"""Dyna-Q+ (Sutton and Barto 2018, section 8.3): Q-learning on real transitions and on those of a model.

The model of a pair is its last outcome. In planning, a pair that was last tried tau steps ago has the reward r +
kappa sqrt(tau), so that neglected actions are tried again; an untried action in a visited state leads back to that
state with reward 0.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables
from dqucb._kernels.learners.q.episodic_q import exploration


class DynaLearner(NamedTuple):
    """Action values, the last outcome of each pair, and when it was."""

    q: tables.QTables | tables.SharedTables
    none: tables.BonusSettings  # of scale 0: what is added is part of the reward
    next_states: tables.Integers  # (rows, S, A)
    rewards: tables.Floats  # (rows, S, A)
    ended: NDArray[np.bool_]  # (rows, S, A)
    tried_at: tables.Integers  # (rows, S, A) step of the run, 0 for never
    met: tables.Integers  # (rows S,) row S + state, in order of first visit
    clock: tables.Integers  # (2,) steps done, states met
    kappa: float
    alpha: float
    epsilon: float
    replays: int  # for each step


@kernel
def act(learner, step, state, rng):
    """Epsilon-greedy, ties at random."""
    explores, action = rules.explore(learner.epsilon, learner.q.visits.shape[2], rng)
    return action if explores else tables.greedy(learner.q, step, state, action)


@kernel
def learn(learner, transition, rng):
    """Update Q and the model, then replay random pairs."""
    q = learner.q
    n_states, n_actions = q.visits.shape[1], q.visits.shape[2]
    row = tables.row_of(q, transition.step, transition.state, transition.action)
    here = (row, transition.state, transition.action)
    is_new = True
    for action in range(n_actions):
        is_new = is_new and learner.tried_at[row, transition.state, action] == 0
    if is_new:
        learner.met[learner.clock[1]] = row * n_states + transition.state
        learner.clock[1] += 1
    tables.visit(q, transition)
    tables.update(q, learner.none, transition, 1, 1.0, learner.alpha)
    learner.clock[0] += 1
    learner.tried_at[here] = learner.clock[0]
    learner.next_states[here] = transition.next_state
    learner.rewards[here] = transition.reward
    learner.ended[here] = transition.terminated
    for _ in range(learner.replays):
        met = learner.met[int(rng.random() * learner.clock[1])]
        replay(learner, met // n_states, met % n_states, int(rng.random() * n_actions))
    return 0.0, 1.0


@kernel
def replay(learner, row, state, action):
    """One update in the model. Rows are steps where tables are per step."""
    tried_at = learner.tried_at[row, state, action]
    added = learner.kappa * math.sqrt(learner.clock[0] - tried_at)
    reward = added
    after = state
    ended = False
    if tried_at > 0:
        reward += learner.rewards[row, state, action]
        after = learner.next_states[row, state, action]
        ended = learner.ended[row, state, action]
    imagined = rules.Transition(row, state, action, reward, after, ended)
    tables.update(learner.q, learner.none, imagined, 1, 1.0, learner.alpha)


rules.register(DynaLearner, act=act, exploration=exploration, learn=learn)
