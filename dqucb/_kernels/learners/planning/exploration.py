"""What a pair may be worth beyond its mean: outcomes it has not shown yet, and pairs that deserve another look.

In a plan, an outcome that a pair has not shown yet is worth what new outcomes were worth so far. With
x = r + V_{h+1}(y), and m, p^ as in `optimistic_plan`, over all pairs and every outcome i of a pair but its first (each
was new once; k of them),
    b_i = max(0, x_i - m) / (1 - p^_i),    G_h^2 = (PRIOR_WORTHS (o v_h)^2 + sum (o b_i)^2) / (PRIOR_WORTHS + k).
Some new outcomes lead to states that were never met, which may be worth v_h. Their share among new outcomes is learned:
    f = (1 + those that led to a state never met) / (2 + all of them),    0 once all states were met.

A plan leaves a pair alone once its value is believed to be low, and a pair that was unlucky at its only visits would
stay there. So where the agent acts it asks, once per state and episode, whether another pair deserves a look. Say that
the planned action is worth Q, the pair m = Q - gap after n visits, and that the state had N visits. Two answers:
- The pair's own variance s^2 (without that of later values) was estimated from n outcomes. A look is taken while Q is
  within the tail of a t-distribution with n degrees of freedom whose level falls as (n / N)^LEVEL,
      gap^2 < (s^2 + (x_max - m) gap / (3 n)) n ((N / n)^(2 LEVEL / n) - 1),
  where n (...) is 2 LEVEL ln(N / n) for large n. The term with x_max, the best outcome that the pair has had, is
  Bernstein's: 2 ones among 18 tosses show a variance of 0.1, but a fair coin does that far more often than a normal
  distribution of this variance says.
- A pair that has shown a single outcome has no variance of its own. It is believed to have more with probability
      rho = pi / (pi + (1 - pi)(n + 1)),    pi = (1 + pairs with several outcomes) / (2 + pairs seen twice or more),
  because an outcome of unknown probability q, uniform in [0, 1], is missed n times with probability 1 / (n + 1). Each
  of FURTHER N further visits would gain E (q more - gap)+ if it is worth m + more, so that n looks are worth their
  price if
      FURTHER N rho P(more)  more (1 - gap / more)^(n + 2) / (n + 2)  >  n gap.
  What it is worth is learned from the k new outcomes: more = cap - m, as much as anything can be, with
  cap = min(v_h, largest reward + best V_{h+1}), with probability 1 / (1 + k); and sum b^2 / sum b with probability
  (sum b)^2 / sum b^2 / (1 + k), so that its first two moments are those of the b_i.
Both need a number of visits that grows with ln N: no pair is given up for good, and little is wasted in a short run.
What is gained here is not followed through the plan: a chance at every state on a path would add up to much more.
"""

import math

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning.outcomes import ALL

OPTIMISM = 0.25  # o, the share of v_h - m that an outcome not seen yet is believed to be worth at most
PRIOR_WORTHS = 0.1  # new outcomes for which o v_h counts
LEVEL = 0.15  # the power of n / N in the level of a look
FURTHER = 2.0  # visits that are expected to follow, in visits so far


@kernel
def share_of_several(work):
    """pi of all pairs."""
    several = 1.0
    seen_twice = 2.0
    for pair in range(work.visits.shape[0]):
        if work.visits[pair] >= 2.0:
            seen_twice += 1.0
            if work.different[pair] >= 2.0:
                several += 1.0
    return several / seen_twice


@kernel
def judge_pairs(work, n_actions, prior):
    """Write what the looks at each pair depend on besides values into `work.reach` and `work.hidden`.

    `reach` is n ((N / n)^(2 LEVEL / n) - 1). `hidden` is FURTHER N rho / n of a pair with a single outcome, else 0;
    `prior` is pi.
    """
    for first in range(0, work.visits.shape[0], n_actions):
        visits = 0.0
        for pair in range(first, first + n_actions):
            visits += work.visits[pair]
        for pair in range(first, first + n_actions):
            n = max(work.visits[pair], 1.0)
            work.reach[pair] = n * (math.exp(2.0 * LEVEL * math.log(max(visits, n) / n) / n) - 1.0)
            noisy = prior / (prior + (1.0 - prior) * (n + 1.0))
            work.hidden[pair] = FURTHER * visits * noisy / n if work.different[pair] < 2.0 else 0.0


@kernel
def unmet_share(plan):
    """f, or what it is before any new outcome in a bold plan."""
    if plan.n_met[0] == plan.met.shape[0]:
        return 0.0
    return 0.5 if plan.is_bold[0] else (1.0 + plan.arrivals[1]) / (2.0 + plan.arrivals[0])


@kernel
def meet(plan, next_state, is_new, terminated):
    """Note a state that was reached, and whether a new outcome of a known pair led to one never met.

    Changes the plan.
    """
    y = np.uint64(next_state)
    if is_new:
        plan.arrivals[0] += 1.0
        if not (plan.met[y] or terminated):
            plan.arrivals[1] += 1.0
    plan.met[y] = True
    if terminated:
        plan.ended[y] = True


@kernel
def count_met(plan, outcomes, first, end):
    """Find the states met since the last change in the outcomes of rows `first` to `end` - 1. Changes the plan.

    A state in which episodes end leaves no trace in counts, and is known for good.
    """
    n_states = plan.met.shape[0]
    for state in range(n_states):
        plan.met[state] = plan.ended[state]
    for row in range(first, end):
        r = np.uint64(row)
        for state in range(n_states):
            s = np.uint64(state)
            for action in range(outcomes.known.shape[2]):
                a = np.uint64(action)
                if outcomes.sizes[r, s, a, ALL] == 0:
                    continue
                plan.met[s] = True
                for place in range(outcomes.known[r, s, a]):
                    i = np.uint64(place)
                    if outcomes.counts[r, s, a, i] > 0 and outcomes.next_states[r, s, a, i] < n_states:
                        plan.met[np.uint64(outcomes.next_states[r, s, a, i])] = True
    plan.n_met[0] = 0
    for state in range(n_states):
        plan.n_met[0] += 1 if plan.met[state] else 0


@kernel
def better(above, p):
    """b_i of an outcome that is worth so much more than the mean of its pair."""
    return above / (1.0 - p) if above > 0.0 and p < 1.0 else 0.0


@kernel
def new_outcomes(work, next_values):
    """(k, sum b_i, sum b_i^2), from the packed outcomes of all pairs and their means."""
    number = 0.0
    total = 0.0
    squares = 0.0
    entry = np.uint64(0)
    for pair in range(work.ends.shape[0]):
        end = np.uint64(work.ends[pair])
        mean = work.means[pair]
        is_first = True
        while entry < end:
            p = work.shares[entry]
            if not is_first and p > 0.0:
                number += 1.0
                b = better(work.rewards[entry] + next_values[np.uint64(work.next_states[entry])] - mean, p)
                total += b
                squares += b * b
            is_first = False
            entry += np.uint64(1)
    return number, total, squares


@kernel
def learned_worth(number, squares, bound):
    """G_h."""
    prior = PRIOR_WORTHS * (OPTIMISM * bound) ** 2
    return math.sqrt((prior + OPTIMISM * OPTIMISM * squares) / (PRIOR_WORTHS + number))


@kernel
def hidden_gain(n, more, gap):
    """E (q more - gap)+ of a q, uniform before, that was missed n times."""
    return more * math.exp((n + 2.0) * math.log1p(-gap / more)) / (n + 2.0)


@kernel
def hidden_ratio(hidden, n, more, gap):
    """What looks at a pair with a single outcome would gain over their price, or 0 if that is at most 1.

    `hidden` is FURTHER N rho / n, times the probability that the other outcome is worth `more`. The gain is at most
    more / (n + 2).
    """
    if more <= gap or hidden * more <= gap * (n + 2.0):
        return 0.0
    return hidden * hidden_gain(n, more, gap) / gap


@kernel
def look_again(work, values, planned, looked_at, cap, new):
    """Write, for each state, the action whose pair most deserves a look, or the planned one, into `looked_at`.

    `new` is what `new_outcomes` found. Pairs that have seen nothing are the plan's to try: it believes them to be worth
    v_h.
    """
    n_states, n_actions = values.shape
    number, total, squares = new
    is_learned = total > 0.0 and squares > 0.0
    typical = squares / total if is_learned else 0.0
    rarely = 1.0 / (1.0 + number)
    often = total * total / squares * rarely if is_learned else 0.0
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
            gap = top - work.means[pair]
            if action == best or n == 0.0 or gap <= 0.0:
                continue
            above = max(0.0, work.tops[pair] - work.means[pair])
            found = work.reach[pair] * (work.own[pair] + above * gap / (3.0 * n)) / (gap * gap)
            if work.hidden[pair] > 0.0:
                more = cap - work.means[pair]
                found = max(found, hidden_ratio(work.hidden[pair] * often, n, min(more, typical), gap))
                found = max(found, hidden_ratio(work.hidden[pair] * rarely, n, more, gap))
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
