"""Sliding windows over integer transitions (s', s, a): distinct tuples with counts, never n copies.

A window is a ring of small indices into its list of distinct tuples. Add and evict move one count, so they
cost the number of distinct successors of one (s, a), whatever the window; a query costs the number of
distinct tuples. Counts are integers, so nothing drifts.

Many windows live in shared pools (one window per (h, s, a) in pair scope) and take memory only when they
are first used; a ring doubles up to the window size as it fills. Kernels cannot enlarge an array that
their caller holds, so the caller asks `has_room` before a batch of pushes and enlarges the pools with
`enlarged`.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.formulas import conditional_likelihood

PAIR, STEP, SHARED = 0, 1, 2
SCOPES = ("pair", "step", "shared")  # position = code above

# Columns of `entries`: a distinct tuple, how often the window holds it, and the next entry of the same (s, a)
# (or, for a tuple that is held no more, the next free entry).
NEXT_STATE, STATE, ACTION, COUNT, LINK = range(5)
# Columns of `header`: one row per window in use.
FILLED, OLDEST, RING_START, RING_SIZE, ENTRY_START, ENTRY_SIZE, ENTRY_HIGH, FREE = range(8)
# Positions in `used`: how much of each pool is taken.
HEADERS_USED, RING_USED, ENTRIES_USED = range(3)

FIRST_RING, FIRST_ENTRIES = 8, 2  # sizes that a new window starts with
NONE = -1


class DiscreteWindows(NamedTuple):
    """The pools of all windows of one agent, and what turns counts into a likelihood."""

    slot: Any  # int32 (windows,) row of `header`, or NONE
    header: Any  # int64 (slots, 8)
    ring: Any  # uint16 or int32 (ring pool,) entry numbers in order of arrival
    entries: Any  # int32 (entry pool, 5)
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
        header=np.zeros((1, 8), np.int64),
        ring=np.zeros(FIRST_RING, np.uint16 if window <= 1 << 16 else np.int32),
        entries=np.zeros((FIRST_ENTRIES, 5), np.int32),
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
    needed = [_needed(int(used), pushes, limit) for used, limit in zip(windows.used, _limits(windows), strict=True)]
    return windows._replace(
        header=_longer(windows.header, needed[HEADERS_USED]),
        ring=_longer(windows.ring, needed[RING_USED]),
        entries=_longer(windows.entries, needed[ENTRIES_USED]),
    )


def _longer(pool: np.ndarray, size: int) -> np.ndarray:
    if len(pool) >= size:
        return pool
    # np.zeros maps untouched pages to nothing, so a generous size costs address space, not memory.
    longer = np.zeros((max(size, 2 * len(pool)), *pool.shape[1:]), pool.dtype)
    longer[: len(pool)] = pool
    return longer


def _limits(windows: DiscreteWindows) -> tuple[int, int, int]:
    """The most that one push may take from each pool: a new window, a doubled ring, a doubled entry list."""
    return 1, windows.window, windows.window


def _needed(used: int, pushes: int, limit: int) -> int:
    return used + room_needed(used, pushes, limit)


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
        used[HEADERS_USED] + pushes <= windows.header.shape[0]
        and used[RING_USED] + room_needed(used[RING_USED], pushes, window) <= windows.ring.shape[0]
        and used[ENTRIES_USED] + room_needed(used[ENTRIES_USED], pushes, window) <= windows.entries.shape[0]
    )


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
    return profile[min(distance, profile.shape[0] - 1)]


@kernel
def find_entry(windows, number, slot, next_state, state, action):
    """The entry of this tuple within its window, or NONE."""
    start = windows.header[slot, ENTRY_START]
    entries = windows.entries
    if windows.scope == PAIR:
        for entry in range(windows.header[slot, ENTRY_HIGH]):
            if entries[start + entry, NEXT_STATE] == next_state and entries[start + entry, COUNT] > 0:
                return entry
        return NONE
    entry = int(windows.first[number, state * windows.n_actions + action])
    while entry != NONE and entries[start + entry, NEXT_STATE] != next_state:
        entry = int(entries[start + entry, LINK])
    return entry


@kernel
def kernel_sums(windows, slot, next_state, state, action):
    """(joint, marginal): the kernel profiles of the window's tuples around (s', s, a) and around (s, a)."""
    entries = windows.entries
    start = windows.header[slot, ENTRY_START]
    joint = 0.0
    if windows.scope == PAIR:  # every tuple shares (s, a), so the marginal counts each of them fully
        for entry in range(start, start + windows.header[slot, ENTRY_HIGH]):
            distance = squared_distance(windows.features, next_state, entries[entry, NEXT_STATE])
            joint += entries[entry, COUNT] * profile_at(windows.profile, distance)
        return joint, float(windows.header[slot, FILLED])
    marginal = 0.0
    for entry in range(start, start + windows.header[slot, ENTRY_HIGH]):
        turn = action - int(entries[entry, ACTION])
        distance = squared_distance(windows.features, state, entries[entry, STATE]) + turn * turn
        marginal += entries[entry, COUNT] * profile_at(windows.profile, distance)
        distance += squared_distance(windows.features, next_state, entries[entry, NEXT_STATE])
        joint += entries[entry, COUNT] * profile_at(windows.profile, distance)
    return joint, marginal


@kernel
def likelihood(windows, step, next_state, state, action):
    """p(s' | s, a) under the window before this transition; 1 where the window knows nothing."""
    slot = windows.slot[window_of(windows, step, state, action)]
    if slot == NONE:
        return 1.0
    joint, marginal = kernel_sums(windows, slot, next_state, state, action)
    return conditional_likelihood(joint, marginal, windows.density_ratio, windows.floor)


@kernel
def push(windows, step, next_state, state, action):
    """Add a transition to its window and evict the oldest one of a full window. Changes the pools."""
    number = window_of(windows, step, state, action)
    if windows.slot[number] == NONE:
        open_window(windows, number)
    slot = windows.slot[number]
    entry = find_entry(windows, number, slot, next_state, state, action)
    if windows.header[slot, FILLED] == windows.window:
        position = windows.header[slot, RING_START] + windows.header[slot, OLDEST]
        windows.header[slot, OLDEST] = (windows.header[slot, OLDEST] + 1) % windows.window
        oldest = int(windows.ring[position])
        if oldest == entry:  # the newcomer replaces its equal: nothing changes
            return
        drop(windows, number, slot, oldest)
    else:
        if windows.header[slot, FILLED] == windows.header[slot, RING_SIZE]:
            lengthen_ring(windows, slot)
        position = windows.header[slot, RING_START] + windows.header[slot, FILLED]
        windows.header[slot, FILLED] += 1
    if entry == NONE:
        entry = new_entry(windows, number, slot, next_state, state, action)
    windows.entries[windows.header[slot, ENTRY_START] + entry, COUNT] += 1
    windows.ring[position] = entry


@kernel
def open_window(windows, number):
    """Give a window its first segments from the pools."""
    used = windows.used
    slot = used[HEADERS_USED]
    windows.header[slot, FILLED] = 0
    windows.header[slot, OLDEST] = 0
    windows.header[slot, RING_START] = used[RING_USED]
    windows.header[slot, RING_SIZE] = min(FIRST_RING, windows.window)
    windows.header[slot, ENTRY_START] = used[ENTRIES_USED]
    windows.header[slot, ENTRY_SIZE] = min(FIRST_ENTRIES, windows.window)
    windows.header[slot, ENTRY_HIGH] = 0
    windows.header[slot, FREE] = NONE
    windows.slot[number] = slot
    used[HEADERS_USED] += 1
    used[RING_USED] += windows.header[slot, RING_SIZE]
    used[ENTRIES_USED] += windows.header[slot, ENTRY_SIZE]


@kernel
def lengthen_ring(windows, slot):
    """Move a ring that is full but smaller than the window to a segment of twice the size."""
    start = windows.used[RING_USED]
    for i in range(windows.header[slot, RING_SIZE]):  # no eviction has happened yet, so the oldest is at the start
        windows.ring[start + i] = windows.ring[windows.header[slot, RING_START] + i]
    windows.header[slot, RING_START] = start
    windows.header[slot, RING_SIZE] = min(2 * windows.header[slot, RING_SIZE], windows.window)
    windows.used[RING_USED] += windows.header[slot, RING_SIZE]


@kernel
def drop(windows, number, slot, entry):
    """Take one count off an entry; the last one frees it."""
    entries = windows.entries
    place = windows.header[slot, ENTRY_START] + entry
    entries[place, COUNT] -= 1
    if entries[place, COUNT] > 0:
        return
    if windows.scope != PAIR:
        unlink(windows, number, slot, entry)
    entries[place, LINK] = windows.header[slot, FREE]
    windows.header[slot, FREE] = entry


@kernel
def unlink(windows, number, slot, entry):
    """Take an entry out of the chain of its (s, a)."""
    entries = windows.entries
    start = windows.header[slot, ENTRY_START]
    pair = int(entries[start + entry, STATE]) * windows.n_actions + int(entries[start + entry, ACTION])
    current = int(windows.first[number, pair])
    if current == entry:
        windows.first[number, pair] = entries[start + entry, LINK]
        return
    while entries[start + current, LINK] != entry:
        current = int(entries[start + current, LINK])
    entries[start + current, LINK] = entries[start + entry, LINK]


@kernel
def new_entry(windows, number, slot, next_state, state, action):
    """An entry for a tuple that the window does not hold: a freed one, or one at the end of the list."""
    if windows.header[slot, FREE] != NONE:
        entry = windows.header[slot, FREE]
        windows.header[slot, FREE] = windows.entries[windows.header[slot, ENTRY_START] + entry, LINK]
    else:
        if windows.header[slot, ENTRY_HIGH] == windows.header[slot, ENTRY_SIZE]:
            lengthen_entries(windows, slot)
        entry = windows.header[slot, ENTRY_HIGH]
        windows.header[slot, ENTRY_HIGH] += 1
    place = windows.header[slot, ENTRY_START] + entry
    windows.entries[place, NEXT_STATE] = next_state
    windows.entries[place, STATE] = state
    windows.entries[place, ACTION] = action
    windows.entries[place, COUNT] = 0
    if windows.scope != PAIR:
        pair = state * windows.n_actions + action
        windows.entries[place, LINK] = windows.first[number, pair]
        windows.first[number, pair] = entry
    return entry


@kernel
def lengthen_entries(windows, slot):
    """Move the list of distinct tuples to a segment of twice the size."""
    start = windows.used[ENTRIES_USED]
    for i in range(windows.header[slot, ENTRY_HIGH]):
        for column in range(5):
            windows.entries[start + i, column] = windows.entries[windows.header[slot, ENTRY_START] + i, column]
    windows.header[slot, ENTRY_START] = start
    windows.header[slot, ENTRY_SIZE] = min(2 * windows.header[slot, ENTRY_SIZE], windows.window)
    windows.used[ENTRIES_USED] += windows.header[slot, ENTRY_SIZE]
