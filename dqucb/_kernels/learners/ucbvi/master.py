"""MASTER over UCBVI (Wei and Luo 2021): instances started at different times, on several scales, and two tests.

A block of order n has 2^n episodes. At each multiple of 2^m in it an instance of length 2^m begins with probability
rho(2^n) / rho(2^m), for m = n, ..., 0; the shortest existing one acts and learns, the others wait. With R the returns
of the block, f the values predicted by the acting instances, and rho^ a bound on their mean error, all scaled from the
lowest possible return to the highest:
    test 1: the mean of R over an instance of order m, when it ends, is at most min f + 9 rho^(2^m),
    test 2: the mean of f - R over the block so far is less than 3 rho^(t).
After a failed test everything restarts with a block of order 0; after a block comes one of the next order.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, rules, shared_model, tables
from dqucb._kernels.learners.ucbvi import planned


class MasterLearner(NamedTuple):
    """An instance of each order: the tables of `planned.Plan` and of its model, orders first."""

    next_states: NDArray[np.int32]
    outcome_rewards: tables.Floats
    counts: tables.Floats
    known: NDArray[np.int32]
    distinct: NDArray[np.int32]
    model_visits: tables.Floats
    planned: tables.Floats
    due: NDArray[np.bool_]  # (orders, 1)
    V: tables.Floats
    policy: NDArray[np.int32]
    shares: tables.Floats
    rewards: tables.Floats
    visits: tables.Integers  # (rows, S, A) of all instances
    alive: NDArray[np.bool_]  # (orders,) whether there is an instance
    begun: tables.Floats  # (orders,) the sum of returns when it began
    clock: tables.Integers  # (3,) order of the block, episodes done in it, order of the instance that acts
    sums: tables.Floats  # (4,) in the block: returns, predicted values, their minimum; and the return of this episode
    bounds: tables.Floats
    bonus: tables.BonusSettings
    alarms: alarms.AlarmLog
    extra: int
    stride: int
    pairs: float  # S A
    width: float  # rho^ / rho
    low: float  # the lowest reward of a step, at most 0


ORDER, DONE, ACTING = 0, 1, 2
RETURNS, PREDICTED, LEAST_PREDICTED, NOW = 0, 1, 2, 3


def tables_of(learner, m):
    """The instance of order m, for Python; `instance` does the same in a kernel."""
    model = shared_model.SharedModel(
        learner.next_states[m],
        learner.outcome_rewards[m],
        learner.counts[m],
        learner.known[m],
        learner.distinct[m],
        learner.model_visits[m],
        learner.planned[m],
        learner.due[m],
        learner.extra,
    )
    return planned.Plan(
        model, learner.V[m], learner.policy[m], learner.shares[m], learner.rewards[m], learner.bounds, learner.stride
    )


instance = kernel(tables_of)


@kernel
def rho(pairs, t):
    """The mean regret of UCBVI over t episodes, in units of the largest return and up to logarithms: sqrt(S A / t)."""
    return math.sqrt(pairs / t)


@kernel
def lowest(learner):
    """The lowest return of an episode."""
    return formulas.lowest_return(learner.low, learner.bounds.shape[0] - 1, 0)


@kernel
def span(learner):
    """The highest return of an episode minus the lowest."""
    return learner.bounds[0] - lowest(learner)


@kernel
def act(learner, step, state, rng):
    """The policy of the acting instance."""
    return int(learner.policy[learner.clock[ACTING], step, state])


@kernel
def greedy(learner, step, state, first):
    """The greedy policy of the acting instance."""
    return int(learner.policy[learner.clock[ACTING], step, state])


@kernel
def learn(learner, seen, rng):
    """The acting instance counts the transition."""
    plan = instance(learner, learner.clock[ACTING])
    if seen.step == 0:
        predicted = (plan.V[0, seen.state] - lowest(learner)) / span(learner)
        learner.sums[PREDICTED] += predicted
        learner.sums[LEAST_PREDICTED] = min(learner.sums[LEAST_PREDICTED], predicted)
    learner.sums[NOW] += seen.reward / span(learner)
    row, _ = planned.count(plan, seen, learner.visits)
    return planned.bonus_of_visit(learner.bonus, plan, row, seen), 1.0


@kernel
def finish_episode(learner, rng):
    """Plan, test, and select the next acting instance."""
    planned.plan_if_due(learner.bonus, instance(learner, learner.clock[ACTING]), rng)
    learner.sums[RETURNS] += learner.sums[NOW] - lowest(learner) / span(learner)
    learner.sums[NOW] = 0.0
    learner.clock[DONE] += 1
    if fails(learner):
        alarms.ring(learner.alarms)
        new_block(learner, 0)
    elif learner.clock[DONE] == 1 << learner.clock[ORDER]:
        new_block(learner, min(learner.clock[ORDER] + 1, learner.begun.shape[0] - 1))
    learner.alarms.now[0] += 1
    schedule(learner, rng)


@kernel
def fails(learner):
    """Whether one of the tests fails."""
    done = learner.clock[DONE]
    for m in range(learner.clock[ORDER] + 1):
        length = 1 << m
        if done % length == 0 and learner.alive[m]:
            mean = (learner.sums[RETURNS] - learner.begun[m]) / length
            if mean > learner.sums[LEAST_PREDICTED] + 9.0 * learner.width * rho(learner.pairs, length):
                return True
    error = (learner.sums[PREDICTED] - learner.sums[RETURNS]) / done
    return error >= 3.0 * learner.width * rho(learner.pairs, done)


@kernel
def new_block(learner, order):
    """Start a block."""
    learner.clock[ORDER] = order
    learner.clock[DONE] = 0
    learner.sums[RETURNS] = 0.0
    learner.sums[PREDICTED] = 0.0
    learner.sums[LEAST_PREDICTED] = 1.0
    learner.alive[:] = False


@kernel
def schedule(learner, rng):
    """End and start instances at this point of the block; the shortest one acts."""
    done, order = learner.clock[DONE], learner.clock[ORDER]
    for back in range(order + 1):
        m = order - back
        if done % (1 << m) == 0:
            learner.alive[m] = False
            chance = rho(learner.pairs, float(1 << order)) / rho(learner.pairs, float(1 << m))
            if rng.random() < chance:
                learner.alive[m] = True
                learner.begun[m] = learner.sums[RETURNS]
                plan = instance(learner, m)
                planned.forget(plan)
                planned.make(learner.bonus, plan, rng)
        if learner.alive[m]:
            learner.clock[ACTING] = m


rules.register(
    MasterLearner, has_room=alarms.has_room_for_one, act=act, greedy=greedy, learn=learn, finish_episode=finish_episode
)
