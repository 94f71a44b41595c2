"""Three tests on finite transitions; the heart of FiniteDriftDetector.

Outcomes of a pair (s, a) are next states, kept with their counts in SLOTS places; what comes after these is one outcome
"other". With c the count of an outcome among n visits, BETA that of all outcomes never seen:

    pair   per pair, a sum of ln q(s') / p(s'): p from all counts of the pair, q from those of the running cycle (c1 of n1),
           q = (c1 + KAPPA p) / (n1 + KAPPA + BETA). Both are known before s' is, so that the sum is the likelihood ratio of two
           samples against one, in its predictive form: p, which knows more, wins unless something changed. The
           maxima of the cycles of all pairs give one threshold. It finds a pair that changed among many that did not.
    up     one sum over all pairs of the surprise -ln p(s') minus the entropy of p, minus what this difference usually is
           at pairs visited as often (it is not zero while shares are still being learned). It finds
           changes that are spread over many rarely visited pairs.
    down   the same with the other sign: outcomes became more certain.
"""

from libc.math cimport exp, fmin, log
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from dqucb._kernels.cusum cimport (
    DQ_LARGEST, DQ_NUMBERS, dq_cusum, dq_cusum_add, dq_cusum_calibrate, dq_cusum_clear, dq_cusum_keep, dq_cusum_rate,
    dq_cusum_read, dq_cusum_restart, dq_cusum_shown, dq_cusum_write,
)

from operator import index

import numpy as np

cdef enum:
    SLOTS = 14
    AGES = 32  # classes of visits: powers of two; the last one has no end
    LONGEST = 1 << 26  # visits of a pair in one cycle, which `newer` counts in 32 bits
    TABLE = 4096

cdef extern from *:
    """
    #define DQ_BETA 0.5
    #define DQ_KAPPA 2.0
    #define DQ_PATIENCE 0.36787944117144233  /* a ratio of 1/e ends a cycle of a pair: one unlikely outcome does not */
    #define DQ_ALLOWANCE 0.05  /* nats per transition that are not worth an alarm */
    #define DQ_REFERENCE 8  /* visits before a pair is tested */
    #if defined(__GNUC__) || defined(__clang__)
    #define dq_log2(n) (63 - __builtin_clzll((unsigned long long)(n)))
    #else
    static int dq_log2(long long n) { int age = 0; while (n >> (age + 1)) age++; return age; }
    #endif
    """
    int dq_log2(long long n) noexcept nogil
    const double BETA "DQ_BETA"
    const double KAPPA "DQ_KAPPA"
    const double PATIENCE "DQ_PATIENCE"
    const double ALLOWANCE "DQ_ALLOWANCE"
    const int REFERENCE "DQ_REFERENCE"


cdef struct pair_t:
    int[SLOTS] outcome
    int[SLOTS] newer  # c1
    long long[SLOTS] count  # c, of all visits
    int k, n_newer
    long long n
    double c_log_c, ratio, peak, start  # ratio: exp of the pair's sum; peak: its largest value

cdef double[TABLE] LOGS
cdef double[TABLE] C_LOG_C
cdef int _i
LOGS[0] = C_LOG_C[0] = 0.0
for _i in range(1, TABLE):
    LOGS[_i] = log(<double>_i)
    C_LOG_C[_i] = _i * log(<double>_i)


cdef inline double log_of_count(long long n) noexcept nogil:
    return LOGS[n] if n < TABLE else log(<double>n)


cdef inline double c_log_c(long long n) noexcept nogil:
    return C_LOG_C[n] if n < TABLE else n * log(<double>n)


cdef class PairTest:
    """The tests for `n_states` x `n_actions` pairs and outcomes in [0, n_outcomes); arguments are validated by the caller."""

    cdef pair_t *pairs
    cdef readonly Py_ssize_t n_pairs, n_actions, n_states
    cdef readonly long long seen, burn_in
    cdef readonly int channel
    cdef readonly long long pair  # of the last alarm
    cdef Py_ssize_t best  # the pair with the largest sum
    cdef bint rewards
    cdef double rate, log_beta
    cdef double notable  # ratios below this one are no news: they exceed no threshold and are not kept
    cdef dq_cusum[3] sums
    cdef double[AGES] usual
    cdef double[AGES] weight

    def __cinit__(self, Py_ssize_t n_states, Py_ssize_t n_actions, bint rewards, long long burn_in, double rate):
        self.n_states, self.n_actions, self.n_pairs = n_states, n_actions, n_states * n_actions
        self.rewards, self.burn_in, self.rate = rewards, burn_in, rate / 3.0
        self.pairs = <pair_t *>malloc(self.n_pairs * sizeof(pair_t))
        if self.pairs == NULL:
            raise MemoryError(f"no memory for {self.n_pairs} pairs")
        memset(self.pairs, 0, self.n_pairs * sizeof(pair_t))
        memset(self.usual, 0, sizeof(self.usual))
        memset(self.weight, 0, sizeof(self.weight))
        self.log_beta, self.notable = log(BETA), 1.0
        self.pair = -1
        for i in range(3):
            dq_cusum_clear(&self.sums[i], 0.0)

    def __dealloc__(self):
        free(self.pairs)

    @property
    def nbytes(self):
        """Bytes held for counts: fixed from the start."""
        return self.n_pairs * sizeof(pair_t)

    cdef int step(self, long long row, int outcome, double now) noexcept nogil:
        """One transition: 0, or 1 + the number of the test that gives an alarm."""
        cdef pair_t *pair = &self.pairs[row]
        cdef int i = -1, j, age = 0, alarm = 0
        cdef long long n = pair.n, c
        cdef double surprise
        self.seen += 1
        for j in range(pair.k):  # to the end: a jump out of it that depends on chance costs more than the rest
            i = j if pair.outcome[j] == outcome else i
        if i < 0:
            i = pair.k
            if i == SLOTS:
                i = SLOTS - 1  # "other"
            else:
                pair.k += 1
                pair.outcome[i] = outcome
        c = pair.count[i]
        if n > 0:
            if self.seen == self.burn_in + 1:  # what began in the burn-in is no alarm
                dq_cusum_restart(&self.sums[1], now)
                dq_cusum_restart(&self.sums[2], now)
            surprise = (pair.c_log_c + BETA * self.log_beta) / (n + BETA) - (log_of_count(c) if c > 0 else self.log_beta)
            age = min(dq_log2(n), AGES - 1)
            if self.weight[age] >= 16.0:
                if dq_cusum_add(&self.sums[1], surprise - self.usual[age] - ALLOWANCE, now, self.rate):
                    alarm = 2
                if dq_cusum_add(&self.sums[2], self.usual[age] - surprise - ALLOWANCE, now, self.rate) and alarm == 0:
                    alarm = 3
            self.weight[age] += 1.0
            self.usual[age] += (surprise - self.usual[age]) / self.weight[age]
            if n - pair.n_newer >= REFERENCE and self.test_pair(pair, i, now):
                alarm = 1
        pair.count[i] += 1
        pair.n += 1
        pair.c_log_c += c_log_c(c + 1) - c_log_c(c)
        if alarm > 0 and self.seen <= self.burn_in:
            alarm = 0
        if alarm > 0:
            self.channel, self.pair = alarm - 1, row
        return alarm

    cdef bint test_pair(self, pair_t *pair, int i, double now) noexcept nogil:
        """ln q / p for outcome i, added to the pair's own sum; counts it among the newer ones."""
        cdef dq_cusum *pool = &self.sums[0]
        cdef double c = <double>pair.count[i] if pair.count[i] > 0 else BETA
        pool.updates += 1.0
        if pair.n_newer == 0:
            pair.start = now
            pair.ratio = pair.peak = 1.0
        else:  # q / p with p = c / (n + BETA), by one division
            pair.ratio *= (pair.newer[i] * (<double>pair.n + BETA) + KAPPA * c) / (c * (pair.n_newer + KAPPA + BETA))
        if pair.ratio < PATIENCE or pair.n_newer >= LONGEST:
            self.end_cycle(pair)
            return False
        pair.newer[i] += 1
        pair.n_newer += 1
        if pair.ratio > pair.peak:
            pair.peak = pair.ratio = fmin(pair.ratio, 1e300)
            if self.pairs[self.best].n_newer == 0 or pair.ratio > self.pairs[self.best].ratio:
                self.best = pair - self.pairs
            if pair.ratio > 2.0 and pair.ratio > self.notable:  # else the threshold is not worth its logarithms
                dq_cusum_calibrate(pool, self.rate)
                if log(pair.ratio) > pool.threshold:
                    if self.seen > self.burn_in:
                        pool.level, pool.start = log(pair.ratio), pair.start
                        return True
                    self.end_cycle(pair)  # what happens in the burn-in is no alarm, and counts like any other cycle
        return False

    cdef void end_cycle(self, pair_t *pair) noexcept nogil:
        cdef dq_cusum *pool = &self.sums[0]
        if pair.peak > self.notable:
            dq_cusum_keep(pool, log(pair.peak))
            self.notable = exp(pool.largest[DQ_LARGEST - 1])
        elif pair.peak > 1.0:
            pool.cycles += 1.0
        memset(pair.newer, 0, sizeof(pair.newer))
        pair.n_newer = 0

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
        self.sums[0].level, self.sums[0].start = max(0.0, self.pair_level(self.best)), self.pairs[self.best].start
        dq_cusum_calibrate(&self.sums[0], self.rate)
        shown = [self.sums[0].threshold, *(dq_cusum_shown(&self.sums[k], self.rate) for k in range(1, 3))]
        return [
            (self.sums[k].level, shown[k], dq_cusum_rate(&self.sums[k], self.sums[k].level),
             self.sums[k].start, self.sums[k].updates, self.sums[k].cycles)
            for k in range(3)
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
        cdef double[:, ::1] numbers = np.zeros((4, self.n_pairs)), sums = np.zeros((3, DQ_NUMBERS))
        cdef double[:, ::1] ages = np.zeros((2, AGES))
        for i in range(self.n_pairs):
            used[i] = self.pairs[i].k
            for j in range(SLOTS):
                outcome[i, j], newer[i, j] = self.pairs[i].outcome[j], self.pairs[i].newer[j]
                count[i, j] = self.pairs[i].count[j]
            numbers[0, i], numbers[1, i] = self.pairs[i].c_log_c, self.pairs[i].ratio
            numbers[2, i], numbers[3, i] = self.pairs[i].peak, self.pairs[i].start
        for i in range(3):
            dq_cusum_write(&self.sums[i], &sums[i, 0])
        for i in range(AGES):
            ages[0, i], ages[1, i] = self.usual[i], self.weight[i]
        names = dict(zip(("c_log_c", "ratio", "peak", "start"), np.asarray(numbers)))
        return {"outcome": np.asarray(outcome), "newer": np.asarray(newer), "count": np.asarray(count),
                "used": np.asarray(used), **names, "sums": np.asarray(sums), "ages": np.asarray(ages),
                "counts": np.array([self.seen, self.channel, self.pair, self.best], np.int64)}

    def restore(self, saved):
        """Go on from `state()` of tests with the same settings; the caller has checked types, shapes and ranges."""
        cdef Py_ssize_t i, j
        cdef const int[:, ::1] outcome = np.ascontiguousarray(saved["outcome"]), newer = np.ascontiguousarray(saved["newer"])
        cdef const long long[:, ::1] count = np.ascontiguousarray(saved["count"])
        cdef const int[::1] used = np.ascontiguousarray(saved["used"])
        cdef const double[:, ::1] sums = np.ascontiguousarray(saved["sums"]), ages = np.ascontiguousarray(saved["ages"])
        cdef const double[:, ::1] numbers = np.array([saved[name] for name in ("c_log_c", "ratio", "peak", "start")])
        for i in range(self.n_pairs):
            self.pairs[i].k, self.pairs[i].n, self.pairs[i].n_newer = used[i], 0, 0
            for j in range(SLOTS):
                self.pairs[i].outcome[j], self.pairs[i].newer[j] = outcome[i, j], newer[i, j]
                self.pairs[i].count[j] = count[i, j]
                self.pairs[i].n += count[i, j]
                self.pairs[i].n_newer += newer[i, j]
            self.pairs[i].c_log_c, self.pairs[i].ratio = numbers[0, i], numbers[1, i]
            self.pairs[i].peak, self.pairs[i].start = numbers[2, i], numbers[3, i]
        for i in range(3):
            dq_cusum_read(&self.sums[i], &sums[i, 0])
        for i in range(AGES):
            self.usual[i], self.weight[i] = ages[0, i], ages[1, i]
        self.seen, self.channel, self.pair, self.best = saved["counts"]
        self.notable = exp(self.sums[0].largest[DQ_LARGEST - 1])
