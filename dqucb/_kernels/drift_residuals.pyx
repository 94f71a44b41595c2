"""Two tests on what a running model of the transitions does not explain; a third one is in drift_segments.pyx.

The model predicts y = s' - s (in units of its spread) from phi(s, a): 1, the coordinates, their products, random Fourier
features. It is fitted by recursive least squares to all transitions but the newest ones (a third, at most `lag`): a model
that learns a new law at once would explain it before the tests have seen enough of it. A second regression predicts log e^2
of the residuals from psi(s, a) and from the leverage h = phi' P phi, so that z = e / scale is of order 1 wherever the
stream goes: at a place that is new, the model errs more, and says so. Both forget what is older than `model_memory`
transitions: a few hundred features fit the places where a learning agent now is, not all where it has been.

    surprise   log of the mean over coordinates and factors k of t(z / k) / (k t(z)), Student's t with 4 degrees of
               freedom: residuals are k times as large as they should be. A mean of likelihood ratios is one, whatever
               the dependence between coordinates. Where h > UNKNOWN it says nothing either way: noise that carries
               a system to such places would else lose there the evidence that it gave on the way.
    structure  sum over coordinates of u m - m^2 / 2, where u = K^-1 z are the residuals with the correlation between
               coordinates taken out (K K' is their covariance) and m is what a linear model of the last `memory` of them
               predicts: residuals that can be predicted from (s, a) mean that the law of motion is another one. Contacts
               move many coordinates together; a new mass shows in what they do not move. Here u counts by its
               share 1 / (1 + (h / KNOWN)^2): errors at places that the model does not know can be predicted, too.

Both compare laws of s' given (s, a): another policy changes neither, as long as the model knows where it goes.
"""

from libc.math cimport INFINITY, asinh, cos, exp, fabs, fmax, fmin, log, sqrt

from dqucb._kernels.cusum cimport (
    DQ_NUMBERS, dq_cusum, dq_cusum_add, dq_cusum_clear, dq_cusum_rate, dq_cusum_read, dq_cusum_shown, dq_cusum_skip,
    dq_cusum_write,
)

from dqucb._kernels.drift_algebra cimport axpy, dot, factor, gain, give_back, shrink, solve, substitute, substitute_back
from dqucb._kernels.drift_segments cimport SegmentTest
from dqucb._kernels.ring cimport read_vector

from operator import index

import numpy as np

DEF FREEDOM = 4.0
DEF CLIP = 30.0  # standardised inputs end here
DEF SOLVE_EVERY = 10
DEF CORRELATE_EVERY = 20
DEF KNOWN = 1.0  # the leverage at which a residual counts half in the structure
DEF UNKNOWN = 10.0  # the leverage above which a residual is no surprise, nor is its absence
DEF BLOCKS = 10  # in a burn-in, which holds several of the rarest events; transitions of one block may depend on each other
DEF LARGEST_U = 2.0  # in the structure: a fall is one event, not a hundred
DEF LARGEST_Z = 4.0  # in the covariance of the coordinates
DEF UNCORRELATED = 0.03  # added to the diagonal of the correlation: no coordinate is wholly explained by the others
DEF LARGEST = 1e300  # of a number in a transition
DEF LARGEST_TARGET = 1e6  # of a target, in its unit
DEF USUAL = 4.0  # the distance from the centre, in standard deviations, that counts as usual at first, and always
DEF FARTHEST = 2.0  # usual distances: the model learns less from what is farther away, so that one wild value does not change it
DEF CLIPPED = 6.0  # standard deviations of a residual, and at least
DEF CLIPPED_UNITS = 4.0  # units of the target: the model learns from no larger one
DEF LOG_CHI2 = 1.2703628  # minus the mean of log chi^2 with one degree of freedom
cdef double[2] FACTORS = [2.0, 5.0]


cdef int read_one_hot(object action, Py_ssize_t n, double *out) except -1:
    """A one at the place of the action, zeros elsewhere."""
    cdef Py_ssize_t i, chosen
    try:
        chosen = index(action)
    except TypeError:
        raise ValueError(f"action must be an integer in [0, {n - 1}], got {action!r}") from None
    if not 0 <= chosen < n:
        raise ValueError(f"action must be an integer in [0, {n - 1}], got {action!r}")
    for i in range(n):
        out[i] = 1.0 if i == chosen else 0.0
    return 0


cdef int read_moderate(str name, object given, Py_ssize_t n, double *out) except -1:
    """A vector whose differences are finite."""
    cdef Py_ssize_t i
    read_vector(name, given, n, out)
    for i in range(n):
        if not -LARGEST <= out[i] <= LARGEST:
            raise ValueError(f"{name} must be in [-{LARGEST:g}, {LARGEST:g}], got {out[i]!r}: scale the numbers down")
    return 0


def usual_range(column):
    """Mean and standard deviation of a column without its wild values, which may be as large as 1e300.

    Wild is what lies farther from the inner 95 % than three times their range. A column that is constant but for rare
    values has a range of twice their median distance. One that moves at most twice counts as one that never moves: its
    standard deviation is 1.
    """
    ordered = np.sort(column)
    cut = max(1, len(ordered) // 40)
    low, high = ordered[cut], ordered[-1 - cut]
    if low == high:
        moved = np.abs(ordered[ordered != low] / 2.0 - low / 2.0)
        if len(moved) < 3:
            return low, 1.0
        low, high = low - np.median(moved), high + np.median(moved)
    far = 3.0 * (high - low)
    kept = ordered[(ordered >= low - far) & (ordered <= high + far)]
    largest = max(np.abs(kept).max(), 1e-300)  # squares of the numbers may overflow, those of the shares do not
    mean, spread = (kept / largest).mean() * largest, (kept / largest).std() * largest
    return mean, spread if spread > 1e-9 * (1.0 + largest) else 1.0


cdef class ResidualTest:
    """The tests for inputs of `inputs` numbers and `targets` numbers to predict; arguments are validated by the caller.

    `products` (pairs, 2) and `waves` (features, inputs), `phases` (features,) define phi.
    """

    cdef readonly Py_ssize_t inputs, targets, features, n_state, n_actions
    cdef readonly long long seen, burn_in, n_scaling, lag
    cdef double[::1] row
    cdef double[:, ::1] first, newest  # the transitions that fix the units; a ring of those still to be learned
    cdef Py_ssize_t n_products, n_waves, n_scale, n_recent
    cdef const int[:, ::1] products
    cdef const double[:, ::1] waves
    cdef const double[::1] phases
    cdef double rate, smallest, allowance, keep, ridge, most, memory, grow
    cdef dq_cusum[2] sums
    cdef double[::1] center, spread, unit, x, phi, g, psi, q, y, e, z, u, m, a, b, own, recent, column
    cdef double[:, ::1] P, W, Q, V, A, C, B, L, joint, correlation, K, share
    cdef readonly long long tested, learned  # transitions whose residuals were taken, and those in the model
    cdef readonly int channel  # of the last alarm
    cdef double began  # the time of the first update
    cdef readonly SegmentTest segments  # or None, where there are more inputs than `most_inputs`
    cdef bint has_segments
    cdef double usual_distance  # of inputs, largest coordinate, in standard deviations; about one in fifty is farther away

    def __init__(self, Py_ssize_t n_state, Py_ssize_t n_action, Py_ssize_t n_actions, bint watch_reward,
                 const int[:, ::1] products, const double[:, ::1] waves, const double[::1] phases, long long burn_in,
                 double rate, double smallest, double allowance, double memory, double ridge, long long lag,
                 double model_memory, Py_ssize_t most_inputs, double most=2.0):
        self.n_state, self.n_actions = n_state, n_actions
        self.inputs, self.targets = n_state + n_action, n_state + watch_reward
        self.burn_in, self.n_scaling = burn_in, max(burn_in // 8, 20)
        cdef Py_ssize_t inputs = self.inputs, targets = self.targets
        self.row, self.first = np.zeros(inputs + targets), np.zeros((self.n_scaling, inputs + targets))
        self.lag, self.newest = lag, np.zeros((lag + 1, inputs + targets + 1))
        self.products, self.waves, self.phases = products, waves, phases
        self.n_products, self.n_waves = products.shape[0], waves.shape[0]
        self.features = 1 + inputs + self.n_products + self.n_waves
        self.n_scale, self.n_recent = 3 + 2 * inputs, 1 + inputs
        self.rate = 0.4 * rate  # each of the two tests here; the test of segments has the rest
        self.smallest, self.allowance, self.ridge = smallest, allowance * targets, ridge
        self.most, self.memory, self.grow = most, model_memory, 1.0 / (1.0 - 1.0 / model_memory)
        self.keep = 1.0 - 1.0 / memory
        cdef Py_ssize_t F = self.features, G = self.n_scale, R = self.n_recent
        self.center, self.spread, self.unit = np.zeros(inputs), np.ones(inputs), np.ones(targets)
        self.P, self.Q = np.eye(F), np.eye(G)
        self.W, self.V = np.zeros((targets, F)), np.zeros((targets, G))
        self.A, self.C, self.B, self.L = np.zeros((R, R)), np.zeros((targets, R)), np.zeros((targets, R)), np.zeros((R, R))
        self.share = np.zeros((2, targets))
        self.x, self.phi, self.g, self.recent = np.zeros(inputs), np.zeros(F), np.zeros(F), np.zeros(R)
        self.psi, self.q, self.column = np.zeros(G), np.zeros(G), np.zeros(max(F, G))
        self.y, self.e, self.z, self.u, self.m, self.a, self.b, self.own = np.zeros((8, targets))
        self.joint, self.correlation, self.K = np.eye(targets), np.eye(targets), np.eye(targets)
        self.has_segments = inputs <= most_inputs
        if self.has_segments:
            self.segments = SegmentTest(inputs, targets, self.features, burn_in, 0.2 * rate, smallest, model_memory)
        self.tested = self.learned = 0
        self.usual_distance = USUAL
        self.measure_own()
        dq_cusum_clear(&self.sums[0], burn_in // BLOCKS, 0.0, 0.0)
        dq_cusum_clear(&self.sums[1], burn_in // BLOCKS, 0.0, 0.0)

    cdef double fill(self, const double *row) noexcept nogil:
        """x, phi, the inputs of the linear model and the targets in their units, from a raw row; returns the distance of the inputs."""
        cdef Py_ssize_t i, k, D = self.inputs
        cdef double *f = &self.phi[0]
        cdef double far = 0.0
        f[0] = self.recent[0] = 1.0
        for i in range(D):
            self.x[i] = (row[i] - self.center[i]) / self.spread[i]
            far = fmax(far, fabs(self.x[i]))
            self.x[i] = fmax(-CLIP, fmin(CLIP, self.x[i]))
            f[1 + i] = self.x[i]
            self.recent[1 + i] = fmax(-4.0, fmin(4.0, self.x[i]))
        k = 1 + D
        for i in range(self.n_products):
            f[k + i] = self.x[self.products[i, 0]] * self.x[self.products[i, 1]]
        k += self.n_products
        for i in range(self.n_waves):
            f[k + i] = 1.4142135623730951 * cos(dot(&self.waves[i, 0], &self.x[0], D) + self.phases[i])
        for i in range(self.targets):
            self.y[i] = fmax(-LARGEST_TARGET, fmin(LARGEST_TARGET, row[D + i] / self.unit[i]))
        return far

    cdef void fill_psi(self, double h) noexcept nogil:
        """psi from x and the leverage.

        asinh: the log variance of a count is linear in its logarithm, and a parabola in x calls rare places free of noise.
        """
        cdef Py_ssize_t i, D = self.inputs
        cdef double x, novelty = log(h / (1.0 + h) + 1e-300)
        self.psi[0], self.psi[1], self.psi[2] = 1.0, novelty, novelty * novelty / 10.0
        for i in range(D):
            x = asinh(self.x[i])
            self.psi[3 + i], self.psi[3 + D + i] = x, x * x

    cdef double scale2(self, Py_ssize_t j, double h) noexcept nogil:
        """The variance that is expected of the residual of a target; psi has been filled."""
        cdef double expected = dot(&self.V[j, 0], &self.psi[0], self.n_scale)
        return fmax(exp(fmin(expected, 10.0) + LOG_CHI2), self.smallest * self.smallest) * (1.0 + h)

    cdef bint is_armed(self, Py_ssize_t k) noexcept nogil:
        """Whether a sum may give an alarm: what began in the burn-in is none, however long it lasts."""
        return self.sums[k].start >= self.began + self.burn_in

    cdef int step(self, const double *row, double now, bint testing) noexcept nogil:
        """One transition: test it, then learn from one that came before. Returns 1 + the channel that gives an alarm, or 0."""
        cdef Py_ssize_t j, k, d = self.targets, F = self.features
        cdef double h, novelty, e, expected, scale2, z2, ratio, mean = 0.0, structure, error, known
        cdef double floor2 = self.smallest * self.smallest
        cdef int alarm = 0
        cdef bint is_unknown
        self.fill(row)
        h = gain(&self.P[0, 0], &self.phi[0], &self.g[0], F)
        self.fill_psi(h)
        novelty = gain(&self.Q[0, 0], &self.psi[0], &self.q[0], self.n_scale)
        known = 1.0 / (1.0 + (h / KNOWN) * (h / KNOWN))
        is_unknown = h > UNKNOWN
        for j in range(d):
            e = self.y[j] - dot(&self.W[j, 0], &self.phi[0], F)
            expected = dot(&self.V[j, 0], &self.psi[0], self.n_scale)
            scale2 = self.scale2(j, h)
            z2 = e * e / scale2 / FREEDOM
            ratio = 0.0
            for k in range(2):
                ratio += exp((FREEDOM + 1.0) / 2.0 * log((1.0 + z2) / (1.0 + z2 / (FACTORS[k] * FACTORS[k])))) / FACTORS[k]
            mean += ratio
            self.z[j] = fmax(-LARGEST_Z, fmin(LARGEST_Z, e / sqrt(scale2)))
            if self.tested > 100:
                error = fmax(-4.0, fmin(4.0, log(e * e + floor2 + 1e-24) - expected))
                axpy(error / (1.0 + novelty), &self.q[0], &self.V[j, 0], self.n_scale)
            if testing:
                self.share[0, j] += 0.0 if is_unknown else log(ratio / 2.0)
        structure = self.predictable(known, testing)
        if testing:
            if self.sums[0].updates == 0.0:
                self.sums[0].start = self.sums[1].start = now
            if is_unknown:
                dq_cusum_skip(&self.sums[0])
            elif dq_cusum_add(&self.sums[0], log(mean / (2.0 * d)), now, self.rate) and self.is_armed(0):
                alarm = 1
            structure = fmin(structure - self.allowance, self.most)
            if dq_cusum_add(&self.sums[1], structure, now, self.rate) and self.is_armed(1) and alarm == 0:
                alarm = 2
            for k in range(2):
                if self.sums[k].level == 0.0:
                    for j in range(d):
                        self.share[k, j] = 0.0
            if self.has_segments and self.segments.test(&self.x[0], &self.y[0], h, now) and alarm == 0:
                alarm = 3 if self.segments.sums.start >= self.began + self.burn_in else 0
        if self.tested > 100:
            shrink(&self.Q[0, 0], &self.q[0], novelty, self.grow, self.n_scale)
            give_back(&self.Q[0, 0], &self.V[0, 0], &self.column[0], self.n_scale, d, self.tested, self.memory)
        self.follow()
        self.keep_for_later(row, h)
        return alarm

    cdef double predictable(self, double known, bint testing) noexcept nogil:
        """u from z, and the log likelihood ratio of what is predicted of it; its share of each coordinate if `testing`."""
        cdef Py_ssize_t j, d = self.targets
        cdef double total = 0.0
        substitute(&self.K[0, 0], &self.z[0], &self.u[0], d)
        for j in range(d):
            self.u[j] = fmax(-LARGEST_U, fmin(LARGEST_U, known * self.u[j]))
            self.m[j] = dot(&self.B[j, 0], &self.recent[0], self.n_recent)
            total += self.u[j] * self.m[j] - 0.5 * self.m[j] * self.m[j]
        if testing:
            # A coordinate's share is its evidence given all others: of a = S^-1 z and b = S^-1 m, S = K K', (a b - b^2 / 2) / S^-1_jj.
            substitute_back(&self.K[0, 0], &self.u[0], &self.a[0], d)
            substitute_back(&self.K[0, 0], &self.m[0], &self.b[0], d)
            for j in range(d):
                self.share[1, j] += (self.a[j] - 0.5 * self.b[j]) * self.b[j] * self.own[j]
        return total

    cdef void correlate(self) noexcept nogil:
        """Bring the covariance of z and its root K up to date.

        Residuals that count as zero (`smallest`) have a small variance: K takes it for 1, so that they stay small.
        """
        cdef Py_ssize_t i, j, d = self.targets
        cdef double pace = 1.0 / fmin(self.tested - 80.0, self.memory)
        for i in range(d):
            for j in range(d):
                self.joint[i, j] += pace * (self.z[i] * self.z[j] - self.joint[i, j])
        if self.tested % CORRELATE_EVERY != 0:
            return
        for i in range(d):
            for j in range(d):
                self.correlation[i, j] = self.joint[i, j] / sqrt((self.joint[i, i] + 1e-6) * (self.joint[j, j] + 1e-6))
            self.correlation[i, i] = 1.0
        factor(&self.correlation[0, 0], UNCORRELATED, &self.K[0, 0], d)
        for i in range(d):
            for j in range(i + 1):
                self.K[i, j] *= sqrt(fmax(self.joint[i, i], 1.0))
        self.measure_own()

    cdef void measure_own(self) noexcept nogil:
        """The variance of each coordinate that is not explained by the others: 1 / (S^-1)_jj."""
        cdef Py_ssize_t i, j, d = self.targets
        for j in range(d):
            for i in range(d):
                self.b[i] = 1.0 if i == j else 0.0
            substitute(&self.K[0, 0], &self.b[0], &self.b[0], d)
            self.own[j] = 1.0 / dot(&self.b[0], &self.b[0], d)

    cdef void follow(self) noexcept nogil:
        """Bring the models of recent residuals up to date."""
        cdef Py_ssize_t i, j, d = self.targets, R = self.n_recent
        if self.tested > 100:
            self.correlate()
        for i in range(R):
            for j in range(R):
                self.A[i, j] = self.keep * self.A[i, j] + self.recent[i] * self.recent[j]
        for j in range(d):
            for i in range(R):
                self.C[j, i] = self.keep * self.C[j, i] + self.recent[i] * self.u[j]
        if (self.tested + 1) % SOLVE_EVERY == 0:
            solve(&self.A[0, 0], &self.C[0, 0], self.ridge, &self.L[0, 0], &self.B[0, 0], R, d)

    cdef void keep_for_later(self, const double *row, double h) noexcept nogil:
        """Keep a transition, inputs, targets and the leverage, and learn those that are no longer among the newest."""
        cdef Py_ssize_t i, width = self.inputs + self.targets
        cdef double *place = &self.newest[self.tested % (self.lag + 1), 0]
        for i in range(width):
            place[i] = row[i]
        place[width] = h
        self.tested += 1
        while self.tested - self.learned > min(self.lag, self.tested // 3):
            self.learn(&self.newest[self.learned % (self.lag + 1), 0])
            self.learned += 1

    cdef void learn(self, const double *row) noexcept nogil:
        """Learn a transition; a wild one counts little, wherever it is and whatever it says."""
        cdef Py_ssize_t i, j, F = self.features
        cdef double h, e, largest, far = self.fill(row), weight = 1.0
        for j in range(self.targets):
            self.e[j] = self.y[j] - dot(&self.W[j, 0], &self.phi[0], F)
        if far > FARTHEST * self.usual_distance:
            weight = FARTHEST * self.usual_distance / far
            for i in range(F):
                self.phi[i] *= weight
        self.usual_distance = fmax(USUAL, self.usual_distance * (1.05 if far > self.usual_distance else 0.999))
        h = gain(&self.P[0, 0], &self.phi[0], &self.g[0], F)
        self.fill_psi(h)
        for j in range(self.targets):
            e = weight * self.e[j]
            largest = fmax(CLIPPED * sqrt(self.scale2(j, h)), CLIPPED_UNITS * sqrt(1.0 + h))
            e = fmax(-largest, fmin(largest, e))
            axpy(e / (1.0 + h), &self.g[0], &self.W[j, 0], F)
        if self.has_segments:
            self.segments.learn(&self.x[0], &self.y[0], &self.e[0], h / (weight * weight + 1e-300), row[self.inputs + self.targets], weight)
        shrink(&self.P[0, 0], &self.g[0], h, self.grow, F)
        give_back(&self.P[0, 0], &self.W[0, 0], &self.column[0], F, self.targets, self.learned, self.memory)

    cdef int read(self, state, action, next_state, reward) except -1:
        """Fill the row from what the user gave; an error leaves the test as it was."""
        cdef Py_ssize_t i, S = self.n_state, D = self.inputs
        read_moderate("state", state, S, &self.row[0])
        if self.n_actions > 0:
            read_one_hot(action, self.n_actions, &self.row[S])
        else:
            read_moderate("action", action, D - S, &self.row[S])
        read_moderate("next_state", next_state, S, &self.row[D])
        for i in range(S):
            self.row[D + i] -= self.row[i]
        if self.targets > S:
            if reward is None:
                raise ValueError("reward must be a number, got None: this detector watches the reward")
            read_moderate("reward", reward, 1, &self.row[D + S])
        return 0

    def update(self, state, action, next_state, reward, double now):
        """One transition: 0, or 1 + the number of the test that gives an alarm. `now` is its time."""
        cdef int alarm = 0
        cdef Py_ssize_t i
        self.read(state, action, next_state, reward)
        if self.seen == 0:
            self.began = now
        if self.seen < self.n_scaling:
            self.first[self.seen, :] = self.row
            self.seen += 1
            if self.seen == self.n_scaling:
                self.choose_units()
                for i in range(self.n_scaling):
                    self.step(&self.first[i, 0], 0.0, False)
            return 0
        self.seen += 1
        alarm = self.step(&self.row[0], now, self.seen > self.burn_in // 2)
        if alarm:
            self.channel = alarm - 1
        return alarm

    def choose_units(self):
        """Units of inputs and targets from the first transitions."""
        cdef Py_ssize_t i
        for i in range(self.inputs + self.targets):
            center, unit = usual_range(np.asarray(self.first)[:, i])
            if i < self.inputs:
                self.center[i], self.spread[i] = center, unit
            else:
                self.unit[i - self.inputs] = unit

    @property
    def levels(self):
        """(W, threshold, rate of such levels in a still world, start of the cycle, updates, cycles) of each test.

        Where the cycle may give no alarm the threshold is infinite and the rate 1.
        """
        return [
            (self.sums[k].level,
             dq_cusum_shown(&self.sums[k], self.rate) if self.is_armed(k) else INFINITY,
             dq_cusum_rate(&self.sums[k], self.sums[k].level) if self.is_armed(k) else 1.0,
             self.sums[k].start, self.sums[k].updates, self.sums[k].cycles)
            for k in range(2)
        ] + ([self.segments.levels()] if self.has_segments and self.segments.sums.start >= self.began + self.burn_in else [])

    @property
    def shares(self):
        """Evidence of each coordinate in each test since its cycle began, (2, targets)."""
        return np.array(self.share)

    def views(self):
        """The arrays that change, by name."""
        return {
            "first": self.first, "newest": self.newest, "center": self.center, "spread": self.spread, "unit": self.unit, "P": self.P,
            "W": self.W, "Q": self.Q, "V": self.V, "A": self.A, "C": self.C, "B": self.B, "joint": self.joint, "K": self.K,
            "share": self.share,
        }

    def state(self):
        """All that `restore` needs: copies of arrays."""
        saved = {name: np.array(view) for name, view in self.views().items()}
        cdef double[:, ::1] sums = np.zeros((2, DQ_NUMBERS))
        for k in range(2):
            dq_cusum_write(&self.sums[k], &sums[k, 0])
        saved["sums"] = np.asarray(sums)
        saved["counts"] = np.array([self.seen, self.tested, self.learned, self.channel, <long long>self.began], np.int64)
        saved["usual_distance"] = np.array([self.usual_distance])
        return saved | self.segments.state() if self.has_segments else saved

    def restore(self, saved):
        """Go on from `state()` of a test with the same settings."""
        for name, view in self.views().items():
            np.asarray(view)[...] = saved[name]
        self.measure_own()
        cdef const double[:, ::1] sums = np.ascontiguousarray(saved["sums"], np.float64)
        for k in range(2):
            dq_cusum_read(&self.sums[k], &sums[k, 0])
        self.seen, self.tested, self.learned, self.channel, self.began = saved["counts"]
        self.usual_distance = saved["usual_distance"][0]
        if self.has_segments:
            self.segments.restore(saved)
