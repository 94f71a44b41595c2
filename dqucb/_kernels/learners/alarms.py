"""The log of a learner's alarms, which kernels write and the caller enlarges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel


class AlarmLog(NamedTuple):
    """Alarms, and the clock that dates them."""

    times: NDArray[np.int64]  # (capacity,) the episode, or step, of each alarm
    used: NDArray[np.int64]  # (1,)
    now: NDArray[np.int64]  # (1,) episodes or steps done


def new_log() -> AlarmLog:
    """A log without alarms."""
    return AlarmLog(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


def enlarged(log: AlarmLog, pushes: int) -> AlarmLog:
    """A log of the same alarms with capacity for `pushes` more; the same object if it has it."""
    needed = int(log.used[0]) + pushes
    if needed <= len(log.times):
        return log
    return log._replace(times=np.pad(log.times, (0, max(2 * len(log.times), needed) - len(log.times))))


@kernel
def has_room(log, pushes):
    """Whether `pushes` more alarms fit."""
    return log.used[0] + pushes <= log.times.shape[0]


@kernel
def has_room_for_one(learner, pushes):
    """`has_room` of a learner that raises at most one alarm in an episode."""
    return has_room(learner.alarms, 1)


@kernel
def last(log):
    """The time of the last alarm; 0 before the first."""
    return log.times[log.used[0] - 1] if log.used[0] > 0 else 0


@kernel
def ring(log):
    """Record an alarm at the current time."""
    log.times[log.used[0]] = log.now[0]
    log.used[0] += 1
