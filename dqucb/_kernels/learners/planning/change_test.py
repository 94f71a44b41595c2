"""The change test of PlanningDQUCB: the bets of `betting`, with a probability of a false alarm per run.

Starts of a change have weights that sum to less than 1 over all visits since the last alarm, so that a sum above
2 / alpha, pooled or of a pair, is false with a probability of the order alpha, however long the run.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting
from dqucb._kernels._jit import kernel
from dqucb._kernels.betting import NEW_WINDOW, POOL_VISITS
from dqucb._kernels.learners.planning.outcomes import RECENT

LEAST_KEPT = 3  # visits


class ChangeTest(NamedTuple):
    """The evidence of all pairs together; that of each pair is with its outcomes."""

    pool: NDArray[np.float64]  # (POOL_SIZE,)
    tested: NDArray[np.int64]  # (1,) visits since the last alarm
    threshold: float  # 2 / alpha


def new_test(false_alarms: float) -> ChangeTest:
    """No evidence yet."""
    return ChangeTest(betting.new_pool(), np.zeros(1, np.int64), 2.0 / false_alarms)


@kernel
def restart(test):
    """Densities are no longer what they were: evidence against them is void."""
    betting.clear_pool(test.pool)
    test.tested[0] = 0


@kernel
def bet(test, outcomes, r, s, a, place):
    """Bet on an outcome that was counted already; returns `betting`'s codes. Changes the test, bets and window."""
    i = np.uint64(place)
    test.tested[0] += 1
    c = float(outcomes.counts[r, s, a, i] - outcomes.kept[r, s, a, i])
    recent = float(outcomes.recent[r, s, a, i])
    weight = betting.injection_of_run(test.tested[0])
    result = betting.weigh(outcomes.bets[r, s, a], test.pool, c, recent, 0.0, weight, test.threshold)
    if result == NEW_WINDOW:
        for other in range(outcomes.known[r, s, a]):
            outcomes.recent[r, s, a, np.uint64(other)] = 0
        outcomes.sizes[r, s, a, RECENT] = 0
    else:
        outcomes.recent[r, s, a, i] += 1
        outcomes.sizes[r, s, a, RECENT] += 1
    return result % NEW_WINDOW


@kernel
def kept_visits(test):
    """How many visits of each pair are worth keeping after a change that all pairs show together.

    What a pair did before tells its shares now with an error of the size D of the change, n visits with one of about
    1 / (2 sqrt(n)): what came before is worth 1 / (4 D^2) visits. D is the distance in total variation. Evidence of g
    nats a visit bounds it by Pinsker's inequality, D^2 <= g / 2; half of the logarithm of the threshold came in the
    visits since the sum was below its root. Less than three visits are worth nothing.
    """
    kept = int(test.pool[POOL_VISITS] / math.log(test.threshold))
    return kept if kept >= LEAST_KEPT else 0
