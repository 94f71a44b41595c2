"""The density of a pair over its outcomes, as exact counts in three windows, and the test between them.

An outcome is (next state, reward); the end of the episode is next state number S. A pair keeps a list of its outcomes
in order of first sight, with counts over everything since the last change (`counts`), since the last merge (`recent`)
and over the last visits (`latest`). The mean of `counts` is the model, and the likelihood ratio between a window and
what came before it (`ratio_test`) is the detector. Two windows, because a long one finds a small change and a short one
finds a large change at once: a change that falls into a long window is diluted by what was there before.

Row 0 of each table is shared by all steps. Tables per step have one row for each; where the data decide, row 0 is
shared and row h + 1 belongs to step h.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas, ratio_test
from dqucb._kernels._jit import kernel

SHARED, PER_STEP, AUTO = 0, 1, 2  # forms: are the steps of a pair alike?
ALL, RECENT, LATEST = 0, 1, 2  # places in `sizes`
LATEST_SIZE = 32  # visits of the short window
FIRST_MERGE = 16  # visits of the long window before it may join the rest
MERGE_SHARE = 4  # and it must hold more than a quarter of the rest
PARTS = 8  # of an episode, at whose borders its earlier steps are compared with the later ones


class Outcomes(NamedTuple):
    """Outcomes of every pair and how often each was seen."""

    next_states: NDArray[np.int32]  # (rows, S, A, width); S is the end of the episode
    rewards: NDArray[np.float64]  # (rows, S, A, width)
    counts: NDArray[np.int64]  # (rows, S, A, width) since the last change
    recent: NDArray[np.int64]  # (rows, S, A, width) since the last merge
    latest: NDArray[np.int32]  # (rows, S, A, width) of the last visits
    known: NDArray[np.int32]  # (rows, S, A) outcomes in the list
    sizes: NDArray[np.int64]  # (rows, S, A, 3) the sums of the three
    split: NDArray[np.bool_]  # (S, A) whether a pair is modelled by step, where the data decide
    level: float  # of the test
    form: int


def new_outcomes(form: int, horizon: int, n_states: int, n_actions: int, width: int, level: float) -> Outcomes:
    """Nothing seen yet."""
    rows = (1, horizon, horizon + 1)[form]
    pairs = (rows, n_states, n_actions)
    lists = (*pairs, width)
    return Outcomes(
        next_states=np.zeros(lists, np.int32),
        rewards=np.zeros(lists),
        counts=np.zeros(lists, np.int64),
        recent=np.zeros(lists, np.int64),
        latest=np.zeros(lists, np.int32),
        known=np.zeros(pairs, np.int32),
        sizes=np.zeros((*pairs, 3), np.int64),
        split=np.zeros((n_states, n_actions), np.bool_),
        level=level,
        form=form,
    )


@kernel
def row_of(outcomes, step, state, action):
    """The row in which the pair is modelled at this step."""
    if outcomes.form == SHARED:
        return 0
    if outcomes.form == PER_STEP:
        return step
    return step + 1 if outcomes.split[np.uint64(state), np.uint64(action)] else 0


@kernel
def place_of(outcomes, row, seen, next_state):
    """Where the outcome stands in the list, or will stand.

    A full list, which rewards that never repeat would fill, takes it at an outcome with its next state, or at the last.
    """
    r, s, a = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)
    known = outcomes.known[r, s, a]
    width = outcomes.counts.shape[3]
    alike = width - 1
    for place in range(known):
        i = np.uint64(place)
        if outcomes.next_states[r, s, a, i] == next_state:
            if outcomes.rewards[r, s, a, i] == seen.reward:
                return place
            alike = place
    return known if known < width else alike


@kernel
def count(outcomes, row, seen):
    """Count an outcome; returns its likelihood before that, 1 for a pair that has seen nothing. Changes the row."""
    r, s, a = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)
    next_state = outcomes.known.shape[1] if seen.terminated else seen.next_state
    place = np.uint64(place_of(outcomes, row, seen, next_state))
    sizes = outcomes.sizes[r, s, a]
    if place == np.uint64(outcomes.known[r, s, a]):
        outcomes.next_states[r, s, a, place] = next_state
        outcomes.rewards[r, s, a, place] = seen.reward
        outcomes.known[r, s, a] += 1
    before = outcomes.counts[r, s, a, place]
    p = before / sizes[ALL] if sizes[ALL] > 0 else 1.0
    if outcomes.rewards[r, s, a, place] != seen.reward:
        outcomes.rewards[r, s, a, place] = formulas.running_mean(
            outcomes.rewards[r, s, a, place], seen.reward, before + 1
        )
    outcomes.counts[r, s, a, place] = before + 1
    outcomes.recent[r, s, a, place] += 1
    outcomes.latest[r, s, a, place] += 1
    for window in range(3):
        sizes[window] += 1
    return p


@kernel
def has_changed(outcomes, row, state, action):
    """Whether one of the two windows of a pair differs from what came before it; asked after each count."""
    r, s, a = np.uint64(row), np.uint64(state), np.uint64(action)
    sizes = outcomes.sizes[r, s, a]
    n = sizes[ALL]
    k = outcomes.known[r, s, a]
    if ratio_test.is_power_of_two(sizes[LATEST]) and n > sizes[LATEST]:
        g = ratio_test.log_ratio_within(outcomes.counts[r, s, a], outcomes.latest[r, s, a], n, sizes[LATEST], k)
        if g > ratio_test.threshold(outcomes.level, k, n):
            return True
    if ratio_test.is_power_of_two(sizes[RECENT]) and n > sizes[RECENT] > sizes[LATEST]:
        g = ratio_test.log_ratio_within(outcomes.counts[r, s, a], outcomes.recent[r, s, a], n, sizes[RECENT], k)
        if g > ratio_test.threshold(outcomes.level, k, n):
            return True
    return False


@kernel
def merge(outcomes, row, state, action):
    """Empty the short window when it is full, and then the long one if it holds enough. Changes the row."""
    r, s, a = np.uint64(row), np.uint64(state), np.uint64(action)
    sizes = outcomes.sizes[r, s, a]
    if sizes[LATEST] >= LATEST_SIZE:
        outcomes.latest[r, s, a] = 0
        sizes[LATEST] = 0
        if sizes[RECENT] > FIRST_MERGE and MERGE_SHARE * sizes[RECENT] > sizes[ALL] - sizes[RECENT]:
            outcomes.recent[r, s, a] = 0
            sizes[RECENT] = 0


@kernel
def steps_differ(outcomes, state, action):
    """Whether outcomes of a pair depend on the step, where the data decide: by parts of an episode, or by step.

    A pair that changes in time looks alike, where the policy visits other steps than it did before. So the evidence for
    steps must exceed the level by as much as there is for a change in time, be it too little for an alarm.
    """
    s, a = np.uint64(state), np.uint64(action)
    sizes = outcomes.sizes[0, s, a]
    in_time = ratio_test.log_ratio_within(
        outcomes.counts[0, s, a], outcomes.recent[0, s, a], sizes[ALL], sizes[RECENT], outcomes.known[0, s, a]
    )
    level = outcomes.level + in_time
    return early_and_late_differ(outcomes, state, action, level) or single_steps_differ(outcomes, state, action, level)


@kernel
def early_and_late_differ(outcomes, state, action, level):
    """The likelihood ratio between earlier and later steps of a pair, cut at each eighth of the horizon.

    It needs far fewer visits than a test of all steps at once, which has to estimate a density for each of them.
    """
    s, a = np.uint64(state), np.uint64(action)
    n = outcomes.sizes[0, s, a, ALL]
    k = outcomes.known[0, s, a]
    limit = ratio_test.threshold(level + math.log(PARTS - 1.0), k, n)
    for part in range(1, PARTS):
        cut = part * (outcomes.counts.shape[0] - 1) // PARTS
        n_early = 0.0
        for place in range(k):
            n_early += early_count(outcomes, cut, state, action, place)
        g = 0.0
        if 0.0 < n_early < n:
            for place in range(k):
                both = float(outcomes.counts[0, s, a, np.uint64(place)])
                early = early_count(outcomes, cut, state, action, place)
                late = both - early
                if early > 0.0:
                    g += early * math.log(early * n / (n_early * both))
                if late > 0.0:
                    g += late * math.log(late * n / ((n - n_early) * both))
        if g > limit:
            return True
    return False


@kernel
def early_count(outcomes, cut, state, action, place):
    """How often an outcome of the shared list was seen before step `cut`."""
    s, a, i = np.uint64(state), np.uint64(action), np.uint64(place)
    total = 0.0
    for row in range(1, cut + 1):
        r = np.uint64(row)
        for other in range(outcomes.known[r, s, a]):
            j = np.uint64(other)
            if (
                outcomes.next_states[r, s, a, j] == outcomes.next_states[0, s, a, i]
                and outcomes.rewards[r, s, a, j] == outcomes.rewards[0, s, a, i]
            ):
                total += float(outcomes.counts[r, s, a, j])
    return total


@kernel
def single_steps_differ(outcomes, state, action, level):
    """The likelihood ratio between one density for all steps of a pair and one for each.

    With shares p_i over all steps and c_hi outcomes i among the n_h of step h, sum_h sum_i c_hi ln(c_hi / n_h / p_i);
    its threshold adds (k - 1) ln(n_h + 1) for each step but one, because n outcomes can have so many different counts
    (the bound by the method of types holds for single visits too).
    """
    s, a = np.uint64(state), np.uint64(action)
    total = outcomes.sizes[0, s, a, ALL]
    k = outcomes.known[0, s, a]
    g = 0.0
    limit = level
    first = True
    for row in range(1, outcomes.counts.shape[0]):
        r = np.uint64(row)
        n = outcomes.sizes[r, s, a, ALL]
        if n > 0:
            for place in range(outcomes.known[r, s, a]):
                i = np.uint64(place)
                same = shared_count(outcomes, r, s, a, i)
                c = float(outcomes.counts[r, s, a, i])
                g += c * math.log(c * total / (n * same))
            if not first:
                limit += (k - 1) * math.log(n + 1.0)
            first = False
    return g > limit


@kernel
def shared_count(outcomes, r, s, a, i):
    """How often an outcome of one step was seen at all steps."""
    for place in range(outcomes.known[0, s, a]):
        j = np.uint64(place)
        if (
            outcomes.next_states[0, s, a, j] == outcomes.next_states[r, s, a, i]
            and outcomes.rewards[0, s, a, j] == outcomes.rewards[r, s, a, i]
        ):
            return float(outcomes.counts[0, s, a, j])
    return float(outcomes.counts[r, s, a, i])  # rewards that never repeat: their means differ in the two lists


@kernel
def forget(outcomes):
    """Every pair forgets what it has seen; that steps of a pair differ is remembered. Changes the lists.

    The last visits of the pair that gave the alarm are forgotten too: where they began before the change, they would
    soon give a second one.
    """
    outcomes.counts[:] = 0
    outcomes.recent[:] = 0
    outcomes.latest[:] = 0
    outcomes.known[:] = 0
    outcomes.sizes[:] = 0
