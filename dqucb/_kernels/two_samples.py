"""Do two samples of a finite outcome have one distribution? Their likelihood ratio, and a threshold for it.

Counts c0 of one sample and c1 of the other, of k outcomes and sizes n0 and n1. One distribution explains both by their
pooled shares p, two explain each by its own:
    G = sum_i c0_i ln(c0_i / n0 / p_i) + sum_i c1_i ln(c1_i / n1 / p_i),  p_i = (c0_i + c1_i) / (n0 + n1).
With one distribution 2 G is nearly chi-squared with k - 1 degrees of freedom, and for any counts whatever
P(G > x + (k - 1)/2 ln n) is of the order e^-x: this is what estimating k - 1 shares from n outcomes can gain by chance
(Rissanen 1978). `threshold` is therefore ln(m / alpha) + (k - 1)/2 ln n for m streams that are tested side by side.

PlanningDQUCB compares steps of an episode with it, and ProbeRestart visits before and after. Detection of changes at a
stated rate is in `betting`.
"""

import math

from dqucb._kernels._jit import kernel


@kernel
def outcome_term(c0, c1, n0, n1):
    """What one outcome adds to G: c0 and c1 of it in samples of n0 and n1."""
    both = c0 + c1
    n = n0 + n1
    total = 0.0
    if c0 > 0.0:
        total += c0 * math.log(c0 * n / (n0 * both))
    if c1 > 0.0:
        total += c1 * math.log(c1 * n / (n1 * both))
    return total


@kernel
def log_ratio_within(all_counts, newer, n_all, n_newer, k):
    """G of the first k counts of a newer sample against what came before it; 0 if one of the two is empty.

    `all_counts` holds both samples together.
    """
    n0, n1 = float(n_all - n_newer), float(n_newer)
    if n0 <= 0.0 or n1 <= 0.0:
        return 0.0
    total = 0.0
    for i in range(k):
        c1 = float(newer[i])
        total += outcome_term(all_counts[i] - c1, c1, n0, n1)
    return total


@kernel
def threshold(level, k, n):
    """`level` + (k - 1)/2 ln n, for k outcomes and samples of n together."""
    return level + 0.5 * (k - 1) * math.log(n)


@kernel
def is_power_of_two(n):
    """Samples are tested at these sizes: often while they are small, and ln n times in all."""
    return n > 0 and (n & (n - 1)) == 0
