"""RestartQ-UCB with selective, adaptive and partial restarts (Nonaka et al. 2025).

Restarts are adaptive: they follow a drop of the returns. Selective ones reset the pairs visited since then, others all
pairs. Partial restarts come on a schedule and raise action values by a bound on their change, instead of to v_h.

A drop is detected by the CUSUM of the returns below their mean, in units of their standard deviation:
    g <- max(0, g + min((mean - R) / deviation, 5) - 1/4).
When it exceeds the threshold, the change is dated at the last episode at which g was 0 (Page 1954).
"""

import math
from typing import NamedTuple

import numpy as np

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, rules, tables
from dqucb._kernels.learners.q import restarting_q

CAP, DRIFT, LEAST_DEVIATION = 5.0, 0.25, 0.01  # the last one in units of the largest return
LEAST_EPISODES = 30  # before the mean is used
NEVER = -1  # the last visit of a pair that has none


class SelectiveQ(NamedTuple):
    """RestartQ-UCB, the last visit of each pair, and the test of returns."""

    base: restarting_q.StagedQ  # its schedule is that of partial restarts
    visited: tables.Integers  # (rows, S, A) the last episode
    since: tables.Integers  # (2,) the episode at which g was 0 last; episodes since the last alarm
    moments: tables.Floats  # (4,) g, mean and mean square of the returns since the last alarm; the return now
    alarms: alarms.AlarmLog
    threshold: float
    selective: bool  # only pairs visited since the drop are reset
    raised: float  # by which a restart raises action values, at most to v_h


@kernel
def act(learner, step, state, rng):
    """argmax_a Q_h(s, a), the lowest action on ties."""
    return tables.act(learner.base.q, step, state)


@kernel
def greedy(learner, step, state, first):
    """argmax_a Q_h(s, a)."""
    return tables.greedy(learner.base.q, step, state, first)


@kernel
def learn(learner, transition, rng):
    """RestartQ-UCB's update."""
    row = tables.row_of(learner.base.q, transition.step, transition.state, transition.action)
    learner.visited[row, transition.state, transition.action] = learner.alarms.now[0]
    learner.moments[3] += transition.reward
    return restarting_q.learn_staged(learner.base, transition, rng)


@kernel
def finish_episode(learner, rng):
    """Test the return of the episode; after an alarm reset the pairs visited since returns dropped."""
    earned = learner.moments[3]
    learner.moments[3] = 0.0
    n = learner.since[1]
    if n >= LEAST_EPISODES:
        mean = learner.moments[1]
        deviation = math.sqrt(max(0.0, learner.moments[2] - mean * mean))
        deviation = max(deviation, LEAST_DEVIATION * learner.base.q.bounds[0])
        learner.moments[0] = fall_cusum(learner.moments[0], (mean - earned) / deviation)
    learner.since[1] = n + 1
    learner.moments[1] = formulas.running_mean(learner.moments[1], earned, n + 1)
    learner.moments[2] = formulas.running_mean(learner.moments[2], earned * earned, n + 1)
    if learner.moments[0] == 0.0:
        learner.since[0] = learner.alarms.now[0] + 1
    elif learner.moments[0] > learner.threshold:
        alarms.ring(learner.alarms)
        forget_since(learner, learner.since[0] if learner.selective else NEVER)
        learner.moments[:] = 0.0
        learner.since[0] = learner.alarms.now[0] + 1
        learner.since[1] = 0
    learner.alarms.now[0] += 1
    if restarting_q.is_due(learner.base.schedule):
        forget_since(learner, NEVER)


@kernel
def fall_cusum(evidence, fall):
    """max(0, g + min(fall, 5) - 1/4): Page 1954, for a fall of half a standard deviation or more."""
    return max(0.0, evidence + min(fall, CAP) - DRIFT)


@kernel
def forget_since(learner, episode):
    """Reset the pairs visited in this episode or later."""
    base = learner.base
    q = base.q
    for row in range(q.visits.shape[0]):
        for state in range(q.visits.shape[1]):
            for action in range(q.visits.shape[2]):
                if learner.visited[row, state, action] >= episode:
                    base.counts[row, state, action] = 0
                    base.stage[row, state, action] = base.stage_horizon
                    base.rewards[row, state, action] = 0.0
                    first, last = tables.steps_of(q, row, state, action)
                    for h in range(first, last):
                        tables.put(q, base.values, h, state, action, 0.0)
                        kept = tables.get(q, q.Q, h, state, action)
                        tables.put(q, q.Q, h, state, action, formulas.capped_value(kept + learner.raised, q.bounds[h]))
                    tables.refresh(q, first, last, np.uint64(state))


rules.register(
    SelectiveQ, has_room=alarms.has_room_for_one, act=act, greedy=greedy, learn=learn, finish_episode=finish_episode
)
