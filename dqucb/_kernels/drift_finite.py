"""The finite drift detector: every outcome of every pair with its count, the bets on them, and the last updates.

Outcomes of all pairs share one table with open addressing, whose size is a power of two and which is never more than
half full. Kernels do not allocate: one that meets a new outcome and no place for it changes nothing and returns FULL.

All of it is kept in two vectors, one of floats and one of integers: a call from Python costs 0.03 microseconds for each
array that it passes. `view` gives names and shapes to their parts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting
from dqucb._kernels._jit import kernel
from dqucb._kernels.betting import COMMON_EPOCH, EPOCH, NEW_WINDOW, PAIR_SUM, SUMS

# Numbers of an outcome: how often it was seen, in the window of its pair and in the common one. An AGE is the number of
# the window to which the count before it belongs.
KEY, COUNT, RECENT, AGE, PART_RECENT, PART_AGE = range(6)
SLOT_SIZE = 6
EMPTY = -1
FIRST_SIZE = 64
OUTCOME_BITS = 32  # of a key, below those of the pair
OUTCOME_MASK = (1 << OUTCOME_BITS) - 1
RING_SIZE = 1 << 14  # updates by which a change is dated
SEEN, USED, BEST, STATES, ACTIONS = range(5)  # updates, outcomes, the pair with the largest sum, sizes
CLOCK_SIZE = 5
FULL, OUTSIDE = -1, -2


class FiniteTest(NamedTuple):
    """What a detector knows since its last alarm: parts of two vectors."""

    threshold: NDArray[np.float64]  # (1,)
    pool: NDArray[np.float64]  # (POOL_SIZE_WITH_PART,)
    pairs: NDArray[np.float64]  # (pairs, PAIR_SIZE_WITH_PART)
    clock: NDArray[np.int64]  # (CLOCK_SIZE,)
    ring: NDArray[np.int64]  # (RING_SIZE,) keys; update t is at t % RING_SIZE
    slots: NDArray[np.int64]  # (size, SLOT_SIZE)


def view(floats, integers):
    """The parts of the two vectors of a test."""
    start, ring = 1 + betting.POOL_SIZE_WITH_PART, CLOCK_SIZE + RING_SIZE
    n_pairs, size = (floats.shape[0] - start) // betting.PAIR_SIZE_WITH_PART, (integers.shape[0] - ring) // SLOT_SIZE
    return FiniteTest(
        floats[:1],
        floats[1:start],
        floats[start:].reshape((n_pairs, betting.PAIR_SIZE_WITH_PART)),
        integers[:CLOCK_SIZE],
        integers[CLOCK_SIZE:ring],
        integers[ring:].reshape((size, SLOT_SIZE)),
    )


view_in_kernel = kernel(view)


def new_vectors(n_states: int, n_actions: int, threshold: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The two vectors of a test that has seen nothing."""
    n_pairs = n_states * n_actions
    floats = np.zeros(1 + betting.POOL_SIZE_WITH_PART + n_pairs * betting.PAIR_SIZE_WITH_PART)
    floats[0] = threshold
    integers = with_outcomes(np.zeros(CLOCK_SIZE + RING_SIZE, np.int64), np.zeros((0, SLOT_SIZE), np.int64))
    integers[STATES], integers[ACTIONS] = n_states, n_actions
    pool = view(floats, integers).pool
    betting.clear_pool(pool)
    betting.open_common_window(pool)
    return floats, integers


def with_outcomes(integers: NDArray[np.int64], outcomes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same integers with a table that holds outcomes (n, SLOT_SIZE) and has room for as many more, at least."""
    size = max(FIRST_SIZE, 1 << int(4 * len(outcomes)).bit_length())
    slots = np.zeros((size, SLOT_SIZE), np.int64)
    slots[:, KEY] = EMPTY
    fill(outcomes, slots)
    return np.concatenate([integers[: CLOCK_SIZE + RING_SIZE], slots.ravel()])


def outcomes_of(test: FiniteTest) -> NDArray[np.int64]:
    """The outcomes, (n, SLOT_SIZE), in order of their keys."""
    used = test.slots[test.slots[:, KEY] != EMPTY]
    return used[np.argsort(used[:, KEY])]


@kernel
def fill(outcomes, slots):
    """Put outcomes into a table."""
    for i in range(outcomes.shape[0]):
        place = place_of(slots, outcomes[i, KEY])
        for j in range(outcomes.shape[1]):
            slots[place, j] = outcomes[i, j]


@kernel
def place_of(slots, key):
    """Where an outcome is in the table, or would be."""
    mask = slots.shape[0] - 1
    # Odd multipliers separate neighbours; the products stay below 2^63.
    row, outcome = key >> OUTCOME_BITS, key & OUTCOME_MASK
    place = row * 2654435761 + outcome * 40503
    place = (place ^ (place >> 15)) & mask
    while slots[np.uint64(place), KEY] != key and slots[np.uint64(place), KEY] != EMPTY:
        place = (place + 1) & mask
    return place


@kernel
def update(test, key):
    """Learn from one outcome; returns the alarms of `betting.weigh`, 0, or FULL. Changes the test."""
    slots, pool, clock = test.slots, test.pool, test.clock
    place = np.uint64(place_of(slots, key))
    if slots[place, KEY] == EMPTY:
        if 2 * (clock[USED] + 1) > slots.shape[0]:
            return FULL
        slots[place, KEY] = key
        slots[place, COUNT] = 0
        slots[place, AGE] = EMPTY
        slots[place, PART_AGE] = EMPTY
        clock[USED] += 1
    row = np.uint64(key >> OUTCOME_BITS)
    pair = test.pairs[row]
    c = slots[place, COUNT] + 1
    slots[place, COUNT] = c
    common = int(pool[COMMON_EPOCH])
    r = slots[place, PART_RECENT] if slots[place, PART_AGE] == common else 0
    part = betting.part_factor(pair, pool, float(c), float(r), float(clock[SEEN]))
    slots[place, PART_RECENT] = r + 1
    slots[place, PART_AGE] = common
    epoch = int(pair[EPOCH])
    r = slots[place, RECENT] if slots[place, AGE] == epoch else 0
    result = betting.weigh(pair, pool, float(c), float(r), part, 1.0, test.threshold[0])
    if result < NEW_WINDOW:
        slots[place, RECENT] = r + 1
        slots[place, AGE] = epoch
    if pool[PAIR_SUM] > pair_sum(test.pairs[np.uint64(clock[BEST])]):
        clock[BEST] = row
    test.ring[np.uint64(clock[SEEN] & (RING_SIZE - 1))] = key
    clock[SEEN] += 1
    return result & (NEW_WINDOW - 1)


@kernel
def pair_sum(pair):
    """The sum of a pair over its bets."""
    total = 0.0
    for i in range(betting.N_LEARNED):
        total += pair[SUMS + i]
    return total


@kernel
def update_ids(floats, integers, state, action, next_state, reward_class):
    """Learn from one transition, as `update` does; OUTSIDE if a state or action does not exist."""
    test = view_in_kernel(floats, integers)
    n_states, n_actions = test.clock[STATES], test.clock[ACTIONS]
    if not (0 <= state < n_states and 0 <= action < n_actions and 0 <= next_state < n_states):
        return OUTSIDE
    return update(test, (state * n_actions + action) << OUTCOME_BITS | (next_state + n_states * reward_class))


@kernel
def update_keys(floats, integers, keys, first):
    """Learn from outcomes in order up to the first alarm: (how many, its code); FULL before one without a place."""
    test = view_in_kernel(floats, integers)
    for i in range(first, keys.shape[0]):
        result = update(test, keys[i])
        if result == FULL:
            return i, FULL
        if result != 0:
            return i + 1, result
    return keys.shape[0], 0
