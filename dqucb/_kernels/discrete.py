"""Sliding windows over integer transitions (s', s, a): distinct tuples with counts, never n copies.

A window is a ring of indices into its list of distinct tuples. Adding and evicting change one count, at a cost of the
number of distinct successors of one (s, a), whatever the window; a query costs the number of distinct tuples
(`window_sums.py`). Counts are integers, so that errors do not accumulate.

Hot paths index with unsigned integers, because a signed index costs a test for negative values, and the hottest
data is one word per tuple. `window_pools.py` describes the memory of the windows.
"""

import numpy as np

from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.formulas import conditional_likelihood
from dqucb._kernels.kernel_rows import add_to_rows, note_another
from dqucb._kernels.window_pools import (
    ACTION,
    CHAIN,
    ENTRY_HIGH,
    ENTRY_SIZE,
    ENTRY_START,
    FILLED,
    FREE,
    LINK,
    NONE,
    OLDEST,
    RETAINED,
    RING_SIZE,
    RING_START,
    STATE,
    STEP,
    PairWindows,
    at,
    count_of,
    in_pair_scope,
    lengthen_entries,
    lengthen_ring,
    next_state_of,
    open_window,
    pack,
    retains,
)
from dqucb._kernels.window_sums import kernel_sums, squared_distance, weight


@kernel
def window_of(windows, step, state, action):
    """The number of the window of this (h, s, a), which depends on the scope."""
    if in_pair_scope(windows):
        return (step * windows.n_states + state) * windows.n_actions + action
    if windows.scope == STEP:
        return step
    return 0


@kernel
def find_entry(windows, number, slot, next_state, state, action):
    """The entry of this tuple within its window, or NONE."""
    start = at(windows, slot, ENTRY_START)
    if in_pair_scope(windows):
        for entry in range(at(windows, slot, ENTRY_HIGH)):
            if next_state_of(windows.held[np.uint64(start + entry)]) == next_state:
                return entry
        return NONE
    entry = int(windows.first[np.uint64(number), np.uint64(state * windows.n_actions + action)])
    while entry != NONE and next_state_of(windows.held[np.uint64(start + entry)]) != next_state:
        entry = int(windows.chain[np.uint64(CHAIN * (start + entry) + LINK)])
    return entry


@kernel
def sums_of_pair(windows, number, slot, next_state, state, action):
    """(joint, marginal, entry of the tuple or NONE) in pair scope, where every tuple has the same (s, a).

    The marginal counts all of them, and the entry is found in the same pass.
    """
    start = at(windows, slot, ENTRY_START)
    joint = 0.0
    found = NONE
    for entry in range(at(windows, slot, ENTRY_HIGH)):
        word = windows.held[np.uint64(start + entry)]
        other = next_state_of(word)
        joint += weight(windows, word, squared_distance(windows.features, next_state, other))
        if other == next_state:
            found = entry
    return joint, float(at(windows, slot, FILLED)), found


@kernel
def sums_of_all(windows, number, slot, next_state, state, action):
    """As `sums_of_pair`, where a window holds many (s, a)."""
    entry = find_entry(windows, number, slot, next_state, state, action)
    joint, marginal = kernel_sums(windows, number, slot, entry, next_state, state, action)
    return joint, marginal, entry


sums = by_type(
    lambda kind: sums_of_pair if issubclass(kind, PairWindows) else sums_of_all,
    "(windows, number, slot, next_state, state, action): (joint, marginal, entry of the tuple or NONE).",
)


@kernel
def likelihood(windows, step, next_state, state, action):
    """p(s' | s, a) under the current window; 1 where the window has no data."""
    number = window_of(windows, step, state, action)
    slot = int(windows.slot[np.uint64(number)])
    if slot == NONE:
        return 1.0
    joint, marginal, _ = sums(windows, number, slot, next_state, state, action)
    return conditional_likelihood(joint, marginal, windows.density_ratio, windows.floor)


@kernel
def push(windows, step, next_state, state, action):
    """Add a transition to its window and evict the oldest one of a full window. Changes the pools."""
    number = window_of(windows, step, state, action)
    slot = slot_of(windows, number)
    entry = find_entry(windows, number, slot, next_state, state, action)
    add(windows, number, slot, entry, next_state, state, action)


@kernel
def observe(windows, step, next_state, state, action):
    """The likelihood of a transition under its window, to which it is then added. Changes the pools.

    `likelihood` and `push` together, with one search for the tuple.
    """
    number = window_of(windows, step, state, action)
    slot = slot_of(windows, number)
    if in_pair_scope(windows):
        word = windows.held[np.uint64(at(windows, slot, ENTRY_START))]
        if word == pack(next_state) + windows.window:
            # A full window of this transition alone: its likelihood is 1, and nothing changes.
            return conditional_likelihood(1.0, 1.0, windows.density_ratio, windows.floor)
    joint, marginal, entry = sums(windows, number, slot, next_state, state, action)
    add(windows, number, slot, entry, next_state, state, action)
    return conditional_likelihood(joint, marginal, windows.density_ratio, windows.floor)


@kernel
def slot_of(windows, number):
    """The position of a window's header; at its first use the window is created."""
    slot = int(windows.slot[np.uint64(number)])
    if slot == NONE:
        slot = open_window(windows, number)
    return slot


@kernel
def add(windows, number, slot, entry, next_state, state, action):
    """Append a tuple to the ring; `entry` is its entry in the window, or NONE."""
    filled = at(windows, slot, FILLED)
    if filled == windows.window:
        oldest = at(windows, slot, OLDEST)
        position = np.uint64(at(windows, slot, RING_START) + oldest)
        windows.header[np.uint64(slot + OLDEST)] = 0 if oldest + 1 == windows.window else oldest + 1
        evicted = int(windows.ring[position])
        if evicted == entry:
            return
        drop(windows, number, slot, evicted, entry)
    else:
        if filled == at(windows, slot, RING_SIZE):
            lengthen_ring(windows, slot)
        position = np.uint64(at(windows, slot, RING_START) + filled)
        windows.header[np.uint64(slot + FILLED)] = filled + 1
    if entry == NONE:
        entry = new_entry(windows, number, slot, next_state, state, action)
    windows.held[np.uint64(at(windows, slot, ENTRY_START) + entry)] += 1
    add_to_rows(windows.rows, number, entry, 1.0)
    windows.ring[position] = entry


@kernel
def drop(windows, number, slot, entry, newcomer):
    """Decrement the count of an entry; at zero it is freed, unless the new tuple is the same.

    In pair scope, and in windows that retain, an entry without counts keeps its position, to be found again or
    overwritten by a new tuple. In pair scope that saves an unpredictable branch on the hottest path.
    """
    place = at(windows, slot, ENTRY_START) + entry
    windows.held[np.uint64(place)] -= 1
    if in_pair_scope(windows):
        return
    add_to_rows(windows.rows, number, entry, -1.0)
    if retains(windows, slot):
        return
    if entry != newcomer and count_of(windows.held[np.uint64(place)]) == 0:
        unlink(windows, number, slot, entry)
        windows.chain[CHAIN * place + LINK] = windows.header[slot + FREE]
        windows.header[slot + FREE] = entry


@kernel
def unlink(windows, number, slot, entry):
    """Remove an entry from the chain of its (s, a)."""
    chain = windows.chain
    start = at(windows, slot, ENTRY_START)
    tie = CHAIN * (start + entry)
    pair = int(chain[tie + STATE]) * windows.n_actions + int(chain[tie + ACTION])
    current = int(windows.first[number, pair])
    if current == entry:
        windows.first[number, pair] = chain[tie + LINK]
        return
    while chain[CHAIN * (start + current) + LINK] != entry:
        current = int(chain[CHAIN * (start + current) + LINK])
    chain[CHAIN * (start + current) + LINK] = chain[tie + LINK]


@kernel
def new_entry(windows, number, slot, next_state, state, action):
    """A new entry for a tuple: an unused one, or one at the end of the list."""
    entry = unused_entry(windows, number, slot)
    if entry == NONE:
        entry = at(windows, slot, ENTRY_HIGH)
        if entry == at(windows, slot, ENTRY_SIZE):
            lengthen_entries(windows, slot)
        windows.header[slot + ENTRY_HIGH] = entry + 1
    place = at(windows, slot, ENTRY_START) + entry
    windows.held[place] = pack(next_state)
    if not in_pair_scope(windows):
        pair = state * windows.n_actions + action
        windows.chain[CHAIN * place + STATE] = state
        windows.chain[CHAIN * place + ACTION] = action
        windows.chain[CHAIN * place + LINK] = windows.first[number, pair]
        windows.first[number, pair] = entry
        note_another(windows.rows, number, entry)
    return entry


@kernel
def unused_entry(windows, number, slot):
    """An entry that can be overwritten and is in no chain, or NONE."""
    if in_pair_scope(windows):
        return entry_without_counts(windows, slot)
    entry = at(windows, slot, FREE)
    if entry != NONE:
        windows.header[slot + FREE] = windows.chain[CHAIN * (at(windows, slot, ENTRY_START) + entry) + LINK]
    elif retains(windows, slot) and at(windows, slot, ENTRY_HIGH) == RETAINED:
        entry = entry_without_counts(windows, slot)
        if entry != NONE:
            unlink(windows, number, slot, entry)
    return entry


@kernel
def entry_without_counts(windows, slot):
    """The first entry without counts, or NONE."""
    start = at(windows, slot, ENTRY_START)
    for entry in range(at(windows, slot, ENTRY_HIGH)):
        if count_of(windows.held[start + entry]) == 0:
            return entry
    return NONE
