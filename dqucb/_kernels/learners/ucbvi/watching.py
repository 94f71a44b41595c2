"""UCBVI that begins anew when something says that the world has changed: a list of episodes, or a detector.

What says so follows from the type of `watch`: `Schedule` (given episodes), `Forecasters` (R-BOCPD) or `Probes`.
Everything else, counting and planning, is that of `planned.py`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas, two_samples
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import alarms, plain, rules, tables
from dqucb._kernels.learners.q.restarting_q import Schedule, is_due
from dqucb._kernels.learners.ucbvi import planned

LEAST_RECENT, RECENT_SHARE = 16, 4  # the newer sample joins the older one at this size and this fraction of it


class Forecasters(NamedTuple):
    """R-BOCPD: predictors of a pair's outcomes that began at different visits (Alami, Maillard and Feraud 2020)."""

    counts: NDArray[np.int32]  # (rows S, A, M, width) outcomes since each began
    sizes: NDArray[np.int32]  # (rows S, A, M) their number
    weights: tables.Floats  # (rows S, A, M + 1) logarithms; the last is that of the one that began at the restart
    used: NDArray[np.int32]  # (rows S, A)
    sure: NDArray[np.bool_]  # (1,) whether to begin anew after the episode
    log_prior: float  # logarithm of delta / (S A)


class Probes(NamedTuple):
    """Probing episodes at regular distances, and a two-sample test of every pair."""

    recent: NDArray[np.int32]  # (rows S, A, width) the newer sample
    sizes: NDArray[np.int32]  # (rows S, A) its size
    clock: NDArray[np.int64]  # (3,) episodes since the restart, restarts, whether this episode is a probe
    sure: NDArray[np.bool_]  # (1,)
    rate: float  # of probing episodes before the first restart
    level: float  # of the test


class WatchingUcbvi(NamedTuple):
    """The model, its plan, and what says when to begin anew."""

    plan: planned.Plan
    visits: tables.Integers  # (rows, S, A) all of them
    bonus: tables.BonusSettings
    watch: Schedule | Forecasters | Probes
    alarms: alarms.AlarmLog


# ---- told -------------------------------------------------------------------------------------------------


@kernel
def nothing_to_look_at(watch, plan, row, action, place):
    pass


@kernel
def planned_action(watch, plan, step, state):
    return int(plan.policy[step, state])


@kernel
def told(watch):
    return is_due(watch)


# ---- R-BOCPD ----------------------------------------------------------------------------------------------


@kernel
def forecast(watch, plan, row, action, place):
    """Let every predictor predict the outcome, which the model has counted already; then one more begins.

    The weight of a predictor that began at visit s is eta_s P(outcomes before s) P(outcomes from s on), P by Laplace's
    rule. A restart is due when one outweighs that of the predictor that has seen everything, for which eta is 1.
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
    """Whether some predictor was sure; all of them begin anew then."""
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
    """Whether a test was sure; the next episode is a probe if its turn has come: more often after each restart."""
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
    Schedule: (nothing_to_look_at, planned_action, told),
    Forecasters: (forecast, planned_action, forget_forecasts),
    Probes: (compare, probing_action, end_of_probe),
}
look = by_type(lambda kind: _WATCHES[kind][0], "(watch, plan, row, action, place): feed a detector with an outcome.")
choose = by_type(lambda kind: _WATCHES[kind][1], "(watch, plan, step, state): the action to take.")
is_sure = by_type(lambda kind: _WATCHES[kind][2], "(watch): after an episode, whether to begin anew.")


# ---- the verbs --------------------------------------------------------------------------------------------


@kernel
def has_room(learner, pushes):
    """An episode raises at most one alarm."""
    return alarms.has_room(learner.alarms, 1)


@kernel
def act(learner, step, state, rng):
    """The policy of the last plan, but for probes."""
    return choose(learner.watch, learner.plan, step, state)


@kernel
def greedy(learner, step, state, first):
    """The policy of the last plan, in a probe too."""
    return int(learner.plan.policy[step, state])


@kernel
def learn(learner, seen, rng):
    """Count the transition and show it to the detector."""
    plan = learner.plan
    row, place = planned.count(plan, seen)
    n_states = plan.policy.shape[1]
    learner.visits[row // n_states, row % n_states, seen.action] += 1
    if place >= 0:
        look(learner.watch, plan, row, seen.action, place)
    n = max(1.0, plan.model.visits[row, seen.action])
    return tables.bonus_of(learner.bonus, n, plan.bounds[seen.step]), 1.0


@kernel
def finish_episode(learner, rng):
    """Begin anew if it is time, and plan if a plan is due."""
    if is_sure(learner.watch):
        alarms.ring(learner.alarms)
        planned.forget(learner.plan)
    learner.alarms.now[0] += 1
    planned.plan_if_due(learner.bonus, learner.plan, rng)


rules.register(
    WatchingUcbvi,
    **{
        **plain.VERBS,
        "has_room": has_room,
        "act": act,
        "greedy": greedy,
        "learn": learn,
        "finish_episode": finish_episode,
    },
)
