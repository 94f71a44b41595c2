"""When and where did a finite process change, and was it like this before? Asked once, after an alarm.

The last updates are taken back one by one. With t the start of a change, each bet of `betting` has a product over the
updates since t; learned bets predict alike in any order, so that they can be computed backwards too, for each pair. If
a share pi of the pairs has changed, the product over pairs is prod_x (1 - pi + pi B_x), B_x the mean of the learned
products of pair x. The mean over bets and shares, as a function of t, is proportional to the posterior of t (Shiryaev
1963).

`evidence_of` compares what was seen since an alarm with the counts of an earlier environment: the likelihood of
outcomes with a Dirichlet prior of SMOOTHING plus these counts.
"""

import math

from dqucb._kernels import betting
from dqucb._kernels._jit import kernel
from dqucb._kernels.betting import DIFFERENT, FLAT, N_LEARNED, NOVEL, ONES, SHARP, SQUARES, VISITS
from dqucb._kernels.drift_finite import COUNT, KEY, OUTCOME_BITS, place_of

SHARES = (0.01, 0.1, 0.5, 0.99)  # pi
N_FIXED = len(FLAT) + len(SHARP) + len(NOVEL)
SMOOTHING = 0.5


@kernel
def take_back(slots, pairs, ring, seen, scores, after, taken, ratios, logs):
    """Take back the last len(scores) updates; scores[i] is the log posterior of a change at the i-th of them.

    `pairs` is a copy whose bags become those of then. `after` counts each outcome of the table and `taken` each pair
    among the updates taken back; ratios[x] are the logarithms of the learned products of pair x. All begin with zeros,
    as does `logs`, (N_FIXED + len(SHARES),).
    """
    for i in range(scores.shape[0]):
        key = ring[(seen - 1 - i) & (ring.shape[0] - 1)]
        place, row = place_of(slots, key), key >> OUTCOME_BITS
        pair = pairs[row]
        c = float(slots[place, COUNT] - after[place])
        n, k = pair[VISITS], pair[DIFFERENT]
        ratio = n / c
        flat = ratio / k
        add_fixed(logs, flat, c * n / pair[SQUARES], betting.novel_factor(pair[ONES], n, c))
        old = log_mean_exp(ratios[row])
        for j in range(N_LEARNED):
            ratios[row, j] += math.log(betting.learned_factor(j, after[place] * ratio, flat, float(taken[row]), k))
        new = log_mean_exp(ratios[row])
        for j in range(len(SHARES)):
            logs[N_FIXED + j] += changed(SHARES[j], new) - changed(SHARES[j], old)
        scores[scores.shape[0] - 1 - i] = log_mean_exp(logs)
        after[place] += 1
        taken[row] += 1
        betting.take_from_bag(pair, c)


@kernel
def add_fixed(logs, flat, sharp, novel):
    """One more update for the bets that learn nothing."""
    for i in range(len(FLAT)):
        logs[i] += math.log(1.0 + FLAT[i] * (flat - 1.0))
    for i in range(len(SHARP)):
        logs[len(FLAT) + i] += math.log(1.0 + SHARP[i] * (sharp - 1.0))
    for i in range(len(NOVEL)):
        logs[len(FLAT) + len(SHARP) + i] += math.log(1.0 + NOVEL[i] * (novel - 1.0))


@kernel
def log_mean_exp(logs):
    """ln of the mean of exp(logs)."""
    largest = logs[0]
    for i in range(logs.shape[0]):
        largest = max(largest, logs[i])
    total = 0.0
    for i in range(logs.shape[0]):
        total += math.exp(logs[i] - largest)
    return largest + math.log(total / logs.shape[0])


@kernel
def changed(share, log_ratio):
    """ln(1 - pi + pi B)."""
    if log_ratio > 0.0:
        return log_ratio + math.log(share + (1.0 - share) * math.exp(-log_ratio))
    return math.log(1.0 - share + share * math.exp(log_ratio))


@kernel
def evidence_of(outcomes, earlier, seen, known, different):
    """ln P(outcomes | like earlier) - ln P(outcomes | a new environment), both in order of their keys.

    `seen`, `known` and `different` are zeros for each pair: visits now and then, and outcomes in either.
    """
    i, j = 0, 0
    total = 0.0
    while i < outcomes.shape[0] or j < earlier.shape[0]:
        is_now = i < outcomes.shape[0] and (j == earlier.shape[0] or outcomes[i, KEY] <= earlier[j, KEY])
        is_then = j < earlier.shape[0] and (i == outcomes.shape[0] or earlier[j, KEY] <= outcomes[i, KEY])
        row = (outcomes[i, KEY] if is_now else earlier[j, KEY]) >> OUTCOME_BITS
        c = float(outcomes[i, COUNT]) if is_now else 0.0
        c0 = float(earlier[j, COUNT]) if is_then else 0.0
        total += gained(c, c0 + SMOOTHING) - gained(c, SMOOTHING)
        seen[row] += c
        known[row] += c0
        different[row] += 1.0
        i += int(is_now)
        j += int(is_then)
    for row in range(seen.shape[0]):
        if seen[row] > 0.0 and known[row] > 0.0:
            prior = SMOOTHING * different[row]
            total += gained(seen[row], prior) - gained(seen[row], known[row] + prior)
    return total


@kernel
def gained(c, prior):
    """ln Gamma(prior + c) / Gamma(prior)."""
    return math.lgamma(prior + c) - math.lgamma(prior)
