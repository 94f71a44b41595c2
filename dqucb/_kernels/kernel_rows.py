"""A cache of kernel values between the tuples of a window.

In scopes "step" and "shared" a window holds many (s, a), and a query sums the kernel around each distinct tuple. The
values between two tuples never change, so that a tuple has a row of them and a query is the product of that row with
the counts: sequential memory access in place of two table look-ups per tuple. Rows are computed at first use. When a
position in the list of tuples is reused, it is written to a short log, from which a row learns which of its values are
outdated. Rows are a cache and are not saved.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels._jit import kernel

# A window's words in `KernelRows`: the start of its block, the number of rows of the block (0: there is none),
# changes of tuples so far plus one, and the positions of the last changes.
BLOCK, STRIDE, CHANGES, LOG = range(4)
LOG_SIZE = 16
FEWEST = 16  # number of tuples up to which rows do not pay off
SMALLEST_STRIDE, LARGEST_STRIDE = 64, 512
MAX_ROWS = 1 << 21  # values in all rows together, 16 MB


class KernelRows(NamedTuple):
    """Kernel values between the tuples of windows that hold many pairs; see `window_sums.py`.

    The block of a window has its counts, the change at which each row was last up to date (0: never), and the rows,
    each with the values around (s', s, a) and then those around (s, a).
    """

    values: Any  # float64 (pool,)
    words: Any  # int64 (windows, LOG + LOG_SIZE)
    used: Any  # int64 (1,) values that are taken


def new_rows(count: int, window: int, n_states: int, n_actions: int) -> KernelRows:
    """Empty rows of `count` windows."""
    most = min(window, n_states * n_states * n_actions)
    each = stride = 0
    while stride < min(most, LARGEST_STRIDE) and most > FEWEST:
        stride = 2 * stride or SMALLEST_STRIDE
        each += block_size(stride)
    return KernelRows(
        values=np.zeros(min(MAX_ROWS, count * each)),  # untouched pages take no memory
        words=np.zeros((count, LOG + LOG_SIZE), np.int64),
        used=np.zeros(1, np.int64),
    )


@kernel
def block_size(stride):
    """Number of values in a block of `stride` rows."""
    return 2 * stride + 2 * stride * stride


@kernel
def sums_of_row(values, counts, row, stride, high):
    """(joint, marginal): counts times a row's kernel values, added in four lanes."""
    j0 = j1 = j2 = j3 = 0.0
    m0 = m1 = m2 = m3 = 0.0
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    further = np.uint64(stride)
    for quad in range(np.uint64(0), np.uint64(high), np.uint64(4)):  # counts are zero after the last tuple
        i = np.uint64(quad)
        c, j = counts + i, row + i
        m = j + further
        j0 += values[c] * values[j]
        m0 += values[c] * values[m]
        j1 += values[c + one] * values[j + one]
        m1 += values[c + one] * values[m + one]
        j2 += values[c + two] * values[j + two]
        m2 += values[c + two] * values[m + two]
        j3 += values[c + three] * values[j + three]
        m3 += values[c + three] * values[m + three]
    return (j0 + j1) + (j2 + j3), (m0 + m1) + (m2 + m3)


@kernel
def add_to_rows(rows, number, entry, change):
    """Update the counts of a window's block by copies of a tuple that came or left. Pair scope has no rows: None."""
    if rows is not None:
        words = rows.words[np.uint64(number)]
        if words[STRIDE] > 0:
            rows.values[np.uint64(words[BLOCK] + entry)] += change


@kernel
def note_another(rows, number, entry):
    """Invalidate the row of a position that has another tuple now, and its value in all other rows."""
    if rows is None:
        return
    words = rows.words[np.uint64(number)]
    if words[STRIDE] == 0:
        return
    if entry >= words[STRIDE]:  # more tuples than the block has rows for: the next query takes a larger one
        words[STRIDE] = 0
        return
    rows.values[words[BLOCK] + words[STRIDE] + entry] = 0.0
    words[LOG + words[CHANGES] % LOG_SIZE] = entry
    words[CHANGES] += 1
