"""Has the distribution of a finite outcome changed? Bets on each outcome given its bag, and sums of their products.

The bag of a pair (state, action) is the multiset of its outcomes, the new one y included: c of y among N, k different
ones, Q the sum of their squared counts, `ones` those with c = 1; r of the m outcomes in the pair's window, without y,
are y. While nothing changes, y is uniform on its bag, whatever the distribution is. A factor with mean 1 under it is a
bet against "nothing changed" (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005):
    flat     1 - eta + eta N / (k c)          outcomes have become more alike
    sharp    1 - eta + eta c N / Q            or less alike
    novel    1 - eta + eta N / ones [c = 1]   or new; 1 while `ones` is 0
    learned  (r N / c + K (1 - b + b N / (k c))) / (m + K)   the window predicts y better than the bag; K = K0 + K1 k
    some     (1 + sum_i o_i v_i) / (1 + sum_i o_i)           some pairs have changed: v_i are the learned factors and
                                                             o_i the odds of the pair, max(o_i v_i, floor) afterwards
    part     (1 - pi + pi B v) / (1 - pi + pi B)             a share pi of the pairs has changed, all at once: v is a
                                                             learned factor whose window is common to all pairs, B the
                                                             product of those of the pair since the window began
The window of a pair restarts when the mean of its learned products has fallen below `PATIENCE`, or when it is long; the
common window by the same rule for the product of "part". PlanningDQUCB does without "part" and its second count of each
outcome. Its bets do not win on the second outcome that a pair shows: it goes on with a pair as long as the outcome is
the good one and leaves it after a bad one, so that the bad one is the last of its bag more often than at random. In
problems with many states that alone gave false alarms (docs/concepts/betting.md).
Every start of a change is possible, and so each kind of bet i has the sum of its products over all starts,
    R_i <- (R_i + injection) e_i,
over the visits of all pairs (pooled) and, for the learned bets, over those of each pair. With an injection of 1 in
total per update the sum has mean t after t updates: an alarm at 2 / rate, for each of the two kinds of sums, is a rate
of false alarms (Shiryaev 1963, Roberts 1966). With injections that sum to 1 over all time and an alarm at 2 / alpha it
is a probability per run. `docs/concepts/betting.md` says what is proven of this and what is measured.

An alarm also needs `GAIN`: the bets must have multiplied the sum, since their own best start, at least tenfold. Without
it a process without noise, in which all factors are 1, gives an alarm after 2 / rate updates of waiting.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel

FLAT = (0.03, 0.12, 0.5)  # eta
SHARP = (0.15, 0.7)
NOVEL = (0.02, 0.3)
PRIOR_0 = (1.0, 16.0, 2.0)  # K0 of the two learned bets and of "part"
PRIOR_1 = (0.5, 8.0, 1.0)  # K1
BASE = (0.9, 0.3, 0.6)  # b
PART = 0.2  # pi
FLOOR = 0.05  # of the odds that a pair has changed, for each learned bet
MOST_ODDS = 1e9
PATIENCE = 0.37
LONGEST, LONGEST_SHARE = 64.0, 0.5  # a window holds at most 64 visits and half of the bag
GAIN = 10.0
N_LEARNED = len(BASE) - 1
N_BETS = len(FLAT) + len(SHARP) + len(NOVEL) + N_LEARNED + 1  # without "part"

# Numbers of a pair
VISITS, DIFFERENT, SQUARES, ONES, WINDOW, EPOCH = 0, 1, 2, 3, 4, 5
PRODUCTS = 6
SUMS = PRODUCTS + N_LEARNED
ODDS = SUMS + N_LEARNED
PAIR_SIZE = ODDS + N_LEARNED
# With "part" also: B, the visits in the common window, and the number of the window they belong to
PART_RATIO, PART_WINDOW, PART_EPOCH = PAIR_SIZE, PAIR_SIZE + 1, PAIR_SIZE + 2
PAIR_SIZE_WITH_PART = PAIR_SIZE + 3
# Numbers of the pool: the sum of each bet, then
POOL_GAIN = N_BETS  # by which the bets multiplied the sum since their best start
POOL_VISITS = N_BETS + 1  # updates since the sum was below the root of the threshold
POOL_SUM = N_BETS + 2  # the sum over all bets
PAIR_SUM = N_BETS + 3  # the sum of the visited pair
POOL_SIZE = N_BETS + 4
# With "part" also: its sum, its product and updates since the common window began, and the number of the window
POOL_PART, COMMON_PRODUCT, COMMON_WINDOW, COMMON_EPOCH = POOL_SIZE, POOL_SIZE + 1, POOL_SIZE + 2, POOL_SIZE + 3
POOL_SIZE_WITH_PART = POOL_SIZE + 4

# What `weigh` returns is a sum of these.
PAIR_ALARM, POOL_ALARM, NEW_WINDOW = 1, 2, 4


def new_pairs(*shape: int) -> NDArray[np.float64]:
    """Pairs that have seen nothing: zeros, so that pairs that are never visited take no memory."""
    return np.zeros((*shape, PAIR_SIZE))


def new_pool() -> NDArray[np.float64]:
    """No evidence yet."""
    pool = np.zeros(POOL_SIZE)
    pool[POOL_GAIN] = 1.0
    return pool


@kernel
def open_pair(pair):
    """No window and no evidence yet for a pair, whatever its bag holds."""
    pair[WINDOW] = 0.0
    for i in range(N_LEARNED):
        pair[PRODUCTS + i] = 1.0
        pair[SUMS + i] = 0.0
        pair[ODDS + i] = FLOOR


@kernel
def empty_bag(pair):
    """Forget all about a pair."""
    pair[:] = 0.0


@kernel
def clear_pool(pool):
    """Forget the evidence of all pairs together."""
    pool[:] = 0.0
    pool[POOL_GAIN] = 1.0


@kernel
def add_to_bag(pair, c):
    """Put an outcome into the bag of its pair that is there c times then."""
    pair[VISITS] += 1.0
    pair[SQUARES] += 2.0 * c - 1.0
    if c == 1.0:
        pair[DIFFERENT] += 1.0
        pair[ONES] += 1.0
    elif c == 2.0:
        pair[ONES] -= 1.0


@kernel
def add_copies(pair, c):
    """Put all c copies of an outcome into the bag of its pair, which did not hold it."""
    pair[VISITS] += c
    pair[SQUARES] += c * c
    if c > 0.0:
        pair[DIFFERENT] += 1.0
    if c == 1.0:
        pair[ONES] += 1.0


@kernel
def take_from_bag(pair, c):
    """Undo `add_to_bag`."""
    pair[VISITS] -= 1.0
    pair[SQUARES] -= 2.0 * c - 1.0
    if c == 1.0:
        pair[DIFFERENT] -= 1.0
        pair[ONES] -= 1.0
    elif c == 2.0:
        pair[ONES] += 1.0


@kernel
def stake(sums, place, injection, factor):
    """One more start, and one more bet for all starts: R <- (R + injection) e; returns R. Changes the sum."""
    total = (sums[place] + injection) * factor
    sums[place] = total
    return total


@kernel
def novel_factor(ones, n, c):
    """N / ones for an outcome that is new to its bag, 0 for others; 1 if all outcomes were seen twice."""
    if ones == 0.0:
        return 1.0
    return n / ones if c == 1.0 else 0.0


@kernel
def learned_factor(i, repeats, flat, n, k):
    """Learned bet number i; repeats = r N / c, flat = N / (k c), n = m; i = N_LEARNED is that of "part"."""
    prior = PRIOR_0[i] + PRIOR_1[i] * k
    return (repeats + prior * (1.0 + BASE[i] * (flat - 1.0))) / (n + prior)


@kernel
def injection_of_run(t):
    """The weight of a start at update t = 1, 2, ... of a run; the sum over all t is below 1.

    2.1 / ((t + 8) ln^2(t + 8)): as slowly as a sum can converge, so that late changes are found nearly as soon.
    """
    log = math.log(t + 8.0)
    return 2.1 / ((t + 8.0) * log * log)


@kernel
def part_factor(pair, pool, c, r, seen):
    """The factor of "part" for an outcome that will be c times in the bag and was r times in the common window.

    To be called before `weigh`. Pair and pool are those with places for it; `seen` is the number of all updates before.
    Changes the pair and the pool.
    """
    if pair[PART_EPOCH] != pool[COMMON_EPOCH]:
        pair[PART_EPOCH] = pool[COMMON_EPOCH]
        pair[PART_WINDOW] = 0.0
        pair[PART_RATIO] = 1.0
    k = pair[DIFFERENT] + 1.0 if c == 1.0 else pair[DIFFERENT]
    ratio = (pair[VISITS] + 1.0) / c
    before = pair[PART_RATIO]
    after = min(before * learned_factor(N_LEARNED, r * ratio, ratio / k, pair[PART_WINDOW], k), MOST_ODDS)
    pair[PART_RATIO] = after
    pair[PART_WINDOW] += 1.0
    factor = (1.0 - PART + PART * after) / (1.0 - PART + PART * before)
    product = pool[COMMON_PRODUCT] * factor
    pool[COMMON_PRODUCT] = min(product, MOST_ODDS)
    pool[COMMON_WINDOW] += 1.0
    if product < PATIENCE or pool[COMMON_WINDOW] > LONGEST + LONGEST_SHARE * seen:
        open_common_window(pool)
    return factor


@kernel
def open_common_window(pool):
    """All that was counted in the common window is void."""
    pool[COMMON_PRODUCT] = 1.0
    pool[COMMON_WINDOW] = 0.0
    pool[COMMON_EPOCH] += 1.0


@kernel
def weigh(pair, pool, c, r, part, injection, threshold):
    """Put an outcome into its bag, where it is c times then, and bet on it; returns a sum of the codes above.

    It was seen r times in the window, which does not hold it yet. `part` is the factor of that bet, 0 without it. With
    NEW_WINDOW the window is empty afterwards, else the caller adds the outcome to it. After an alarm the caller forgets
    pairs and pool. Changes the pair and the pool.
    """
    add_to_bag(pair, c)
    n, k = pair[VISITS], pair[DIFFERENT]
    if n == 1.0:
        open_pair(pair)
    ratio = n / c  # 1 / the share of the outcome in its bag
    flat = ratio / k
    sharp = c * n / pair[SQUARES]
    novel = novel_factor(pair[ONES], n, c)
    if part == 0.0 and c == 1.0 and k == 2.0:  # the second outcome that a pair shows to PlanningDQUCB
        flat = 1.0
        novel = 1.0
    before = pool[POOL_SUM] + injection
    share = injection / (N_BETS if part == 0.0 else N_BETS + 1)
    total = 0.0
    if part > 0.0:
        total += stake(pool, POOL_PART, share, part)
    bet = 0
    for i in range(len(FLAT)):
        total += stake(pool, bet + i, share, 1.0 + FLAT[i] * (flat - 1.0))
    bet += len(FLAT)
    for i in range(len(SHARP)):
        total += stake(pool, bet + i, share, 1.0 + SHARP[i] * (sharp - 1.0))
    bet += len(SHARP)
    for i in range(len(NOVEL)):
        total += stake(pool, bet + i, share, 1.0 + NOVEL[i] * (novel - 1.0))
    bet += len(NOVEL)
    own = 0.0
    products = 0.0
    odds = 1.0
    gained = 1.0
    for i in range(N_LEARNED):
        factor = learned_factor(i, r * ratio, flat, pair[WINDOW], k)
        total += stake(pool, bet + i, share, factor)
        own += stake(pair, SUMS + i, injection / N_LEARNED, factor)
        products += stake(pair, PRODUCTS + i, 0.0, factor)
        odds += pair[ODDS + i]
        changed = stake(pair, ODDS + i, 0.0, factor)
        gained += changed
        pair[ODDS + i] = min(max(changed, FLOOR), MOST_ODDS)
    total += stake(pool, bet + N_LEARNED, share, gained / odds)
    gain = pool[POOL_GAIN] * (total / before)
    gain = max(1.0, gain)
    pool[POOL_GAIN] = gain
    pool[POOL_VISITS] = pool[POOL_VISITS] + 1.0 if total * total > threshold else 0.0
    pool[POOL_SUM] = total
    pool[PAIR_SUM] = own
    result = 0
    if own > threshold and products > GAIN * N_LEARNED:
        result += PAIR_ALARM
    if total > threshold and gain > GAIN:
        result += POOL_ALARM
    if result > 0:
        return result
    if products < PATIENCE * N_LEARNED or pair[WINDOW] > LONGEST + LONGEST_SHARE * n:
        result += NEW_WINDOW
        pair[WINDOW] = 0.0
        pair[EPOCH] += 1.0
        for i in range(N_LEARNED):
            pair[PRODUCTS + i] = 1.0
    else:
        pair[WINDOW] += 1.0
    return result
