"""SWUCRL2-CW and BORL (Cheung, Simchi-Levi and Zhu 2020): optimism over a sliding window of transitions.

Counts are those of the last W steps. The set of models has mean rewards within rad_r of the empirical ones and, by
"confidence widening", transition probabilities within an L1 distance of rad_p + eta. A policy that is optimal in the
best model of the set is kept until the pair to be taken next has doubled its count, or until the step is a multiple of
W. BORL divides the run into blocks: each starts the algorithm anew with a pair (W, eta) that EXP3.P chooses by the
rewards of earlier blocks.

With a horizon the optimistic policy comes from backward induction; without one from extended value iteration for the
average reward (Jaksch, Ortner and Auer 2010), as published.
"""

import math
from typing import NamedTuple

import numpy as np

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel, rare_kernel
from dqucb._kernels.learners import rules, shared_model, tables
from dqucb._kernels.learners.ucbvi import planned

ROW, ACTION, NEXT = 0, 1, 2
TIME, PLANNED_AT, ARM, STARTS = 0, 1, 2, 3
MOST_SWEEPS = 10_000  # of extended value iteration, which has no limit in the paper


class SlidingUcrl(NamedTuple):
    """The transitions of the window, the model and the plan made of them, and the bandit over windows."""

    plan: planned.Plan
    visits: tables.Integers  # (rows, S, A) all of them
    ring: tables.Integers  # (capacity, 3) row, action and next state of step i at i mod the longest W; S is the end
    ring_rewards: tables.Floats  # (capacity,)
    fresh: tables.Integers  # (rows S, A) visits since the last plan
    starts: tables.Integers  # (S,) in which episodes of this block began
    clock: tables.Integers  # (4,) steps of this block, the step of the last plan, the arm, whether an episode starts
    lengths: tables.Integers  # (arms or more,) W
    widenings: tables.Floats  # (arms or more,) eta
    scores: tables.Floats  # (arms or more,) of EXP3.P
    chances: tables.Floats  # (arms or more,) with which EXP3.P draws
    earned: tables.Floats  # (1,) in this block, in units of the range of rewards
    arms: int
    longest: int  # W
    block: int  # steps
    blocks: int  # in the run
    low: float  # the lowest reward
    high: float  # the highest
    log_term: float  # ln(S A T / delta)
    scale: float  # of both radii; 1 as published
    endless: bool  # no horizon


# ---- the bandit over windows ------------------------------------------------------------------------------


@kernel
def new_block(learner, rng):
    """Credit the arm of the last block, draw another one, and start the algorithm anew."""
    arms, arm = learner.arms, learner.clock[ARM]
    if arms > 1:
        exploration, rate, bias = formulas.exp3p_rates(arms, learner.blocks)
        if arm >= 0:
            for other in range(arms):
                gain = learner.earned[0] / learner.block if other == arm else 0.0
                learner.scores[other] += (bias + gain) / learner.chances[other]
        top = learner.scores[0]
        for other in range(1, arms):
            top = max(top, learner.scores[other])
        total = 0.0
        for other in range(arms):
            learner.chances[other] = math.exp(rate * (learner.scores[other] - top))
            total += learner.chances[other]
        below = rng.random()
        arm = -1
        for other in range(arms):
            learner.chances[other] = (1.0 - exploration) * learner.chances[other] / total + exploration / arms
            below -= learner.chances[other]
            if arm < 0 and below < 0.0:
                arm = other
        learner.clock[ARM] = arms - 1 if arm < 0 else arm
    else:
        learner.clock[ARM] = 0
    learner.earned[0] = 0.0
    learner.starts[:] = 0
    learner.clock[TIME] = 0
    learner.clock[PLANNED_AT] = -1


# ---- the optimistic plan ----------------------------------------------------------------------------------


@kernel
def count_window(learner):
    """The model of the last W steps of the block."""
    plan = learner.plan
    planned.forget(plan)
    window = learner.lengths[learner.clock[ARM]]
    now = learner.clock[TIME]
    for step in range(max(0, now - window), now):
        place = step % learner.longest
        row, action, after = learner.ring[place]
        seen = rules.Transition(0, row, action, learner.ring_rewards[place], after, False)
        where = shared_model.place_of(plan.model, seen)
        if where >= 0:
            shared_model.count(plan.model, seen, where)
    shared_model.note_plan(plan.model)
    shared_model.shares(plan.model, plan.shares, plan.rewards)
    learner.fresh[:] = 0


@kernel
def best_state(values, n_states):
    """The first of the states with the largest value."""
    best = 0
    for state in range(1, n_states):
        if values[state] > values[best]:
            best = state
    return best


@kernel
def best_case(learner, row, action, values):
    """The largest r + P V over the models of the set: mass is moved to the best state from the worst successors."""
    plan = learner.plan
    top = values[values.shape[0] - 1]
    n = plan.model.planned[row, action]
    if n == 0.0:
        return learner.high + top
    n_states = plan.policy.shape[1]
    share, next_states = plan.shares[row, action], plan.model.next_states[row, action]
    radius = learner.scale * formulas.ucrl_radius(n, learner.log_term)
    reward = min(learner.high, plan.rewards[row, action] + radius * (learner.high - learner.low))
    moved = 0.5 * (radius * math.sqrt(float(n_states)) + learner.widenings[learner.clock[ARM]])
    known = plan.model.known[row, action]
    total = 0.0
    above = 0.0
    elsewhere = 0.0  # mass on successors with a lower value
    for place in range(known):
        value = values[next_states[place]]
        total += share[place] * value
        above += share[place] * max(0.0, value - top)
        if value < top:
            elsewhere += share[place]
    if moved >= elsewhere:  # without rounding, so that pairs of which nothing is known tie
        return reward + (top + above)
    total += moved * top
    floor = -np.inf
    while moved > 0.0:
        lowest = np.inf
        mass = 0.0
        for place in range(known):
            value = values[next_states[place]]
            if floor < value and value < lowest:
                lowest = value
                mass = share[place]
            elif value == lowest:
                mass += share[place]
        if lowest >= top:
            break
        taken = min(moved, mass)
        total -= taken * lowest
        moved -= taken
        floor = lowest
    return reward + total


@kernel
def back_up(learner, h, values, after):
    """Fill `values` (S,) and the policy of step h; the last column holds the largest value."""
    plan = learner.plan
    n_states = plan.policy.shape[1]
    for state in range(n_states):
        row = planned.row_of(plan, h, state)
        best = 0
        best_q = best_case(learner, row, 0, after)
        for action in range(1, plan.rewards.shape[1]):
            q = best_case(learner, row, action, after)
            if q > best_q:
                best = action
                best_q = q
        plan.policy[h, state] = best
        values[state] = best_q if learner.endless else formulas.capped_value(best_q, plan.bounds[h])
    values[n_states + 1] = values[best_state(values, n_states)]


@rare_kernel
def replan(learner):
    """Backward induction; without a horizon extended value iteration to the accuracy 1 / sqrt(t)."""
    count_window(learner)
    plan = learner.plan
    learner.clock[PLANNED_AT] = learner.clock[TIME]
    horizon, n_states = plan.policy.shape
    if not learner.endless:
        for back in range(horizon):
            h = horizon - 1 - back
            back_up(learner, h, plan.V[h], plan.V[h + 1])
        return
    accuracy = (learner.high - learner.low) / math.sqrt(learner.clock[TIME] + 1.0)
    plan.V[0] = 0.0
    for _ in range(MOST_SWEEPS):
        least = np.inf
        for state in range(n_states):
            least = min(least, plan.V[0, state])
        at_starts, starts = 0.0, 0
        for state in range(n_states):
            plan.V[1, state] = plan.V[0, state] - least  # differences are what matters
            at_starts += learner.starts[state] * plan.V[1, state]
            starts += learner.starts[state]
        plan.V[1, n_states] = at_starts / max(1, starts)  # after the end of an episode
        plan.V[1, n_states + 1] = plan.V[0, n_states + 1] - least
        back_up(learner, 0, plan.V[0], plan.V[1])
        smallest, largest = np.inf, -np.inf
        for state in range(n_states):
            change = plan.V[0, state] - plan.V[1, state]
            smallest, largest = min(smallest, change), max(largest, change)
        if largest - smallest < accuracy:
            return


# ---- the learner ------------------------------------------------------------------------------------------


@kernel
def has_room(learner, pushes):
    """Whether the ring has room for so many more steps."""
    return min(learner.longest, learner.clock[TIME] + pushes) <= learner.ring.shape[0]


@kernel
def act(learner, step, state, rng):
    """The action of the plan; a new block or a new plan may be due before it."""
    plan = learner.plan
    if learner.clock[ARM] < 0 or learner.clock[TIME] >= learner.block:
        new_block(learner, rng)
    now = learner.clock[TIME]
    row = planned.row_of(plan, step, state)
    action = int(plan.policy[step, state])
    has_doubled = learner.fresh[row, action] >= max(1.0, plan.model.planned[row, action])
    ends = now % learner.lengths[learner.clock[ARM]] == 0 and learner.clock[PLANNED_AT] < now
    if learner.clock[PLANNED_AT] < 0 or has_doubled or ends:
        replan(learner)
    return int(plan.policy[step, state])


@kernel
def learn(learner, seen, rng):
    """Write the transition into the window."""
    n_states = learner.plan.policy.shape[1]
    now = learner.clock[TIME]
    place = now % learner.longest
    row = planned.row_of(learner.plan, seen.step, seen.state)
    if learner.clock[STARTS] == 1:
        learner.starts[seen.state] += 1
    learner.clock[STARTS] = int(seen.terminated)
    learner.ring[place, ROW] = row
    learner.ring[place, ACTION] = seen.action
    learner.ring[place, NEXT] = n_states if seen.terminated else seen.next_state
    learner.ring_rewards[place] = seen.reward
    learner.fresh[row, seen.action] += 1
    learner.visits[row // n_states, seen.state, seen.action] += 1
    learner.earned[0] += (seen.reward - learner.low) / (learner.high - learner.low)
    learner.clock[TIME] = now + 1
    return 0.0, 1.0


@kernel
def q_table(learner, q):
    """Fill q[h, s, a] with the optimistic action values of the last plan."""
    plan = learner.plan
    for h in range(q.shape[0]):
        for state in range(q.shape[1]):
            for action in range(q.shape[2]):
                row = planned.row_of(plan, h, state)
                q[h, state, action] = best_case(learner, row, action, plan.V[h + 1])


rules.register(SlidingUcrl, has_room=has_room, act=act, greedy=planned.greedy, learn=learn)
