"""Learners that restart at given episodes: QUCB with a schedule, and RestartQ-UCB (Mao et al. 2021).

RestartQ-UCB updates a pair only at the end of a stage, from the sums of that stage alone:
Q_h(s, a) <- min(Q_h(s, a), sum r / n + sum V_{h+1}(s') / n + b_n).
Rows of the tables of counts are those of `tables.row_of`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables


class Schedule(NamedTuple):
    """The episodes of the restarts."""

    restart_at: tables.Integers  # (n,) episodes, in order
    episodes: tables.Integers  # (1,) done
    restarts: tables.Integers  # (1,) done


class RestartedQ(NamedTuple):
    """Tables of QUCB with scheduled restarts."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    counts: NDArray[np.int32]  # (rows, S, A) since the restart
    schedule: Schedule


@kernel
def learn_restarted(learner, transition, rng):
    """QUCB's update with the count since the restart."""
    row = tables.visit(learner.q, transition)
    learner.counts[row, transition.state, transition.action] += 1
    count = learner.counts[row, transition.state, transition.action]
    return tables.learn_as(learner.q, learner.bonus, transition, count), 1.0


@kernel
def is_due(schedule):
    """Count an episode; whether the learner restarts before the next one."""
    schedule.episodes[0] += 1
    done = schedule.restarts[0]
    if done == schedule.restart_at.shape[0] or schedule.restart_at[done] != schedule.episodes[0]:
        return False
    schedule.restarts[0] += 1
    return True


@kernel
def restart(learner, rng):
    """Restart if it is due."""
    if is_due(learner.schedule):
        tables.forget_all(learner.q)
        learner.counts[:] = 0


class StagedQ(NamedTuple):
    """Tables of RestartQ-UCB."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    counts: NDArray[np.int32]  # (rows, S, A) in the present stage
    stage: NDArray[np.int32]  # (rows, S, A) length of the present stage
    rewards: tables.Floats  # (rows, S, A) their sum in the present stage
    values: tables.Floats  # the sum of V_{h+1}(s') in the present stage, laid out as Q
    schedule: Schedule
    stage_horizon: int  # H in the lengths of the stages


@kernel
def learn_staged(learner, transition, rng):
    """Add to the sums of the stage; at its end update the pair. The bonus is 0 before that."""
    q = learner.q
    state, action = np.uint64(transition.state), np.uint64(transition.action)
    row = np.uint64(tables.visit(q, transition))
    first, last = tables.steps_of(q, transition.step, transition.state, transition.action)
    n = learner.counts[row, state, action] + 1
    rewards = learner.rewards[row, state, action] + transition.reward
    for h in range(np.uint64(first), np.uint64(last)):
        # A stage begins with zero sums: a pair that was split during a stage leaves some behind.
        values = tables.get(q, learner.values, h, state, action) if n > 1 else 0.0
        if not transition.terminated:
            values += tables.value(q, h + np.uint64(1), np.uint64(transition.next_state))
        tables.put(q, learner.values, h, state, action, values)
    bonus = 0.0
    if n == learner.stage[row, state, action]:
        for h in range(np.uint64(first), np.uint64(last)):
            b = tables.bonus_of(learner.bonus, n, q.bounds[h])
            found = formulas.stage_value(rewards, tables.get(q, learner.values, h, state, action), n, b)
            tables.put(q, q.Q, h, state, action, min(tables.get(q, q.Q, h, state, action), found))
        tables.refresh(q, first, last, state)
        bonus = tables.bonus_of(learner.bonus, n, q.bounds[np.uint64(transition.step)])
        learner.stage[row, state, action] = formulas.next_stage(n, learner.stage_horizon)
        n = 0
        rewards = 0.0
    learner.counts[row, state, action] = n
    learner.rewards[row, state, action] = rewards
    return bonus, 1.0


@kernel
def restart_stages(learner, rng):
    """Restart if it is due; stages are short again."""
    if is_due(learner.schedule):
        tables.forget_all(learner.q)
        learner.counts[:] = 0
        learner.stage[:] = learner.stage_horizon
        learner.rewards[:] = 0.0
        learner.values[:] = 0.0


rules.register(RestartedQ, learn=learn_restarted, finish_episode=restart)
rules.register(StagedQ, learn=learn_staged, finish_episode=restart_stages)
