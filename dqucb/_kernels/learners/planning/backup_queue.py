"""States that wait for a backup, those near the largest changes first.

Priorities are powers of two, so that a state enters, moves up and leaves in constant time: each of them has a list of
its states in order of arrival.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel

LEVELS = 20  # 2^-20 is the largest change that counts as none
FIRST, LAST = 0, 1
NONE = -1


class BackupQueue(NamedTuple):
    """Doubly linked lists of states, one for each level."""

    level: NDArray[np.int8]  # (capacity,) 1 + that of a state, 0 for one that does not wait
    after: NDArray[np.int32]  # (capacity,) the next state of the same level, or NONE
    before: NDArray[np.int32]  # (capacity,) the one before it, or NONE
    ends: NDArray[np.int32]  # (LEVELS, 2) the first and the last state of each level, or NONE


def new_queue(capacity: int) -> BackupQueue:
    """Nothing waits."""
    return BackupQueue(
        level=np.zeros(capacity, np.int8),
        after=np.zeros(capacity, np.int32),
        before=np.zeros(capacity, np.int32),
        ends=np.full((LEVELS, 2), NONE, np.int32),
    )


def check_queue(queue: BackupQueue, used: int) -> None:
    """Raise a ValueError unless the lists hold each waiting state of the first `used` ones once, and no other."""
    found = 0
    for level in range(LEVELS):
        previous, state = NONE, int(queue.ends[level, FIRST])
        while state != NONE:
            if not 0 <= state < used or queue.level[state] != level + 1 or queue.before[state] != previous:
                raise ValueError(f"the list of states that wait at level {level} is broken at {state}")
            found += 1
            previous, state = state, int(queue.after[state])
            if found > used:
                raise ValueError("the list of states that wait has no end")
        if queue.ends[level, LAST] != previous:
            raise ValueError(f"the list of states that wait at level {level} must end with {previous}")
    if found != int((queue.level != 0).sum()):
        raise ValueError("each state that waits must be in one list")


@kernel
def level_of(change):
    """Of a change in units of the largest one: 0 from 1/2 on, 1 from 1/4, and so on."""
    return min(max(-math.frexp(change)[1], 0), LEVELS - 1)


@kernel
def push(queue, state, level):
    """Let a state wait at a level, unless it waits at a higher one already. Changes the queue."""
    s = np.uint64(state)
    if queue.level[s] != 0:
        if queue.level[s] <= level + 1:
            return
        take_out(queue, state)
    last = queue.ends[level, LAST]
    queue.level[s] = level + 1
    queue.before[s] = last
    queue.after[s] = NONE
    if last == NONE:
        queue.ends[level, FIRST] = state
    else:
        queue.after[np.uint64(last)] = state
    queue.ends[level, LAST] = state


@kernel
def take_out(queue, state):
    """Let a state wait no longer. Changes the queue."""
    s = np.uint64(state)
    level = queue.level[s] - 1
    before, after = queue.before[s], queue.after[s]
    if before == NONE:
        queue.ends[level, FIRST] = after
    else:
        queue.after[np.uint64(before)] = after
    if after == NONE:
        queue.ends[level, LAST] = before
    else:
        queue.before[np.uint64(after)] = before
    queue.level[s] = 0


@kernel
def pop(queue):
    """The state that has waited longest at the highest level, which waits no longer; NONE if there is none."""
    for level in range(LEVELS):
        state = queue.ends[np.uint64(level), np.uint64(FIRST)]
        if state != NONE:
            take_out(queue, state)
            return int(state)
    return NONE
