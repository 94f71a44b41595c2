"""The finite drift detector: every outcome of every pair with its count, the bets on them, and the last updates.

Outcomes of all pairs share one table with open addressing, whose size is a power of two and which is never more than
half full. Kernels do not allocate: one that meets a new outcome and no place for it changes nothing and returns FULL.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting
from dqucb._kernels._jit import kernel
from dqucb._kernels.betting import EPOCH, NEW_WINDOW, PAIR_SUM, SUMS

KEY, COUNT, RECENT, AGE = 0, 1, 2, 3  # of an outcome; AGE is the pair's epoch to which RECENT belongs
EMPTY = -1
FIRST_SIZE = 64
OUTCOME_BITS = 32  # of a key, below those of the pair
OUTCOME_MASK = (1 << OUTCOME_BITS) - 1
RING_SIZE = 1 << 14  # updates by which a change is dated
SEEN, USED, BEST = 0, 1, 2  # updates, outcomes, the pair with the largest sum
FULL = -1


class FiniteTest(NamedTuple):
    """What a detector knows since its last alarm."""

    slots: NDArray[np.int64]  # (size, 4)
    pairs: NDArray[np.float64]  # (pairs, PAIR_SIZE)
    pool: NDArray[np.float64]  # (POOL_SIZE,)
    ring: NDArray[np.int64]  # (RING_SIZE,) keys; update t is at t % RING_SIZE
    clock: NDArray[np.int64]  # (3,)


def new_test(n_pairs: int) -> FiniteTest:
    """Nothing seen yet."""
    return FiniteTest(
        slots=empty_slots(FIRST_SIZE),
        pairs=betting.new_pairs(n_pairs),
        pool=betting.new_pool(),
        ring=np.zeros(RING_SIZE, np.int64),
        clock=np.zeros(3, np.int64),
    )


def empty_slots(size: int) -> NDArray[np.int64]:
    """A table without outcomes."""
    slots = np.zeros((size, 4), np.int64)
    slots[:, KEY] = EMPTY
    return slots


def table_of(outcomes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A table that holds outcomes (n, 4) and as many more, at least."""
    slots = empty_slots(max(FIRST_SIZE, 1 << int(4 * len(outcomes)).bit_length()))
    fill(outcomes, slots)
    return slots


def enlarged(test: FiniteTest) -> FiniteTest:
    """The same with places for more outcomes."""
    return test._replace(slots=table_of(outcomes_of(test)))


def outcomes_of(test: FiniteTest) -> NDArray[np.int64]:
    """The outcomes, (n, 4), in order of their keys."""
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
    # Odd multipliers spread neighbours; the products stay below 2^63.
    row, outcome = key >> OUTCOME_BITS, key & OUTCOME_MASK
    place = row * 2654435761 + outcome * 40503
    place = (place ^ (place >> 15)) & mask
    while slots[np.uint64(place), KEY] != key and slots[np.uint64(place), KEY] != EMPTY:
        place = (place + 1) & mask
    return place


@kernel
def update(slots, pairs, pool, ring, clock, threshold, key):
    """Learn from one outcome; returns the alarms of `betting.weigh`, 0, or FULL. Changes all arrays."""
    place = np.uint64(place_of(slots, key))
    if slots[place, KEY] == EMPTY:
        if 2 * (clock[USED] + 1) > slots.shape[0]:
            return FULL
        slots[place, KEY] = key
        slots[place, COUNT] = 0
        slots[place, AGE] = EMPTY
        clock[USED] += 1
    row = np.uint64(key >> OUTCOME_BITS)
    pair = pairs[row]
    c = slots[place, COUNT] + 1
    slots[place, COUNT] = c
    epoch = int(pair[EPOCH])
    r = slots[place, RECENT] if slots[place, AGE] == epoch else 0
    result = betting.weigh(pair, pool, float(c), float(r), 1.0, threshold)
    if result < NEW_WINDOW:
        slots[place, RECENT] = r + 1
        slots[place, AGE] = epoch
    best = np.uint64(clock[BEST])
    if pool[PAIR_SUM] > pair_sum(pairs[best]):
        clock[BEST] = row
    ring[np.uint64(clock[SEEN] & (ring.shape[0] - 1))] = key
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
def update_keys(slots, pairs, pool, ring, clock, threshold, keys, first):
    """Learn from outcomes in order up to the first alarm: (how many, its code); FULL before one without a place."""
    for i in range(first, keys.shape[0]):
        result = update(slots, pairs, pool, ring, clock, threshold, keys[i])
        if result == FULL:
            return i, FULL
        if result != 0:
            return i + 1, result
    return keys.shape[0], 0
