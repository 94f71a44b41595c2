# Outcomes that a known pair never had: the third test of drift_pairs.
#
# What is new at a pair with n visits has, as long as visits may be exchanged, a chance of about ones / n, where `ones` outcomes
# were seen once (Good 1953). p is this chance times a factor that the stream teaches, (new ones + 1/2) over (the sum of
# max(ones, 1) / n + SURE), apart for pairs with and without such outcomes: without any, max gives 1 / n, and the factor is small.
#
# The sum is that of ln q / p for "new" and ln (1 - q) / (1 - p) for "not new", where q is the share of new ones since the sum was
# last zero, with a prior of ALPHA in ALPHA / FIRST visits, and at least FACTOR times p: that p is somewhat too small is no change
# of the world. q is known before the outcome is, so that in a still world the sum exceeds h at most e^-h times per update
# in theory (Lorden 1971). It was 0.25 e^-h on streams with long tails and less than 0.05 e^-h on others, since few outcomes begin
# a cycle: the threshold is that for SPENT times the theory. No maxima are needed, of which there are none where nothing new ever came.
#
# A pair that is met for the first time is not tested, so that another policy is no alarm.

from libc.math cimport exp, log

cdef extern from *:
    """
    #define DQ_NEW_ALPHA 0.5
    #define DQ_NEW_FIRST 0.05
    #define DQ_NEW_FACTOR 6.0
    #define DQ_NEW_MOST 0.9
    #define DQ_NEW_SPENT 0.5
    """
    const double ALPHA "DQ_NEW_ALPHA"
    const double FIRST "DQ_NEW_FIRST"
    const double FACTOR "DQ_NEW_FACTOR"
    const double MOST "DQ_NEW_MOST"
    const double SPENT "DQ_NEW_SPENT"

cdef enum:
    DQ_NEW_NUMBERS = 8

cdef struct dq_new:
    double level, threshold
    double start  # the time at which the running cycle began
    double found, visits  # new outcomes and visits since then
    double[2] came  # new outcomes so far, at pairs without and with outcomes seen once
    double[2] expected  # sum of max(ones, 1) / n


cdef inline void dq_new_clear(dq_new *test, double asked) noexcept nogil:
    test.level = test.start = test.found = test.visits = 0.0
    test.came[0], test.came[1], test.expected[0], test.expected[1] = 0.5, 0.5, 1.0, 0.5
    test.threshold = log(SPENT / asked)


cdef inline bint dq_new_add(dq_new *test, bint new, int ones, double inverse, double now) noexcept nogil:
    """One visit of a pair with 1 / `inverse` visits before; whether the sum now exceeds its threshold."""
    cdef int kind = ones > 0
    cdef double share = ones * inverse if ones > 0 else inverse, p, q
    if not new and test.level == 0.0:  # nearly always
        test.expected[kind] += share
        return False
    p = test.came[kind] / test.expected[kind] * share
    p = p if p < MOST else MOST
    q = (test.found + ALPHA) / (test.visits + ALPHA / FIRST)
    q = q if q > FACTOR * p else FACTOR * p
    q = q if q < MOST else MOST
    test.start = test.start if test.level > 0.0 else now
    test.level += log(q / p) if new else log((1.0 - q) / (1.0 - p))
    test.found += new
    test.visits += 1.0
    test.came[kind] += new
    test.expected[kind] += share
    if test.level <= 0.0:
        test.level = test.found = test.visits = 0.0
    return test.level > test.threshold


cdef inline void dq_new_restart(dq_new *test) noexcept nogil:
    """Begin a cycle at zero."""
    test.level = test.found = test.visits = 0.0


cdef inline double dq_new_rate(const dq_new *test) noexcept nogil:
    """Bound of how often per update such a sum is seen in a still world."""
    return exp(-test.level) * SPENT if test.level > 0.0 else 1.0


cdef inline void dq_new_write(const dq_new *test, double *out) noexcept nogil:
    """All DQ_NEW_NUMBERS numbers but the threshold, in order."""
    out[0], out[1], out[2], out[3] = test.level, test.start, test.found, test.visits
    out[4], out[5], out[6], out[7] = test.came[0], test.came[1], test.expected[0], test.expected[1]


cdef inline void dq_new_read(dq_new *test, const double *values) noexcept nogil:
    """The inverse of dq_new_write."""
    test.level, test.start, test.found, test.visits = values[0], values[1], values[2], values[3]
    test.came[0], test.came[1], test.expected[0], test.expected[1] = values[4], values[5], values[6], values[7]
