# distutils: extra_compile_args = -fno-math-errno -fno-trapping-math
# Without errno for negative arguments (there are none) and traps (nobody catches them) GCC vectorises sqrt and
# selections; values do not change. Other compilers ignore what they do not know.
"""The continuous sliding windows: exact kernel sums over a ring of real points.

With z_i the n points in the window, log sum_i k(|x - z_i| / h) is taken relative to the nearest point
(log-sum-exp), so that it is finite and right however far away x is. Everything runs under the GIL: one query
takes microseconds, and a push from another thread cannot move the points under it.
"""

from libc.math cimport exp, isfinite, log, sqrt

from dqucb._kernels.kernel_sums cimport dq_kernel_sums, dq_log_sum, log_of
from dqucb._kernels.ring cimport PointRing, as_vector, read_vector

import numpy as np

from dqucb._kernels.profiles import KERNELS, log_normalization


cdef class ContinuousWindow(PointRing):
    """A sliding window with the log density of a point under it; `bandwidth` None means Scott's rule."""

    cdef bint adaptive, stale
    cdef double log_norm

    def __init__(self, Py_ssize_t window, str kernel, bandwidth, Py_ssize_t dimension):
        self.begin(window, kernel, 1.0 if bandwidth is None else bandwidth)
        self.adaptive = bandwidth is None
        self.stale = True
        if dimension > 0:
            self.set_dimension(dimension)

    def push(self, x):
        """Add the point `x`; once the window is full, the oldest point leaves."""
        if self.size == 0:
            x = as_vector("x", x)
            if not np.isfinite(x).all():
                raise ValueError(f"x must be finite, got {x}")
            self.set_dimension(x.size)
        read_vector("x", x, self.size, self.row)
        self.commit_row()
        self.stale |= self.adaptive

    def score(self, x):
        """log density at `x`: log_normalization - log n + log sum_i k(|x - x_i| / h); -inf where it is zero."""
        self.prepare()
        read_vector("x", x, self.size, self.row)
        return self.log_density(self.row)

    def push_rows(self, const double[:, ::1] rows):
        """Add validated points, first row first."""
        if self.size == 0 and rows.shape[1] > 0:
            self.set_dimension(rows.shape[1])
        self.commit_all(rows)
        self.stale |= self.adaptive

    def score_rows(self, const double[:, ::1] rows):
        """log density at each of the validated rows."""
        self.prepare()
        self.check_columns(rows)
        scores = np.empty(rows.shape[0])
        cdef double[::1] out = scores
        cdef Py_ssize_t i
        for i in range(rows.shape[0]):
            out[i] = self.log_density(&rows[i, 0])
        return scores

    @property
    def dimension(self):
        """Number of coordinates of a point; None before the first push fixes it."""
        return self.size if self.size > 0 else None

    @property
    def current_bandwidth(self):
        """The bandwidth that `score` uses now; Scott's needs points."""
        if self.adaptive:
            self.prepare()
        return self.width

    cdef inline double log_density(self, const double *x) noexcept:
        cdef dq_log_sum marginal, joint
        dq_kernel_sums(self.code, self.width, self.columns, self.capacity, self.count, x, 0, self.size,
                       &marginal, &joint)
        return self.log_norm - log(<double>self.count) + log_of(joint)

    cdef int prepare(self) except -1:
        """Refuse an empty window; refresh what depends on its content."""
        if self.count == 0:
            raise ValueError("the window is empty: push at least one point before asking for a density")
        if self.stale:
            if self.adaptive:
                self.width = self.scott()
            self.log_norm = log_normalization(KERNELS[self.code], self.width, self.size)
            self.stale = False
        return 0

    cdef double scott(self) except -1.0:
        """n^(-1/(d+4)) times the mean over coordinates of the sample standard deviation (Scott 1992)."""
        cdef double spread = 0.0, mean, squares
        cdef const double *column
        cdef Py_ssize_t i, j, n = self.count
        for j in range(self.size):
            column = self.columns + j * self.capacity
            mean = squares = 0.0
            for i in range(n):
                mean += column[i] / n
            for i in range(n):
                squares += (column[i] - mean) ** 2
            spread += sqrt(squares / max(n - 1, 1)) / self.size
        if not 0.0 < spread < 1e150:
            raise ValueError(f"bandwidth 'scott' needs points with a spread above 0, got {n} with spread {spread}")
        return spread * (<double>n) ** (-1.0 / (self.size + 4))


cdef class TransitionWindow(PointRing):
    """A sliding window of (state, action, next state) and the likelihood of the last given the first two."""

    cdef Py_ssize_t state_dim, action_dim
    cdef const double[::1] state_scale, action_scale
    cdef double log_factor, floor

    def __init__(self, Py_ssize_t window, str kernel, double bandwidth, const double[::1] state_scale,
                 const double[::1] action_scale, double log_factor, double likelihood_floor):
        self.begin(window, kernel, bandwidth)
        self.set_dimension(2 * state_scale.shape[0] + action_scale.shape[0])  # first: without memory, no scales to read
        self.state_scale = state_scale
        self.action_scale = action_scale
        self.state_dim = state_scale.shape[0]
        self.action_dim = action_scale.shape[0]
        self.log_factor = log_factor
        self.floor = likelihood_floor

    cdef int read(self, state, action, next_state) except -1:
        """Fill the row with (state, action, next state), each divided by its scale."""
        self.read_part("state", state, self.state_scale, 0)
        self.read_part("action", action, self.action_scale, self.state_dim)
        self.read_part("next_state", next_state, self.state_scale, self.state_dim + self.action_dim)
        return 0

    cdef int read_part(self, str name, value, const double[::1] scale, Py_ssize_t start) except -1:
        cdef Py_ssize_t i
        read_vector(name, value, scale.shape[0], self.row + start)
        for i in range(scale.shape[0]):
            self.row[start + i] /= scale[i]
            if not isfinite(self.row[start + i]):
                raise ValueError(f"{name} must be finite after division by scale {scale[i]}, got {value!r}")
        return 0

    def push(self, state, action, next_state, step=0):
        """Add one transition; once the window is full, the oldest leaves. `step` is ignored: one shared window."""
        self.read(state, action, next_state)
        self.commit_row()

    def likelihood(self, state, action, next_state, step=0):
        """p(next_state | state, action) = exp(log_factor) * joint / marginal, floored; 1 without mass at (s, a)."""
        cdef dq_log_sum marginal, joint
        cdef double p
        self.read(state, action, next_state)
        if self.count == 0:
            return 1.0
        dq_kernel_sums(self.code, self.width, self.columns, self.capacity, self.count, self.row,
                       self.state_dim + self.action_dim, self.size, &marginal, &joint)
        if marginal.sum <= 0.0:
            return 1.0
        # The ratio is at most 1 in exact arithmetic; rounding may say otherwise.
        p = exp(self.log_factor + min(0.0, log_of(joint) - log_of(marginal)))
        return p if p > self.floor else self.floor
