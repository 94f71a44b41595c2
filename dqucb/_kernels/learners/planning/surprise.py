"""Are outcomes more surprising than the densities say, or less, over all pairs together?

A change that is spread over many pairs shows in all of them long before any one pair could tell. With p the density of
the visited pair before outcome y is counted, the alternatives are the flatter density p^(1/2) / Z and the sharper one
p^2 / Z, in every pair at once. They have no parameter to estimate, so evidence adds up from the first visit on:
    R <- max(1, R p'(y) / p(y) n / (n + k - 1)),  p' = p^(1/2) / sum_i p_i^(1/2)  or  p^2 / sum_i p_i^2.
The last factor, for k outcomes seen in n visits, pays for p being an estimate. While nothing changes R exceeds x with a
probability of the order 1/x a visit (Page 1954, Lorden 1971), so that alarms at R > t / alpha, t visits after the
last one, are false alpha ln t times.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning.outcomes import ROOTS, SQUARES

FLATTER, SHARPER = 0, 1
FEW = 64  # visits of a pair before it takes part


class Surprise(NamedTuple):
    """The evidence of both alternatives."""

    ratio: NDArray[np.float64]  # (2,) R, at least 1
    visits: NDArray[np.int64]  # (2,) over which R has grown from 1
    tested: NDArray[np.int64]  # (1,) visits since the last alarm
    false_alarms: float  # alpha


def new_surprise(false_alarms: float) -> Surprise:
    """No evidence yet."""
    return Surprise(np.ones(2), np.zeros(2, np.int64), np.zeros(1, np.int64), false_alarms)


@kernel
def restart(surprise):
    """Densities are no longer what they were: evidence against them is void."""
    surprise.ratio[:] = 1.0
    surprise.visits[:] = 0
    surprise.tested[0] = 0


@kernel
def watch(surprise, c, root, n, different, powers):
    """Weigh an outcome that was seen c times before; returns whether there is enough evidence of a change.

    `root` is that of c. Its pair was visited n times, with so many different outcomes, and has `powers` as in
    `outcomes`; all without it.
    """
    if n < FEW or different < 2 or c == 0:
        return False
    surprise.tested[0] += 1
    squared, payment = float(n) * n, n + different - 1.0
    flatter, sharper = payment * root * powers[ROOTS], payment * powers[SQUARES]
    # Over one denominator: a division is what takes longest here.
    both = squared / (flatter * sharper)
    grow(surprise, FLATTER, both * sharper)
    grow(surprise, SHARPER, both * c * flatter)
    return max(surprise.ratio[FLATTER], surprise.ratio[SHARPER]) * surprise.false_alarms > surprise.tested[0]


@kernel
def grow(surprise, which, factor):
    """One more visit for one alternative; without branches, which chance would decide."""
    ratio = max(1.0, surprise.ratio[which] * factor)
    surprise.ratio[which] = ratio
    surprise.visits[which] = (surprise.visits[which] + 1) * (ratio > 1.0)


@kernel
def kept_visits(surprise):
    """How many visits of each pair are worth keeping after a change of this kind.

    Evidence of g nats a visit bounds the distance D in total variation by Pinsker's inequality, D^2 <= g / 2, and what
    came before is worth 1 / (4 D^2) visits, as in `outcomes.kept_visits`.
    """
    which = FLATTER if surprise.ratio[FLATTER] > surprise.ratio[SHARPER] else SHARPER
    return int(surprise.visits[which] / (2.0 * math.log(surprise.ratio[which])))
