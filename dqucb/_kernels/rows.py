"""The largest value of a row of action values, and where it is.

Four actions, as in most grids, are compared in pairs without a loop: the next state depends on the result, and pairs
have a shorter dependency chain.
"""

from dqucb._kernels._jit import kernel


@kernel
def best_action(row):
    """The first index of the largest value."""
    if row.shape[0] == 4:
        early, late = (1 if row[1] > row[0] else 0), (3 if row[3] > row[2] else 2)
        return late if max(row[2], row[3]) > max(row[0], row[1]) else early
    best = 0
    most = row[0]  # kept beside its index: a comparison with row[best] becomes a branch that is often mispredicted
    for action in range(1, row.shape[0]):
        if row[action] > most:
            best = action
            most = row[action]
    return best


@kernel
def best_action_from(row, start):
    """The first index of the largest value from `start` on, cyclically: random ties for a random start."""
    best = start
    most = row[start]
    for offset in range(1, row.shape[0]):
        action = start + offset
        if action >= row.shape[0]:
            action -= row.shape[0]
        if row[action] > most:
            best = action
            most = row[action]
    return best


@kernel
def largest(row):
    """The largest value; without its index, a third of QUCB's step faster than row[best_action(row)]."""
    if row.shape[0] == 4:
        return max(max(row[0], row[1]), max(row[2], row[3]))
    best = row[0]
    for action in range(1, row.shape[0]):
        best = max(best, row[action])
    return best
