"""A running model of the transitions, whose residuals the test in drift_segments.pyx looks at.

The model predicts y = s' - s (in units of its spread) from phi(s, a): 1, the coordinates, their products, random Fourier
features. It is fitted by recursive least squares to all transitions but the newest ones (a third, at most `lag`): a model
that learns a new law at once would explain it before the test has seen enough of it. It forgets what is older than
`model_memory` transitions: a few hundred features fit the places where a learning agent now is, not all where it has been.
"""

from libc.math cimport INFINITY, cos, fabs, fmax, fmin, sqrt

from dqucb._kernels.drift_algebra cimport axpy, dot, gain, give_back, shrink
from dqucb._kernels.drift_segments cimport SegmentTest
from dqucb._kernels.ring cimport read_vector

from operator import index

import numpy as np

DEF CLIP = 30.0  # standardised inputs end here
DEF LARGEST = 1e300  # of a number in a transition
DEF LARGEST_TARGET = 1e6  # of a target, in its unit
DEF USUAL = 4.0  # the distance from the centre, in standard deviations, that counts as usual at first, and always
DEF FARTHEST = 2.0  # usual distances: the model learns less from what is farther away, so that one wild value does not change it
DEF CLIPPED = 6.0  # standard deviations of a residual, and at least
DEF CLIPPED_UNITS = 4.0  # units of the target: the model learns from no larger one


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
    """The model for inputs of `inputs` numbers and `targets` numbers to predict; arguments are validated by the caller.

    `products` (pairs, 2) and `waves` (features, inputs), `phases` (features,) define phi.
    """

    cdef readonly Py_ssize_t inputs, targets, features, n_state, n_actions
    cdef readonly long long seen, burn_in, n_scaling, lag
    cdef double[::1] row
    cdef double[:, ::1] first, newest  # the transitions that fix the units; a ring of those still to be learned
    cdef Py_ssize_t n_products, n_waves
    cdef const int[:, ::1] products
    cdef const double[:, ::1] waves
    cdef const double[::1] phases
    cdef double memory, grow
    cdef double[::1] center, spread, unit, x, phi, g, y, e, column
    cdef double[:, ::1] P, W
    cdef readonly long long tested, learned  # transitions whose residuals were taken, and those in the model
    cdef double began  # the time of the first update
    cdef readonly SegmentTest segments
    cdef double usual_distance  # of inputs, largest coordinate, in standard deviations; about one in fifty is farther away

    def __init__(self, Py_ssize_t n_state, Py_ssize_t n_action, Py_ssize_t n_actions, bint watch_reward,
                 const int[:, ::1] products, const double[:, ::1] waves, const double[::1] phases, long long burn_in,
                 double rate, double smallest, long long lag, double model_memory):
        self.n_state, self.n_actions = n_state, n_actions
        self.inputs, self.targets = n_state + n_action, n_state + watch_reward
        self.burn_in, self.n_scaling = burn_in, max(burn_in // 8, 20)
        cdef Py_ssize_t inputs = self.inputs, targets = self.targets
        self.row, self.first = np.zeros(inputs + targets), np.zeros((self.n_scaling, inputs + targets))
        self.lag, self.newest = lag, np.zeros((lag + 1, inputs + targets + 1))
        self.products, self.waves, self.phases = products, waves, phases
        self.n_products, self.n_waves = products.shape[0], waves.shape[0]
        self.features = 1 + inputs + self.n_products + self.n_waves
        self.memory, self.grow = model_memory, 1.0 / (1.0 - 1.0 / model_memory)
        cdef Py_ssize_t F = self.features
        self.center, self.spread, self.unit = np.zeros(inputs), np.ones(inputs), np.ones(targets)
        self.P, self.W = np.eye(F), np.zeros((targets, F))
        self.x, self.phi, self.g, self.column = np.zeros(inputs), np.zeros(F), np.zeros(F), np.zeros(F)
        self.y, self.e = np.zeros((2, targets))
        self.segments = SegmentTest(inputs, targets, F, burn_in, rate, smallest, model_memory)
        self.tested = self.learned = 0
        self.usual_distance = USUAL

    cdef double fill(self, const double *row) noexcept nogil:
        """x, phi and the targets in their units, from a raw row; returns the distance of the inputs."""
        cdef Py_ssize_t i, k, D = self.inputs
        cdef double *f = &self.phi[0]
        cdef double far = 0.0
        f[0] = 1.0
        for i in range(D):
            self.x[i] = (row[i] - self.center[i]) / self.spread[i]
            far = fmax(far, fabs(self.x[i]))
            self.x[i] = fmax(-CLIP, fmin(CLIP, self.x[i]))
            f[1 + i] = self.x[i]
        k = 1 + D
        for i in range(self.n_products):
            f[k + i] = self.x[self.products[i, 0]] * self.x[self.products[i, 1]]
        k += self.n_products
        for i in range(self.n_waves):
            f[k + i] = 1.4142135623730951 * cos(dot(&self.waves[i, 0], &self.x[0], D) + self.phases[i])
        for i in range(self.targets):
            self.y[i] = fmax(-LARGEST_TARGET, fmin(LARGEST_TARGET, row[D + i] / self.unit[i]))
        return far

    cdef bint is_armed(self) noexcept nogil:
        """Whether there may be an alarm: what began in the burn-in is none, however long it lasts."""
        return self.segments.sums.start >= self.began + self.burn_in

    cdef bint step(self, const double *row, double now, bint testing) noexcept nogil:
        """One transition: test it, then learn from one that came before. Returns whether it gives an alarm."""
        cdef Py_ssize_t j, F = self.features
        cdef double h
        cdef bint alarm = False
        self.fill(row)
        h = gain(&self.P[0, 0], &self.phi[0], &self.g[0], F)
        if testing:
            for j in range(self.targets):
                self.e[j] = self.y[j] - dot(&self.W[j, 0], &self.phi[0], F)
            alarm = self.segments.test(&self.x[0], &self.y[0], &self.e[0], h, now) and self.is_armed()
        self.keep_for_later(row, h)
        return alarm

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
        self.segments.learn(&self.x[0], &self.y[0], &self.e[0], h / (weight * weight + 1e-300), row[self.inputs + self.targets], weight)
        for j in range(self.targets):
            largest = fmax(CLIPPED / self.segments.inverse[j], CLIPPED_UNITS) * sqrt(1.0 + h)
            e = fmax(-largest, fmin(largest, weight * self.e[j]))
            axpy(e / (1.0 + h), &self.g[0], &self.W[j, 0], F)
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
        """One transition: whether it gives an alarm. `now` is its time."""
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
            return False
        self.seen += 1
        return self.step(&self.row[0], now, self.seen > self.burn_in // 2)

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
    def level(self):
        """(level, threshold, rate of such levels in a still world, start of the best segment, updates, cycles).

        Where there may be no alarm the threshold is infinite and the rate 1.
        """
        level, threshold, rate, *others = self.segments.levels()
        return (level, threshold, rate, *others) if self.is_armed() else (level, INFINITY, 1.0, *others)

    def views(self):
        """The arrays that change, by name."""
        return {
            "first": self.first, "newest": self.newest, "center": self.center, "spread": self.spread, "unit": self.unit, "P": self.P,
            "W": self.W,
        }

    def state(self):
        """All that `restore` needs: copies of arrays."""
        saved = {name: np.array(view) for name, view in self.views().items()}
        saved["counts"] = np.array([self.seen, self.tested, self.learned, <long long>self.began], np.int64)
        saved["usual_distance"] = np.array([self.usual_distance])
        return saved | self.segments.state()

    def restore(self, saved):
        """Go on from `state()` of a model with the same settings."""
        for name, view in self.views().items():
            np.asarray(view)[...] = saved[name]
        self.seen, self.tested, self.learned, self.began = saved["counts"]
        self.usual_distance = saved["usual_distance"][0]
        self.segments.restore(saved)
