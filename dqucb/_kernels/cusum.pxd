# A level that learns its own threshold.
#
# The level is the logarithm of a sum of likelihood ratios: it is set, not added to. A cycle lasts while it is above zero, and only the
# largest maximum of each block of updates counts: what lies within a block may depend on each other. Let u be the k-th largest of
# these maxima and S the sum of the excesses of the k largest over u. The tail is exponential with a mean excess of 1 if the ratios are
# right; a prior of RATIO_PRIOR such excesses stands for that, and where the mean excess is larger nevertheless the tail is taken to be
# heavier than exponential. The chance that a maximum above u exceeds h is (1 + (h - u) / S)^-n, the predictive law of exponential
# draws. The threshold makes (maxima above u per update) times this chance equal to the rate of false alarms that was asked for.

from libc.math cimport pow

cdef enum:
    DQ_LARGEST = 24  # maxima that are kept
    DQ_NUMBERS = 8 + DQ_LARGEST

cdef struct dq_cusum:
    double level
    double peak  # maximum of the running cycle
    double cycles  # blocks with a maximum
    double updates
    double start  # the time at which the running cycle began
    double block  # updates
    double until  # updates at which the running block ends
    double pending  # the largest maximum in it
    double[DQ_LARGEST] largest  # maxima of blocks, falling


cdef inline void dq_cusum_clear(dq_cusum *c, double block) noexcept nogil:
    cdef int i
    c.block, c.until, c.pending = block, block, 0.0
    c.level = c.peak = c.cycles = c.updates = c.start = 0.0
    for i in range(DQ_LARGEST):
        c.largest[i] = 0.0


cdef inline void dq_cusum_keep(dq_cusum *c, double maximum) noexcept nogil:
    """Keep a maximum among the largest."""
    cdef int i = DQ_LARGEST - 1
    if maximum > c.largest[i]:
        while i > 0 and c.largest[i - 1] < maximum:
            c.largest[i] = c.largest[i - 1]
            i -= 1
        c.largest[i] = maximum


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
        c.pending = c.peak if c.peak > c.pending else c.pending
        c.level = c.peak = 0.0
        c.start = now + 1.0
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


cdef inline void dq_cusum_write(const dq_cusum *c, double *out) noexcept nogil:
    """All DQ_NUMBERS numbers, in order."""
    cdef int i
    out[0], out[1], out[2], out[3] = c.level, c.peak, c.cycles, c.updates
    out[4], out[5], out[6], out[7] = c.start, c.block, c.until, c.pending
    for i in range(DQ_LARGEST):
        out[8 + i] = c.largest[i]


cdef inline void dq_cusum_read(dq_cusum *c, const double *values) noexcept nogil:
    """The inverse of dq_cusum_write."""
    cdef int i
    c.level, c.peak, c.cycles, c.updates = values[0], values[1], values[2], values[3]
    c.start, c.block, c.until, c.pending = values[4], values[5], values[6], values[7]
    for i in range(DQ_LARGEST):
        c.largest[i] = values[8 + i]
