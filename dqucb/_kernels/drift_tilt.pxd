# The surprise of all pairs together: one tilt of all their laws; the second test of drift_pairs.
#
# Every law p becomes p^(1 - d) / Z with the same d: d > 0 flattens the laws (more slips, more noise), d < 0 sharpens them. With
# x = -ln p(s') minus its mean under p and V its variance, the log likelihood ratio of d against 0 is d x - V d^2 / 2, to second
# order. d is what the last MEMORY transitions say, sum x / (sum V + SHRINK), known before s' is, so that the ratio is a
# predictive one: it needs no allowance, looks both ways and adapts to the size of the change.
#
# PlanningDQUCB (learners/planning/surprise.py) tests two fixed tilts of the same family, 1/2 and 2, with a threshold from theory: an agent
# must act soon on large changes and has no burn-in. Here small changes count, and the stream gives the threshold.
#
# The laws are shares of counts, so that x is not zero on average. At pairs visited less than YOUNG times its mean is learned for
# each number of visits, and so is the share of V that is seen in x (at a pair with one visit nearly every outcome is new, and x
# says less than V promises). Classes of visits would not do: what is usual in a class changes as its pairs grow older. Later the
# mean is `slope` times k / n with k outcomes in n visits, the order of the first term in 1/n ((k - 1) / n for k that are all
# known). The slope is learned while n < OLD only. Were it learned on, it would learn the new world, too.

from libc.math cimport sqrt

from dqucb._kernels.cusum cimport dq_cusum, dq_cusum_add

cdef extern from *:
    """
    #define DQ_TILT_KEEP 0.995  /* 1 - 1 / MEMORY */
    #define DQ_TILT_SHRINK 10.0
    #define DQ_TILT_LARGEST 1.0  /* |d|: all laws flat */
    #define DQ_TILT_LEAST 0.6  /* mean excess: maxima of cycles with a small d say too little about the tail, e^-h in theory */
    #define DQ_TILT_PACE 2.0
    #define DQ_CLASSES (DQ_YOUNG - 1)  /* visits: 1, 2, ..., 31 */
    #define DQ_YOUNG 32
    #define DQ_LEARNING 16
    #define DQ_OLD 256
    """
    const double KEEP "DQ_TILT_KEEP"
    const double SHRINK "DQ_TILT_SHRINK"
    const double LARGEST "DQ_TILT_LARGEST"
    const double DQ_TILT_LEAST
    const double PACE "DQ_TILT_PACE"
    enum: DQ_CLASSES
    const long long YOUNG "DQ_YOUNG"
    const long long LEARNING "DQ_LEARNING"
    const long long OLD "DQ_OLD"

cdef enum:
    DQ_TILT_NUMBERS = 7 + 4 * DQ_CLASSES

cdef struct dq_tilt:
    dq_cusum sum
    double asked  # its share of the false alarms
    double gain  # of x, forgetting
    double information  # of V, forgetting
    double whole  # sum of V
    double slope, products, squares  # of the mean of x in k / n: products / squares
    double[DQ_CLASSES] usual
    double[DQ_CLASSES] weight
    double[DQ_CLASSES] squared  # sum of x^2
    double[DQ_CLASSES] assumed  # sum of V


cdef inline bint dq_tilt_add(dq_tilt *tilt, double x, double variance, long long n, double share, double now) noexcept nogil:
    """One transition of a pair with n > 0 visits and `share` = k / n; whether the sum now exceeds its threshold."""
    cdef bint exceeded
    cdef double d, raw = x
    cdef int age
    if n < YOUNG:
        age = <int>n - 1
        x -= tilt.usual[age]
        tilt.weight[age] += 1.0
        tilt.usual[age] += (raw - tilt.usual[age]) / tilt.weight[age]
        tilt.assumed[age] += variance
        variance *= tilt.squared[age] / tilt.assumed[age]
        tilt.squared[age] += x * x
        if tilt.weight[age] <= 16.0:
            tilt.sum.updates += 1.0  # the rate that is asked for is one per update, tested or not
            return False
    else:
        x -= tilt.slope * share
    if (n >= LEARNING) & (n < OLD):
        tilt.products += raw * share
        tilt.squares += share * share
        tilt.slope = tilt.products / tilt.squares
    d = tilt.gain / (tilt.information + SHRINK)
    d = d if d < LARGEST else LARGEST
    d = d if d > -LARGEST else -LARGEST
    tilt.gain = KEEP * tilt.gain + x
    tilt.information = KEEP * tilt.information + variance
    tilt.whole += variance
    exceeded = dq_cusum_add(&tilt.sum, d * (x - 0.5 * d * variance), now, tilt.asked)
    # While d is small the sum lingers just above zero: a change is dated by the last time that it was below one.
    tilt.sum.start = tilt.sum.start if tilt.sum.level > 1.0 else now + 1.0
    return exceeded


cdef inline double dq_tilt_pace(const dq_tilt *tilt, long long seen) noexcept nogil:
    """Square root of V per update in the past over V of late: below 1 where a sum is livelier than the maxima that judge it.

    Its square, as if maxima were as many as V is large, gave too few false alarms while thousands of pairs are met.
    """
    cdef double late = tilt.information * (1.0 - KEEP), past = tilt.whole / seen
    if past > PACE * PACE * late:
        return PACE
    if past * PACE * PACE < late:
        return 1.0 / PACE
    return sqrt(past / late) if late > 0.0 else 1.0


cdef inline void dq_tilt_write(const dq_tilt *tilt, double *out) noexcept nogil:
    """All DQ_TILT_NUMBERS numbers but those of the sum, in order."""
    cdef int i
    out[0], out[1], out[2], out[3], out[4] = tilt.gain, tilt.information, tilt.slope, tilt.products, tilt.squares
    out[5], out[6] = tilt.asked, tilt.whole
    for i in range(DQ_CLASSES):
        out[7 + i], out[7 + DQ_CLASSES + i] = tilt.usual[i], tilt.weight[i]
        out[7 + 2 * DQ_CLASSES + i], out[7 + 3 * DQ_CLASSES + i] = tilt.squared[i], tilt.assumed[i]


cdef inline void dq_tilt_read(dq_tilt *tilt, const double *values) noexcept nogil:
    """The inverse of dq_tilt_write."""
    cdef int i
    tilt.gain, tilt.information, tilt.slope = values[0], values[1], values[2]
    tilt.products, tilt.squares, tilt.asked, tilt.whole = values[3], values[4], values[5], values[6]
    for i in range(DQ_CLASSES):
        tilt.usual[i], tilt.weight[i] = values[7 + i], values[7 + DQ_CLASSES + i]
        tilt.squared[i], tilt.assumed[i] = values[7 + 2 * DQ_CLASSES + i], values[7 + 3 * DQ_CLASSES + i]
