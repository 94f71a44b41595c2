"""The six kernel profiles of scikit-learn's KernelDensity, scaled to k(0) = 1; the formulas are in profiles.pxd.

With u = distance / bandwidth: gaussian exp(-u^2/2), exponential exp(-u), linear 1 - u, cosine cos(pi u / 2),
epanechnikov 1 - u^2, tophat 1; the last four are zero for u >= 1.
"""

from libc.math cimport lgamma, log, pi

import numpy as np

KERNELS = tuple(dq_profile_row(code).name.decode() for code in range(DQ_COUNT))
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
    return dq_profile_row(KERNELS.index(kernel)).edge(bandwidth, smallest)


def log_normalization(str kernel, double bandwidth, Py_ssize_t dimension):
    """c with density(x) = exp(c) * mean_i k(|x - x_i| / h), so that the density integrates to one over R^d.

    exp(-c) = h^d S_d I_d: S_d = 2 pi^(d/2) / Gamma(d/2) is the area of the unit sphere in R^d (DLMF 5.19.4) and
    I_d the integral of r^(d-1) k(r) over r >= 0.
    """
    cdef double d = dimension
    cdef double log_sphere = log(2.0) + 0.5 * d * log(pi) - lgamma(0.5 * d)
    return -(d * log(bandwidth) + log_sphere + dq_profile_row(KERNELS.index(kernel)).integral(d))
