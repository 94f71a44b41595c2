"""Sums of kernels over the tuples of a sliding window that holds many (s, a), with and without cached rows.

Both add in four lanes, by the position of a tuple in the list of the window, so that they are bit-identical.
"""

import numpy as np

from dqucb._kernels._jit import kernel, rare_kernel
from dqucb._kernels.kernel_rows import (
    BLOCK,
    CHANGES,
    FEWEST,
    LARGEST_STRIDE,
    LOG,
    LOG_SIZE,
    SMALLEST_STRIDE,
    STRIDE,
    block_size,
    sums_of_row,
)  # fmt: skip
from dqucb._kernels.window_pools import (
    ACTION,
    CHAIN,
    ENTRY_HIGH,
    ENTRY_START,
    NONE,
    STATE,
    at,
    count_of,
    next_state_of,
)


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
    """k(sqrt(distance) / bandwidth) from the table, whose last value, zero, holds for all larger distances."""
    return profile[np.uint64(min(distance, profile.shape[0] - 1))]


@kernel
def weight(windows, word, distance):
    """Contribution of the copies of a tuple at this squared distance to a sum."""
    return count_of(word) * profile_at(windows.profile, distance)


@kernel
def kernel_sums(windows, number, slot, entry, next_state, state, action):
    """(joint, marginal): the kernel profiles of the window's tuples around (s', s, a) and around (s, a).

    `entry` is that of (s', s, a), or NONE. Not for pair scope. Changes the rows.
    """
    high = at(windows, slot, ENTRY_HIGH)
    if entry != NONE and high > FEWEST:
        words = windows.rows.words[np.uint64(number)]
        if words[STRIDE] == 0 and high <= LARGEST_STRIDE:
            open_block(windows, number, slot)
        if words[STRIDE] > 0:
            row = current_row(windows, words, slot, entry, high)
            return sums_of_row(windows.rows.values, np.uint64(words[BLOCK]), row, words[STRIDE], high)
    # Two specialised loops: a fifth faster than one.
    if windows.features.shape[1] == 0:
        return sums_of_tuples(windows, slot, high, next_state, state, action, True)
    return sums_of_tuples(windows, slot, high, next_state, state, action, False)


@kernel
def sums_of_tuples(windows, slot, high, next_state, state, action, by_number):
    """As `kernel_sums`, without a row; `by_number` if the state ids are the coordinates."""
    j0 = j1 = j2 = j3 = 0.0
    m0 = m1 = m2 = m3 = 0.0
    first, last = np.uint64(at(windows, slot, ENTRY_START)), np.uint64(at(windows, slot, ENTRY_START) + high)
    for quad in range(first, last, np.uint64(4)):
        place = np.uint64(quad)  # without the JIT a range yields Python integers
        joint, marginal = weights(windows, place, last, next_state, state, action, by_number)
        j0 += joint
        m0 += marginal
        joint, marginal = weights(windows, place + np.uint64(1), last, next_state, state, action, by_number)
        j1 += joint
        m1 += marginal
        joint, marginal = weights(windows, place + np.uint64(2), last, next_state, state, action, by_number)
        j2 += joint
        m2 += marginal
        joint, marginal = weights(windows, place + np.uint64(3), last, next_state, state, action, by_number)
        j3 += joint
        m3 += marginal
    return (j0 + j1) + (j2 + j3), (m0 + m1) + (m2 + m3)


@kernel
def weights(windows, place, last, next_state, state, action, by_number):
    """Contribution of one tuple to (joint, marginal); zero after the last one."""
    if place >= last:
        return 0.0, 0.0
    word = windows.held[place]
    near, far = distances(windows, place, next_state, state, action, by_number)
    return weight(windows, word, far), weight(windows, word, near)


@kernel
def distances(windows, place, next_state, state, action, by_number):
    """Squared distances of a tuple in the pools to (s, a) and to (s', s, a)."""
    tie = np.uint64(CHAIN) * place
    other = next_state_of(windows.held[place])
    other_state = int(windows.chain[tie + np.uint64(STATE)])
    turn = action - int(windows.chain[tie + np.uint64(ACTION)])
    if by_number:
        apart, further = state - other_state, next_state - other
        near = apart * apart + turn * turn
        return near, near + further * further
    near = squared_distance(windows.features, state, other_state) + turn * turn
    return near, near + squared_distance(windows.features, next_state, other)


# ---- rows -------------------------------------------------------------------------------------------------


@rare_kernel
def open_block(windows, number, slot):
    """Allocate a block of rows for a window, if the pool has capacity, and copy the counts. Changes the rows."""
    rows = windows.rows
    high = at(windows, slot, ENTRY_HIGH)
    stride = SMALLEST_STRIDE
    while stride < high:
        stride *= 2
    words = rows.words[number]
    if rows.used[0] + block_size(stride) > rows.values.shape[0]:
        return
    words[BLOCK] = rows.used[0]
    words[STRIDE] = stride
    words[CHANGES] = 1
    rows.used[0] += block_size(stride)
    start = at(windows, slot, ENTRY_START)
    for i in range(high):
        rows.values[words[BLOCK] + i] = float(count_of(windows.held[start + i]))


@kernel
def current_row(windows, words, slot, entry, high):
    """The position of a tuple's row in `values`, after its outdated values were renewed. Changes the rows."""
    values = windows.rows.values
    stamp = np.uint64(words[BLOCK] + words[STRIDE] + entry)
    row = np.uint64(words[BLOCK] + 2 * words[STRIDE] * (entry + 1))
    since = int(values[stamp])
    if since != words[CHANGES]:
        renew_row(windows, words, slot, entry, row, since)
        values[stamp] = float(words[CHANGES])
    return row


@rare_kernel
def renew_row(windows, words, slot, entry, row, since):
    """Compute the values of a row that are outdated since change `since`, or all of them if it is 0."""
    start = at(windows, slot, ENTRY_START)
    changes = int(words[CHANGES])
    if since > 0 and changes - since <= LOG_SIZE:
        for change in range(since, changes):
            write_value(windows, start, entry, int(words[LOG + change % LOG_SIZE]), row, words[STRIDE])
    else:
        for other in range(at(windows, slot, ENTRY_HIGH)):
            write_value(windows, start, entry, other, row, words[STRIDE])


@kernel
def write_value(windows, start, entry, other, row, stride):
    """One value of each kind in the row of `entry`. Changes the row."""
    tie = CHAIN * (start + entry)
    state, action = int(windows.chain[tie + STATE]), int(windows.chain[tie + ACTION])
    next_state = next_state_of(windows.held[start + entry])
    by_number = windows.features.shape[1] == 0
    near, far = distances(windows, np.uint64(start + other), next_state, state, action, by_number)
    windows.rows.values[row + np.uint64(other)] = profile_at(windows.profile, far)
    windows.rows.values[row + np.uint64(stride + other)] = profile_at(windows.profile, near)
