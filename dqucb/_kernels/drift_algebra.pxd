# Vectors and symmetric matrices for the drift tests; every SIMD width gives the same bits.

from libc.math cimport fmax, sqrt

cdef extern from *:
    """
    #include <stddef.h>
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #define DQ_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
    #define DQ_INLINE static inline __attribute__((always_inline))
    #else
    #define DQ_CLONES
    #define DQ_INLINE static inline
    #endif

    /* Eight partial sums: the order of summation is written here, so that every SIMD width gives the same bits. */
    DQ_INLINE double dq_dot(const double *a, const double *b, ptrdiff_t n) {
        double lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0}, rest = 0.0;
        ptrdiff_t i, j;
        for (i = 0; i + 8 <= n; i += 8)
            for (j = 0; j < 8; j++) lanes[j] += a[i + j] * b[i + j];
        for (; i < n; i++) rest += a[i] * b[i];
        return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7])) + rest;
    }

    /* g = P f; returns f' P f. */
    DQ_CLONES static double dq_gain(const double *P, const double *f, double *g, ptrdiff_t n) {
        ptrdiff_t i;
        for (i = 0; i < n; i++) g[i] = dq_dot(P + i * n, f, n);
        return dq_dot(f, g, n);
    }

    /* P <- (P - g g' / (1 + h)) grow: entry (i, j) from the product g_i g_j in either order, so that P stays symmetric. */
    DQ_CLONES static void dq_shrink(double *P, const double *g, double h, double grow, ptrdiff_t n) {
        ptrdiff_t i, j;
        double factor = 1.0 / (1.0 + h);
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) P[i * n + j] = (P[i * n + j] - (g[i] * g[j]) * factor) * grow;
    }
    """
    double dot "dq_dot"(const double *a, const double *b, Py_ssize_t n) noexcept nogil
    double gain "dq_gain"(const double *P, const double *f, double *g, Py_ssize_t n) noexcept nogil
    void shrink "dq_shrink"(double *P, const double *g, double h, double grow, Py_ssize_t n) noexcept nogil


cdef inline void axpy(double c, const double *x, double *y, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        y[i] += c * x[i]


cdef inline void factor(const double *A, double ridge, double *L, Py_ssize_t n) noexcept nogil:
    """L (n, n) with L L' = A + ridge I, by Cholesky; A is symmetric and full, above the diagonal L stays as it is."""
    cdef Py_ssize_t i, j
    cdef double total
    for i in range(n):
        for j in range(i + 1):
            total = A[i * n + j] - dot(L + i * n, L + j * n, j)
            if i == j:
                L[i * n + i] = sqrt(fmax(total + ridge, 1e-12))
            else:
                L[i * n + j] = total / L[j * n + j]


cdef inline void substitute(const double *L, const double *c, double *x, Py_ssize_t n) noexcept nogil:
    """x with L x = c, L lower triangular; c and x may be the same."""
    cdef Py_ssize_t i
    for i in range(n):
        x[i] = (c[i] - dot(L + i * n, x, i)) / L[i * n + i]


cdef inline void substitute_back(const double *L, const double *c, double *x, Py_ssize_t n) noexcept nogil:
    """x with L' x = c, L lower triangular; c and x may be the same."""
    cdef Py_ssize_t i, j
    cdef double total
    for i in range(n - 1, -1, -1):
        total = c[i]
        for j in range(i + 1, n):
            total -= L[j * n + i] * x[j]
        x[i] = total / L[i * n + i]


cdef inline void solve(const double *A, const double *C, double ridge, double *L, double *B, Py_ssize_t n,
                Py_ssize_t d) noexcept nogil:
    """B (d, n) with (A + ridge I) B_j = C_j; A is symmetric and full."""
    cdef Py_ssize_t k
    factor(A, ridge, L, n)
    for k in range(d):
        substitute(L, C + k * n, B + k * n, n)
        substitute_back(L, B + k * n, B + k * n, n)


cdef enum:
    DQ_RIDGE_EVERY = 4  # updates after which the ridge of one more feature comes back


cdef inline void give_back(double *P, double *W, double *column, Py_ssize_t n, Py_ssize_t targets, long long count,
                           double memory) noexcept nogil:
    """A regression forgets its ridge with the rest, and P would grow without bound where nothing new comes.

    So the ridge comes back feature by feature, as if a weight by itself had been seen to be zero.
    """
    cdef Py_ssize_t i = (count // DQ_RIDGE_EVERY) % n, j
    cdef double unit = sqrt(DQ_RIDGE_EVERY * n / memory), h
    if count % DQ_RIDGE_EVERY != 0:
        return
    for j in range(n):
        column[j] = unit * P[i * n + j]
    h = unit * column[i]
    for j in range(targets):
        axpy(-unit * W[j * n + i] / (1.0 + h), column, W + j * n, n)
    shrink(P, column, h, 1.0, n)
