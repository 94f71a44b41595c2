"""Do the outcomes of a pair depend on the step of the episode? A likelihood ratio between its steps, and the split.

Until the data say so, outcomes are counted twice: for all steps together in row 0 and at the same place of row h + 1
for step h, whose list is that of row 0.
"""

import math

import numpy as np

from dqucb._kernels import two_samples
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning.outcomes import ALL, DIFFERENT, RECENT

PARTS = 8  # of an episode, at whose borders its earlier steps are compared with the later ones


@kernel
def differ(outcomes, state, action):
    """Whether outcomes of a pair depend on the step: by parts of an episode, or by single steps.

    A pair that changes in time looks alike, where the policy visits other steps than it did before. So the evidence for
    steps must exceed the level by as much as there is for a change in time, be it too little for an alarm.
    """
    s, a = np.uint64(state), np.uint64(action)
    sizes = outcomes.sizes[0, s, a]
    if sizes[DIFFERENT] < 2:
        return False
    in_time = two_samples.log_ratio_within(
        outcomes.counts[0, s, a], outcomes.recent[0, s, a], sizes[ALL], sizes[RECENT], outcomes.known[0, s, a]
    )
    level = outcomes.level + in_time
    return early_and_late_differ(outcomes, state, action, level) or single_steps_differ(outcomes, state, action, level)


@kernel
def counted(outcomes, first, last, state, action, place):
    """How often an outcome was seen in steps `first` to `last` - 1."""
    s, a, i = np.uint64(state), np.uint64(action), np.uint64(place)
    total = 0.0
    for row in range(first + 1, last + 1):
        total += float(outcomes.counts[np.uint64(row), s, a, i])
    return total


@kernel
def early_and_late_differ(outcomes, state, action, level):
    """The likelihood ratio between earlier and later steps of a pair, cut at each eighth of the horizon.

    It needs far fewer visits than a test of all steps at once, which has to estimate a density for each of them.
    """
    horizon = outcomes.counts.shape[0] - 1
    k = outcomes.known[0, np.uint64(state), np.uint64(action)]
    different = outcomes.sizes[0, np.uint64(state), np.uint64(action), DIFFERENT]
    for part in range(1, PARTS):
        cut = part * horizon // PARTS
        n_early = 0.0
        n_late = 0.0
        for place in range(k):
            n_early += counted(outcomes, 0, cut, state, action, place)
            n_late += counted(outcomes, cut, horizon, state, action, place)
        if n_early > 0.0 and n_late > 0.0:
            g = 0.0
            for place in range(k):
                early = counted(outcomes, 0, cut, state, action, place)
                late = counted(outcomes, cut, horizon, state, action, place)
                g += two_samples.outcome_term(early, late, n_early, n_late)
            if g > two_samples.threshold(level + math.log(PARTS - 1.0), different, n_early + n_late):
                return True
    return False


@kernel
def single_steps_differ(outcomes, state, action, level):
    """The likelihood ratio between one density for all steps of a pair and one for each.

    With shares p_i over all steps and c_hi outcomes i among the n_h of step h, sum_h sum_i c_hi ln(c_hi / n_h / p_i);
    its threshold adds (k - 1) ln(n_h + 1) for each step but one, because n outcomes can have so many different counts
    (the bound by the method of types holds for single visits too).
    """
    s, a = np.uint64(state), np.uint64(action)
    horizon = outcomes.counts.shape[0] - 1
    k = outcomes.known[0, s, a]
    different = outcomes.sizes[0, s, a, DIFFERENT]
    g = 0.0
    total = 0.0
    for place in range(k):
        c = counted(outcomes, 0, horizon, state, action, place)
        total += c
        if c > 0.0:
            g -= c * math.log(c)
    if total > 0.0:
        g += total * math.log(total)
    limit = level
    first = True
    for step in range(horizon):
        n = 0.0
        for place in range(k):
            c = counted(outcomes, step, step + 1, state, action, place)
            n += c
            if c > 0.0:
                g += c * math.log(c)
        if n > 0.0:
            g -= n * math.log(n)
            if not first:
                limit += (different - 1) * math.log(n + 1.0)
            first = False
    return g > limit


@kernel
def split(outcomes):
    """Model every step apart from now on: rows of steps get lists of their own. Changes all rows but the first."""
    for row in range(1, outcomes.counts.shape[0]):
        r = np.uint64(row)
        for state in range(outcomes.counts.shape[1]):
            for action in range(outcomes.counts.shape[2]):
                s, a = np.uint64(state), np.uint64(action)
                known = 0
                n = 0
                for place in range(outcomes.known[0, s, a]):
                    i, j = np.uint64(place), np.uint64(known)
                    c = outcomes.counts[r, s, a, i]
                    outcomes.counts[r, s, a, i] = 0
                    if c > 0:
                        outcomes.counts[r, s, a, j] = c
                        outcomes.next_states[r, s, a, j] = outcomes.next_states[0, s, a, i]
                        outcomes.rewards[r, s, a, j] = outcomes.rewards[0, s, a, i]
                        known += 1
                        n += c
                outcomes.known[r, s, a] = known
                outcomes.sizes[r, s, a, ALL] = n
                outcomes.sizes[r, s, a, DIFFERENT] = known
                densities.fill_bag(outcomes, r, s, a)
    outcomes.by_step[0] = True
