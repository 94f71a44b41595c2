"""An optimistic plan without a horizon, kept up to date by prioritised sweeping (Moore and Atkeson 1993).

The values are those of `optimistic_plan`, with the same V and U on both sides of the equation. A state is backed up
when one of its pairs has been seen a half more often than at its last backup, and then every state from which a state
was reached whose values moved, the largest moves first. When none is left, one round over all states follows what
concerns all pairs: their common variance, and how often an outcome is a new one.

Looks at other pairs are those of `exploration`. A state is looked at anew when 1 / (1 - gamma) steps have passed.

A step may take BACKUPS backups, and what it does not take later steps may, up to SAVED. So the cost of a step does not
depend on the number of states, and in a small problem a plan is finished within the step that asks for it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning import backup_queue, exploration, optimistic_plan
from dqucb._kernels.learners.planning.backup_queue import NONE
from dqucb._kernels.learners.planning.optimistic_plan import CONFIDENCE, POOLED, SETTLED, SIZES
from dqucb._kernels.learners.planning.outcomes import ALL, DIFFERENT
from dqucb._kernels.learners.planning.plan_workspace import Workspace, new_workspace

BACKUPS = 128  # a step
SAVED = 1 << 14  # backups, at most
EDGES_A_BACKUP = 16  # looking at so many edges takes about as long as a backup
CREDIT, SPENT, NEXT, LEFT = 0, 1, 2, 3  # places in `work`
SOURCE, OLDER = 0, 1  # of an edge
SEVERAL, TWICE = 0, 1  # places in `pairs`
NUMBER, SUM, SQUARES = 0, 1, 2  # of new outcomes: k, sum b_i and sum b_i^2 (`exploration`)
NEVER = -(1 << 62)


class DiscountedPlan(NamedTuple):
    """Optimistic values of the states met so far, by number; what they were made of, and what is still to be done."""

    Q: NDArray[np.float64]  # (capacity, A) optimistic
    V: NDArray[np.float64]  # (capacity + 1,) mean; the last is that of the end
    U: NDArray[np.float64]  # (capacity + 1,) its variance
    policy: NDArray[np.int32]  # (capacity,)
    looked_at: NDArray[np.int32]  # (capacity,) the action in a state that was not explored lately
    explored_at: NDArray[np.int64]  # (capacity,) the last step that did
    pairs: NDArray[np.float64]  # (2,) with several outcomes; seen twice or more
    top: NDArray[np.float64]  # (1,) the best value of a state after the last plan
    due_at: NDArray[np.int64]  # (1, capacity, A) visits of a pair at which another backup is due
    variances: NDArray[np.float64]  # (capacity, A) of the outcomes of a pair times its weight
    weights: NDArray[np.float64]  # (capacity, A) visits with which they count
    pooled: NDArray[np.float64]  # (2,) the sums of both
    worths: NDArray[np.float64]  # (capacity, A, 3) what the new outcomes of a pair were worth
    worth: NDArray[np.float64]  # (3,) the sums over all pairs
    novelty: NDArray[np.float64]  # (64,) outcomes that were new after 2^i to 2^(i+1) - 1 visits
    tried: NDArray[np.float64]  # (64,) all outcomes after as many visits
    arrivals: NDArray[np.float64]  # (2,) new outcomes of pairs that had others; those that led to a state never met
    unmet: NDArray[np.float64]  # (1,) f, the share of new outcomes that may lead to a state never met
    queue: backup_queue.BackupQueue
    newest: NDArray[np.int32]  # (capacity,) the last edge found into a state, or NONE
    edges: NDArray[np.int32]  # (room, 2) the state that an edge comes from, and the edge into the same state before it
    n_edges: NDArray[np.int64]  # (1,)
    made: NDArray[np.int64]  # (2,) plans that were finished; steps after which one was not
    work: NDArray[np.int64]  # (4,) backups that may be made; made since one was due; the next of the round; left of it
    bound: float  # v
    discount: float
    sweeps: int  # over all states, after which a plan ends if it does not settle
    scratch: Workspace  # the pairs of one state


def new_plan(capacity: int, n_actions: int, bound: float, discount: float, sweeps: int) -> DiscountedPlan:
    """Everything could be worth its bound."""
    C, A = capacity, n_actions
    V = np.full(C + 1, bound)
    V[C] = 0.0
    return DiscountedPlan(
        Q=np.full((C, A), bound),
        V=V,
        U=np.zeros(C + 1),
        policy=np.zeros(C, np.int32),
        looked_at=np.zeros(C, np.int32),
        explored_at=np.full(C, NEVER),
        pairs=np.zeros(2),
        top=np.full(1, bound),
        due_at=np.zeros((1, C, A), np.int64),
        variances=np.zeros((C, A)),
        weights=np.zeros((C, A)),
        pooled=np.zeros(2),
        worths=np.zeros((C, A, 3)),
        worth=np.zeros(3),
        novelty=np.zeros(SIZES),
        tried=np.zeros(SIZES),
        arrivals=np.zeros(2),
        unmet=np.full(1, 0.5),
        queue=backup_queue.new_queue(C),
        newest=np.full(C, NONE, np.int32),
        edges=np.zeros((0, 2), np.int32),
        n_edges=np.zeros(1, np.int64),
        made=np.zeros(2, np.int64),
        work=np.array([SAVED, 0, 0, 0]),
        bound=bound,
        discount=discount,
        sweeps=sweeps,
        scratch=new_workspace(1, A, 0),
    )


@kernel
def add_edge(plan, outcomes, state, action, next_state):
    """Remember that a state can be reached from another, unless that is known. Changes the edges.

    An outcome in the list of any action has its edge. A list that is full may have dropped it, so that then the edges
    themselves are looked through.
    """
    s = np.uint64(state)
    if is_listed(outcomes, s, np.uint64(action), next_state):
        return
    for other in range(outcomes.known.shape[2]):
        if is_listed(outcomes, s, np.uint64(other), next_state):
            return
    if outcomes.known[0, s, np.uint64(action)] == outcomes.counts.shape[3]:
        edge = plan.newest[next_state]
        while edge != NONE:
            if plan.edges[edge, SOURCE] == state:
                return
            edge = plan.edges[edge, OLDER]
    edge = plan.n_edges[0]
    plan.edges[edge, SOURCE] = state
    plan.edges[edge, OLDER] = plan.newest[next_state]
    plan.newest[next_state] = edge
    plan.n_edges[0] = edge + 1


@kernel
def is_listed(outcomes, s, a, next_state):
    """Whether a pair has an outcome with this next state."""
    for place in range(outcomes.known[0, s, a]):
        if outcomes.next_states[0, s, a, np.uint64(place)] == next_state:
            return True
    return False


@kernel
def count_try(plan, n, different, is_new):
    """A pair had another outcome and has n of them now. Changes what is learned from all pairs."""
    if n > 1:
        plan.tried[optimistic_plan.magnitude(n - 1)] += 1.0
    if n == 2:
        plan.pairs[TWICE] += 1.0
    if is_new and different == 2:
        plan.pairs[SEVERAL] += 1.0


@kernel
def count_arrival(plan, is_new, is_unmet, has_met_all):
    """Note whether a new outcome of a known pair led to a state never met. Changes f."""
    if is_new:
        plan.arrivals[0] += 1.0
        plan.arrivals[1] += 1.0 if is_unmet else 0.0
    plan.unmet[0] = 0.0 if has_met_all else (1.0 + plan.arrivals[1]) / (2.0 + plan.arrivals[0])


@kernel
def is_look_due(plan, state, now):
    """Whether the agent is to look at another pair of a state: once in the time that a discount looks ahead."""
    s = np.uint64(state)
    return plan.looked_at[s] != plan.policy[s] and (now - plan.explored_at[s]) * (1.0 - plan.discount) >= 1.0


@kernel
def ask(plan, state, n_states):
    """A backup of a state is due, and a round over all of them after it. Changes the queue."""
    backup_queue.push(plan.queue, state, 0)
    plan.work[SPENT] = 0
    plan.work[LEFT] = n_states


@kernel
def renew(plan, outcomes, n_states):
    """All densities have changed: back every state up at once. Changes all of the plan."""
    plan.tried[:] = 0.0
    plan.pairs[:] = 0.0
    plan.top[0] = plan.bound
    for state in range(n_states):
        for action in range(plan.Q.shape[1]):
            sizes = outcomes.sizes[0, state, action]
            optimistic_plan.add_tries(plan.tried, sizes[ALL])
            plan.pairs[TWICE] += 1.0 if sizes[ALL] > 1 else 0.0
            plan.pairs[SEVERAL] += 1.0 if sizes[DIFFERENT] > 1 else 0.0
    for state in range(n_states):
        follow(plan, outcomes, state)
    plan.work[SPENT] = 0
    plan.work[LEFT] = n_states


@kernel
def make(plan, outcomes, n_states):
    """Back up what waits and then the rest, as far as this step may; returns whether the plan is finished."""
    work = plan.work
    work[CREDIT] = min(work[CREDIT] + BACKUPS, SAVED)
    while work[CREDIT] > 0:
        state = backup_queue.pop(plan.queue)
        if state == NONE:
            if work[LEFT] == 0:
                plan.top[0] = exploration.largest(plan.V, n_states)
                return True
            work[LEFT] -= 1
            state = work[NEXT] if work[NEXT] < n_states else 0
            work[NEXT] = state + 1
        work[SPENT] += 1
        work[CREDIT] -= 1 + follow(plan, outcomes, state)
        if work[SPENT] >= plan.sweeps * n_states:  # policies can take turns for ever
            return True
    return False


@kernel
def follow(plan, outcomes, state):
    """Back a state up; if it moved, those from which it is reached wait; returns the price of that in backups."""
    change = back_up(plan, outcomes, state)
    if change <= SETTLED:
        return 0
    level = backup_queue.level_of(change)
    edges = 0
    edge = plan.newest[np.uint64(state)]
    while edge != NONE:
        e = np.uint64(edge)
        backup_queue.push(plan.queue, plan.edges[e, np.uint64(SOURCE)], level)
        edge = plan.edges[e, np.uint64(OLDER)]
        edges += 1
    return edges // EDGES_A_BACKUP


@kernel
def learn_worths(plan, outcomes, s, a, mean):
    """What new outcomes of a pair are worth now, in its sums and in those of all pairs. Changes both."""
    number = 0.0
    total = 0.0
    squares = 0.0
    share = 1.0 / max(1, outcomes.sizes[0, s, a, ALL])
    for place in range(1, outcomes.known[0, s, a]):
        i = np.uint64(place)
        p = outcomes.counts[0, s, a, i] * share
        if p > 0.0:
            x = outcomes.rewards[0, s, a, i] + plan.discount * plan.V[np.uint64(outcomes.next_states[0, s, a, i])]
            b = exploration.better(x - mean, p)
            number += 1.0
            total += b
            squares += b * b
    own = plan.worths[s, a]
    plan.worth[NUMBER] += number - own[NUMBER]
    plan.worth[SUM] += total - own[SUM]
    plan.worth[SQUARES] += squares - own[SQUARES]
    own[NUMBER] = number
    own[SUM] = total
    own[SQUARES] = squares


@kernel
def back_up(plan, outcomes, state):
    """Q, V, U and the policy of one state; returns how far V or U moved, in units of the bound and of its square."""
    s = np.uint64(state)
    row = np.uint64(0)
    bound = plan.bound
    best = -np.inf
    best_mean = bound
    best_variance = 0.0
    best_action = 0
    spread = optimistic_plan.mean_variance(plan.pooled[0], plan.pooled[1])
    scratch = plan.scratch
    learned = max(0.0, plan.worth[SQUARES])  # rounding may leave it below 0
    worth = exploration.learned_worth(plan.worth[NUMBER], learned, bound)
    for action in range(plan.Q.shape[1]):
        a = np.uint64(action)
        n = outcomes.sizes[row, s, a, ALL]
        mean = bound
        variance = 0.0
        weight = 0.0
        total = 0.0
        if n > 0:
            unseen = optimistic_plan.unseen_share(plan.novelty, plan.tried, n)
            mean, squares, later, scratch.tops[a] = optimistic_plan.pair_sums(
                outcomes, row, s, a, plan.V, plan.U, plan.discount
            )
            mean, variance, own = optimistic_plan.uncertain(
                mean, squares, later, n, 1.0 / n, plan.discount, bound, spread, unseen, worth, plan.unmet[0]
            )
            scratch.own[a] = max(0.0, variance - plan.discount * plan.discount * later)
            if n > 1:
                weight = float(min(n - 1, POOLED))
                total = weight * own / (n - 1)
        plan.pooled[0] += total - plan.variances[s, a]
        plan.pooled[1] += weight - plan.weights[s, a]
        learn_worths(plan, outcomes, s, a, mean)
        plan.variances[s, a] = total
        plan.weights[s, a] = weight
        plan.due_at[row, s, a] = optimistic_plan.next_due(n)
        q = min(bound, mean + CONFIDENCE * math.sqrt(variance))
        plan.Q[s, a] = q
        scratch.visits[a] = n
        scratch.different[a] = outcomes.sizes[row, s, a, DIFFERENT]
        scratch.means[a] = mean
        if q > best:
            best = q
            best_action = action
            best_mean = mean
            best_variance = variance
    change = max(abs(best_mean - plan.V[s]) / bound, abs(best_variance - plan.U[s]) / (bound * bound))
    plan.policy[s] = best_action
    plan.V[s] = best_mean
    plan.U[s] = best_variance
    plan.looked_at[s] = best_action
    if scratch.visits[best_action] > 0.0:  # else there is no look, which spares most of the work where much is new
        prior = (plan.pairs[SEVERAL] + 1.0) / (plan.pairs[TWICE] + 2.0)
        exploration.judge_pairs(scratch, plan.Q.shape[1], prior)
        cap = min(bound, (1.0 - plan.discount) * bound + plan.discount * plan.top[0])
        here = slice(state, state + 1)
        new = (plan.worth[NUMBER], plan.worth[SUM], plan.worth[SQUARES])
        exploration.look_again(scratch, plan.Q[here], plan.policy[here], plan.looked_at[here], cap, new)
    return change
