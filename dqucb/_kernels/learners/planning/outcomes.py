"""The density of a pair over its outcomes, as exact counts, and what the bets on them know.

An outcome is (next state, reward); the end of the episode is next state number S. A pair keeps a list of its outcomes
in order of first sight, with counts over everything since the last change (`counts`) and in the window of its bets
(`recent`). The mean of `counts` is the model, and the bets on outcomes given all counts (`betting`) are the detector.

Row 0 of each table is shared by all steps. Tables per step have one row for each; where the data decide, row 0 is
shared and row h + 1 belongs to step h (`outcome_steps`). Lists outlive a change, counts do not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting, formulas
from dqucb._kernels._jit import kernel

SHARED, PER_STEP, AUTO = 0, 1, 2  # forms: are the steps of a pair alike?
ALL, RECENT, DIFFERENT = 0, 1, 2  # places in `sizes`


class Outcomes(NamedTuple):
    """Outcomes of every pair and how often each was seen."""

    next_states: NDArray[np.int32]  # (rows, S, A, width); S is the end of the episode
    rewards: NDArray[np.float64]  # (rows, S, A, width)
    counts: NDArray[np.int64]  # (rows, S, A, width) since the last change
    kept: NDArray[
        np.int32
    ]  # (rows, S, A, width) those of `counts` that no bag holds: from before a change, or without room
    recent: NDArray[np.int32]  # (rows, S, A, width) in the window of the bets
    known: NDArray[np.int32]  # (rows, S, A) outcomes in the list
    sizes: NDArray[np.int64]  # (rows, S, A, 3) the sums of both, and how many of `counts` are not zero
    bets: NDArray[np.float64]  # (rows, S, A, PAIR_SIZE) what `betting` knows of each pair
    by_step: NDArray[np.bool_]  # (1,) whether steps are modelled apart, where the data decide
    level: float  # of the test whether steps differ
    form: int


def n_rows(form: int, horizon: int) -> int:
    """The rows of tables of a form."""
    return (1, horizon, horizon + 1)[form]


def new_outcomes(form: int, horizon: int, n_states: int, n_actions: int, width: int, level: float) -> Outcomes:
    """Nothing seen yet."""
    rows = n_rows(form, horizon)
    pairs = (rows, n_states, n_actions)
    lists = (*pairs, width)
    return Outcomes(
        next_states=np.zeros(lists, np.int32),
        rewards=np.zeros(lists),
        counts=np.zeros(lists, np.int64),
        kept=np.zeros(lists, np.int32),
        recent=np.zeros(lists, np.int32),
        known=np.zeros(pairs, np.int32),
        sizes=np.zeros((*pairs, 3), np.int64),
        bets=betting.new_pairs(*pairs),
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
    that never repeat, it joins an outcome with its next state, or one that depends on the next state alone: outcomes
    without room are spread over the list, so that no other becomes frequent, and are not bet on (`joins_bag`).
    """
    r, s, a = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)
    known = outcomes.known[r, s, a]
    width = outcomes.counts.shape[3]
    alike = next_state % width
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
def count(outcomes, row, seen, place):
    """Count the outcome at a place; returns its likelihood before that, 1 for a pair that has seen nothing."""
    r, s, a, i = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action), np.uint64(place)
    sizes = outcomes.sizes[r, s, a]
    before = outcomes.counts[r, s, a, i]
    p = before / sizes[ALL] if sizes[ALL] > 0 else 1.0
    if before == 0:
        sizes[DIFFERENT] += 1
    if outcomes.rewards[r, s, a, i] != seen.reward:
        outcomes.rewards[r, s, a, i] = formulas.running_mean(outcomes.rewards[r, s, a, i], seen.reward, before + 1)
    outcomes.counts[r, s, a, i] = before + 1
    sizes[ALL] += 1
    return p


@kernel
def joins_bag(outcomes, row, seen, place, is_new):
    """Whether an outcome that was counted is to be bet on: not if the list of its pair has no room for its next state.

    With its last place the list holds what happened to come first, more often than it will come again. So the bag of
    the pair begins anew then, and holds listed outcomes only: they are exchangeable among themselves. Changes bag and
    `kept`.
    """
    r, s, a, i = np.uint64(row), np.uint64(seen.state), np.uint64(seen.action), np.uint64(place)
    width = outcomes.counts.shape[3]
    if is_new and outcomes.sizes[r, s, a, DIFFERENT] == width:
        for other in range(width):
            outcomes.kept[r, s, a, np.uint64(other)] = outcomes.counts[r, s, a, np.uint64(other)]
        fill_bag(outcomes, r, s, a)
        return False
    next_state = outcomes.known.shape[1] if seen.terminated else seen.next_state
    if outcomes.next_states[r, s, a, i] == next_state:
        return True
    outcomes.kept[r, s, a, i] += 1
    return False


@kernel
def fill_bag(outcomes, r, s, a):
    """Begin to bet on a pair anew after its counts were set: its bag holds them, its window nothing.

    What was kept over a change is of two distributions, and is left out.
    """
    pair = outcomes.bets[r, s, a]
    betting.empty_bag(pair)
    for i in range(outcomes.counts.shape[3]):
        c = float(outcomes.counts[r, s, a, np.uint64(i)] - outcomes.kept[r, s, a, np.uint64(i)])
        betting.add_copies(pair, c)
        outcomes.recent[r, s, a, np.uint64(i)] = 0
    betting.open_pair(pair)
    outcomes.sizes[r, s, a, RECENT] = 0


@kernel
def forget(outcomes, kept):
    """Every pair forgets what it has seen but for the worth of `kept` visits; that steps differ is remembered.

    Windows are forgotten too: where that of the alarm began before the change, it would soon give a second one.
    """
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
        outcomes.kept[r, s, a, i] = c
        outcomes.sizes[r, s, a, ALL] += c
        if c > 0:
            outcomes.sizes[r, s, a, DIFFERENT] += 1
    fill_bag(outcomes, r, s, a)
