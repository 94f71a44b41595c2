"""What an outcome that a pair has not seen yet may be worth: learned for plans, and weighed where the agent acts.

In a plan, an unseen outcome is worth what new outcomes were worth so far. With x = r + V_{h+1}(y), m and p^ as in
`optimistic_plan`, over all pairs and every outcome i of a pair but its first one (each was new once),
    d_i = o max(0, x_i - m) / (1 - p^_i),    G_h^2 = (k (o v_h)^2 + sum d_i^2) / (k + number of i),    k = PRIOR_WORTHS.

A plan leaves a pair alone once its value is believed to be low, and a pair that was unlucky at its only visits stays
there. So where the agent acts it asks, once per state and episode, what looking again could bring. Say that the planned
action is worth Q, and another pair m after n visits, and that it has, unseen so far, an outcome of probability q that
is worth as much as anything can be, cap = min(v_h, largest reward + best V_{h+1}). Such an outcome is missed n times
with probability (1 - q)^n. It is believed with the probability e(n) / M that the next outcome is new and, of M outcomes
that were new so far and the next one, that this one is it. If it is there, each of as many further visits as the state
had, N, gains q (cap - m) - (Q - m), and to find it takes 1 / q visits that cost Q - m each. It is worth a look if
    e(n) / M  max_q (1 - q)^n q (q (cap - m) - (Q - m))  N  >  Q - m.
The visits that this takes grow with ln N, so that no pair is given up for good, and none is wasted in a short run. What
is gained here is not followed through the plan: a chance at every state on a path would add up to much more than that.
"""

import math

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning.outcomes import ALL, DIFFERENT

OPTIMISM = 0.25  # o, the share of v_h - m that an outcome not seen yet is believed to be worth at most
PRIOR_WORTHS = 8.0  # new outcomes for which o v_h counts


@kernel
def count_states(explored, outcomes, row):
    """Write N of each state in a row of the densities; the last place gets M."""
    r = np.uint64(row)
    seen = 1
    for state in range(outcomes.sizes.shape[1]):
        s = np.uint64(state)
        visits = 0
        for action in range(outcomes.sizes.shape[2]):
            a = np.uint64(action)
            visits += outcomes.sizes[r, s, a, ALL]
            seen += outcomes.sizes[r, s, a, DIFFERENT]
        explored[s] = visits
    explored[outcomes.sizes.shape[1]] = seen


@kernel
def learned_worth(work, next_values, bound):
    """G_h, from the packed outcomes of all pairs and their means."""
    total = PRIOR_WORTHS * (OPTIMISM * bound) ** 2
    number = PRIOR_WORTHS
    entry = np.uint64(0)
    for pair in range(work.ends.shape[0]):
        end = np.uint64(work.ends[pair])
        mean = work.means[pair]
        is_first = True
        while entry < end:
            p = work.shares[entry]
            if not is_first and p > 0.0:
                number += 1.0
                above = work.rewards[entry] + next_values[np.uint64(work.next_states[entry])] - mean
                if above > 0.0 and p < 1.0:
                    d = OPTIMISM * above / (1.0 - p)
                    total += d * d
            is_first = False
            entry += np.uint64(1)
    return math.sqrt(total / number)


@kernel
def best_chance(n, more, gap):
    """The largest (1 - q)^n q (q more - gap) over all q: its derivative is a quadratic equation of q."""
    if more <= gap:
        return 0.0
    b = (n + 1.0) * gap + 2.0 * more
    a = (n + 2.0) * more
    q = (b + math.sqrt(max(0.0, b * b - 4.0 * a * gap))) / (2.0 * a)
    if q >= 1.0 or q * more <= gap:
        return 0.0
    return math.exp(n * math.log1p(-q)) * q * (q * more - gap)


@kernel
def look_again(explored, work, unseen, values, planned, looked_at, cap):
    """Write, for each state, the action whose pair is most worth a look, or the planned one, into `looked_at`.

    Pairs that have seen nothing are the plan's to try: it believes them to be worth v_h.
    """
    n_states, n_actions = values.shape
    new = float(explored[n_states])
    for state in range(n_states):
        s = np.uint64(state)
        best = planned[s]
        looked_at[s] = best
        first = state * n_actions
        if work.visits[first + best] == 0.0:
            continue
        top = values[s, np.uint64(best)]
        ratio = 1.0
        for action in range(n_actions):
            pair = np.uint64(first + action)
            n = work.visits[pair]
            mean = work.means[pair]
            gap = top - mean
            if action == best or n == 0.0 or gap <= 0.0:
                continue
            found = unseen[pair] * explored[s] / new * best_chance(n, cap - mean, gap) / gap
            if found > ratio:
                ratio = found
                looked_at[s] = action


@kernel
def largest(values, n_states):
    """The best value of a state that is no end."""
    top = values[np.uint64(0)]
    for state in range(1, n_states):
        top = max(top, values[np.uint64(state)])
    return top
