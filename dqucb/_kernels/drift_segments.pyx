"""Does a recent segment of a stream have another distribution than the long run? The test of ContinuousDriftDetector.

Two models predict y = s' - s: a linear one, and the full one of the caller (products and Fourier features). Residuals are those
of a mixture of the two, for each coordinate y - linear - c (full - linear), where c is the regression of the linear residual on what
the full model adds, shrunk to zero where that may be chance: 0 in a linear world however many features there are, near 1 where
the world is bent. A third regression predicts the logarithm of their variance from the place and its leverage. Residuals over
their standard deviation, z, become normal scores v in two forms: a_j, what coordinate j says given all others, and u_j, what
it says given those before it. The first sees a change of one coordinate with all its information, the second are
independent and may be added. For segments that began 8, 16, ... up to some thousand updates ago, closed-form Bayes
factors (normal-inverse-gamma) compare "v = b' (1, x) + s e since then" with "v ~ N(0, 1)": another variance, mean,
regression, single coefficient, dependence on the update before, or correlation of two coordinates, of one coordinate or
of all of them. A mean of Bayes factors over kinds is one, and the sum over segments has the mean of a Shiryaev-Roberts
sum: with one new segment every EVERY updates it exceeds 1 / (EVERY rate) less often than asked for, as long as v is
N(0, 1) and white.

Where it is not, three quantities say by how much, and each is measured on the stream itself:

    novelty    the leverage h of a transition in the model that is used, in excess of the usual one. The errors at a place that is
               new are not independent: they are those of the model there, and their variance over that of the noise is h. So the
               evidence of a segment is divided by 1 + its sum of excesses, and a transition counts by its share
               1 / (1 + (h / (KNOWN usual h))^4).
    tempering  the variance of sums of scores over blocks of 40, 160 and 640 updates, over that of independent scores:
               positive evidence of segments of that length is divided by it.
    tail       the largest sums so far: the threshold is at least where an exponential tail through them has the rate
               asked for.

Everything of the long run is learned when a transition leaves the queue of the newest ones, by prediction errors.
docs/concepts/segments.md has the formulas; tests/naive_drift.py has them in NumPy.
"""

from libc.math cimport asinh, exp, fabs, fmax, fmin, lgamma, log, log1p, sqrt

from dqucb._kernels.cusum cimport (
    DQ_NUMBERS, dq_cusum_clear, dq_cusum_follow, dq_cusum_keep, dq_cusum_read, dq_cusum_write, dq_ratio_rate, dq_ratio_threshold,
)
from dqucb._kernels.drift_algebra cimport axpy, dot, factor, gain, give_back, shrink, substitute, substitute_back
from dqucb._kernels.normal_scores cimport normal_of, normal_probability, normal_quantile

from libc.string cimport memcpy

import numpy as np

DEF LEVELS = 8  # of segments: each level has half as many per update as the one before
DEF SLOTS = 4  # segments of a level
DEF EVERY = 8  # updates between two new segments
cdef enum:  # kinds of change: first those of one coordinate or pair, then those of all of them
    VARIANCE, MEAN, REGRESSION, LAG, COEFFICIENT, PAIR, MEAN_AND_VARIANCE, REGRESSION_AND_VARIANCE, FACTOR
    ALL_VARIANCES, ALL_REGRESSIONS, COLUMN
    KINDS
DEF SCALES = 3  # lengths of blocks: 40, 160, 640
DEF BINS = 96
DEF BIN = 0.125  # width of a bin of asinh(2 u)
DEF COUNTED = 50.0  # observations that the normal distribution is worth beside the histogram
DEF KNOWN = 3.0  # times the usual leverage, at which a transition counts half
DEF LARGEST_Z = 8.0
DEF LARGEST_V = 3.5
DEF LARGEST_X = 4.0  # of a regressor
DEF SHAPE = 2.0  # of the inverse gamma prior of the variance of a segment; its scale is the same
DEF WIDE = 1.0  # prior variance of a regression, all coefficients together, in units of the noise
DEF VARIANCE_COST = 0.01  # nats per update that an error of the predicted variance may give
DEF COST = 0.002  # the same for every other kind
DEF CHANCE = 9.0  # the full model adds something where its gain is more than three standard errors
DEF NEWEST_PART = 5.0  # the mixture is that of the last fifth of the stream, since the full model still improves
DEF MOST_REGRESSORS = 33  # the intercept and this many inputs: time grows with their cube
DEF MOST_PAIRED = 32  # coordinates; with more no pairs are looked at
DEF WILD = 3.0  # a score beyond this is looked at at once
DEF YOUNG = 300  # transitions learned before the distribution of residuals is looked at
DEF PER_FEATURE = 5  # transitions learned for each feature of the full model, before residuals of it are tested
DEF OLDEST = 4  # segments are at most this part of what was learned
DEF WAITING = 4  # blocks
DEF SLACK = 1.0  # nats by which the bound is too careful, since priors are wide and sums overshoot
DEF LOG_CHI2 = 1.2703628  # minus the mean of log chi^2 with one degree of freedom
DEF LOW = -1e4
DEF N_FACTORS = 3
cdef double[N_FACTORS] FACTORS = [0.35, 0.55, 0.75]  # noise that grows shows in the variance as soon
cdef double[2] NARROW = [0.03, 0.2]  # the same for all coordinates at once
cdef double[N_FACTORS] LOG_FACTORS
for _k in range(N_FACTORS):
    LOG_FACTORS[_k] = log(FACTORS[_k])


cdef inline double add_logs(double a, double b) noexcept nogil:
    """log(e^a + e^b)."""
    if a - b > 15.0:
        return a
    if b - a > 15.0:
        return b
    return a + log1p(exp(b - a)) if a > b else b + log1p(exp(a - b))


cdef inline double sum_logs(const double *logs, Py_ssize_t n) noexcept nogil:
    """log of the sum of e^logs."""
    cdef Py_ssize_t i
    cdef double largest = LOW, total = 0.0
    for i in range(n):
        largest = fmax(largest, logs[i])
    for i in range(n):
        if logs[i] > largest - 15.0:
            total += exp(logs[i] - largest)
    return largest + log(total) if total > 0.0 else LOW


cdef inline double minus_log(double share) noexcept nogil:
    """-log(1 - share)."""
    if share < 0.02:
        return share * (1.0 + share * (0.5 + share * 0.3333333333333333))
    return -log(fmax(1.0 - share, 1e-12))


cdef class SegmentTest:
    """The test for `inputs` standardised inputs and `targets` numbers to predict.

    `features` is the number of features of the full model.
    """

    def __init__(self, Py_ssize_t inputs, Py_ssize_t targets, Py_ssize_t features, long long burn_in, double rate, double smallest,
                 double model_memory):
        cdef Py_ssize_t D = inputs, d = targets, R = min(1 + inputs, MOST_REGRESSORS), G = 3 + 2 * inputs, M = d if d == 1 else 2 * d
        cdef Py_ssize_t n = 1 + inputs
        self.inputs, self.targets, self.regressors, self.n_scale, self.parts = D, d, R, G, M
        self.paired_with = d if d <= MOST_PAIRED else 0
        self.rate, self.smallest, self.memory, self.features = rate, smallest, model_memory, features
        self.grow = 1.0 / (1.0 - 1.0 / model_memory)
        self.r, self.work, self.shrunk, self.square, self.together = np.zeros((5, R))
        self.x, self.g, self.psi, self.q, self.column = np.zeros(n), np.zeros(n), np.zeros(G), np.zeros(G), np.zeros(G)
        self.z, self.u, self.a, self.own, self.e, self.plain, self.inverse, self.whole, self.pair, self.log_pair = np.zeros((10, d))
        self.w, self.v, self.last, self.last_learned, self.tempered = np.zeros((5, M))
        self.mix, self.mixing = np.zeros(d), np.zeros((3, d))
        self.P, self.W, self.Q, self.V = np.eye(n), np.zeros((d, n)), 0.05 * np.eye(G), np.zeros((d, G))
        self.joint, self.correlation, self.K, self.partial = np.eye(d), np.eye(d), np.eye(d), np.eye(d)
        self.products = np.ones((2, d))
        self.L, self.S = np.zeros((R, R)), np.zeros((R, R))
        self.histogram, self.below, self.lagged = np.zeros((M + d, BINS)), np.zeros((M + d, BINS + 1)), np.zeros((2, M))
        self.evidence = np.zeros(d)
        # Sums of a segment: weights, excess leverage, leverage, r r', v r', v^2, (v_last^2, v v_last), (z a, z^2), a a'; each times the weight.
        self.at_b, self.at_q = 3 + R * R, 3 + R * R + M * R
        self.at_lag, self.at_factor, self.at_pair = self.at_q + M, self.at_q + M + 2 * d, self.at_q + M + 4 * d
        self.size = self.at_pair + d * self.paired_with
        self.now, self.snapshots = np.zeros(self.size), np.zeros((LEVELS, SLOTS, self.size))
        self.starts, self.mixed, self.held = np.zeros((LEVELS, SLOTS)), np.full((LEVELS, SLOTS), LOW), np.zeros(LEVELS, np.int64)
        # Scores: r v of each part, v^2 - 1, v v_last, a a', z a and the sum of u^2 - 1; those with a mean of their own without it.
        self.n_scores = M * R + M + 2 * d + d * self.paired_with + 1
        self.score, self.divisor = np.zeros(self.n_scores), np.ones(self.n_scores)
        self.block_sum, self.block_own = np.zeros((SCALES, self.n_scores)), np.zeros((SCALES, self.n_scores))
        self.blocks, self.n_blocks = np.zeros((SCALES, 2, self.n_scores)), np.zeros(SCALES)
        self.joint_squares, self.of_all = np.zeros(SCALES), np.ones(SCALES)
        self.tempering = np.ones((SCALES, self.n_scores))
        self.own[:] = 1.0
        self.usual, self.waiting = -100.0, np.zeros(WAITING + 1)
        dq_cusum_clear(&self.sums, burn_in // 10)

    cdef double scored(self, Py_ssize_t c, double value) noexcept nogil:
        """The normal score of a value of part c."""
        cdef double place = asinh(2.0 * value) / BIN + BINS / 2, below, least = 0.5 / (COUNTED + self.counted)
        cdef Py_ssize_t k
        if not place > 0.0:
            below = 0.0
        elif not place < BINS:
            below = self.below[c, BINS]
        else:
            k = <Py_ssize_t>place
            below = self.below[c, k] + (place - k) * (self.below[c, k + 1] - self.below[c, k])
        below = (COUNTED * normal_probability(value) + below) / (COUNTED + self.below[c, BINS])
        return normal_quantile(fmin(fmax(below, least), 1.0 - least))

    cdef void whiten(self) noexcept nogil:
        """u and a from z: what a coordinate says given those before it, and given all others."""
        cdef Py_ssize_t j, d = self.targets
        substitute(&self.K[0, 0], &self.z[0], &self.u[0], d)
        substitute_back(&self.K[0, 0], &self.u[0], &self.a[0], d)
        for j in range(d):
            self.a[j] *= self.own[j]

    cdef void take(self, const double *x, const double *y, const double *full, double h, long long count) noexcept nogil:
        """Regressors, weight and scores w of a transition; `full` are the residuals of the full model, h its leverage.

        Numbers with a standard deviation of `smallest` are added to the residuals, so that a world without noise has some. They
        begin at another place in each stream: else chance would strike all streams of such worlds at once.
        """
        cdef Py_ssize_t j, D = self.inputs, d = self.targets
        cdef double s, total = 0.0, most = d + 6.0 * sqrt(2.0 * d), mixed = 0.0
        cdef double usual = exp(self.usual), n = fmin(self.learned + 1.0, self.memory)
        if self.salt == 0:
            memcpy(&self.salt, x, sizeof(double))
            self.salt |= 1
        s = h / (KNOWN * fmax(self.features / n, usual))
        self.weight = 1.0 / (1.0 + s * s * s * s)
        self.novelty, self.excess = h, fmax(0.0, h - usual)
        self.x[0] = self.r[0] = self.psi[0] = 1.0
        for j in range(D):
            self.x[1 + j] = x[j]
        for j in range(d):
            mixed = fmax(mixed, self.mix[j])
        self.is_bent = mixed > 0.0
        if not self.is_bent:  # the linear model alone is in use
            h = gain(&self.P[0, 0], &self.x[0], &self.g[0], D + 1)
            self.excess = fmax(0.0, h - KNOWN * (D + 1) / n)
        s = log(h / (1.0 + h) + 1e-300)
        self.psi[1], self.psi[2] = s, s * s / 10.0
        for j in range(D):
            s = asinh(x[j])
            self.psi[3 + j], self.psi[3 + D + j] = s, s * s
        s = gain(&self.Q[0, 0], &self.psi[0], &self.q[0], self.n_scale)
        self.excess += fmax(0.0, s - KNOWN * self.n_scale / n)
        for j in range(1, self.regressors):
            self.r[j] = fmax(-LARGEST_X, fmin(LARGEST_X, x[j - 1]))
        for j in range(d):
            s = exp(-0.5 * fmin(dot(&self.V[j, 0], &self.psi[0], self.n_scale), 10.0))
            self.plain[j] = y[j] - dot(&self.W[j, 0], &self.x[0], D + 1)
            self.e[j] = self.plain[j] + self.mix[j] * (full[j] - self.plain[j])
            self.e[j] += self.smallest * normal_of(<unsigned long long>(count * d + j) ^ self.salt)
            self.inverse[j] = s
            self.z[j] = fmax(-LARGEST_Z, fmin(LARGEST_Z, s * self.e[j]))
        self.whiten()
        for j in range(d):
            total += self.u[j] * self.u[j]
        s = sqrt(most / total) if total > most else 1.0  # one transition, however wild, is one transition
        for j in range(d):
            self.a[j] *= s
            self.u[j] *= s
            self.w[j] = self.scored(j, self.a[j])
            self.whole[j] = self.scored(self.parts + j, self.z[j])
            if d > 1:
                self.w[d + j] = self.scored(d + j, self.u[j])

    cdef void prewhiten(self, const double *last) noexcept nogil:
        """v from w: what `last`, the scores of the update before, do not predict."""
        cdef Py_ssize_t c
        cdef double rho
        for c in range(self.parts):
            rho = self.lagged[0, c] / fmax(self.lagged[1, c], 1.0)
            if fabs(rho) * sqrt(self.lagged[1, c]) < 3.0:
                rho = 0.0
            rho = fmax(-0.99, fmin(0.99, rho))
            self.v[c] = fmax(-LARGEST_V, fmin(LARGEST_V, (self.w[c] - rho * last[c]) / sqrt(1.0 - rho * rho)))

    # Learning

    cdef void learn(self, const double *x, const double *y, const double *full, double h, double tested_h,
                    double weight) noexcept nogil:
        """Learn from a transition.

        `full` and h are of the full model as it is now, `tested_h` is the leverage when the transition was tested; `weight` is
        the square root of what the transition counts.
        """
        cdef Py_ssize_t i, j, d = self.targets, R = self.inputs + 1
        cdef double leverage, error, largest
        self.take(x, y, full, h, 2 * self.learned)
        if self.learned >= YOUNG:
            self.usual += (log(tested_h + 1e-300) - self.usual) / fmin(self.learned - YOUNG + 1.0, self.memory)
            self.prewhiten(&self.last_learned[0])
            self.follow_scores()
            self.follow_distribution()
            self.follow_mixture(full)
        if self.learned >= YOUNG // 2:
            self.follow_scale()
        elif self.learned >= YOUNG // 4:
            for j in range(d):
                error = fmin(self.e[j] * self.e[j], 16.0) - exp(self.V[j, 0])  # at first the mean square
                self.V[j, 0] = log(exp(self.V[j, 0]) + error / (self.learned - YOUNG // 4 + 1.0) + 1e-12)
        for i in range(R):
            self.x[i] *= weight
        leverage = gain(&self.P[0, 0], &self.x[0], &self.g[0], R)
        for j in range(d):
            largest = fmax(4.0, 6.0 / self.inverse[j]) * sqrt(1.0 + leverage)
            error = fmax(-largest, fmin(largest, weight * self.plain[j]))
            axpy(error / (1.0 + leverage), &self.g[0], &self.W[j, 0], R)
        shrink(&self.P[0, 0], &self.g[0], leverage, self.grow, R)
        give_back(&self.P[0, 0], &self.W[0, 0], &self.column[0], R, d, self.learned, self.memory)
        self.learned += 1

    cdef void follow_scale(self) noexcept nogil:
        """One Fisher scoring step of the log variance, and the correlation of the coordinates."""
        cdef Py_ssize_t i, j, d = self.targets, G = self.n_scale
        cdef double error, leverage = gain(&self.Q[0, 0], &self.psi[0], &self.q[0], G)
        cdef double pace = 1.0 / fmin(self.learned - YOUNG // 2 + 20.0, self.memory)
        for j in range(d):
            error = fmax(-4.0, fmin(4.0, log(self.z[j] * self.z[j] + 1e-12) + LOG_CHI2))
            axpy(error / (1.0 + leverage), &self.q[0], &self.V[j, 0], G)
            for i in range(d):
                self.joint[i, j] += pace * (fmax(-4.0, fmin(4.0, self.z[i])) * fmax(-4.0, fmin(4.0, self.z[j])) - self.joint[i, j])
        shrink(&self.Q[0, 0], &self.q[0], leverage, self.grow, G)
        give_back(&self.Q[0, 0], &self.V[0, 0], &self.column[0], G, d, self.learned, self.memory)
        if self.learned % 20 == 0:
            self.correlate()

    cdef void correlate(self) noexcept nogil:
        """The root of the correlation of z, and what makes the variance of a coordinate given all others 1."""
        cdef Py_ssize_t i, j, d = self.targets
        for i in range(d):
            for j in range(d):
                self.correlation[i, j] = self.joint[i, j] / sqrt((self.joint[i, i] + 1e-6) * (self.joint[j, j] + 1e-6))
            self.correlation[i, i] = 1.0
        factor(&self.correlation[0, 0], 0.01, &self.K[0, 0], d)
        for j in range(d):
            for i in range(d):
                self.u[i] = 1.0 if i == j else 0.0
            substitute(&self.K[0, 0], &self.u[0], &self.u[0], d)
            self.own[j] = 1.0 / sqrt(dot(&self.u[0], &self.u[0], d))
            substitute_back(&self.K[0, 0], &self.u[0], &self.partial[j, 0], d)
        for j in range(d):
            for i in range(d):
                self.partial[j, i] *= self.own[i] * self.own[j]

    cdef void follow_distribution(self) noexcept nogil:
        """The histograms of a, u and z, and the dependence on the update before."""
        cdef Py_ssize_t c, j, k, d = self.targets
        cdef double value, keep = 1.0 - 1.0 / self.memory
        self.counted = keep * self.counted + 1.0
        for c in range(self.parts + d):
            value = self.a[c] if c < d else self.u[c - d] if c < self.parts else self.z[c - self.parts]
            k = <Py_ssize_t>fmax(0.0, fmin(BINS - 1.0, asinh(2.0 * value) / BIN + BINS / 2))
            for j in range(BINS):
                self.histogram[c, j] *= keep
            self.histogram[c, k] += 1.0
            if self.learned % 20 == 0:
                for j in range(BINS):
                    self.below[c, j + 1] = self.below[c, j] + self.histogram[c, j]
        for c in range(self.parts):
            self.lagged[0, c] = keep * self.lagged[0, c] + self.w[c] * self.last_learned[c]
            self.lagged[1, c] = keep * self.lagged[1, c] + 1.0
            self.last_learned[c] = self.w[c]

    cdef void follow_mixture(self, const double *full) noexcept nogil:
        """The share of the full model: sums of e p, p^2 and (e p)^2, where e is the linear residual and p what the full model adds.

        c = sum e p / sum p^2 is shrunk by the factor of James and Stein, which is zero where the sum of e p may be chance.
        """
        cdef Py_ssize_t j
        cdef double e, p, ep, keep = 1.0 - NEWEST_PART / fmin(self.learned, self.memory)
        for j in range(self.targets):
            e = fmax(-LARGEST_Z, fmin(LARGEST_Z, self.plain[j] * self.inverse[j]))
            p = fmax(-LARGEST_Z, fmin(LARGEST_Z, (self.plain[j] - full[j]) * self.inverse[j]))
            ep = self.weight * e * p
            self.mixing[0, j] = keep * self.mixing[0, j] + ep
            self.mixing[1, j] = keep * self.mixing[1, j] + self.weight * p * p
            self.mixing[2, j] = keep * self.mixing[2, j] + ep * ep
            ep = fmax(0.0, self.mixing[0, j])
            self.mix[j] = fmin(1.0, ep / (self.mixing[1, j] + 1.0) * fmax(0.0, 1.0 - CHANCE * self.mixing[2, j] / (ep * ep + 1e-300)))

    cdef void follow_scores(self) noexcept nogil:
        """Sums of scores over blocks, and what they say of the dependence between updates."""
        cdef Py_ssize_t c, i, j, k = 0, m, d = self.targets, R = self.regressors, M = self.parts, length = 40
        cdef double total = 0.0, own = 0.0, keep, s
        for c in range(M):
            for i in range(R):
                self.score[k] = self.weight * self.r[i] * self.v[c]
                k += 1
        for c in range(M):
            self.score[k] = self.weight * (self.v[c] * self.v[c] - 1.0)
            if c >= M - d:
                total += self.score[k]
                own += self.score[k] * self.score[k]
            k += 1
        for c in range(d):
            self.score[k] = self.weight * self.v[c] * self.last_learned[c]
            k += 1
        for i in range(d):
            for j in range(self.paired_with):
                self.score[k] = self.weight * (self.v[i] * self.v[j] - self.partial[i, j]) if j < i else 0.0
                k += 1
        for c in range(d):
            s = self.whole[c]
            self.score[k] = self.weight * (s * self.v[c] / self.products[0, c] - 1.0)
            self.products[0, c] += (s * self.v[c] - self.products[0, c]) / fmin(self.learned - YOUNG + 50.0, self.memory)
            self.products[1, c] += (s * s - self.products[1, c]) / fmin(self.learned - YOUNG + 50.0, self.memory)
            k += 1
        self.score[k] = total
        for m in range(SCALES):
            for k in range(self.n_scores):
                self.block_sum[m, k] += self.score[k]
                self.block_own[m, k] += self.score[k] * self.score[k]
            self.block_own[m, self.n_scores - 1] += own - total * total
            if (self.learned - YOUNG) % length == length - 1:
                keep = 1.0 - length / fmin(self.memory, fmax(2000.0, 0.5 * self.learned))
                self.n_blocks[m] = keep * self.n_blocks[m] + 1.0
                total = 0.0
                for k in range(self.n_scores):
                    s = self.block_sum[m, k] * self.block_sum[m, k]
                    self.blocks[m, 0, k] = keep * self.blocks[m, 0, k] + s * s
                    self.blocks[m, 1, k] = keep * self.blocks[m, 1, k] + self.block_own[m, k]
                    self.block_sum[m, k] = self.block_own[m, k] = 0.0
                    if (M - d) * R <= k < M * R:
                        total += s * self.n_blocks[m] / (self.blocks[m, 1, k] + 1e-12) / (d * R)
                self.joint_squares[m] = keep * self.joint_squares[m] + total * total
                self.temper()
            length *= 4

    cdef void temper(self) noexcept nogil:
        """The variance of block sums over that of independent scores, from fourth moments: a few large blocks count, too.

        At least that of shorter blocks, at least 1, and less by its own standard error while there are few blocks.
        """
        cdef Py_ssize_t m, k
        cdef double ratio
        for m in range(SCALES):
            for k in range(self.n_scores):
                ratio = 1.0 if m == 0 else self.tempering[m - 1, k]
                if self.n_blocks[m] >= 4.0 and self.blocks[m, 1, k] > 1e-12:
                    ratio = fmax(ratio, sqrt(self.blocks[m, 0, k] / 3.0 * self.n_blocks[m]) / self.blocks[m, 1, k]
                                 / (1.0 + sqrt(2.0 / self.n_blocks[m])))
                self.tempering[m, k] = fmin(ratio, 1000.0)
            ratio = 1.0 if m == 0 else self.of_all[m - 1]
            if self.n_blocks[m] >= 4.0:
                k = self.targets * self.regressors
                ratio = fmax(ratio, sqrt(self.joint_squares[m] / self.n_blocks[m] / (1.0 + 2.0 / k)) / (1.0 + sqrt(2.0 / self.n_blocks[m] / k)))
            self.of_all[m] = fmin(ratio, 1000.0)

    # Testing

    cdef bint test(self, const double *x, const double *y, const double *full, double h, double now) noexcept nogil:
        """One transition; whether it gives an alarm."""
        cdef Py_ssize_t c, i, k, every
        cdef double total = LOW, largest = 0.0, oldest = fmax(64.0, self.learned / OLDEST)
        self.take(x, y, full, h, 2 * self.tested + 1)
        self.tested += 1
        if self.learned < YOUNG + (PER_FEATURE * self.features if self.is_bent else 10 * self.regressors):
            self.follow(0.0, now)
            return False
        self.prewhiten(&self.last[0])
        if self.held[0] == 0 or self.tested % EVERY == 0:
            self.push(now)
        self.add()
        for c in range(self.parts):
            self.last[c] = self.w[c]
            largest = fmax(largest, fabs(self.v[c]))
        for i in range(LEVELS):
            every = 1 if i < 2 and largest > WILD else max(4, min(2 << i, 32))
            for k in range(self.held[i]):
                if now - self.starts[i, k] > oldest:
                    self.mixed[i, k] = LOW
                elif (self.tested + k) % every == 0:
                    self.mixed[i, k] = self.compare(&self.snapshots[i, k, 0], NULL)
                total = add_logs(total, self.mixed[i, k])
        total -= log(LEVELS * SLOTS)
        self.follow(total, now)
        return total > self.least() and total > self.threshold()

    cdef void follow(self, double level, double now) noexcept nogil:
        """Set the level. The largest ones of the last blocks wait: a slow change would else raise its own threshold."""
        cdef Py_ssize_t i
        cdef double closed = dq_cusum_follow(&self.sums, level, now)
        if closed < 0.0:
            return
        self.n_closed += 1
        self.waiting[self.n_waiting] = closed
        self.n_waiting += 1
        while self.n_waiting > min(WAITING, self.n_closed // 3):
            if self.waiting[0] > 0.0:
                self.sums.cycles += 1.0
                dq_cusum_keep(&self.sums, self.waiting[0])
            self.n_waiting -= 1
            for i in range(self.n_waiting):
                self.waiting[i] = self.waiting[i + 1]

    cdef double least(self) noexcept nogil:
        """The threshold if all assumptions hold."""
        return -log(self.rate * EVERY * LEVELS * SLOTS) - SLACK

    cdef double threshold(self) noexcept nogil:
        """The threshold, which follows the largest sums so far."""
        return fmax(self.least(), dq_ratio_threshold(&self.sums, self.rate))

    cdef double rate_now(self) noexcept nogil:
        """Rate of sums as large as the present one on unchanged data."""
        return fmax(exp(-self.sums.level - SLACK) / (EVERY * LEVELS * SLOTS), dq_ratio_rate(&self.sums, self.sums.level))

    cdef void push(self, double now) noexcept nogil:
        """Begin a segment; of those that are too many at a level one goes up and one goes."""
        cdef Py_ssize_t i, k, level, above
        for level in range(LEVELS - 1, -1, -1):  # make room from the top
            if self.held[level] == SLOTS and (level == 0 or self.is_full(level - 1)):
                above = level + 1
                if above < LEVELS:
                    self.move(level, 0, above, self.held[above])
                    self.held[above] += 1
                for k in range(2, SLOTS):
                    self.move(level, k, level, k - 2)
                self.held[level] -= 2
        k = self.held[0]
        for i in range(self.size):
            self.snapshots[0, k, i] = self.now[i]
        self.starts[0, k], self.mixed[0, k] = now, LOW
        self.held[0] += 1

    cdef bint is_full(self, Py_ssize_t level) noexcept nogil:
        """Whether a new segment pushes one out of all levels up to this one."""
        cdef Py_ssize_t i
        for i in range(level + 1):
            if self.held[i] < SLOTS:
                return False
        return True

    cdef void move(self, Py_ssize_t level, Py_ssize_t k, Py_ssize_t to, Py_ssize_t place) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.size):
            self.snapshots[to, place, i] = self.snapshots[level, k, i]
        self.starts[to, place], self.mixed[to, place] = self.starts[level, k], self.mixed[level, k]

    cdef void add(self) noexcept nogil:
        """Add the transition to the sums."""
        cdef Py_ssize_t c, i, j, d = self.targets, R = self.regressors, N = self.paired_with
        cdef double w = self.weight, s
        cdef double *now = &self.now[0]
        now[0] += w
        now[1] += w * self.excess
        now[2] += w * self.novelty
        for i in range(R):
            s = w * self.r[i]
            for j in range(i + 1):
                now[3 + i * R + j] += s * self.r[j]
        for c in range(self.parts):
            s = w * self.v[c]
            axpy(s, &self.r[0], now + self.at_b + c * R, R)
            now[self.at_q + c] += s * self.v[c]
            if c < d:
                now[self.at_lag + 2 * c] += w * self.last[c] * self.last[c]
                now[self.at_lag + 2 * c + 1] += s * self.last[c]
                now[self.at_factor + 2 * c] += s * self.whole[c]
                now[self.at_factor + 2 * c + 1] += w * self.whole[c] * self.whole[c]
                for i in range(min(c, N)):
                    now[self.at_pair + c * N + i] += s * self.v[i]

    cdef double compare(self, const double *before, double *by_coordinate) noexcept nogil:
        """Log of the mean Bayes factor, over kinds of change, of "changed since the snapshot".

        `by_coordinate`, unless NULL: that of each coordinate. A kind with several places (coordinates, coefficients,
        pairs) is their mean.
        """
        cdef Py_ssize_t c, i, k, m, d = self.targets, R = self.regressors, M = self.parts, N = self.paired_with
        cdef const double *now = &self.now[0]
        cdef double *divisor = &self.divisor[0]
        cdef double n = now[0] - before[0], shape = SHAPE + 0.5 * n, of_n, q, base, b, cost, cost_all = COST * n, log_wide
        cdef double variance, regression, mean, lagged, single, factor_, pairs, total, tempered
        cdef double[KINDS] kinds
        if n < 2.0:
            return LOW
        m = 0 if n < 80.0 else 1 if n < 320.0 else 2
        for k in range(self.n_scores):
            divisor[k] = self.tempering[m, k] * (1.0 + now[1] - before[1])
        for c in range(d):
            cost_all = fmax(cost_all, COST * n + 0.5 * self.mix[c] * self.mix[c] * (now[2] - before[2]))
        of_n = SHAPE * log(SHAPE) - lgamma(SHAPE) + lgamma(shape)
        for k in range(KINDS):
            kinds[k] = LOW
        kinds[ALL_VARIANCES] = 0.0
        log_wide = self.prepare(before, WIDE / R)
        for i in range(R):
            self.square[i] = now[3 + i * R + i] - before[3 + i * R + i] + R / WIDE
            self.shrunk[i] = 0.5 * log(self.square[i] * WIDE / R)
            self.together[i] = 0.0
        for i in range(N):
            self.log_pair[i] = 0.5 * log(1.0 + 0.25 * (now[self.at_q + i] - before[self.at_q + i]))
        for c in range(M):
            q = now[self.at_q + c] - before[self.at_q + c]
            base = SHAPE + 0.5 * q
            variance = of_n - shape * log(base) + 0.5 * q
            variance = (variance / divisor[M * R + c] if variance > 0.0 else variance) - VARIANCE_COST * n
            total = tempered = 1e-12
            for i in range(R):
                b = now[self.at_b + c * R + i] - before[self.at_b + c * R + i]
                b = b * b / self.square[i]
                total += b
                tempered += b * divisor[c * R + i]
                self.work[i] = shape * minus_log(0.5 * b / base) / divisor[c * R + i] - self.shrunk[i]
            self.tempered[c] = tempered / total
            if c >= M - d:
                kinds[ALL_VARIANCES] += variance
                for i in range(R):
                    b = (self.work[i] + self.shrunk[i]) * fmin(1.0, divisor[c * R + i] / (self.of_all[m] * (1.0 + now[1] - before[1])))
                    self.together[i] += b - self.shrunk[i]
            if c >= d:
                continue
            cost = COST * n + 0.5 * self.mix[c] * self.mix[c] * (now[2] - before[2])
            mean, single = self.work[0] - cost, sum_logs(&self.work[0], R) - log(R) - cost
            regression = log_wide + shape * minus_log(0.5 * self.explained(before, c) / base) / self.tempered[c] - cost
            lagged = 4.0 + now[self.at_lag + 2 * c] - before[self.at_lag + 2 * c]
            b = now[self.at_lag + 2 * c + 1] - before[self.at_lag + 2 * c + 1]
            lagged = shape * minus_log(0.5 * b * b / (lagged * base)) / divisor[M * R + M + c] - 0.5 * log(0.25 * lagged) - cost
            factor_ = LOW  # of a single coordinate it is the variance; where the world is bent correlations depend on the place
            if d > 1 and self.mix[c] == 0.0:
                factor_ = self.rescaled(before, c, divisor[self.n_scores - 1 - d + c]) - cost - VARIANCE_COST * n
            kinds[VARIANCE] = add_logs(kinds[VARIANCE], variance - cost)
            kinds[MEAN] = add_logs(kinds[MEAN], mean)
            kinds[REGRESSION] = add_logs(kinds[REGRESSION], regression)
            kinds[LAG] = add_logs(kinds[LAG], lagged)
            kinds[COEFFICIENT] = add_logs(kinds[COEFFICIENT], single)
            kinds[MEAN_AND_VARIANCE] = add_logs(kinds[MEAN_AND_VARIANCE], variance + mean)
            kinds[REGRESSION_AND_VARIANCE] = add_logs(kinds[REGRESSION_AND_VARIANCE], variance + regression)
            kinds[FACTOR] = add_logs(kinds[FACTOR], factor_)
            for i in range(min(c, N)):
                b = self.paired(before, c, i, shape, q) / divisor[M * R + M + d + c * N + i]
                self.pair[i] = b - self.log_pair[i] - cost
            pairs = sum_logs(&self.pair[0], min(c, N))
            kinds[PAIR] = add_logs(kinds[PAIR], pairs)
            if by_coordinate != NULL:
                single = add_logs(add_logs(single, variance - cost), add_logs(factor_, lagged))
                single = add_logs(single, add_logs(add_logs(mean, regression), add_logs(variance + mean, variance + regression)))
                by_coordinate[c] = add_logs(single, pairs)
                for i in range(min(c, N)):
                    by_coordinate[i] = add_logs(by_coordinate[i], self.pair[i])
        for k in range(2):
            b = self.prepare(before, NARROW[k] / R)
            total = -cost_all - log(2.0)
            for c in range(M - d, M):
                base = SHAPE + 0.5 * (now[self.at_q + c] - before[self.at_q + c])
                total += b + shape * minus_log(0.5 * self.explained(before, c) / base) / fmax(self.tempered[c], self.of_all[m] * (1.0 + now[1] - before[1]))
            kinds[ALL_REGRESSIONS] = add_logs(kinds[ALL_REGRESSIONS], total)
        for k in range(ALL_VARIANCES):
            kinds[k] -= log(d)
        if d == 1:  # the same as of one coordinate
            kinds[ALL_VARIANCES] = LOW
        else:
            kinds[PAIR] -= log(0.5 * (d - 1.0))
            if kinds[ALL_VARIANCES] > 0.0:
                kinds[ALL_VARIANCES] /= fmax(1.0, divisor[self.n_scores - 1] / divisor[M * R + M - 1])
            kinds[ALL_VARIANCES] -= cost_all
            kinds[COLUMN] = sum_logs(&self.together[0], R) - log(R) - cost_all
        return sum_logs(kinds, KINDS) - log(KINDS)

    cdef double paired(self, const double *before, Py_ssize_t c, Py_ssize_t i, double shape, double q) noexcept nogil:
        """What the regression of a_c on a_i explains if its coefficient is not the usual one, without the price of its prior."""
        cdef double rho = self.partial[c, i], of_noise = 1.0 / (1.0 - rho * rho), ax, b, base
        ax = self.now[self.at_q + i] - before[self.at_q + i]
        b = self.now[self.at_pair + c * self.paired_with + i] - before[self.at_pair + c * self.paired_with + i]
        base = SHAPE + 0.5 * of_noise * (q - 2.0 * rho * b + rho * rho * ax)
        b -= rho * ax
        return shape * minus_log(0.5 * b * b * of_noise / ((4.0 + ax) * base))

    cdef double rescaled(self, const double *before, Py_ssize_t c, double tempering) noexcept nogil:
        """Log of the mean likelihood ratio, over factors f, of "coordinate c is f times as large".

        It is -log f - g t a - g^2 t^2 / 2 with g = 1 / f - 1, where t and a are z_c and what it says given all others,
        both in units of the standard deviation given all others; their products are taken over their long means.
        """
        cdef double n = self.now[0] - before[0], ratio, g, ta, tt
        cdef double[N_FACTORS] logs
        cdef Py_ssize_t k
        ta = (self.now[self.at_factor + 2 * c] - before[self.at_factor + 2 * c]) / self.products[0, c]
        tt = self.now[self.at_factor + 2 * c + 1] - before[self.at_factor + 2 * c + 1]
        tt /= self.products[1, c] * self.own[c] * self.own[c]
        for k in range(N_FACTORS):
            g = 1.0 / FACTORS[k] - 1.0
            ratio = -n * LOG_FACTORS[k] - g * ta - 0.5 * g * g * tt
            logs[k] = ratio / tempering if ratio > 0.0 else ratio
        return sum_logs(logs, N_FACTORS) - log(N_FACTORS)

    cdef double prepare(self, const double *before, double prior) noexcept nogil:
        """Factor the precision of a regression; returns half the log of the ratio of the determinants."""
        cdef Py_ssize_t i, j, R = self.regressors
        cdef double total = -0.5 * R * log(prior)
        for i in range(R):
            for j in range(i + 1):
                self.S[i, j] = self.now[3 + i * R + j] - before[3 + i * R + j]
        factor(&self.S[0, 0], 1.0 / prior, &self.L[0, 0], R)
        for i in range(R):
            total -= log(self.L[i, i])
        return total

    cdef double explained(self, const double *before, Py_ssize_t c) noexcept nogil:
        """The sum of squares of part c that its regression explains, shrunk by the prior."""
        cdef Py_ssize_t i, R = self.regressors, at = self.at_b + c * R
        for i in range(R):
            self.work[i] = self.now[at + i] - before[at + i]
        substitute(&self.L[0, 0], &self.work[0], &self.work[0], R)
        return dot(&self.work[0], &self.work[0], R)

    cdef Py_ssize_t best(self) noexcept nogil:
        """The segment with the largest Bayes factor: level * SLOTS + place."""
        cdef Py_ssize_t i, k, found = 0
        for i in range(LEVELS):
            for k in range(self.held[i]):
                if self.mixed[i, k] > self.mixed[found // SLOTS, found % SLOTS]:
                    found = i * SLOTS + k
        return found

    def segments(self):
        """(start, log Bayes factor, distance to the next start) of each segment, an array (n, 3)."""
        rows = [(self.starts[i, k], self.mixed[i, k], <double>(EVERY << i)) for i in range(LEVELS) for k in range(self.held[i])]
        return np.array(rows).reshape(-1, 3)

    def coordinates(self):
        """The log Bayes factor of each coordinate, by the segment that says most."""
        cdef Py_ssize_t at = self.best()
        if self.held[0] > 0:
            self.compare(&self.snapshots[at // SLOTS, at % SLOTS, 0], &self.evidence[0])
        return np.array(self.evidence)

    def levels(self):
        """(level, threshold, rate of such levels without a change, start of the best segment, updates, cycles)."""
        cdef Py_ssize_t at = self.best()
        start = self.starts[at // SLOTS, at % SLOTS]
        return self.sums.level, self.threshold(), self.rate_now(), start, self.sums.updates, self.sums.cycles

    def views(self):
        """The arrays that change, by name."""
        return {
            "P": self.P, "W": self.W, "Q": self.Q, "V": self.V, "joint": self.joint, "K": self.K, "own": self.own,
            "partial": self.partial, "products": self.products, "histogram": self.histogram, "below": self.below,
            "lagged": self.lagged, "mix": self.mix, "mixing": self.mixing, "last": self.last,
            "last_learned": self.last_learned, "now": self.now, "snapshots": self.snapshots, "starts": self.starts,
            "mixed": self.mixed, "held": self.held, "block_sum": self.block_sum, "block_own": self.block_own,
            "blocks": self.blocks, "n_blocks": self.n_blocks, "tempering": self.tempering, "joint_squares": self.joint_squares,
            "of_all": self.of_all, "waiting": self.waiting,
        }

    def state(self):
        """All that `restore` needs: copies of arrays, with names that begin with "segments_"."""
        cdef double[::1] sums = np.zeros(DQ_NUMBERS)
        dq_cusum_write(&self.sums, &sums[0])
        saved = {f"segments_{name}": np.array(view) for name, view in self.views().items()}
        saved["segments_sums"] = np.asarray(sums)
        saved["segments_counts"] = np.array([self.learned, self.tested, self.n_closed, self.n_waiting], np.int64)
        saved["segments_salt"] = np.array([<long long>self.salt], np.int64)
        saved["segments_numbers"] = np.array([self.counted, self.usual])
        return saved

    def restore(self, saved):
        """Continue from `state()` of a test with the same settings."""
        for name, view in self.views().items():
            np.asarray(view)[...] = saved[f"segments_{name}"]
        cdef const double[::1] sums = np.ascontiguousarray(saved["segments_sums"], np.float64)
        dq_cusum_read(&self.sums, &sums[0])
        self.learned, self.tested, self.n_closed, self.n_waiting = saved["segments_counts"]
        self.counted, self.usual = saved["segments_numbers"]
        self.salt = <unsigned long long><long long>saved["segments_salt"][0]
