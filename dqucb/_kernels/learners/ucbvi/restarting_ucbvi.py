"""UCBVI that restarts: at given episodes, or when a detector finds a change.

The type of `watch` decides when: `Schedule` (given episodes), `Forecasters` (R-BOCPD) or `Probes` (probing episodes and
two-sample tests). Counting and planning are those of `planned.py`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas, two_samples
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import alarms, rules, tables
from dqucb._kernels.learners.q.restarting_q import Schedule, is_due
from dqucb._kernels.learners.ucbvi import planned

LEAST_RECENT, RECENT_SHARE = 16, 4  # the newer sample joins the older one at this size and this fraction of it


class Forecasters(NamedTuple):
    """R-BOCPD: predictors of a pair's outcomes that started at different visits (Alami, Maillard and Feraud 2020)."""

    counts: NDArray[np.int32]  # (rows S, A, M, width) outcomes since each started
    sizes: NDArray[np.int32]  # (rows S, A, M) their number
    weights: tables.Floats  # (rows S, A, M + 1) logarithms; the last is that of the one that started at the restart
    used: NDArray[np.int32]  # (rows S, A)
    sure: NDArray[np.bool_]  # (1,) whether to restart after the episode
    log_prior: float  # logarithm of delta / (S A)


class Probes(NamedTuple):
    """Probing episodes at regular intervals, and a two-sample test of every pair."""

    recent: NDArray[np.int32]  # (rows S, A, width) the newer sample
    sizes: NDArray[np.int32]  # (rows S, A) its size
    clock: NDArray[np.int64]  # (3,) episodes since the restart, restarts, whether this episode is a probe
    sure: NDArray[np.bool_]  # (1,)
    rate: float  # of probing episodes before the first restart
    level: float  # of the test


class RestartingUcbvi(NamedTuple):
    """The model, its plan, and what triggers a restart."""

    plan: planned.Plan
    visits: tables.Integers  # (rows, S, A) all of them
    bonus: tables.BonusSettings
    watch: Schedule | Forecasters | Probes
    alarms: alarms.AlarmLog


# ---- given episodes ---------------------------------------------------------------------------------------


@kernel
def no_detector(watch, plan, row, action, place):
    pass


@kernel
def planned_action(watch, plan, step, state):
    return int(plan.policy[step, state])


# ---- R-BOCPD ----------------------------------------------------------------------------------------------


@kernel
def forecast(watch, plan, row, action, place):
    """Let every predictor predict the outcome, which the model has counted already; then one more starts.

    The weight of a predictor that started at visit s is eta_s P(outcomes before s) P(outcomes from s on), with P by
    Laplace's rule. A restart is due when it exceeds that of the predictor that started first, for which eta is 1.
    """
    weights = watch.weights[row, action]
    first = weights.shape[0] - 1
    n = plan.model.visits[row, action] - 1.0
    outcomes = plan.model.known[row, action]
    weights[first] += math.log(formulas.outcome_likelihood(plan.model.counts[row, action, place] - 1.0, n, outcomes))
    used = watch.used[row, action]
    lightest = 0
    for i in range(used):
        p = formulas.outcome_likelihood(watch.counts[row, action, i, place], watch.sizes[row, action, i], outcomes)
        weights[i] += math.log(p)
        watch.counts[row, action, i, place] += 1
        watch.sizes[row, action, i] += 1
        if weights[i] > weights[first]:
            watch.sure[0] = True
        if weights[i] < weights[lightest]:
            lightest = i
    i = lightest
    if used < first:
        i = used
        watch.used[row, action] += 1
    watch.counts[row, action, i] = np.int32(0)
    watch.sizes[row, action, i] = 0
    weights[i] = weights[first] + watch.log_prior - math.log((n + 1.0) * (n + 2.0))


@kernel
def forget_forecasts(watch):
    """Whether some predictor found a change; all of them restart then."""
    if not watch.sure[0]:
        return False
    watch.used[:] = np.int32(0)
    watch.weights[:] = 0.0
    watch.sure[0] = False
    return True


# ---- probes and tests -------------------------------------------------------------------------------------


@kernel
def compare(watch, plan, row, action, place):
    """The two-sample test of `two_samples.py` at sizes that are powers of two."""
    recent = watch.recent[row, action]
    recent[place] += 1
    size = watch.sizes[row, action] + 1
    watch.sizes[row, action] = size
    n = plan.model.visits[row, action]
    if two_samples.is_power_of_two(size):
        known = plan.model.known[row, action]
        ratio = two_samples.log_ratio_within(plan.model.counts[row, action], recent, n, size, known)
        if ratio > two_samples.threshold(watch.level, known, n):
            watch.sure[0] = True
    if size > max(LEAST_RECENT, (n - size) / RECENT_SHARE):
        recent[:] = np.int32(0)
        watch.sizes[row, action] = 0


@kernel
def probing_action(watch, plan, step, state):
    """The action tried least in a probe, the planned one otherwise."""
    best = int(plan.policy[step, state])
    if watch.clock[2] == 0:
        return best
    visits = plan.model.visits[planned.row_of(plan, step, state)]
    best = 0
    for action in range(1, visits.shape[0]):
        if visits[action] < visits[best]:
            best = action
    return best


@kernel
def end_of_probe(watch):
    """Whether a test found a change; decides whether the next episode is a probe, more often after each restart."""
    is_sure = watch.sure[0]
    if is_sure:
        watch.sure[0] = False
        watch.clock[0] = 0
        watch.clock[1] += 1
        watch.recent[:] = np.int32(0)
        watch.sizes[:] = np.int32(0)
    else:
        watch.clock[0] += 1
    done, restarts = watch.clock[0], watch.clock[1]
    watch.clock[2] = int(probes(watch.rate, restarts, done + 1) > probes(watch.rate, restarts, done))
    return is_sure


@kernel
def probes(rate, restarts, episodes):
    """How many of the first episodes after a restart are probes: floor(k min(1, rate sqrt(restarts + 1)))."""
    return math.floor(min(1.0, rate * math.sqrt(restarts + 1.0)) * episodes)


_WATCHES = {
    Schedule: (no_detector, planned_action, is_due),
    Forecasters: (forecast, planned_action, forget_forecasts),
    Probes: (compare, probing_action, end_of_probe),
}
look = by_type(lambda kind: _WATCHES[kind][0], "(watch, plan, row, action, place): update a detector with an outcome.")
choose = by_type(lambda kind: _WATCHES[kind][1], "(watch, plan, step, state): the action to take.")
is_sure = by_type(lambda kind: _WATCHES[kind][2], "(watch): after an episode, whether to restart.")


# ---- the learner ------------------------------------------------------------------------------------------


@kernel
def act(learner, step, state, rng):
    """The policy of the last plan, except in probes."""
    return choose(learner.watch, learner.plan, step, state)


@kernel
def learn(learner, seen, rng):
    """Count the transition and update the detector."""
    plan = learner.plan
    row, place = planned.count(plan, seen, learner.visits)
    if place >= 0:
        look(learner.watch, plan, row, seen.action, place)
    return planned.bonus_of_visit(learner.bonus, plan, row, seen), 1.0


@kernel
def finish_episode(learner, rng):
    """Restart if it is due, and plan if a plan is due."""
    if is_sure(learner.watch):
        alarms.ring(learner.alarms)
        planned.forget(learner.plan)
    learner.alarms.now[0] += 1
    planned.plan_if_due(learner.bonus, learner.plan, rng)


rules.register(
    RestartingUcbvi,
    has_room=alarms.has_room_for_one,
    act=act,
    greedy=planned.greedy,
    learn=learn,
    finish_episode=finish_episode,
)
