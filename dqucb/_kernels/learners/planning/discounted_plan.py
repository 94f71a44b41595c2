"""An optimistic plan without a horizon, kept up to date by prioritised sweeping (Moore and Atkeson 1993).

The values are those of `optimistic_plan`, with the same V and U on both sides of the equation. A state is backed up
when one of its pairs has been seen a half more often than at its last backup, and then every state from which a state
was reached whose values moved, the largest moves first. When none is left, one round over all states follows what
concerns all pairs: their common variance, and how often an outcome is a new one.

A step may take BACKUPS backups, and what it does not take later steps may, up to SAVED. So the cost of a step does not
depend on the number of states, and in a small problem a plan is finished within the step that asks for it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning import backup_queue, optimistic_plan
from dqucb._kernels.learners.planning.backup_queue import NONE
from dqucb._kernels.learners.planning.optimistic_plan import POOLED, SETTLED, SIZES
from dqucb._kernels.learners.planning.outcomes import ALL

CONFIDENCE = 1.0  # c: more than with a horizon, because there are no looks beside the plan
BACKUPS = 128  # a step
SAVED = 1 << 14  # backups, at most
EDGES_A_BACKUP = 16  # looking at so many edges takes about as long as a backup
CREDIT, SPENT, NEXT, LEFT = 0, 1, 2, 3  # places in `work`
SOURCE, OLDER = 0, 1  # of an edge


class DiscountedPlan(NamedTuple):
    """Optimistic values of the states met so far, by number; what they were made of, and what is still to be done."""

    Q: NDArray[np.float64]  # (capacity, A) optimistic
    V: NDArray[np.float64]  # (capacity + 1,) mean; the last is that of the end
    U: NDArray[np.float64]  # (capacity + 1,) its variance
    policy: NDArray[np.int32]  # (capacity,)
    due_at: NDArray[np.int64]  # (1, capacity, A) visits of a pair at which another backup is due
    variances: NDArray[np.float64]  # (capacity, A) of the outcomes of a pair times its weight
    weights: NDArray[np.float64]  # (capacity, A) visits with which they count
    pooled: NDArray[np.float64]  # (2,) the sums of both
    novelty: NDArray[np.float64]  # (64,) outcomes that were new after 2^i to 2^(i+1) - 1 visits
    tried: NDArray[np.float64]  # (64,) all outcomes after as many visits
    queue: backup_queue.BackupQueue
    newest: NDArray[np.int32]  # (capacity,) the last edge found into a state, or NONE
    edges: NDArray[np.int32]  # (room, 2) the state that an edge comes from, and the edge into the same state before it
    n_edges: NDArray[np.int64]  # (1,)
    made: NDArray[np.int64]  # (2,) plans that were finished; steps after which one was not
    work: NDArray[np.int64]  # (4,) backups that may be made; made since one was due; the next of the round; left of it
    bound: float  # v
    discount: float
    sweeps: int  # over all states, after which a plan ends if it does not settle


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
        due_at=np.zeros((1, C, A), np.int64),
        variances=np.zeros((C, A)),
        weights=np.zeros((C, A)),
        pooled=np.zeros(2),
        novelty=np.zeros(SIZES),
        tried=np.zeros(SIZES),
        queue=backup_queue.new_queue(C),
        newest=np.full(C, NONE, np.int32),
        edges=np.zeros((0, 2), np.int32),
        n_edges=np.zeros(1, np.int64),
        made=np.zeros(2, np.int64),
        work=np.array([SAVED, 0, 0, 0]),
        bound=bound,
        discount=discount,
        sweeps=sweeps,
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
def count_try(plan, n):
    """A pair had another outcome and has n of them now. Changes the numbers from which novelty is learned."""
    if n > 1:
        plan.tried[optimistic_plan.magnitude(n - 1)] += 1.0


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
    for state in range(n_states):
        for action in range(plan.Q.shape[1]):
            optimistic_plan.add_tries(plan.tried, outcomes.sizes[0, state, action, ALL])
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
    for action in range(plan.Q.shape[1]):
        a = np.uint64(action)
        n = outcomes.sizes[row, s, a, ALL]
        mean = bound
        variance = 0.0
        weight = 0.0
        total = 0.0
        if n > 0:
            unseen = optimistic_plan.unseen_share(plan.novelty, plan.tried, n)
            mean, variance, own = optimistic_plan.pair_value(
                outcomes, row, s, a, plan.V, plan.U, plan.discount, bound, spread, unseen, math.inf, 0.0
            )
            if n > 1:
                weight = float(min(n - 1, POOLED))
                total = weight * own / (n - 1)
        plan.pooled[0] += total - plan.variances[s, a]
        plan.pooled[1] += weight - plan.weights[s, a]
        plan.variances[s, a] = total
        plan.weights[s, a] = weight
        plan.due_at[row, s, a] = optimistic_plan.next_due(n)
        q = min(bound, mean + CONFIDENCE * math.sqrt(variance))
        plan.Q[s, a] = q
        if q > best:
            best = q
            best_action = action
            best_mean = mean
            best_variance = variance
    change = max(abs(best_mean - plan.V[s]) / bound, abs(best_variance - plan.U[s]) / (bound * bound))
    plan.policy[s] = best_action
    plan.V[s] = best_mean
    plan.U[s] = best_variance
    return change
