"""Validation of saved windows: every offset in range, every count and chain consistent."""

import numpy as np

from dqucb._kernels._jit import allocating_kernel, kernel
from dqucb._kernels.window_pools import (
    ACTION,
    CHAIN,
    ENTRY_HIGH,
    ENTRY_SIZE,
    ENTRY_START,
    FILLED,
    FREE,
    HEADER,
    HELD_USED,
    LINE,
    LINK,
    NONE,
    OLDEST,
    RING_SIZE,
    RING_START,
    RING_USED,
    STATE,
    at,
    count_of,
    in_pair_scope,
    next_state_of,
    retains,
)


@allocating_kernel  # marks the used parts of the pools
def is_consistent(windows, n_next_states):
    """True if no kernel can leave the pools or loop forever on these windows."""
    used = windows.used
    for pool in range(2):
        if used[pool] < 0:
            return False
    if used[RING_USED] > windows.ring.shape[0] or used[HELD_USED] > windows.held.shape[0]:
        return False
    if not in_pair_scope(windows) and windows.chain.shape[0] < CHAIN * windows.held.shape[0]:
        return False
    ring_taken = np.zeros(windows.ring.shape[0], np.bool_)
    held_taken = np.zeros(windows.held.shape[0], np.bool_)
    for number in range(windows.slot.shape[0]):
        slot = int(windows.slot[number])
        if slot == NONE:
            if not in_pair_scope(windows) and windows.first[number].max() != NONE:
                return False  # chains of a window that does not exist
            continue
        line = slot // 2
        if slot < 0 or slot % 2 != 0 or line > used[HELD_USED] - LINE or not claim(held_taken, line, LINE):
            return False
        if not (header_fits(windows, slot) and entries_fit(windows, slot, n_next_states)):
            return False
        if not claim(ring_taken, at(windows, slot, RING_START), at(windows, slot, RING_SIZE)):
            return False
        start, size = at(windows, slot, ENTRY_START), at(windows, slot, ENTRY_SIZE)
        inside = start == line + HEADER and size <= LINE - HEADER
        if not inside and not claim(held_taken, start, size):
            return False
        if not (counts_match(windows, slot) and chains_match(windows, number, slot)):
            return False
    return True


@kernel
def claim(taken, start, size):
    """Mark a segment of a pool as used; False if it overlaps that of another window. Changes `taken`."""
    for i in range(start, start + size):
        if taken[i]:
            return False
        taken[i] = True
    return True


@kernel
def header_fits(windows, slot):
    """Segments inside the pools, fill levels inside the segments."""
    ring_size = at(windows, slot, RING_SIZE)
    entry_size = at(windows, slot, ENTRY_SIZE)
    filled = at(windows, slot, FILLED)
    oldest = at(windows, slot, OLDEST)
    high = at(windows, slot, ENTRY_HIGH)
    return (
        0 < ring_size <= windows.window
        and 0 < entry_size <= windows.window
        and 0 <= filled <= ring_size
        and 0 <= oldest < ring_size
        and (oldest == 0 or filled == windows.window)
        and 0 <= at(windows, slot, RING_START) <= windows.used[RING_USED] - ring_size
        and 0 <= high <= entry_size
        and 0 <= at(windows, slot, ENTRY_START) <= windows.used[HELD_USED] - entry_size
        and NONE <= at(windows, slot, FREE) < high
    )


@kernel
def entries_fit(windows, slot, n_next_states):
    """Tuples and links in range."""
    start = at(windows, slot, ENTRY_START)
    high = at(windows, slot, ENTRY_HIGH)
    for place in range(start, start + high):
        if not 0 <= next_state_of(windows.held[place]) < n_next_states:
            return False
        if in_pair_scope(windows):
            continue
        tie = CHAIN * place
        if not (
            0 <= windows.chain[tie + STATE] < windows.n_states
            and 0 <= windows.chain[tie + ACTION] < windows.n_actions
            and NONE <= windows.chain[tie + LINK] < high
        ):
            return False
    return True


@allocating_kernel  # a tally per entry
def counts_match(windows, slot):
    """The count of each entry is its number of occurrences in the ring."""
    high = at(windows, slot, ENTRY_HIGH)
    start = at(windows, slot, ENTRY_START)
    tally = np.zeros(high, np.int64)
    for i in range(at(windows, slot, FILLED)):
        entry = int(windows.ring[at(windows, slot, RING_START) + i])
        if entry < 0 or entry >= high:
            return False
        tally[entry] += 1
    for entry in range(high):
        if tally[entry] != count_of(windows.held[start + entry]):
            return False
    return True


@kernel
def chains_match(windows, number, slot):
    """The free list has each unused entry once, and each chain those of its (s, a). Pair scope has neither.

    Windows that retain have unused entries in chains too.
    """
    if in_pair_scope(windows):
        return True
    start = at(windows, slot, ENTRY_START)
    high = at(windows, slot, ENTRY_HIGH)
    met = 0
    entry = at(windows, slot, FREE)
    while entry != NONE:
        met += 1
        if met > high or count_of(windows.held[start + entry]) != 0:
            return False
        entry = int(windows.chain[CHAIN * (start + entry) + LINK])
    for pair in range(windows.first.shape[1]):
        entry = int(windows.first[number, pair])
        if entry < NONE or entry >= high:
            return False
        while entry != NONE:
            met += 1
            tie = CHAIN * (start + entry)
            if met > high or (count_of(windows.held[start + entry]) == 0 and not retains(windows, slot)):
                return False
            if windows.chain[tie + STATE] * windows.n_actions + windows.chain[tie + ACTION] != pair:
                return False
            entry = int(windows.chain[tie + LINK])
    return met == high
