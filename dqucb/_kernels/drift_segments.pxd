# Declarations for the model of the transitions, which owns a SegmentTest; see drift_segments.pyx.

from dqucb._kernels.cusum cimport dq_cusum


cdef class SegmentTest:
    cdef readonly Py_ssize_t inputs, targets, regressors, parts, size  # parts: normal scores of a transition; size: sums of a segment
    cdef Py_ssize_t n_scale, n_scores, paired_with, at_b, at_q, at_lag, at_factor, at_pair
    cdef readonly long long learned, tested
    cdef double rate, smallest, memory, grow, features, weight, excess, novelty, counted, usual
    cdef unsigned long long salt  # of the numbers that are added to residuals; 0 before the first transition
    cdef bint is_bent  # whether the full model is in use
    cdef dq_cusum sums
    cdef double[::1] x, r, psi, g, q, z, u, a, own, inverse, e, plain, whole, w, v, last, last_learned, now, mix, tempered
    cdef Py_ssize_t n_closed, n_waiting
    cdef double[::1] waiting, work, shrunk, square, together, pair, log_pair, score, divisor, evidence, column, n_blocks, joint_squares, of_all
    cdef double[:, ::1] mixing, P, W, Q, V, joint, correlation, K, partial, products, L, S, histogram, below, lagged, starts, mixed
    cdef double[:, ::1] block_sum, block_own, tempering
    cdef double[:, :, ::1] blocks, snapshots
    cdef long long[::1] held

    cdef double scored(self, Py_ssize_t c, double value) noexcept nogil
    cdef void whiten(self) noexcept nogil
    cdef void take(self, const double *x, const double *y, const double *full, double h, long long count) noexcept nogil
    cdef void prewhiten(self, const double *last) noexcept nogil
    cdef void learn(self, const double *x, const double *y, const double *full, double h, double tested_h, double weight) noexcept nogil
    cdef void follow_scale(self) noexcept nogil
    cdef void correlate(self) noexcept nogil
    cdef void follow_distribution(self) noexcept nogil
    cdef void follow_mixture(self, const double *full) noexcept nogil
    cdef void follow_scores(self) noexcept nogil
    cdef void temper(self) noexcept nogil
    cdef bint test(self, const double *x, const double *y, const double *full, double h, double now) noexcept nogil
    cdef void follow(self, double level, double now) noexcept nogil
    cdef double least(self) noexcept nogil
    cdef double threshold(self) noexcept nogil
    cdef double rate_now(self) noexcept nogil
    cdef void push(self, double now) noexcept nogil
    cdef bint is_full(self, Py_ssize_t level) noexcept nogil
    cdef void move(self, Py_ssize_t level, Py_ssize_t k, Py_ssize_t to, Py_ssize_t place) noexcept nogil
    cdef void add(self) noexcept nogil
    cdef double compare(self, const double *before, double *by_coordinate) noexcept nogil
    cdef double rescaled(self, const double *before, Py_ssize_t c, double tempering) noexcept nogil
    cdef double paired(self, const double *before, Py_ssize_t c, Py_ssize_t i, double shape, double q) noexcept nogil
    cdef double prepare(self, const double *before, double prior) noexcept nogil
    cdef double explained(self, const double *before, Py_ssize_t c) noexcept nogil
    cdef Py_ssize_t best(self) noexcept nogil
