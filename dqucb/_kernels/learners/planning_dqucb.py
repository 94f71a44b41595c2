"""PlanningDQUCB: the density of a pair is the model that it plans in and the detector that tells it to forget.

Planning follows means and their uncertainty backwards together (the uncertainty Bellman equation of O'Donoghue et al.
2018). With p^ the shares of the n outcomes (y, r) that a pair has seen since the last change,
    m_h(s, a) = sum p^ (r + V_{h+1}(y)),                                   the mean, at most v_h,
    u_h(s, a) = w_h(s, a) / n + (o e(n) (v_h - m))^2 + sum p^ U_{h+1}(y),   its variance,
    Q_h(s, a) = min(v_h, m_h(s, a) + c sqrt(u_h(s, a))),                   v_h for a pair that has seen nothing,
and V_h(s), U_h(s) are m and u of the action with the largest Q. Variances add up along a path where bonuses would: a
sum of bonuses over H steps is sqrt(H) times too large. The variance of an outcome, w, is that of the pair's own
outcomes and, with the weight of PRIOR visits, that of all pairs at the step planned before:
    w = (PRIOR w_all + sum (x - m)^2) / (PRIOR + n - 1),  x = r + V_{h+1}(y).
An outcome that a pair has not seen yet could be worth v_h; o is OPTIMISM. Its probability e(n) after n visits is
learned from all pairs: how often was the outcome after n visits a new one? So a world without noise needs one visit
of a pair, and nothing depends on the scale of rewards.

A plan is made when some pair has been seen a half more often than at the last one, after the episode, or at once in a
problem with a discount, where sweeps over all states go on from the last values. When a test says that a pair has
changed (`outcomes`), every pair forgets what it has seen.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import ratio_test
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, plain, rules
from dqucb._kernels.learners import outcomes as densities
from dqucb._kernels.learners.outcomes import ALL, AUTO

CONFIDENCE = 1.0  # c, in standard deviations
OPTIMISM = 0.25  # share of v_h - m that an outcome not seen yet is believed to be worth
PRIOR = 3.0  # visits for which the variance of all pairs counts
NEW, TRIED = 0, 1  # rows of `novelty`
POOLED = 8  # visits of a pair that count in the variance of all pairs, at most
GROWTH = 2  # a plan is due when a pair has been seen more often by a half
SETTLED = 1e-6  # values that change less, in units of the largest return, have converged


class PlanningLearner(NamedTuple):
    """The density of each pair, and the plan made in it."""

    outcomes: densities.Outcomes
    alarms: alarms.AlarmLog
    visits: NDArray[np.int64]  # (1 or H, S, A) all of them, whatever was forgotten since
    planned: NDArray[np.int64]  # (rows, S, A) outcomes that the last plan knew
    Q: NDArray[np.float64]  # (H, S, A) optimistic
    V: NDArray[np.float64]  # (H + 1, S + 1) mean; a terminal state is number S
    U: NDArray[np.float64]  # (H + 1, S + 1) its variance
    policy: NDArray[np.int32]  # (H, S)
    bounds: NDArray[np.float64]  # (H + 1,) v_h; (2,) of the same with a discount
    first: NDArray[np.int64]  # (1,) the step from which the plan was written out; it is the same before
    due: NDArray[np.bool_]  # (1,) whether a plan is
    novelty: NDArray[np.float64]  # (2, 64) outcomes that were new, and all, after 2^i to 2^(i+1) - 1 visits
    discount: float  # 1 with a horizon
    sweeps: int  # at most, with a discount; 0 with a horizon


@kernel
def has_room(learner, pushes):
    """Whether as many alarms fit."""
    return alarms.has_room(learner.alarms, pushes)


@kernel
def act(learner, step, state, rng):
    """The action of the last plan."""
    return int(learner.policy[np.uint64(max(step, learner.first[0])), np.uint64(state)])


@kernel
def greedy(learner, step, state, first):
    """The same: a plan leaves no ties open."""
    return act(learner, step, state, None)


@kernel
def learn(learner, seen, rng):
    """Count the outcome, test its pair, forget if it has changed; returns (its standard error, its likelihood)."""
    outcomes = learner.outcomes
    step, state, action = seen.step, seen.state, seen.action
    learner.visits[np.uint64(min(step, learner.visits.shape[0] - 1)), np.uint64(state), np.uint64(action)] += 1
    row = densities.row_of(outcomes, step, state, action)
    n = outcomes.sizes[row, state, action, ALL]
    known = outcomes.known[row, state, action]
    p = densities.count(outcomes, row, seen)
    if n > 0:
        size = np.uint64(magnitude(n))
        learner.novelty[TRIED, size] += 1.0
        if outcomes.known[row, state, action] > known:
            learner.novelty[NEW, size] += 1.0
    n += 1
    if outcomes.form == AUTO and row == 0:
        densities.count(outcomes, step + 1, seen)
        densities.merge(outcomes, step + 1, state, action)
    changed = densities.has_changed(outcomes, row, state, action)
    if outcomes.form == AUTO and row == 0 and not changed and ratio_test.is_power_of_two(n):
        # Not where a pair has changed: outcomes from before and after it look like steps that differ, as soon as the
        # policy visits other steps than it did. After an alarm all outcomes are of one world.
        if densities.steps_differ(outcomes, state, action):
            # One pair refutes that steps are alike. Others were perhaps seen early in episodes only, and a shared
            # density would go on to speak for their later steps, which would then never be tried.
            outcomes.split[:] = True
            learner.due[0] = True
    if changed:
        alarms.ring(learner.alarms)
        forget(learner)
    else:
        densities.merge(outcomes, row, state, action)
        before = learner.planned[row, state, action]
        if n > before and GROWTH * (n - before) >= before:
            learner.due[0] = True
    if learner.sweeps > 0:
        learner.alarms.now[0] += 1
        if learner.due[0]:
            plan_discounted(learner)
    return 0.0, p


@kernel
def finish_episode(learner, rng):
    """Plan if the density has changed enough."""
    if learner.sweeps == 0:
        learner.alarms.now[0] += 1
        if learner.due[0]:
            plan(learner)


@kernel
def forget(learner):
    """One pair has changed, and so may all have. Changes the density; a plan is due."""
    densities.forget(learner.outcomes)
    learner.planned[:] = 0
    learner.novelty[:] = 0.0
    learner.due[0] = True


@kernel
def magnitude(n):
    """The exponent of the largest power of two that is at most n."""
    exponent = 0
    while n > 1:
        n >>= 1
        exponent += 1
    return exponent


@kernel
def unseen(learner, n):
    """e(n): the probability that a pair with n visits meets a new outcome; 1 / (n + 1) before anything is known."""
    size = np.uint64(magnitude(n))
    return (learner.novelty[NEW, size] + 1.0 / (n + 1.0)) / (learner.novelty[TRIED, size] + 1.0)


@kernel
def plan(learner):
    """Backward induction over all steps, or until the values of two steps are the same."""
    horizon = learner.policy.shape[0]
    top = learner.bounds[0]
    spread = 0.0
    step = horizon
    settled = False
    while step > 0 and not settled:
        step -= 1
        spread = back_up(learner, step, step, step + 1, spread)
        if learner.bounds[step] == top:
            settled = distance(learner, step, step + 1) <= SETTLED
    learner.first[0] = step
    note_plan(learner)


@kernel
def plan_discounted(learner):
    """Sweeps from the last values until they settle."""
    spread = 0.0
    sweep = 0
    settled = False
    while sweep < learner.sweeps and not settled:
        for s in range(learner.policy.shape[1]):
            learner.V[1, s] = learner.V[0, s]
            learner.U[1, s] = learner.U[0, s]
        spread = back_up(learner, 0, 0, 1, spread)
        settled = distance(learner, 0, 1) <= SETTLED
        sweep += 1
    note_plan(learner)


@kernel
def distance(learner, row, other):
    """How far two rows of values and variances are apart, in units of the largest return and of its square."""
    change = 0.0
    change_of_variance = 0.0
    for s in range(learner.policy.shape[1]):
        change = max(change, abs(learner.V[row, s] - learner.V[other, s]))
        change_of_variance = max(change_of_variance, abs(learner.U[row, s] - learner.U[other, s]))
    top = learner.bounds[0]
    return max(change / top, change_of_variance / (top * top))


@kernel
def note_plan(learner):
    """The plan knows all outcomes seen so far."""
    sizes = learner.outcomes.sizes
    for row in range(sizes.shape[0]):
        for s in range(sizes.shape[1]):
            for a in range(sizes.shape[2]):
                learner.planned[row, s, a] = sizes[row, s, a, ALL]
    learner.due[0] = False


@kernel
def back_up(learner, step, to, after, spread):
    """Q, V, U and the policy of one step from V and U of row `after`; returns the variance of all pairs."""
    outcomes = learner.outcomes
    next_values = learner.V[np.uint64(after)]
    next_variances = learner.U[np.uint64(after)]
    h = np.uint64(to)
    v_h = learner.bounds[h]
    discount = learner.discount
    total = 0.0
    weight = 0.0
    for state in range(learner.policy.shape[1]):
        s = np.uint64(state)
        best = -np.inf
        best_mean = v_h
        best_variance = 0.0
        best_action = 0
        for action in range(learner.Q.shape[2]):
            a = np.uint64(action)
            r = np.uint64(densities.row_of(outcomes, step, state, action))
            n = outcomes.sizes[r, s, a, ALL]
            mean = v_h
            variance = 0.0
            if n > 0:
                share = 1.0 / n
                mean = 0.0
                squares = 0.0
                for place in range(outcomes.known[r, s, a]):
                    i = np.uint64(place)
                    p = outcomes.counts[r, s, a, i] * share
                    y = np.uint64(outcomes.next_states[r, s, a, i])
                    x = outcomes.rewards[r, s, a, i] + discount * next_values[y]
                    mean += p * x
                    squares += p * x * x
                    variance += p * next_variances[y]
                own = n * max(0.0, squares - mean * mean)
                if n > 1:
                    visits = min(n - 1, POOLED)
                    total += visits * own / (n - 1)
                    weight += visits
                variance = discount * discount * variance + (PRIOR * spread + own) / (PRIOR + n - 1.0) * share
                mean = min(mean, v_h)
                missing = OPTIMISM * unseen(learner, n) * (v_h - mean)
                variance += missing * missing
            q = min(v_h, mean + CONFIDENCE * math.sqrt(variance))
            learner.Q[h, s, a] = q
            if q > best:
                best = q
                best_action = action
                best_mean = mean
                best_variance = variance
        learner.policy[h, s] = best_action
        learner.V[h, s] = best_mean
        learner.U[h, s] = best_variance
    return total / weight if weight > 0.0 else 0.0


rules.register(
    PlanningLearner,
    **{
        **plain.VERBS,
        "has_room": has_room,
        "act": act,
        "greedy": greedy,
        "learn": learn,
        "finish_episode": finish_episode,
    },
)
