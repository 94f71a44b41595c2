"""Learners that forget everything at given episodes: QUCB that is told when, and RestartQ-UCB (Mao et al. 2021).

RestartQ-UCB updates a pair only at the end of a stage, from the sums of that stage alone:
Q_h(s, a) <- min(Q_h(s, a), sum r / n + sum V_{h+1}(s') / n + b_n).
"""

from typing import Any, NamedTuple

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.learners.episodic_q import forget_all, learn_as
from dqucb._kernels.rows import largest

EPISODES, RESTARTS = 0, 1  # places in the clock: how many of each are done


class RestartedQ(NamedTuple):
    """Tables of QUCB that begins anew at `restart_at`."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A) all
    counts: Any  # int32 (H, S, A) since the restart
    restart_at: Any  # int64 (n,) episodes, in order
    clock: Any  # int64 (2,)
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    rate_horizon: float
    iota: float


@kernel
def learn_restarted(learner, seen, rng):
    """QUCB's update with the count since the restart."""
    step, state, action = seen.step, seen.state, seen.action
    learner.visits[step, state, action] += 1
    learner.counts[step, state, action] += 1
    return learn_as(learner, seen, learner.counts[step, state, action]), 1.0


@kernel
def is_due(learner):
    """Count an episode; whether the learner begins anew before the next one."""
    learner.clock[EPISODES] += 1
    done = learner.clock[RESTARTS]
    if done == learner.restart_at.shape[0] or learner.restart_at[done] != learner.clock[EPISODES]:
        return False
    learner.clock[RESTARTS] += 1
    return True


@kernel
def restart(learner, rng):
    """Forget everything if it is time."""
    if is_due(learner):
        forget_all(learner)
        learner.counts[:] = 0


class StagedQ(NamedTuple):
    """Tables of RestartQ-UCB."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A) all
    counts: Any  # int32 (H, S, A) in the present stage
    stage: Any  # int32 (H, S, A) length of the present stage
    rewards: Any  # float64 (H, S, A) their sum in the present stage
    values: Any  # float64 (H, S, A) the sum of V_{h+1}(s') in the present stage
    restart_at: Any  # int64 (n,) episodes, in order
    clock: Any  # int64 (2,)
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    iota: float
    stage_horizon: int  # H in the lengths of the stages


@kernel
def learn_staged(learner, seen, rng):
    """Add to the sums of the stage; at its end update the pair. The bonus is 0 before that."""
    step, state, action = seen.step, seen.state, seen.action
    learner.visits[step, state, action] += 1
    n = learner.counts[step, state, action] + 1
    rewards = learner.rewards[step, state, action] + seen.reward
    values = learner.values[step, state, action]
    if not seen.terminated:
        values += learner.V[step + 1, seen.next_state]
    bonus = 0.0
    if n == learner.stage[step, state, action]:
        v_h = learner.bounds[step]
        bonus = formulas.episodic_bonus(learner.form, learner.scale, n, v_h, learner.horizon, learner.iota)
        row = learner.Q[step, state]
        row[action] = min(row[action], formulas.stage_value(rewards, values, n, bonus))
        learner.V[step, state] = formulas.capped_value(largest(row), v_h)
        learner.stage[step, state, action] = formulas.next_stage(n, learner.stage_horizon)
        n = 0
        rewards = 0.0
        values = 0.0
    learner.counts[step, state, action] = n
    learner.rewards[step, state, action] = rewards
    learner.values[step, state, action] = values
    return bonus, 1.0


@kernel
def restart_stages(learner, rng):
    """Forget everything if it is time; stages are short again."""
    if is_due(learner):
        forget_all(learner)
        learner.counts[:] = 0
        learner.stage[:] = learner.stage_horizon
        learner.rewards[:] = 0.0
        learner.values[:] = 0.0


rules.register(RestartedQ, **{**plain.VERBS, "learn": learn_restarted, "finish_episode": restart})
rules.register(StagedQ, **{**plain.VERBS, "learn": learn_staged, "finish_episode": restart_stages})
