"""The largest value of a row of action values, and where it is."""

from dqucb._kernels._jit import kernel


@kernel
def best_action(row):
    """The first index of the largest value."""
    best = 0
    for action in range(1, row.shape[0]):
        if row[action] > row[best]:
            best = action
    return best


@kernel
def best_action_from(row, start):
    """An index of the largest value, the first one met from `start` on round the row: random ties for random starts."""
    best = start
    for offset in range(1, row.shape[0]):
        action = start + offset
        if action >= row.shape[0]:
            action -= row.shape[0]
        if row[action] > row[best]:
            best = action
    return best


@kernel
def largest(row):
    """The largest value; without its index, a third of QUCB's step faster than row[best_action(row)]."""
    best = row[0]
    for action in range(1, row.shape[0]):
        best = max(best, row[action])
    return best
