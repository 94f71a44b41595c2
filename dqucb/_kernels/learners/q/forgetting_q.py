"""QUCB with windowed or discounted counts of visits.

Bonus and learning rate use these counts (Garivier and Moulines 2011 for bandits), so that neither vanishes.
Rows of the tables of counts are those of `tables.row_of`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables


class WindowedQ(NamedTuple):
    """Tables of a learner that counts the visits of its last episodes."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    counts: NDArray[np.int32]  # (rows, S, A) in the window
    pairs: NDArray[np.int32]  # (W, H) the place (row S + s) A + a in `counts` of each visit of each episode held
    lengths: NDArray[np.int32]  # (W,) visits of each episode held
    episodes: tables.Integers  # (1,) done


@kernel
def next_episode(learner, rng):
    """Drop the oldest episode of the window to store the next one."""
    learner.episodes[0] += 1
    place = learner.episodes[0] % learner.lengths.shape[0]
    _, n_states, n_actions = learner.counts.shape
    for step in range(learner.lengths[place]):
        pair = learner.pairs[place, step]
        row_and_state = pair // n_actions
        learner.counts[row_and_state // n_states, row_and_state % n_states, pair % n_actions] -= 1
    learner.lengths[place] = 0


@kernel
def learn_windowed(learner, transition, rng):
    """QUCB's update with the count of the window, this visit included.

    Visits are stored in order of arrival, whatever their step: a user's own loop may repeat a step. An episode has at
    most as many visits as the horizon; one more belongs to the next episode.
    """
    state, action = transition.state, transition.action
    row = tables.visit(learner.q, transition)
    _, n_states, n_actions = learner.counts.shape
    place = learner.episodes[0] % learner.lengths.shape[0]
    if learner.lengths[place] == learner.pairs.shape[1]:
        next_episode(learner, rng)
        place = learner.episodes[0] % learner.lengths.shape[0]
    learner.pairs[place, learner.lengths[place]] = (row * n_states + state) * n_actions + action
    learner.lengths[place] += 1
    learner.counts[row, state, action] += 1
    return tables.learn_as(learner.q, learner.bonus, transition, learner.counts[row, state, action]), 1.0


class FadingQ(NamedTuple):
    """Tables of a learner whose counts shrink by a factor in every episode."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    counts: tables.Floats  # (rows, S, A) discounted, as of the last visit
    last: tables.Integers  # (rows, S, A) episode of the last visit
    episodes: tables.Integers  # (1,) done
    memory: float  # the factor


@kernel
def learn_fading(learner, transition, rng):
    """QUCB's update with the discounted count, this visit included."""
    state, action = transition.state, transition.action
    row = tables.visit(learner.q, transition)
    age = learner.episodes[0] - learner.last[row, state, action]
    t = formulas.discounted_count(learner.counts[row, state, action], learner.memory, age)
    learner.counts[row, state, action] = t
    learner.last[row, state, action] = learner.episodes[0]
    return tables.learn_as(learner.q, learner.bonus, transition, t), 1.0


@kernel
def tick(learner, rng):
    """Count an episode."""
    learner.episodes[0] += 1


rules.register(WindowedQ, learn=learn_windowed, finish_episode=next_episode)
rules.register(FadingQ, learn=learn_fading, finish_episode=tick)
