"""The density of a pair over its outcomes, as exact counts in three windows, and the test between them.

An outcome is (next state, reward); the end of the episode is next state number S. A pair keeps a list of its outcomes
in order of first sight, with counts over everything since the last change (`counts`), since the last merge (`recent`)
and over the last visits (`latest`). The mean of `counts` is the model, and the likelihood ratio between a window and
what came before it (`ratio_test`) is the detector. Two windows, because a long one finds a small change and a short one
finds a large change at once: a change that falls into a long window is diluted by what was there before.

Row 0 of each table is shared by all steps. Tables per step have one row for each; where the data decide, row 0 is
shared and row h + 1 belongs to step h (`outcome_steps`). Lists outlive a change, counts do not.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas, ratio_test
from dqucb._kernels._jit import kernel

SHARED, PER_STEP, AUTO = 0, 1, 2  # forms: are the steps of a pair alike?
ALL, RECENT, LATEST, DIFFERENT = 0, 1, 2, 3  # places in `sizes`
ROOTS, SQUARES = 0, 1  # places in `powers`
RARE = 0.125  # an outcome of a smaller likelihood is a reason to test
LEAST_KEPT = 3  # visits
LATEST_SIZE = 32  # visits of the short window
FIRST_MERGE = 16  # visits of the long window before it may join the rest
MERGE_SHARE = 4  # and it must hold more than a quarter of the rest


class Outcomes(NamedTuple):
    """Outcomes of every pair and how often each was seen."""

    next_states: NDArray[np.int32]  # (rows, S, A, width); S is the end of the episode
    rewards: NDArray[np.float64]  # (rows, S, A, width)
    counts: NDArray[np.int64]  # (rows, S, A, width) since the last change
    recent: NDArray[np.int64]  # (rows, S, A, width) since the last merge
    latest: NDArray[np.int32]  # (rows, S, A, width) of the last visits
    known: NDArray[np.int32]  # (rows, S, A) outcomes in the list
    sizes: NDArray[np.int64]  # (rows, S, A, 4) the sums of the three, and how many of `counts` are not zero
    powers: NDArray[np.float64]  # (rows, S, A, 2) sums of the square roots and of the squares of `counts`
    by_step: NDArray[np.bool_]  # (1,) whether steps are modelled apart, where the data decide
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
        sizes=np.zeros((*pairs, 4), np.int64),
        powers=np.zeros((*pairs, 2)),
        by_step=np.zeros(1, np.bool_),
        level=level,
        form=form,
    )


@kernel
def row_of(outcomes, step):
    """The row in which pairs are modelled at this step."""
    if outcomes.form == SHARED:
        return 0
    if outcomes.form == PER_STEP:
        return step
    return step + 1 if outcomes.by_step[0] else 0


@kernel
def shares_steps(outcomes):
    """Whether a pair has one density for all steps."""
    return outcomes.form == SHARED or (outcomes.form == AUTO and not outcomes.by_step[0])


@kernel
def place_of(outcomes, row, seen, next_state):
    """Where the outcome stands in the list, or will stand.

    A full list takes it in place of one that has not been seen since the last change. If there is none, as with rewards
    that never repeat, it joins an outcome with its next state, or the last one.
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
    if known < width:
        return known
    for place in range(width):
        if outcomes.counts[r, s, a, np.uint64(place)] == 0:
            return place
    return alike


@kernel
def locate(outcomes, row, seen):
    """(the place of an outcome in the list, whether another outcome had it before). Changes the list."""
    r, s, a = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)
    next_state = outcomes.known.shape[1] if seen.terminated else seen.next_state
    place = place_of(outcomes, row, seen, next_state)
    i = np.uint64(place)
    known = outcomes.known[r, s, a]
    is_listed = (
        place < known and outcomes.next_states[r, s, a, i] == next_state and outcomes.rewards[r, s, a, i] == seen.reward
    )
    if is_listed or (place < known and outcomes.counts[r, s, a, i] > 0):
        return place, False
    outcomes.next_states[r, s, a, i] = next_state
    outcomes.rewards[r, s, a, i] = seen.reward
    if place == known:
        outcomes.known[r, s, a] += 1
        return place, False
    return place, True


@kernel
def count(outcomes, row, seen, place, root):
    """Count the outcome at a place; returns its likelihood before that, 1 for a pair that has seen nothing.

    `root` is that of its count before.
    """
    r, s, a, i = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action), np.uint64(place)
    sizes = outcomes.sizes[r, s, a]
    before = outcomes.counts[r, s, a, i]
    p = before / sizes[ALL] if sizes[ALL] > 0 else 1.0
    if before == 0:
        sizes[DIFFERENT] += 1
    if outcomes.rewards[r, s, a, i] != seen.reward:
        outcomes.rewards[r, s, a, i] = formulas.running_mean(outcomes.rewards[r, s, a, i], seen.reward, before + 1)
    outcomes.counts[r, s, a, i] = before + 1
    outcomes.powers[r, s, a, ROOTS] += math.sqrt(before + 1.0) - root
    outcomes.powers[r, s, a, SQUARES] += 2.0 * before + 1.0
    outcomes.recent[r, s, a, i] += 1
    outcomes.latest[r, s, a, i] += 1
    sizes[ALL] += 1
    sizes[RECENT] += 1
    sizes[LATEST] += 1
    return p


@kernel
def add_powers(outcomes, r, s, a):
    """Add up the powers of a pair's counts after these were set."""
    roots = squares = 0.0
    for i in range(outcomes.counts.shape[3]):
        c = float(outcomes.counts[r, s, a, np.uint64(i)])
        roots += math.sqrt(c)
        squares += c * c
    outcomes.powers[r, s, a, ROOTS] = roots
    outcomes.powers[r, s, a, SQUARES] = squares


@kernel
def changed_window(outcomes, row, state, action, p):
    """The window of a pair that differs from what came before it, or ALL; asked after each count.

    Windows are tested at sizes that double, and the short one also whenever an outcome of small likelihood p was seen.
    """
    r, s, a = np.uint64(row), np.uint64(state), np.uint64(action)
    sizes = outcomes.sizes[r, s, a]
    latest, recent = sizes[LATEST], sizes[RECENT]
    if p < RARE or ratio_test.is_power_of_two(latest):
        if window_differs(outcomes, outcomes.latest[r, s, a], r, s, a, latest):
            return LATEST
    if recent > latest and ratio_test.is_power_of_two(recent):
        if window_differs(outcomes, outcomes.recent[r, s, a], r, s, a, recent):
            return RECENT
    return ALL


@kernel
def kept_visits(outcomes, row, state, action):
    """How many visits of each pair are worth keeping after a change, of the size that a pair saw in its long window.

    What a pair did before tells its shares now with an error of the size D of the change, n visits with one of about
    1 / (2 sqrt(n)): what came before is worth 1 / (4 D^2) visits. D is the distance in total variation. Less than three
    visits are worth nothing.
    """
    r, s, a = np.uint64(row), np.uint64(state), np.uint64(action)
    n = float(outcomes.sizes[r, s, a, RECENT])
    rest = outcomes.sizes[r, s, a, ALL] - n
    distance = 0.0
    for place in range(outcomes.known[r, s, a]):
        i = np.uint64(place)
        c = float(outcomes.recent[r, s, a, i])
        distance += 0.5 * abs(c / n - (outcomes.counts[r, s, a, i] - c) / rest)
    kept = int(0.25 / (distance * distance))
    return kept if kept >= LEAST_KEPT else 0


@kernel
def window_differs(outcomes, window, r, s, a, size):
    """Whether a window of a pair differs from what came before it."""
    sizes = outcomes.sizes[r, s, a]
    return ratio_test.differs(
        outcomes.counts[r, s, a], window, sizes[ALL], size, outcomes.known[r, s, a], sizes[DIFFERENT], outcomes.level
    )


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
def forget(outcomes, kept):
    """Every pair forgets what it has seen but for the worth of `kept` visits; that steps differ is remembered.

    Windows are forgotten too: where that of the alarm began before the change, it would soon give a second one.
    """
    outcomes.recent[:] = 0
    outcomes.latest[:] = 0
    for row in range(outcomes.counts.shape[0]):
        r = np.uint64(row)
        for state in range(outcomes.counts.shape[1]):
            for action in range(outcomes.counts.shape[2]):
                shrink(outcomes, r, np.uint64(state), np.uint64(action), kept)


@kernel
def shrink(outcomes, r, s, a, kept):
    """Scale the counts of a pair down to `kept` visits, rounded. Rows of steps that are not in use become empty."""
    n = outcomes.sizes[r, s, a, ALL]
    outcomes.sizes[r, s, a] = 0
    for place in range(outcomes.known[r, s, a] if n > 0 else outcomes.counts.shape[3]):
        i = np.uint64(place)
        c = outcomes.counts[r, s, a, i]
        if n == 0:
            c = 0
        elif n > kept:
            c = int(c * kept / n + 0.5)
        outcomes.counts[r, s, a, i] = c
        outcomes.sizes[r, s, a, ALL] += c
        if c > 0:
            outcomes.sizes[r, s, a, DIFFERENT] += 1
    add_powers(outcomes, r, s, a)
