"""Three tests on finite transitions; the heart of FiniteDriftDetector.

Outcomes of a pair (s, a) are next states, kept with their counts in SLOTS places; what comes after these is one outcome
"other". With c the count of an outcome among n visits, BETA that of all outcomes never seen:

    pair   per pair, a sum of ln q(s') / p(s'): p from all counts of the pair, q from those of the running cycle (c1 of n1),
           q = (c1 + KAPPA p) / (n1 + KAPPA + BETA). Both are known before s' is, so that the sum is the likelihood ratio of two
           samples against one, in its predictive form: p, which knows more, wins unless something changed. The
           maxima of the cycles of all pairs give one threshold. It finds a pair that changed among many that did not.
    pooled one predictive ratio for all pairs together: their laws have become flatter or sharper (drift_tilt.pxd). It finds
           changes that are spread over many pairs, small ones and rarely visited ones.
    novelty a ratio for outcomes that known pairs never had (drift_novelty.pxd). Two of them may be enough.

The two-sample ratio of PlanningDQUCB (`ratio_test.py`) is another formula: a maximised ratio, looked at when a sample has doubled, with
a threshold from theory. Here every transition is a look, so that each factor must be known before its outcome is.
"""

cimport cython
from libc.math cimport exp, log
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from dqucb._kernels.cusum cimport (
    DQ_LARGEST, DQ_NUMBERS, dq_cusum, dq_cusum_calibrate, dq_cusum_clear, dq_cusum_keep, dq_cusum_rate, dq_cusum_read,
    dq_cusum_restart, dq_cusum_shown, dq_cusum_write,
)
from dqucb._kernels.drift_novelty cimport (
    DQ_NEW_NUMBERS, dq_new, dq_new_add, dq_new_clear, dq_new_rate, dq_new_read, dq_new_restart, dq_new_write,
)
from dqucb._kernels.drift_tilt cimport (
    DQ_TILT_LEAST, DQ_TILT_NUMBERS, dq_tilt, dq_tilt_add, dq_tilt_pace, dq_tilt_read, dq_tilt_write,
)

from operator import index

import numpy as np

NUMBERS = ("logs", "squared_logs", "ratio", "peak", "start")  # of a pair, in files

cdef enum:
    SLOTS = 14
    LONGEST = 1 << 26  # visits of a pair in one cycle, which `newer` counts in 32 bits
    TABLE = 16384

LONGEST_CYCLE = LONGEST  # for those who check files

cdef extern from *:
    """
    #define DQ_BETA 0.5
    #define DQ_LOG_BETA -0.6931471805599453
    #define DQ_LN2 0.6931471805599453
    #define DQ_KAPPA 2.0
    #define DQ_PATIENCE 0.36787944117144233  /* a ratio of 1/e ends a cycle of a pair: one unlikely outcome does not */
    #define DQ_REFERENCE 8  /* visits before a pair is tested */
    #define DQ_PAIR_LEAST 0.75  /* mean excess: the longest cycles of rare pairs, with the largest maxima, end last */
    #define DQ_KNOWN 4  /* visits after which an outcome can be called new */
    #if defined(__GNUC__) || defined(__clang__)
    #define dq_log2(n) (63 - __builtin_clzll((unsigned long long)(n)))
    #else
    static int dq_log2(long long n) { int digits = 0; while (n >> (digits + 1)) digits++; return digits; }
    #endif
    """
    int dq_log2(long long n) noexcept nogil
    const double BETA "DQ_BETA"
    const double LOG_BETA "DQ_LOG_BETA"
    const double LN2 "DQ_LN2"
    const double KAPPA "DQ_KAPPA"
    const double PATIENCE "DQ_PATIENCE"
    const int REFERENCE "DQ_REFERENCE"
    const double LEAST "DQ_PAIR_LEAST"
    const int KNOWN "DQ_KNOWN"


cdef struct pair_t:
    int[SLOTS] outcome  # -1 where none is kept yet
    int[SLOTS] newer  # c1
    long long[SLOTS] count  # c, of all visits
    int k, n_newer, ones  # ones: outcomes with c = 1
    long long n
    double logs, squared_logs  # sums of c ln c and c (ln c)^2
    double ratio, peak, start  # ratio: exp of the pair's sum, 1 between cycles; peak: its largest value

cdef double[TABLE] LOGS
cdef int _i
LOGS[0] = 0.0
for _i in range(1, TABLE):
    LOGS[_i] = log(<double>_i)


cdef inline void logs_of(long long n, double *log_n, double *log_next) noexcept nogil:
    """ln n, 0 for n = 0, and ln (n + 1), both to the last digits."""
    cdef int shift
    cdef double inverse, u
    if n < TABLE - 1:
        log_n[0], log_next[0] = LOGS[n], LOGS[n + 1]
        return
    inverse = 1.0 / <double>n
    shift = dq_log2(n) - 13  # n = (8192 to 16383) 2^shift / (1 - u)
    u = <double>(n & ((1LL << shift) - 1)) * inverse
    log_n[0] = LOGS[n >> shift] + shift * LN2 + u * (1.0 + u * (0.5 + u * (1.0 / 3.0)))
    log_next[0] = log_n[0] + inverse * (1.0 - inverse * (0.5 - inverse * (1.0 / 3.0)))


@cython.final
cdef class PairTest:
    """The tests for `n_states` x `n_actions` pairs and outcomes in [0, n_outcomes); arguments are validated by the caller."""

    cdef pair_t *pairs
    cdef readonly Py_ssize_t n_pairs, n_actions, n_states
    cdef readonly long long seen, burn_in
    cdef readonly int channel
    cdef readonly long long pair  # of the last alarm
    cdef Py_ssize_t best  # the pair with the largest sum
    cdef bint rewards
    cdef double rate
    cdef long long tested  # visits at which pairs were tested alone
    cdef double notable  # ratios below this one are no news: they exceed no threshold and are not kept
    cdef dq_cusum pool
    cdef dq_tilt tilt
    cdef dq_new novelty

    def __cinit__(self, Py_ssize_t n_states, Py_ssize_t n_actions, bint rewards, long long burn_in, double rate):
        cdef Py_ssize_t i, j
        self.n_states, self.n_actions, self.n_pairs = n_states, n_actions, n_states * n_actions
        self.rewards, self.burn_in, self.rate = rewards, burn_in, rate / 2.0
        self.pairs = <pair_t *>malloc(self.n_pairs * sizeof(pair_t))
        if self.pairs == NULL:
            raise MemoryError(f"no memory for {self.n_pairs} pairs")
        memset(self.pairs, 0, self.n_pairs * sizeof(pair_t))
        for i in range(self.n_pairs):
            self.pairs[i].ratio = self.pairs[i].peak = 1.0
            for j in range(SLOTS):
                self.pairs[i].outcome[j] = -1
        self.notable, self.pair = 1.0, -1
        memset(&self.tilt, 0, sizeof(self.tilt))
        self.tilt.asked = self.rate
        dq_cusum_clear(&self.pool, 0.0, LEAST, 0.0)
        dq_cusum_clear(&self.tilt.sum, 0.0, DQ_TILT_LEAST, 1.0)
        dq_new_clear(&self.novelty, rate)

    def __dealloc__(self):
        free(self.pairs)

    @property
    def nbytes(self):
        """Bytes held for counts: fixed from the start."""
        return self.n_pairs * sizeof(pair_t)

    cdef inline int step(self, long long row, int outcome, double now) noexcept nogil:
        """One transition: 0, or 1 + the number of the test that gives an alarm."""
        cdef pair_t *pair = &self.pairs[row]
        cdef int i = 0, j, alarm = 0
        cdef bint new = False
        cdef long long n = pair.n, c
        cdef double inverse, mean, gap, variance, log_c, log_next
        self.seen += 1
        if (self.seen & 255) == 0:  # pairs that are too rare to be tested alone leave their false alarms to the pooled test
            self.tilt.asked = self.rate * (2.0 - <double>self.tested / self.seen) * dq_tilt_pace(&self.tilt, self.seen)
        for j in range(SLOTS):  # all of them, added up: this takes a few instructions, and no branch that depends on chance
            i += j + 1 if pair.outcome[j] == outcome else 0
        i -= 1
        if i < 0:
            i = pair.k
            if i == SLOTS:
                i = SLOTS - 1  # "other"
            else:
                pair.k += 1
                pair.outcome[i] = outcome
                new = True
                if pair.k == SLOTS:
                    self.begin_other(pair)
                    n = 0
        c = pair.count[i]
        logs_of(c, &log_c, &log_next)
        if n > 0:
            if self.seen == self.burn_in + 1:  # what began in the burn-in is no alarm
                dq_cusum_restart(&self.tilt.sum, now)
                dq_new_restart(&self.novelty)
            inverse = 1.0 / n
            mean = pair.logs * inverse
            gap = mean - LOG_BETA  # the surprise of an outcome never seen, which has BETA counts
            variance = (pair.squared_logs + BETA * gap * gap) * inverse - mean * mean
            # With all places taken, what is new cannot be told from "other"
            if (n >= KNOWN) & (pair.k < SLOTS):
                alarm = 3 * dq_new_add(&self.novelty, new, pair.ones, inverse, now)
            if dq_tilt_add(&self.tilt, mean - log_c if c > 0 else gap, variance, n, pair.k * inverse, now):
                alarm = 2
            if n - pair.n_newer >= REFERENCE and self.test_pair(pair, i, now):
                alarm = 1
        else:
            self.tilt.sum.updates += 1.0
        pair.logs += (c + 1) * log_next - c * log_c
        pair.squared_logs += (c + 1) * log_next * log_next - c * log_c * log_c
        pair.count[i] += 1
        if c < 2:  # hardly ever
            pair.ones += 1 - 2 * <int>c
        pair.n += 1
        if alarm > 0 and self.seen <= self.burn_in:
            alarm = 0
        if alarm > 0:
            self.channel, self.pair = alarm - 1, row
        return alarm

    cdef inline bint test_pair(self, pair_t *pair, int i, double now) noexcept nogil:
        """ln q / p for outcome i, added to the pair's own sum; counts it among the newer ones."""
        cdef double c = <double>pair.count[i] if pair.count[i] > 0 else BETA, factor, before = pair.peak
        cdef Py_ssize_t row = pair - self.pairs
        self.tested += 1
        # q / p with p = c / (n + BETA), by one division; the first outcome of a cycle only begins it
        factor = (pair.newer[i] * (<double>pair.n + BETA) + KAPPA * c) / (c * (pair.n_newer + KAPPA + BETA))
        pair.ratio *= factor if pair.n_newer > 0 else 1.0
        pair.start = pair.start if pair.n_newer > 0 else now
        if pair.ratio < PATIENCE or pair.n_newer >= LONGEST:
            self.end_cycle(pair)
            return False
        pair.newer[i] += 1
        pair.n_newer += 1
        pair.ratio = pair.ratio if pair.ratio < 1e300 else 1e300
        pair.peak = pair.ratio if pair.ratio > before else before
        self.best = row if pair.ratio > self.pairs[self.best].ratio else self.best
        if (pair.ratio > self.notable) & (pair.ratio > before) & (pair.ratio > 2.0):  # else the threshold is not worth its logarithms
            dq_cusum_calibrate(&self.pool, self.rate)
            if log(pair.ratio) > self.pool.threshold:
                if self.seen > self.burn_in:
                    self.pool.level, self.pool.start = log(pair.ratio), pair.start
                    return True
                self.end_cycle(pair)  # what happens in the burn-in is no alarm, and counts like any other cycle
        return False

    cdef void begin_other(self, pair_t *pair) noexcept nogil:
        """The last place is taken, by what is now "other": it could not be counted before, so that all counts begin anew."""
        if pair.n_newer > 0:
            self.end_cycle(pair)
        memset(pair.count, 0, sizeof(pair.count))
        pair.n, pair.ones, pair.logs, pair.squared_logs = 0, 0, 0.0, 0.0

    cdef void end_cycle(self, pair_t *pair) noexcept nogil:
        self.pool.cycles += <double>(pair.peak > 1.0)
        self.pool.updates += pair.n_newer + 1.0
        if pair.peak > self.notable:
            dq_cusum_keep(&self.pool, log(pair.peak))
            self.notable = exp(self.pool.largest[DQ_LARGEST - 1])
        memset(pair.newer, 0, sizeof(pair.newer))
        pair.n_newer = 0
        pair.ratio = pair.peak = 1.0

    cdef int read(self, object value, str name, Py_ssize_t size) except -1:
        cdef Py_ssize_t number
        try:
            number = index(value)
        except TypeError:
            raise ValueError(f"{name} must be an integer in [0, {size - 1}], got {value!r}") from None
        except OverflowError:
            number = -1
        if number < 0 or number >= size:
            raise ValueError(f"{name} must be an integer in [0, {size - 1}], got {value!r}")
        return <int>number

    def update(self, state, action, next_state, reward, double now):
        """One transition; an error leaves the tests as they were."""
        cdef int s = self.read(state, "state", self.n_states)
        cdef int a = self.read(action, "action", self.n_actions)
        cdef int following = self.read(next_state, "next_state", self.n_states)
        cdef double r
        if self.rewards:
            try:
                r = reward
            except (TypeError, ValueError):
                raise ValueError(f"reward must be a finite number, got {reward!r}: this detector watches the reward") from None
            if not (r - r == 0.0):
                raise ValueError(f"reward must be a finite number, got {reward!r}")
            following = 2 * following + (r != 0.0)
        return self.step(<long long>s * self.n_actions + a, following, now)

    def update_rows(self, const long long[::1] rows, const int[::1] outcomes, double now):
        """Validated transitions, row = state * n_actions + action, up to the first alarm: (how many, alarm)."""
        cdef Py_ssize_t i
        cdef int alarm = 0
        with nogil:
            for i in range(rows.shape[0]):
                alarm = self.step(rows[i], outcomes[i], now + i)
                if alarm:
                    break
            else:
                i = rows.shape[0] - 1
        return i + 1, alarm

    cdef double pair_level(self, Py_ssize_t i) noexcept nogil:
        return log(self.pairs[i].ratio) if self.pairs[i].n_newer > 0 else 0.0

    @property
    def levels(self):
        """(sum, threshold, rate of such sums in a still world, start, increments, cycles) of each test.

        That of the pairs is the largest among those visited since the cycle of the last largest one ended.
        """
        self.pool.level, self.pool.start = max(0.0, self.pair_level(self.best)), self.pairs[self.best].start
        dq_cusum_calibrate(&self.pool, self.rate)
        return [
            (self.pool.level, self.pool.threshold, dq_cusum_rate(&self.pool, self.pool.level), self.pool.start,
             self.pool.updates, self.pool.cycles),
            (self.tilt.sum.level, dq_cusum_shown(&self.tilt.sum, self.tilt.asked), dq_cusum_rate(&self.tilt.sum, self.tilt.sum.level),
             self.tilt.sum.start, self.tilt.sum.updates, self.tilt.sum.cycles),
            (self.novelty.level, self.novelty.threshold, dq_new_rate(&self.novelty), self.novelty.start, self.seen, 0.0),
        ]

    @property
    def evidence(self):
        """Surplus of the pair's own sum, by pair: an array (n_states, n_actions)."""
        values = np.zeros(self.n_pairs)
        for i in range(self.n_pairs):
            values[i] = self.pair_level(i)
        return values.reshape(self.n_states, self.n_actions)

    def state(self):
        """All that `restore` needs, as arrays by name; one row for each pair."""
        cdef Py_ssize_t i, j
        cdef int[:, ::1] outcome = np.zeros((self.n_pairs, SLOTS), np.int32), newer = np.zeros((self.n_pairs, SLOTS), np.int32)
        cdef long long[:, ::1] count = np.zeros((self.n_pairs, SLOTS), np.int64)
        cdef int[::1] used = np.zeros(self.n_pairs, np.int32)
        cdef double[:, ::1] numbers = np.zeros((len(NUMBERS), self.n_pairs)), sums = np.zeros((2, DQ_NUMBERS))
        cdef double[::1] tilt = np.zeros(DQ_TILT_NUMBERS), novelty = np.zeros(DQ_NEW_NUMBERS)
        for i in range(self.n_pairs):
            used[i] = self.pairs[i].k
            for j in range(SLOTS):
                outcome[i, j], newer[i, j] = max(self.pairs[i].outcome[j], 0), self.pairs[i].newer[j]
                count[i, j] = self.pairs[i].count[j]
            numbers[0, i], numbers[1, i] = self.pairs[i].logs, self.pairs[i].squared_logs
            numbers[2, i], numbers[3, i], numbers[4, i] = self.pairs[i].ratio, self.pairs[i].peak, self.pairs[i].start
        dq_cusum_write(&self.pool, &sums[0, 0])
        dq_cusum_write(&self.tilt.sum, &sums[1, 0])
        dq_tilt_write(&self.tilt, &tilt[0])
        dq_new_write(&self.novelty, &novelty[0])
        return {"outcome": np.asarray(outcome), "newer": np.asarray(newer), "count": np.asarray(count),
                "used": np.asarray(used), **dict(zip(NUMBERS, np.asarray(numbers))), "sums": np.asarray(sums),
                "tilt": np.asarray(tilt), "novelty": np.asarray(novelty),
                "counts": np.array([self.seen, self.channel, self.pair, self.best, self.tested], np.int64)}

    def restore(self, saved):
        """Go on from `state()` of tests with the same settings; the caller has checked types, shapes and ranges."""
        cdef Py_ssize_t i, j
        cdef const int[:, ::1] outcome = np.ascontiguousarray(saved["outcome"]), newer = np.ascontiguousarray(saved["newer"])
        cdef const long long[:, ::1] count = np.ascontiguousarray(saved["count"])
        cdef const int[::1] used = np.ascontiguousarray(saved["used"])
        cdef const double[:, ::1] sums = np.ascontiguousarray(saved["sums"]), numbers = np.array([saved[name] for name in NUMBERS])
        cdef const double[::1] tilt = np.ascontiguousarray(saved["tilt"]), novelty = np.ascontiguousarray(saved["novelty"])
        for i in range(self.n_pairs):
            self.pairs[i].k, self.pairs[i].n, self.pairs[i].n_newer, self.pairs[i].ones = used[i], 0, 0, 0
            for j in range(SLOTS):
                self.pairs[i].outcome[j], self.pairs[i].newer[j] = outcome[i, j] if j < used[i] else -1, newer[i, j]
                self.pairs[i].count[j] = count[i, j]
                self.pairs[i].n += count[i, j]
                self.pairs[i].ones += count[i, j] == 1
                self.pairs[i].n_newer += newer[i, j]
            self.pairs[i].logs, self.pairs[i].squared_logs = numbers[0, i], numbers[1, i]
            self.pairs[i].ratio, self.pairs[i].peak, self.pairs[i].start = numbers[2, i], numbers[3, i], numbers[4, i]
        dq_cusum_read(&self.pool, &sums[0, 0])
        dq_cusum_read(&self.tilt.sum, &sums[1, 0])
        dq_tilt_read(&self.tilt, &tilt[0])
        dq_new_read(&self.novelty, &novelty[0])
        self.seen, self.channel, self.pair, self.best, self.tested = saved["counts"]
        self.notable = exp(self.pool.largest[DQ_LARGEST - 1])
