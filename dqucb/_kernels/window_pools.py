"""The memory of the sliding windows: shared pools from which windows are allocated on demand.

There are many windows (one per (h, s, a) in pair scope); an unused one takes no memory, and a ring doubles up to the
window size as it fills. A window begins with a cache line of 64 bytes that holds its header and its first tuples, so
that a step mostly waits for one cache line and not for two dependent ones. Kernels cannot enlarge an array of their
caller, so that the caller asks `has_room` before a batch of pushes and enlarges the pools with `enlarged`.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.kernel_rows import new_rows

PAIR, STEP, SHARED = 0, 1, 2
SCOPES = ("pair", "step", "shared")  # position = code above

# A window's words in `header`, counted from its `slot`.
FILLED, OLDEST, RING_START, RING_SIZE, ENTRY_START, ENTRY_SIZE, ENTRY_HIGH, FREE = range(8)
LINE, HEADER = 8, 4  # words of `held` in a line, and those of them that are the header
# A tuple's words in `chain` (not in pair scope, where a window has only one (s, a)): the next entry of the same
# (s, a) or, for an entry that is held no more, the next free one; state and action.
LINK, STATE, ACTION = range(3)
CHAIN = 3
# Positions in `used`: how much of each pool is taken.
RING_USED, HELD_USED = range(2)
RETAINED = 64  # up to so many tuples, one that has left a larger window keeps its position and its row until reused

FIRST_RING, FIRST_ENTRIES = 8, LINE - HEADER  # sizes that a new window starts with
NONE = -1
MAX_POOL = 2**31 - 1  # offsets are 32 bits wide


class DiscreteWindows(NamedTuple):
    """The pools of all windows of one agent, and the parameters of the likelihood."""

    slot: Any  # int32 (windows,) place of the window's header, or NONE
    header: Any  # int32, the memory of `held`
    ring: Any  # uint16 or int32 (ring pool,) entry numbers in order of arrival
    held: Any  # int64 (entry pool,) next state in the high half, count in the low half: see `pack`; and the headers
    chain: Any  # int32 (CHAIN * entry pool,); empty in pair scope
    first: Any  # int32 (windows, S*A) head of the chain of each (s, a); (1, 1) in pair scope
    used: Any  # int64 (2,)
    rows: Any  # KernelRows, a cache; None in pair scope
    features: Any  # int32 (S, f) coordinates of the states; f = 0 means that a state is its number
    profile: Any  # float64 (size,) kernel profile by squared distance; the last value is zero
    scope: int
    window: int
    n_states: int
    n_actions: int
    density_ratio: float
    floor: float

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied one by one, `header` and `held` would no longer be the same memory; and a cache is not worth copying.
        fields = self._asdict()
        del fields["header"], fields["rows"]
        return _over_one_memory, (type(self), fields)


def _over_one_memory(kind: type[DiscreteWindows], fields: dict[str, Any]) -> DiscreteWindows:
    rows = None
    if fields["scope"] != PAIR:
        rows = new_rows(len(fields["slot"]), fields["window"], fields["n_states"], fields["n_actions"])
    return kind(header=fields["held"].view(np.int32), rows=rows, **fields)


# Separate types, so that kernels are compiled only for the windows they use.
class PairWindows(DiscreteWindows):
    """Windows in pair scope."""

    __slots__ = ()


class PhaseWindows(DiscreteWindows):
    """An oracle's windows, which hold phases where others hold next states."""

    __slots__ = ()


class PairPhaseWindows(PairWindows):
    """An oracle's windows in pair scope."""

    __slots__ = ()


class NoisyWindows(NamedTuple):
    """Windows with an error on their likelihood, for studies."""

    windows: Any  # DiscreteWindows, or those of an oracle with the model
    noise: float  # standard deviation
    floor: float


OF_PHASES = (PhaseWindows, PairPhaseWindows)


@kernel
def _yes(windows):
    return True


@kernel
def _no(windows):
    return False


in_pair_scope = by_type(
    lambda kind: _yes if issubclass(kind, PairWindows) else _no,
    "(windows): whether each window has one (h, s, a) of its own; known when a kernel is compiled.",
)


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
    of_phases: bool = False,
) -> DiscreteWindows:
    """Empty windows, of next states or of phases; unused windows take no memory."""
    pairs = n_states * n_actions
    kind: type[DiscreteWindows]
    if scope == PAIR:
        kind = PairPhaseWindows if of_phases else PairWindows
    else:
        kind = PhaseWindows if of_phases else DiscreteWindows
    count = {PAIR: horizon * pairs, STEP: horizon, SHARED: 1}[scope]
    held = on_lines(np.zeros(0, np.int64), LINE)
    return kind(
        slot=np.full(count, NONE, np.int32),
        header=held.view(np.int32),
        ring=np.zeros(FIRST_RING, np.uint16 if window <= 1 << 16 else np.int32),
        held=held,
        chain=np.zeros(0 if scope == PAIR else CHAIN * LINE, np.int32),
        first=np.full((1, 1) if scope == PAIR else (count, pairs), NONE, np.int32),
        used=np.zeros(2, np.int64),
        rows=None if scope == PAIR else new_rows(count, window, n_states, n_actions),
        features=features,
        profile=profile,
        scope=scope,
        window=window,
        n_states=n_states,
        n_actions=n_actions,
        density_ratio=density_ratio,
        floor=floor,
    )


def enlarged(windows: Any, pushes: int) -> Any:
    """The same windows with pools that are large enough for `pushes` more transitions."""
    if isinstance(windows, NoisyWindows):
        return windows._replace(windows=enlarged(windows.windows, pushes))
    ring, entries = (int(used) for used in windows.used)
    ring += int(room_needed(ring, pushes, windows.window))
    entries += int(room_needed(entries, pushes, windows.window + 2 * LINE))
    if max(ring, 2 * entries) > MAX_POOL:
        raise MemoryError(
            f"windows of {windows.window} transitions need more than {MAX_POOL} places: use a smaller window"
        )
    return with_held(windows, _longer(windows.held, entries))._replace(
        ring=_longer(windows.ring, ring),
        chain=_longer(windows.chain, 0 if in_pair_scope(windows) else CHAIN * entries),
    )


def with_held(windows: DiscreteWindows, held: np.ndarray) -> DiscreteWindows:
    """The same windows over other memory for their tuples and headers."""
    return windows._replace(held=held, header=held.view(np.int32))


def _longer(pool: np.ndarray, size: int) -> np.ndarray:
    return pool if len(pool) >= size else on_lines(pool, max(size, 2 * len(pool)))


def on_lines(pool: np.ndarray, size: int) -> np.ndarray:
    """A copy of `pool`, zero-padded to `size`, that is aligned to a cache line."""
    # Untouched pages of np.zeros take no memory, so that a generous size costs address space only.
    zeros = np.zeros(size + 64 // pool.itemsize, pool.dtype)
    first = -zeros.ctypes.data % 64 // pool.itemsize
    longer = zeros[first : first + size]
    longer[: len(pool)] = pool
    return longer


@kernel
def room_needed(used, pushes, limit):
    """An upper bound on what `pushes` transitions take from a pool of which `used` is in use.

    A segment of size m that doubles to hold m + x took at most 4 (m + x) + 2 FIRST_RING from the pool in
    all its doublings; summed over the windows touched this is below 4 used + (4 + 2 FIRST_RING) pushes.
    And no push takes more than `limit`, which for tuples counts a new window's line and what rounding to lines adds.
    """
    return min(pushes * limit, 4 * used + (4 + 2 * FIRST_RING) * pushes)


@kernel
def pools_have_room(windows, pushes):
    """Whether each pool has capacity for `pushes` transitions."""
    used = windows.used
    window = windows.window
    return (
        used[RING_USED] + room_needed(used[RING_USED], pushes, window) <= windows.ring.shape[0]
        and used[HELD_USED] + room_needed(used[HELD_USED], pushes, window + 2 * LINE) <= windows.held.shape[0]
    )


@kernel
def nothing_needs_room(windows, pushes):
    """Always true: there are no windows."""
    return True


@kernel
def inner_have_room(windows, pushes):
    """Whether the windows under the error have capacity."""
    return has_room(windows.windows, pushes)


has_room = by_type(
    lambda kind: {type(None): nothing_needs_room, NoisyWindows: inner_have_room}.get(kind, pools_have_room),
    "(windows, pushes): whether `pushes` more transitions fit into the pools for certain.",
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
def retains(windows, slot):
    """Whether entries without counts keep their positions: if there are few of them, in a larger window."""
    return windows.window > RETAINED and at(windows, slot, ENTRY_HIGH) <= RETAINED


@kernel
def open_window(windows, number):
    """Allocate the header and first segments of a window from the pools; return the position of the header."""
    used = windows.used
    header = windows.header
    slot = 2 * int(used[HELD_USED])
    header[slot + FILLED] = 0
    header[slot + OLDEST] = 0
    header[slot + RING_START] = used[RING_USED]
    header[slot + RING_SIZE] = min(FIRST_RING, windows.window)
    header[slot + ENTRY_START] = used[HELD_USED] + HEADER
    header[slot + ENTRY_SIZE] = min(FIRST_ENTRIES, windows.window)
    header[slot + ENTRY_HIGH] = 0
    header[slot + FREE] = NONE
    windows.slot[number] = slot
    used[RING_USED] += header[slot + RING_SIZE]
    used[HELD_USED] += LINE
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
def lengthen_entries(windows, slot):
    """Move the list of distinct tuples to a segment of twice the size."""
    header = windows.header
    start = windows.used[HELD_USED]
    for i in range(header[slot + ENTRY_HIGH]):
        windows.held[start + i] = windows.held[header[slot + ENTRY_START] + i]
        if not in_pair_scope(windows):
            for word in range(CHAIN):
                windows.chain[CHAIN * (start + i) + word] = windows.chain[
                    CHAIN * (header[slot + ENTRY_START] + i) + word
                ]
    header[slot + ENTRY_START] = start
    header[slot + ENTRY_SIZE] = min(2 * header[slot + ENTRY_SIZE], windows.window)
    windows.used[HELD_USED] += -(-header[slot + ENTRY_SIZE] // LINE) * LINE
