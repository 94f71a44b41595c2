"""The six kernel profiles of scikit-learn's KernelDensity, scaled to k(0) = 1; the formulas are in profiles.pxd.

With u = distance / bandwidth: gaussian exp(-u^2/2), exponential exp(-u), linear 1 - u, cosine cos(pi u / 2),
epanechnikov 1 - u^2, tophat 1; the last four are zero for u >= 1.
"""

from libc.math cimport lgamma, log, pi

import numpy as np

KERNELS = ("gaussian", "exponential", "linear", "cosine", "epanechnikov", "tophat")
"""Names of the kernels; the position of a name is its integer code."""


def profile_values(str kernel, squared_distance, double bandwidth):
    """k(distance / bandwidth) for an array of squared distances, as a new float64 array of the same shape."""
    squared = np.ascontiguousarray(squared_distance, dtype=np.float64)
    values = np.empty_like(squared)
    cdef const double[::1] flat = squared.reshape(-1)  # IN
    cdef double[::1] out = values.reshape(-1)  # OUT
    cdef int code = KERNELS.index(kernel)
    cdef double inverse = 1.0 / bandwidth
    cdef Py_ssize_t i
    with nogil:
        for i in range(flat.shape[0]):
            out[i] = dq_profile(code, flat[i], bandwidth, inverse)
    return values.reshape(np.shape(squared_distance))


def zero_beyond(str kernel, double bandwidth, double smallest=1e-30):
    """The squared distance beyond which the profile is below `smallest`; bandwidth^2 for compact kernels."""
    if kernel == "gaussian":
        return -2.0 * log(smallest) * bandwidth * bandwidth
    if kernel == "exponential":
        return (log(smallest) * bandwidth) ** 2
    KERNELS.index(kernel)  # an unknown name is a ValueError here as in the other functions
    return bandwidth * bandwidth


def log_normalization(str kernel, double bandwidth, Py_ssize_t dimension):
    """c with density(x) = exp(c) * mean_i k(|x - x_i| / h), so that the density integrates to one over R^d.

    exp(-c) = h^d S_d I_d: S_d = 2 pi^(d/2) / Gamma(d/2) is the area of the unit sphere in R^d (DLMF 5.19.4) and
    I_d the integral of r^(d-1) k(r) over r >= 0.
    """
    cdef double d = dimension
    cdef double log_sphere = log(2.0) + 0.5 * d * log(pi) - lgamma(0.5 * d)
    return -(d * log(bandwidth) + log_sphere + _log_radial_integral(KERNELS.index(kernel), d))


cdef double _log_radial_integral(int kernel, double d) noexcept nogil:
    """log of I_d = integral of r^(d-1) k(r): elementary for all kernels but the cosine."""
    if kernel == DQ_GAUSSIAN:
        return (0.5 * d - 1.0) * log(2.0) + lgamma(0.5 * d)
    if kernel == DQ_EXPONENTIAL:
        return lgamma(d)
    if kernel == DQ_LINEAR:
        return -log(d * (d + 1.0))
    if kernel == DQ_EPANECHNIKOV:
        return log(2.0) - log(d * (d + 2.0))
    if kernel == DQ_TOPHAT:
        return -log(d)
    return _log_cosine_integral(d)


cdef double _log_cosine_integral(double d) noexcept nogil:
    """log of the integral of r^(d-1) cos(pi r / 2) over [0, 1].

    cos(pi r / 2) = sin(pi (1 - r) / 2), expanded in powers of 1 - r; each power is a beta integral (DLMF 5.12.1):
    I_d = sum_j (-1)^j (pi/2)^(2j+1) (d-1)! / (d+2j+1)!. The first term dominates in every dimension (the second
    is at most a fifth of it). The finite sum from integration by parts, used elsewhere, cancels: it has lost half
    its digits at d = 13, and without its constant of integration it is wrong in every even d.
    """
    cdef double term = 1.0, series = 1.0, square = 0.25 * pi * pi
    cdef int j
    for j in range(1, 12):  # the last term is below 1e-19 already for d = 1
        term *= -square / ((d + 2 * j) * (d + 2 * j + 1))
        series += term
    return log(0.5 * pi) - log(d * (d + 1.0)) + log(series)
