"""An optimistic plan in the densities of pairs: means and their uncertainty are followed backwards together.

After the uncertainty Bellman equation of O'Donoghue et al. 2018. With p^ the shares of the n outcomes (y, r) that a
pair has seen since the last change,
    m_h(s, a) = sum p^ (r + V_{h+1}(y)),                                   the mean, at most v_h,
    u_h(s, a) = w_h(s, a) / n + (e(n) g_h)^2 + sum p^ U_{h+1}(y),           its variance,
    Q_h(s, a) = min(v_h, m_h(s, a) + c sqrt(u_h(s, a))),                   v_h for a pair that has seen nothing,
and V_h(s), U_h(s) are m and u of the action with the largest Q. Variances add up along a path where bonuses would: a
sum of bonuses over H steps is sqrt(H) times too large. The variance of an outcome, w, is that of the pair's own
outcomes and, with the weight of PRIOR visits, that of all pairs:
    w = (PRIOR w_all + sum (x - m)^2) / (PRIOR + n - 1),  x = r + V_{h+1}(y).
An outcome that a pair has not seen yet has the probability e(n) after n visits, which is learned from all pairs: how
often was the outcome after n visits a new one? So a world without noise needs one visit of a pair. It is worth
g_h = min(o (v_h - m), G_h) + f (v_h - m) more than the mean, with G_h learned from what new outcomes were worth, and f
from how many led to states never met (`exploration`). Nothing depends on the scale of rewards.

A bold plan is one that has learned nothing of new outcomes: e(n) = 1 / (n + 1) and f = 1/2. One episode is planned so
each time when the number of episodes since the last alarm has doubled, as long as there are states that were never met:
a way on that failed at its few visits is tried again.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel, rare_kernel
from dqucb._kernels.learners.planning import exploration, plan_budget, plan_workspace
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning.outcomes import ALL
from dqucb._kernels.learners.planning.plan_workspace import Workspace, new_workspace
from dqucb._kernels.rows import best_action

CONFIDENCE = 0.5  # c, in standard deviations
PRIOR = 3.0  # visits for which the variance of all pairs counts
POOLED = 8  # visits of a pair that count in the variance of all pairs, at most
SETTLED = 1e-6  # values that change less, in units of the largest return, have converged
SIZES = 64  # of numbers of visits: from 2^i to 2^(i+1) - 1


class Plan(NamedTuple):
    """Optimistic values, the policy that they give, and what they were made of."""

    Q: NDArray[np.float64]  # (H, S, A) optimistic
    V: NDArray[np.float64]  # (H + 1, S + 1) mean; a terminal state is number S
    U: NDArray[np.float64]  # (H + 1, S + 1) its variance
    policy: NDArray[np.int32]  # (H, S)
    looked_at: NDArray[np.int32]  # (H, S) the action in a state that this episode has not explored yet
    explored_at: NDArray[np.int64]  # (S,) the last episode that did
    bounds: NDArray[np.float64]  # (H + 1,) v_h
    first: NDArray[np.int64]  # (1,) the step from which the plan was written out; it is the same before
    due_at: NDArray[np.int64]  # (rows, S, A) visits of a pair at which another plan is due
    unseen: NDArray[np.float64]  # (rows, S, A) e(n) of a pair
    is_bold: NDArray[np.bool_]  # (1,) whether plans of this episode are
    is_outdated: NDArray[np.bool_]  # (1,) whether something was seen that turns it over
    novelty: NDArray[np.float64]  # (64,) outcomes that were new after 2^i to 2^(i+1) - 1 visits
    tried: NDArray[np.float64]  # (64,) all outcomes after as many visits
    met: NDArray[np.bool_]  # (S,) states that were reached since the last change
    ended: NDArray[np.bool_]  # (S,) states in which an episode has ended
    n_met: NDArray[np.int64]  # (1,) states met at the last plan
    arrivals: NDArray[np.float64]  # (2,) new outcomes of pairs that had others; those that led to a state never met
    spreads: NDArray[np.float64]  # (H,) the variance of all pairs at each step
    worths: NDArray[np.float64]  # (H,) G_h
    budget: NDArray[np.int64]  # (1,) outcomes that whole plans may still sum
    made: NDArray[np.int64]  # (2,) whole plans; states backed up alone, because the budget allowed no whole plan
    work: Workspace


def new_plan(rows: int, n_states: int, n_actions: int, width: int, bounds: NDArray[np.float64]) -> Plan:
    """Everything could be worth its bound."""
    H, S, A = len(bounds) - 1, n_states, n_actions
    V = np.zeros((H + 1, S + 1))
    V[:, :S] = bounds[:, None]
    Q = np.empty((H, S, A))
    Q[:] = bounds[:H, None, None]
    return Plan(
        Q=Q,
        V=V,
        U=np.zeros((H + 1, S + 1)),
        policy=np.zeros((H, S), np.int32),
        looked_at=np.zeros((H, S), np.int32),
        explored_at=np.full(S, -1),
        bounds=bounds,
        first=np.zeros(1, np.int64),
        due_at=np.zeros((rows, S, A), np.int64),
        unseen=np.zeros((rows, S, A)),
        is_bold=np.zeros(1, np.bool_),
        is_outdated=np.zeros(1, np.bool_),
        novelty=np.zeros(SIZES),
        tried=np.zeros(SIZES),
        met=np.zeros(S, np.bool_),
        ended=np.zeros(S, np.bool_),
        n_met=np.zeros(1, np.int64),
        arrivals=np.zeros(2),
        spreads=np.zeros(H),
        worths=np.zeros(H),
        budget=np.full(1, plan_budget.FIRST_WORK),
        made=np.zeros(2, np.int64),
        work=new_workspace(S, A, width),
    )


@kernel
def magnitude(n):
    """The exponent of the largest power of two that is at most n."""
    exponent = 0
    while n > 1:
        n >>= 1
        exponent += 1
    return exponent


@kernel
def rows_in_use(outcomes):
    """(first, last + 1) of the rows in which pairs are modelled."""
    return (0, 1) if densities.shares_steps(outcomes) else (densities.row_of(outcomes, 0), outcomes.counts.shape[0])


@kernel
def prepare(plan, outcomes):
    """What a plan needs to know of each pair: e(n), and when another plan will be due. Changes the plan's tables."""
    first, end = rows_in_use(outcomes)
    exploration.count_met(plan, outcomes, first, end)
    plan.tried[:] = 0.0
    for row in range(first, end):
        for s in range(outcomes.sizes.shape[1]):
            for a in range(outcomes.sizes.shape[2]):
                n = outcomes.sizes[row, s, a, ALL]
                add_tries(plan.tried, n)
                plan.due_at[row, s, a] = next_due(n)
    for row in range(first, end):
        for s in range(outcomes.sizes.shape[1]):
            for a in range(outcomes.sizes.shape[2]):
                n = outcomes.sizes[row, s, a, ALL]
                plan.unseen[row, s, a] = unseen_now(plan, n)


@kernel
def add_tries(tried, n):
    """Add n visits of a pair to the outcomes after 2^i to 2^(i+1) - 1 visits. Changes `tried`."""
    size = 0
    while (1 << size) < n:
        tried[size] += min(n - (1 << size), 1 << size)
        size += 1


@kernel
def next_due(n):
    """The visits of a pair at which another plan is due after one at n visits."""
    return n + max(1, (n + 1) // 2)


@kernel
def unseen_alone(n):
    """e(n) of a pair that learns nothing from others: 1 / (n + 1)."""
    return 1.0 / (n + 1.0)


@kernel
def unseen_now(plan, n):
    """e(n) in a plan of this episode."""
    return unseen_alone(n) if plan.is_bold[0] else unseen_share(plan.novelty, plan.tried, n)


@kernel
def unseen_share(novelty, tried, n):
    """e(n) = (new + 1 / (n + 1)) / (tried + 1) over all pairs after as many visits as n, in powers of two."""
    size = magnitude(n)
    return (novelty[size] + unseen_alone(n)) / (tried[size] + 1.0)


@rare_kernel
def make(plan, outcomes, first):
    """Plan by backward induction down to step `first`, or until the values of two steps are the same."""
    prepare(plan, outcomes)
    top = plan.bounds[0]
    step = plan.policy.shape[0]
    packed = -1
    weight = 0.0
    settled = False
    while step > first and not settled:
        step -= 1
        row = densities.row_of(outcomes, step)
        if row != packed:
            plan_workspace.pack(plan.work, outcomes, row)
            packed = row
            weight = pooled_weight(plan.work.visits)
            exploration.judge_pairs(plan.work, plan.Q.shape[2], exploration.share_of_several(plan.work))
        back_up(plan, row, step, weight)
        if plan.bounds[step] == top:
            settled = distance(plan, step, step + 1) <= SETTLED
    plan.first[0] = step
    plan.is_outdated[0] = False
    plan.made[0] += 1
    plan_budget.charge(plan, plan.policy.shape[0] - step)


@kernel
def distance(plan, row, other):
    """How far two rows of values and variances are apart, in units of the largest return and of its square."""
    change = 0.0
    change_of_variance = 0.0
    for s in range(plan.policy.shape[1]):
        change = max(change, abs(plan.V[row, s] - plan.V[other, s]))
        change_of_variance = max(change_of_variance, abs(plan.U[row, s] - plan.U[other, s]))
    top = plan.bounds[0]
    return max(change / top, change_of_variance / (top * top))


@kernel
def pooled_weight(visits):
    """The weight of all pairs together in their common variance."""
    weight = 0.0
    for n in visits:
        weight += min(max(n - 1.0, 0.0), POOLED)
    return weight


@kernel
def back_up(plan, row, step, weight):
    """Q, V, U and the policy of one step from V and U of the next.

    `row` of the densities is packed; `weight` is that of all its pairs.
    """
    work, h = plan.work, np.uint64(step)
    n_states, n_actions = plan.policy.shape[1], plan.Q.shape[2]
    bound, next_values = plan.bounds[h], plan.V[h + np.uint64(1)]
    plan_workspace.sum_outcomes(work, next_values, plan.U[h + np.uint64(1)])
    values = plan.Q[h].reshape(n_states * n_actions)
    unseen = plan.unseen[np.uint64(row)].reshape(n_states * n_actions)
    new = exploration.new_outcomes(work, next_values)
    worth = exploration.learned_worth(new[0], new[2], bound)
    plan.worths[h] = worth
    plan.spreads[h] = pooled_variance(work, weight)
    weigh(work, unseen, bound, plan.spreads[h], worth, exploration.unmet_share(plan), values)
    first = np.uint64(0)
    for state in range(n_states):
        s = np.uint64(state)
        here = first + np.uint64(best_action(plan.Q[h, s]))
        plan.policy[h, s] = here - first
        plan.V[h, s] = work.means[here]
        plan.U[h, s] = work.variances[here]
        first += np.uint64(n_actions)
    cap = min(bound, plan.bounds[plan.bounds.shape[0] - 2] + exploration.largest(next_values, n_states))
    exploration.look_again(work, plan.Q[h], plan.policy[h], plan.looked_at[h], cap, new)


@kernel
def pooled_variance(work, weight):
    """The variance of the outcomes of all pairs, from their sums of p x and p x^2."""
    total = 0.0
    for pair in range(work.visits.shape[0]):
        n = max(work.visits[pair], 1.0)
        own = n * max(0.0, work.squares[pair] - work.means[pair] * work.means[pair])
        total += min(n - 1.0, POOLED) * own / max(n - 1.0, 1.0)
    return mean_variance(total, weight)


@kernel
def weigh(work, unseen, bound, spread, worth, unmet, values):
    """Q of each pair from its sums, into `values`; the workspace gets m, u, and the pair's own part of u.

    Without branches, so that several pairs are done at a time.
    """
    for pair in range(values.shape[0]):
        n = max(work.visits[pair], 1.0)
        mean, variance, _ = uncertain(
            work.means[pair],
            work.squares[pair],
            work.variances[pair],
            n,
            work.inverses[pair],
            1.0,
            bound,
            spread,
            unseen[pair],
            worth,
            unmet,
        )
        is_known = work.visits[pair] > 0.0
        mean = mean if is_known else bound
        variance = variance if is_known else 0.0
        values[pair] = min(bound, mean + CONFIDENCE * math.sqrt(variance))
        work.means[pair] = mean
        work.own[pair] = max(0.0, variance - work.variances[pair])
        work.variances[pair] = variance


@kernel
def back_up_state(plan, outcomes, step, state):
    """Q, V, U and the policy of one state, with what the last whole plan has learned from all pairs."""
    h, s = np.uint64(max(step, plan.first[0])), np.uint64(state)
    row, after = np.uint64(densities.row_of(outcomes, step)), h + np.uint64(1)
    bound, unmet = plan.bounds[h], exploration.unmet_share(plan)
    plan.made[1] += 1
    top = -math.inf
    for action in range(plan.Q.shape[2]):
        a = np.uint64(action)
        n = outcomes.sizes[row, s, a, ALL]
        mean = bound
        variance = 0.0
        if n > 0:
            mean, variance, _ = pair_value(
                outcomes, row, s, a, plan.V[after], plan.U[after], 1.0, bound, plan.spreads[h], unseen_now(plan, n),
                plan.worths[h], unmet,
            )  # fmt: skip
        value = min(bound, mean + CONFIDENCE * math.sqrt(variance))
        plan.Q[h, s, a] = value
        if value > top:
            top = value
            plan.policy[h, s] = action
            plan.looked_at[h, s] = action
            plan.V[h, s] = mean
            plan.U[h, s] = variance


@kernel
def mean_variance(total, weight):
    """The variance of the outcomes of all pairs; 0 if none is known. Rounding may leave a sum below 0."""
    return max(0.0, total / weight) if weight > 0.0 else 0.0


@kernel
def pair_value(outcomes, r, s, a, next_values, next_variances, discount, bound, spread, unseen, worth, unmet):
    """(m, u, the sum of (x - m)^2) of a pair that has seen something."""
    n = outcomes.sizes[r, s, a, ALL]
    mean, squares, variance, _ = pair_sums(outcomes, r, s, a, next_values, next_variances, discount)
    return uncertain(mean, squares, variance, n, 1.0 / n, discount, bound, spread, unseen, worth, unmet)


@kernel
def pair_sums(outcomes, r, s, a, next_values, next_variances, discount):
    """The sums of p x, p x^2 and p U of a pair that has seen something, and its best x."""
    share = 1.0 / outcomes.sizes[r, s, a, ALL]
    mean = 0.0
    squares = 0.0
    variance = 0.0
    top = -math.inf
    for place in range(outcomes.known[r, s, a]):
        i = np.uint64(place)
        y = np.uint64(outcomes.next_states[r, s, a, i])
        x = outcomes.rewards[r, s, a, i] + discount * next_values[y]
        p = outcomes.counts[r, s, a, i] * share
        mean, squares, variance = plan_workspace.add_outcome(mean, squares, variance, p, x, next_variances[y])
        if p > 0.0:
            top = max(top, x)
    return mean, squares, variance, top


@kernel
def uncertain(mean, squares, variance, n, inverse, discount, bound, spread, unseen, worth, unmet):
    """(m, u, the sum of (x - m)^2) of a pair with n outcomes and 1 / n, from its sums of p x, p x^2 and p U."""
    own = n * max(0.0, squares - mean * mean)
    variance = discount * discount * variance + (PRIOR * spread + own) / (PRIOR + n - 1.0) * inverse
    mean = min(mean, bound)
    missing = unseen * (min(exploration.OPTIMISM * (bound - mean), worth) + unmet * (bound - mean))
    return mean, variance + missing * missing, own
