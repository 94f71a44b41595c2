"""Sliding windows over integer transitions (s', s, a): distinct tuples with counts, never n copies.

A window is a ring of small numbers that name entries in its list of distinct tuples. Add and evict move one
count, so they cost the number of distinct successors of one (s, a), whatever the window; a query costs the
number of distinct tuples. Counts are integers, so nothing drifts.

Many windows live in shared pools (one window per (h, s, a) in pair scope) and take memory only when they
are first used; a ring doubles up to the window size as it fills. Kernels cannot enlarge an array that
their caller holds, so the caller asks `has_room` before a batch of pushes and enlarges the pools with
`enlarged`. Hot paths index with unsigned integers, because a signed index costs a test for negative values,
and the hottest data is one word per tuple.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.formulas import conditional_likelihood

PAIR, STEP, SHARED = 0, 1, 2
SCOPES = ("pair", "step", "shared")  # position = code above

# A window's words in `header`, counted from its `slot`.
FILLED, OLDEST, RING_START, RING_SIZE, ENTRY_START, ENTRY_SIZE, ENTRY_HIGH, FREE = range(8)
HEADER = 8
# A tuple's words in `chain` (not in pair scope, where a window has only one (s, a)): the next entry of the same
# (s, a) or, for an entry that is held no more, the next free one; state and action.
LINK, STATE, ACTION = range(3)
CHAIN = 3
# Positions in `used`: how much of each pool is taken.
HEADER_USED, RING_USED, ENTRIES_USED = range(3)

FIRST_RING, FIRST_ENTRIES = 8, 2  # sizes that a new window starts with
NONE = -1
MAX_POOL = 2**31 - 1  # offsets are 32 bits wide


class DiscreteWindows(NamedTuple):
    """The pools of all windows of one agent, and what turns counts into a likelihood."""

    slot: Any  # int32 (windows,) place of the window's header, or NONE
    header: Any  # int32 (header pool,)
    ring: Any  # uint16 or int32 (ring pool,) entry numbers in order of arrival
    held: Any  # int64 (entry pool,) next state in the high half, count in the low half: see `pack`
    chain: Any  # int32 (CHAIN * entry pool,); empty in pair scope
    first: Any  # int32 (windows, S*A) head of the chain of each (s, a); (1, 1) in pair scope
    used: Any  # int64 (3,)
    features: Any  # int32 (S, f) coordinates of the states; f = 0 means that a state is its number
    profile: Any  # float64 (size,) kernel profile by squared distance; the last value is zero
    scope: int
    window: int
    n_states: int
    n_actions: int
    density_ratio: float
    floor: float


def new_windows(
    scope: int,
    horizon: int,
    n_states: int,
    n_actions: int,
    window: int,
    features: np.ndarray,
    profile: np.ndarray,
    density_ratio: float,
    floor: float,
) -> DiscreteWindows:
    """Empty windows; nothing is reserved for windows that are never used."""
    pairs = n_states * n_actions
    count = {PAIR: horizon * pairs, STEP: horizon, SHARED: 1}[scope]
    return DiscreteWindows(
        slot=np.full(count, NONE, np.int32),
        header=np.zeros(HEADER, np.int32),
        ring=np.zeros(FIRST_RING, np.uint16 if window <= 1 << 16 else np.int32),
        held=np.zeros(FIRST_ENTRIES, np.int64),
        chain=np.zeros(0 if scope == PAIR else CHAIN * FIRST_ENTRIES, np.int32),
        first=np.full((1, 1) if scope == PAIR else (count, pairs), NONE, np.int32),
        used=np.zeros(3, np.int64),
        features=features,
        profile=profile,
        scope=scope,
        window=window,
        n_states=n_states,
        n_actions=n_actions,
        density_ratio=density_ratio,
        floor=floor,
    )


def enlarged(windows: DiscreteWindows, pushes: int) -> DiscreteWindows:
    """The same windows with pools in which `pushes` more transitions fit for certain."""
    header, ring, entries = (int(used) for used in windows.used)
    header += HEADER * pushes
    ring += int(room_needed(ring, pushes, windows.window))
    entries += int(room_needed(entries, pushes, windows.window))
    if max(header, ring, entries) > MAX_POOL:
        raise MemoryError(
            f"windows of {windows.window} transitions need more than {MAX_POOL} places: use a smaller window"
        )
    return windows._replace(
        header=_longer(windows.header, header),
        ring=_longer(windows.ring, ring),
        held=_longer(windows.held, entries),
        chain=_longer(windows.chain, 0 if windows.scope == PAIR else CHAIN * entries),
    )


def _longer(pool: np.ndarray, size: int) -> np.ndarray:
    if len(pool) >= size:
        return pool
    # np.zeros maps untouched pages to nothing, so a generous size costs address space, not memory.
    longer = np.zeros(max(size, 2 * len(pool)), pool.dtype)
    longer[: len(pool)] = pool
    return longer


@kernel
def room_needed(used, pushes, limit):
    """A bound on what `pushes` transitions take from a pool of which `used` is taken.

    A segment of size m that doubles to hold m + x took at most 4 (m + x) + 2 FIRST_RING from the pool in
    all its doublings; summed over the windows touched this is below 4 used + (4 + 2 FIRST_RING) pushes.
    And no push takes more than `limit`.
    """
    return min(pushes * limit, 4 * used + (4 + 2 * FIRST_RING) * pushes)


@kernel
def has_room(windows, pushes):
    """Whether `pushes` more transitions fit into the pools for certain."""
    used = windows.used
    window = windows.window
    return (
        used[HEADER_USED] + HEADER * pushes <= windows.header.shape[0]
        and used[RING_USED] + room_needed(used[RING_USED], pushes, window) <= windows.ring.shape[0]
        and used[ENTRIES_USED] + room_needed(used[ENTRIES_USED], pushes, window) <= windows.held.shape[0]
    )


@kernel
def pack(next_state):
    """A next state with count zero; adding 1 adds to the count."""
    return np.int64(next_state) << 32


@kernel
def next_state_of(word):
    """The next state of a packed entry."""
    return word >> 32


@kernel
def count_of(word):
    """The count of a packed entry."""
    return word & 0xFFFFFFFF


@kernel
def at(windows, slot, word):
    """One word of a window's header, as a signed integer."""
    return int(windows.header[np.uint64(slot + word)])


@kernel
def window_of(windows, step, state, action):
    """The number of the window that the scope gives to this (h, s, a)."""
    if windows.scope == PAIR:
        return (step * windows.n_states + state) * windows.n_actions + action
    if windows.scope == STEP:
        return step
    return 0


@kernel
def squared_distance(features, left, right):
    """|f(left) - f(right)|^2 between two states, as an exact integer."""
    if features.shape[1] == 0:
        difference = int(left) - int(right)
        return difference * difference
    total = 0
    for axis in range(features.shape[1]):
        difference = int(features[left, axis]) - int(features[right, axis])
        total += difference * difference
    return total


@kernel
def profile_at(profile, distance):
    """k(sqrt(distance) / bandwidth) from the table, whose last value, zero, stands for all that is farther."""
    return profile[np.uint64(min(distance, profile.shape[0] - 1))]


@kernel
def find_entry(windows, number, slot, next_state, state, action):
    """The entry of this tuple within its window, or NONE."""
    start = at(windows, slot, ENTRY_START)
    if windows.scope == PAIR:
        for entry in range(at(windows, slot, ENTRY_HIGH)):
            if next_state_of(windows.held[np.uint64(start + entry)]) == next_state:
                return entry
        return NONE
    entry = int(windows.first[np.uint64(number), np.uint64(state * windows.n_actions + action)])
    while entry != NONE and next_state_of(windows.held[np.uint64(start + entry)]) != next_state:
        entry = int(windows.chain[np.uint64(CHAIN * (start + entry) + LINK)])
    return entry


@kernel
def kernel_sums(windows, slot, next_state, state, action):
    """(joint, marginal, entry): the kernel profiles of the window's tuples around (s', s, a) and around (s, a).

    In pair scope it meets the entry of (s', s, a) itself on the way; elsewhere that is NONE.
    """
    start = at(windows, slot, ENTRY_START)
    joint = 0.0
    found = NONE
    if windows.scope == PAIR:  # every tuple shares (s, a), so the marginal counts each of them fully
        for entry in range(at(windows, slot, ENTRY_HIGH)):
            word = windows.held[np.uint64(start + entry)]
            other = next_state_of(word)
            joint += count_of(word) * profile_at(windows.profile, squared_distance(windows.features, next_state, other))
            if other == next_state:
                found = entry
        return joint, float(at(windows, slot, FILLED)), found
    marginal = 0.0
    for entry in range(at(windows, slot, ENTRY_HIGH)):
        word = windows.held[np.uint64(start + entry)]
        tie = CHAIN * (start + entry)
        turn = action - int(windows.chain[np.uint64(tie + ACTION)])
        near = squared_distance(windows.features, state, windows.chain[np.uint64(tie + STATE)]) + turn * turn
        far = near + squared_distance(windows.features, next_state, next_state_of(word))
        marginal += count_of(word) * profile_at(windows.profile, near)
        joint += count_of(word) * profile_at(windows.profile, far)
    return joint, marginal, found


@kernel
def likelihood(windows, step, next_state, state, action):
    """p(s' | s, a) under the window as it is; 1 where the window knows nothing."""
    slot = int(windows.slot[np.uint64(window_of(windows, step, state, action))])
    if slot == NONE:
        return 1.0
    joint, marginal, _ = kernel_sums(windows, slot, next_state, state, action)
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
    """The likelihood of a transition under its window, which then takes it in. Changes the pools.

    `likelihood` and `push` together, with one look at the window's tuples in pair scope.
    """
    number = window_of(windows, step, state, action)
    slot = slot_of(windows, number)
    if windows.scope == PAIR:
        word = windows.held[np.uint64(at(windows, slot, ENTRY_START))]
        if word == pack(next_state) + windows.window:
            # A full window of one and the same transition meets it again: certain, and nothing changes.
            return conditional_likelihood(1.0, 1.0, windows.density_ratio, windows.floor)
    joint, marginal, entry = kernel_sums(windows, slot, next_state, state, action)
    if windows.scope != PAIR:
        entry = find_entry(windows, number, slot, next_state, state, action)
    add(windows, number, slot, entry, next_state, state, action)
    return conditional_likelihood(joint, marginal, windows.density_ratio, windows.floor)


@kernel
def slot_of(windows, number):
    """The place of a window's header; the window is opened if this is its first use."""
    slot = int(windows.slot[np.uint64(number)])
    if slot == NONE:
        slot = open_window(windows, number)
    return slot


@kernel
def add(windows, number, slot, entry, next_state, state, action):
    """Put a tuple, of which `entry` is the place if the window knows it, at the end of the ring."""
    filled = at(windows, slot, FILLED)
    if filled == windows.window:
        oldest = at(windows, slot, OLDEST)
        position = np.uint64(at(windows, slot, RING_START) + oldest)
        windows.header[np.uint64(slot + OLDEST)] = 0 if oldest + 1 == windows.window else oldest + 1
        drop(windows, number, slot, int(windows.ring[position]), entry)
    else:
        if filled == at(windows, slot, RING_SIZE):
            lengthen_ring(windows, slot)
        position = np.uint64(at(windows, slot, RING_START) + filled)
        windows.header[np.uint64(slot + FILLED)] = filled + 1
    if entry == NONE:
        entry = new_entry(windows, number, slot, next_state, state, action)
    windows.held[np.uint64(at(windows, slot, ENTRY_START) + entry)] += 1
    windows.ring[position] = entry


@kernel
def drop(windows, number, slot, entry, newcomer):
    """Take one count off an entry; the last one frees it, unless the newcomer is its equal.

    In pair scope an entry without counts stays where it is, to be found again or overwritten by the next new
    tuple: that saves an unpredictable branch on the hottest path.
    """
    place = at(windows, slot, ENTRY_START) + entry
    windows.held[np.uint64(place)] -= 1
    if windows.scope != PAIR and entry != newcomer and count_of(windows.held[np.uint64(place)]) == 0:
        unlink(windows, number, slot, entry)
        windows.chain[CHAIN * place + LINK] = windows.header[slot + FREE]
        windows.header[slot + FREE] = entry


@kernel
def open_window(windows, number):
    """Give a window its header and first segments from the pools; return the header's place."""
    used = windows.used
    header = windows.header
    slot = int(used[HEADER_USED])
    header[slot + FILLED] = 0
    header[slot + OLDEST] = 0
    header[slot + RING_START] = used[RING_USED]
    header[slot + RING_SIZE] = min(FIRST_RING, windows.window)
    header[slot + ENTRY_START] = used[ENTRIES_USED]
    header[slot + ENTRY_SIZE] = min(FIRST_ENTRIES, windows.window)
    header[slot + ENTRY_HIGH] = 0
    header[slot + FREE] = NONE
    windows.slot[number] = slot
    used[HEADER_USED] += HEADER
    used[RING_USED] += header[slot + RING_SIZE]
    used[ENTRIES_USED] += header[slot + ENTRY_SIZE]
    return slot


@kernel
def lengthen_ring(windows, slot):
    """Move a ring that is full but smaller than the window to a segment of twice the size."""
    header = windows.header
    start = windows.used[RING_USED]
    for i in range(header[slot + RING_SIZE]):  # no eviction has happened yet, so the oldest is at the start
        windows.ring[start + i] = windows.ring[header[slot + RING_START] + i]
    header[slot + RING_START] = start
    header[slot + RING_SIZE] = min(2 * header[slot + RING_SIZE], windows.window)
    windows.used[RING_USED] += header[slot + RING_SIZE]


@kernel
def unlink(windows, number, slot, entry):
    """Take an entry out of the chain of its (s, a)."""
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
    """An entry for a tuple that the window does not know: an unused one, or one at the end of the list."""
    entry = unused_entry(windows, slot)
    if entry == NONE:
        entry = at(windows, slot, ENTRY_HIGH)
        if entry == at(windows, slot, ENTRY_SIZE):
            lengthen_entries(windows, slot)
        windows.header[slot + ENTRY_HIGH] = entry + 1
    place = at(windows, slot, ENTRY_START) + entry
    windows.held[place] = pack(next_state)
    if windows.scope != PAIR:
        pair = state * windows.n_actions + action
        windows.chain[CHAIN * place + STATE] = state
        windows.chain[CHAIN * place + ACTION] = action
        windows.chain[CHAIN * place + LINK] = windows.first[number, pair]
        windows.first[number, pair] = entry
    return entry


@kernel
def unused_entry(windows, slot):
    """An entry that can be overwritten, or NONE."""
    start = at(windows, slot, ENTRY_START)
    if windows.scope == PAIR:
        for entry in range(at(windows, slot, ENTRY_HIGH)):
            if count_of(windows.held[start + entry]) == 0:
                return entry
        return NONE
    entry = at(windows, slot, FREE)
    if entry != NONE:
        windows.header[slot + FREE] = windows.chain[CHAIN * (start + entry) + LINK]
    return entry


@kernel
def lengthen_entries(windows, slot):
    """Move the list of distinct tuples to a segment of twice the size."""
    header = windows.header
    start = windows.used[ENTRIES_USED]
    for i in range(header[slot + ENTRY_HIGH]):
        windows.held[start + i] = windows.held[header[slot + ENTRY_START] + i]
        if windows.scope != PAIR:
            for word in range(CHAIN):
                windows.chain[CHAIN * (start + i) + word] = windows.chain[
                    CHAIN * (header[slot + ENTRY_START] + i) + word
                ]
    header[slot + ENTRY_START] = start
    header[slot + ENTRY_SIZE] = min(2 * header[slot + ENTRY_SIZE], windows.window)
    windows.used[ENTRIES_USED] += header[slot + ENTRY_SIZE]
