# Cumulative sums that learn their own threshold; shared by all drift tests.
#
# W <- max(0, W + increment). The time between two zeros is a cycle. In a still world the maxima of the cycles have an
# exponential tail (Cramer and Lundberg). Let u be the k-th largest of n maxima and S the sum of the excesses of the k largest
# over u, to which a prior adds PRIOR excesses. Their mean is 1, the tail of a likelihood ratio, or variance / (-2 mean) of the
# increments if that is more (Brownian motion). The chance that a maximum above u exceeds h is then
# (1 + (h - u) / S)^-(k + PRIOR), the exact predictive law of exponential draws. The threshold makes (maxima above u per
# update) times this chance equal to the rate of false alarms that was asked for.
#
# Where increments depend on each other over `block` updates, one fall of a walker gives many cycles: then only the largest
# maximum of each block counts, the variance is that of sums over blocks, a third of these maxima make the tail (there are few of
# them) where else it is a tenth, the prior counts less (while the model is young it is too large), and the tail stays
# heavier (HEAVY excesses): rare events come that the stream has not shown yet. A sum that never left zero keeps a light one.
# Where increments are small, most cycles are tiny: `least` then bounds the mean excess m from below. Near zero the tail of such
# sums is not exponential. A Brownian motion with a negative drift that has reached u reaches h, before it returns to zero, with
# probability (e^(u/m) - 1) / (e^(h/m) - 1). With q = e^(-u/m) and E the factor e^((h - u)/m), for which the predictive law
# (1 + (h - u) / S)^(k + PRIOR) is taken, this is (1 - q) / (E - q). u counts at least SMALL: a jump is no Brownian motion.

from libc.math cimport INFINITY, copysign, exp, pow

cdef enum:
    DQ_LARGEST = 24  # maxima that are kept
    DQ_MOST = 100  # the largest mean excess that is believed before it is seen

cdef extern from *:
    """
    #define DQ_SMALL 0.25
    """
    const double SMALL "DQ_SMALL"

cdef struct dq_cusum:
    double level  # W
    double peak  # maximum of the running cycle
    double cycles  # finished cycles
    double updates  # increments so far
    double start  # the time at which the running cycle began
    double threshold
    double total  # of the increments
    double squares
    double block  # updates within which increments and cycles may depend on each other; 0: none do
    double until  # updates at which the running block ends
    double part  # sum of its increments
    double pending  # the largest maximum in it
    double least  # the smallest mean excess that is believed
    double small  # 1 if increments are small, else 0
    double[DQ_LARGEST] largest  # maxima of finished cycles, falling


cdef inline void dq_cusum_clear(dq_cusum *c, double block, double least, double small) noexcept nogil:
    cdef int i
    c.block, c.until, c.part, c.pending, c.least, c.small = block, block, 0.0, 0.0, least, small
    c.level = c.peak = c.cycles = c.updates = c.start = 0.0
    c.threshold = INFINITY
    c.total = c.squares = 0.0
    for i in range(DQ_LARGEST):
        c.largest[i] = 0.0


cdef inline void dq_cusum_tail(const dq_cusum *c, double *u, double *sum, double *n, double *rate) noexcept nogil:
    """Where the tail begins, its sum and number of excesses with the prior, and maxima above u per update."""
    cdef double PRIOR = 3.0, HEAVY = 13.0, PART = 10.0, mean, excess = 1.0
    cdef int i, k = DQ_LARGEST - 1
    if c.block > 0.0:
        PRIOR, HEAVY, PART = 0.5, 3.5, 3.0
        if c.cycles == 0.0:  # thousands of updates without a single excursion say something, too
            PRIOR = HEAVY = 6.0
    if c.cycles < PART * DQ_LARGEST:  # a number from a file may not fit an integer
        k = min(max(3, <int>(c.cycles / PART)), <int>c.cycles, DQ_LARGEST - 1)
    u[0] = c.largest[k]
    if c.total < 0.0:
        mean = c.total / c.updates
        excess = (c.squares / c.updates - mean * mean * (c.block if c.block > 0.0 else 1.0)) / (-2.0 * mean)
        if excess < 1.0:
            excess = 1.0
        elif excess > DQ_MOST:
            excess = DQ_MOST
    sum[0] = PRIOR * excess
    for i in range(k):
        sum[0] += c.largest[i] - u[0]
    n[0] = k + PRIOR
    if n[0] > HEAVY:  # the same mean excess, with the tail of HEAVY excesses
        sum[0] *= HEAVY / n[0]
        n[0] = HEAVY
    if sum[0] < c.least * n[0]:
        sum[0] = c.least * n[0]
    rate[0] = (k + 1.0) / (c.updates + 1.0)


cdef inline double dq_cusum_young(const dq_cusum *c, double u, double sum, double n) noexcept nogil:
    """e^(-u / mean excess) for a sum of small increments, else 0: how far u is from where the tail is exponential."""
    return exp(-(u if u > SMALL else SMALL) * n / sum) if c.small > 0.0 else 0.0


cdef inline double dq_cusum_rate(const dq_cusum *c, double level) noexcept nogil:
    """Cycles per update that exceed `level` in a still world; near zero it is a bound."""
    cdef double u, sum, n, rate, q
    dq_cusum_tail(c, &u, &sum, &n, &rate)
    if level <= u:
        return (c.cycles + 1.0) / (c.updates + 1.0)
    q = dq_cusum_young(c, u, sum, n)
    return rate * (1.0 - q) / (pow(1.0 + (level - u) / sum, n) - q)


cdef inline void dq_cusum_calibrate(dq_cusum *c, double asked) noexcept nogil:
    """Set the threshold for `asked` false alarms per update."""
    cdef double u, sum, n, rate, q
    dq_cusum_tail(c, &u, &sum, &n, &rate)
    if rate > asked:
        q = dq_cusum_young(c, u, sum, n)
        c.threshold = u + sum * (pow(q + (1.0 - q) * (rate / asked), 1.0 / n) - 1.0)
    else:  # more often than the tail begins: the sample's own quantile
        c.threshold = c.largest[<int>(asked * (c.updates + 1.0))] if asked * (c.updates + 1.0) < DQ_LARGEST else u


cdef inline void dq_cusum_keep(dq_cusum *c, double maximum) noexcept nogil:
    """Keep a maximum among the largest."""
    cdef int i = DQ_LARGEST - 1
    if maximum > c.largest[i]:
        while i > 0 and c.largest[i - 1] < maximum:
            c.largest[i] = c.largest[i - 1]
            i -= 1
        c.largest[i] = maximum


cdef inline void dq_cusum_finish(dq_cusum *c) noexcept nogil:
    """A cycle is over: keep its maximum, or the largest one of its block."""
    if c.block == 0.0:
        c.cycles += 1.0
        dq_cusum_keep(c, c.peak)
    elif c.peak > c.pending:
        c.pending = c.peak
    c.peak = 0.0


cdef inline void dq_cusum_close(dq_cusum *c) noexcept nogil:
    """A block is over: its sum is one of many nearly independent ones, and so is its largest maximum."""
    c.squares += c.part * c.part
    if c.pending > 0.0:
        c.cycles += 1.0
        dq_cusum_keep(c, c.pending)
    c.part = c.pending = 0.0
    c.until = c.updates + c.block


cdef inline void dq_cusum_restart(dq_cusum *c, double now) noexcept nogil:
    """End the running cycle, which counts like any other, and begin at zero."""
    if c.peak > 0.0:
        dq_cusum_finish(c)
    c.level = 0.0
    c.start = now


cdef inline void dq_cusum_skip(dq_cusum *c) noexcept nogil:
    """An update that says nothing either way: rates count it, since the one that is asked for is per update; blocks do not."""
    c.updates += 1.0
    c.until += 1.0


cdef inline bint dq_cusum_add(dq_cusum *c, double increment, double now, double asked) noexcept nogil:
    """Add one increment; whether the sum now exceeds its threshold, which follows the cycles finished so far.

    Whether a sum goes on is a coin toss, and a branch on it costs more than the rest: `goes_on` is multiplied with, and made
    from the sign so that compilers do not see a branch.
    """
    cdef double before = c.peak, level, goes_on, peak
    c.updates += 1.0
    c.total += increment
    level = c.level + increment
    goes_on = 0.5 + copysign(0.5, level - 1e-300)
    if c.block == 0.0:
        c.squares += increment * increment
        c.cycles += <double>(before > 0.0) * (1.0 - goes_on)
        if before > c.largest[DQ_LARGEST - 1] and goes_on == 0.0:
            dq_cusum_keep(c, before)
    else:
        c.part += increment
        if c.updates >= c.until:
            dq_cusum_close(c)
        peak = before * (1.0 - goes_on)
        c.pending = peak if peak > c.pending else c.pending
    peak = level if level > before else before
    c.level = level * goes_on
    c.peak = peak * goes_on
    c.start = c.start * goes_on + (now + 1.0) * (1.0 - goes_on)
    # The threshold is never below the smallest maximum that is kept. It is set once in a cycle, and in most not at all.
    if c.level > c.largest[DQ_LARGEST - 1]:
        if before <= c.largest[DQ_LARGEST - 1]:
            dq_cusum_calibrate(c, asked)
        return c.level > c.threshold
    return False


# Sums of likelihood ratios whose logarithm is the level: it is set, not added to. A cycle lasts while it is above zero. The tail
# of their maxima is exponential with a mean excess of 1 if the ratios are right; a prior of RATIO_PRIOR such excesses stands for
# that, and where the mean excess is larger nevertheless the tail is taken to be heavier than exponential.


cdef inline double dq_cusum_follow(dq_cusum *c, double level, double now) noexcept nogil:
    """Set the level. Returns the largest maximum of the block that ends with this update, or -1; the caller keeps it."""
    cdef double closed = -1.0
    c.updates += 1.0
    if c.updates >= c.until:
        closed = c.pending
        c.pending = 0.0
        c.until = c.updates + c.block
    if level > 0.0:
        c.level = level
        c.peak = level if level > c.peak else c.peak
    else:
        dq_cusum_restart(c, now + 1.0)
    return closed


cdef inline void dq_ratio_tail(const dq_cusum *c, double *u, double *sum, double *n, double *rate) noexcept nogil:
    """Where the tail begins, its sum and number of excesses with the prior, and maxima above u per update."""
    cdef double RATIO_PRIOR = 30.0, HEAVY = 4.0, PART = 3.0, excesses = 0.0
    cdef int i, k = DQ_LARGEST - 1
    if c.cycles < PART * DQ_LARGEST:
        k = min(max(3, <int>(c.cycles / PART)), <int>c.cycles, DQ_LARGEST - 1)
    u[0] = c.largest[k]
    for i in range(k):
        excesses += c.largest[i] - u[0]
    sum[0], n[0] = RATIO_PRIOR + excesses, RATIO_PRIOR + k
    if excesses > 1.5 * k + 4.0:  # 4: so few excesses may have a mean above 1.5 by chance
        sum[0], n[0] = HEAVY * (HEAVY + excesses) / (HEAVY + k), HEAVY
    rate[0] = (k + 1.0) / (c.updates + 1.0)


cdef inline double dq_ratio_threshold(const dq_cusum *c, double asked) noexcept nogil:
    """The level that is exceeded `asked` times per update."""
    cdef double u, sum, n, rate
    dq_ratio_tail(c, &u, &sum, &n, &rate)
    return u + sum * (pow(rate / asked, 1.0 / n) - 1.0) if rate > asked else u


cdef inline double dq_ratio_rate(const dq_cusum *c, double level) noexcept nogil:
    """Cycles per update that exceed `level`."""
    cdef double u, sum, n, rate
    dq_ratio_tail(c, &u, &sum, &n, &rate)
    return rate if level <= u else rate * pow(1.0 + (level - u) / sum, -n)


cdef inline double dq_cusum_shown(const dq_cusum *c, double asked) noexcept nogil:
    """The threshold of now, also in a cycle that has not needed one yet."""
    cdef dq_cusum copy = c[0]
    if c.peak <= c.largest[DQ_LARGEST - 1]:
        dq_cusum_calibrate(&copy, asked)
    return copy.threshold


cdef enum:
    DQ_NUMBERS = 14 + DQ_LARGEST


cdef inline void dq_cusum_write(const dq_cusum *c, double *out) noexcept nogil:
    """All DQ_NUMBERS numbers of the sum, in order."""
    cdef int i
    out[0], out[1], out[2], out[3] = c.level, c.peak, c.cycles, c.updates
    out[4], out[5], out[6], out[7] = c.start, c.threshold, c.total, c.squares
    out[8], out[9], out[10], out[11] = c.block, c.until, c.pending, c.part
    out[12], out[13] = c.least, c.small
    for i in range(DQ_LARGEST):
        out[14 + i] = c.largest[i]


cdef inline void dq_cusum_read(dq_cusum *c, const double *values) noexcept nogil:
    """The inverse of dq_cusum_write."""
    cdef int i
    c.level, c.peak, c.cycles, c.updates = values[0], values[1], values[2], values[3]
    c.start, c.threshold, c.total, c.squares = values[4], values[5], values[6], values[7]
    c.block, c.until, c.pending, c.part = values[8], values[9], values[10], values[11]
    c.least, c.small = values[12], values[13]
    for i in range(DQ_LARGEST):
        c.largest[i] = values[14 + i]
