"""Whether saved windows can be trusted: every offset in range, every count and chain consistent."""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.discrete import (
    ACTION,
    COUNT,
    ENTRIES_USED,
    ENTRY_HIGH,
    ENTRY_SIZE,
    ENTRY_START,
    FILLED,
    FREE,
    HEADERS_USED,
    LINK,
    NEXT_STATE,
    NONE,
    OLDEST,
    PAIR,
    RING_SIZE,
    RING_START,
    RING_USED,
    STATE,
)


@kernel
def is_consistent(windows, n_next_states):
    """True if no kernel can leave the pools or loop for ever on these windows."""
    used = windows.used
    for pool in range(3):
        if used[pool] < 0:
            return False
    if used[HEADERS_USED] > windows.header.shape[0] or used[RING_USED] > windows.ring.shape[0]:
        return False
    if used[ENTRIES_USED] > windows.entries.shape[0]:
        return False
    seen = np.zeros(windows.header.shape[0], np.bool_)
    ring_taken = np.zeros(windows.ring.shape[0], np.bool_)
    entries_taken = np.zeros(windows.entries.shape[0], np.bool_)
    for number in range(windows.slot.shape[0]):
        slot = windows.slot[number]
        if slot == NONE:
            if windows.scope != PAIR and windows.first[number].max() != NONE:
                return False  # chains of a window that does not exist
            continue
        if slot < 0 or slot >= used[HEADERS_USED] or seen[slot]:
            return False
        seen[slot] = True
        if not (header_fits(windows, slot) and entries_fit(windows, slot, n_next_states)):
            return False
        header = windows.header[slot]
        if not claim(ring_taken, header[RING_START], header[RING_SIZE]):
            return False
        if not claim(entries_taken, header[ENTRY_START], header[ENTRY_SIZE]):
            return False
        if not (counts_match(windows, slot) and chains_match(windows, number, slot)):
            return False
    return True


@kernel
def claim(taken, start, size):
    """Mark a segment of a pool as taken; False if another window has part of it. Changes `taken`."""
    for i in range(start, start + size):
        if taken[i]:
            return False
        taken[i] = True
    return True


@kernel
def header_fits(windows, slot):
    """Segments inside the pools, fill levels inside the segments."""
    header = windows.header[slot]
    size = header[RING_SIZE]
    return (
        0 <= header[FILLED] <= size <= windows.window
        and size > 0
        and header[ENTRY_SIZE] > 0
        and 0 <= header[OLDEST] < max(size, 1)
        and (header[OLDEST] == 0 or header[FILLED] == windows.window)
        and 0 <= header[RING_START] <= windows.used[RING_USED] - size
        and 0 <= header[ENTRY_HIGH] <= header[ENTRY_SIZE] <= windows.window
        and 0 <= header[ENTRY_START] <= windows.used[ENTRIES_USED] - header[ENTRY_SIZE]
        and NONE <= header[FREE] < header[ENTRY_HIGH]
    )


@kernel
def entries_fit(windows, slot, n_next_states):
    """Tuples and links in range."""
    start = windows.header[slot, ENTRY_START]
    high = windows.header[slot, ENTRY_HIGH]
    for place in range(start, start + high):
        entry = windows.entries[place]
        if not (
            0 <= entry[NEXT_STATE] < n_next_states
            and 0 <= entry[STATE] < windows.n_states
            and 0 <= entry[ACTION] < windows.n_actions
            and entry[COUNT] >= 0
            and NONE <= entry[LINK] < high
        ):
            return False
    return True


@kernel
def counts_match(windows, slot):
    """Each entry's count is the number of times that the ring names it."""
    high = windows.header[slot, ENTRY_HIGH]
    start = windows.header[slot, ENTRY_START]
    tally = np.zeros(high, np.int64)
    for i in range(windows.header[slot, FILLED]):
        entry = int(windows.ring[windows.header[slot, RING_START] + i])
        if entry < 0 or entry >= high:
            return False
        tally[entry] += 1
    return all(tally[entry] == windows.entries[start + entry, COUNT] for entry in range(high))


@kernel
def chains_match(windows, number, slot):
    """The free list names each unused entry once; outside pair scope each chain does so for its (s, a)."""
    start = windows.header[slot, ENTRY_START]
    high = windows.header[slot, ENTRY_HIGH]
    entries = windows.entries
    met = 0
    entry = windows.header[slot, FREE]
    while entry != NONE:
        met += 1
        if met > high or entries[start + entry, COUNT] != 0:
            return False
        entry = entries[start + entry, LINK]
    if windows.scope == PAIR:
        live = 0
        for i in range(high):
            live += entries[start + i, COUNT] > 0
        return met + live == high
    for pair in range(windows.first.shape[1]):
        entry = windows.first[number, pair]
        if entry < NONE or entry >= high:
            return False
        while entry != NONE:
            met += 1
            held = entries[start + entry]
            if met > high or held[COUNT] == 0 or held[STATE] * windows.n_actions + held[ACTION] != pair:
                return False
            entry = held[LINK]
    return met == high
