# The normal distribution: probabilities, quantiles, and normal numbers from a counter.

from libc.math cimport erfc, log, sqrt


cdef inline double normal_tail_quantile(double p) noexcept nogil:
    """The quantile of p < 0.02425 (Acklam's rational approximation, relative error below 1.2e-9)."""
    cdef double q = sqrt(-2.0 * log(p))
    return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q - 2.549732539343734e+00) * q
             + 4.374664141464968e+00) * q + 2.938163982698783e+00) / (
        (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q + 3.754408661907416e+00) * q + 1.0)


cdef inline double normal_quantile(double p) noexcept nogil:
    """The quantile of p in (0, 1)."""
    cdef double q = p - 0.5, r = q * q
    if p < 0.02425:
        return normal_tail_quantile(p)
    if p > 1.0 - 0.02425:
        return -normal_tail_quantile(1.0 - p)
    return (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r + 1.383577518672690e+02) * r
             - 3.066479806614716e+01) * r + 2.506628277459239e+00) * q / (
        ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r + 6.680131188771972e+01) * r
         - 1.328068155288572e+01) * r + 1.0)


cdef inline double normal_probability(double x) noexcept nogil:
    """The probability of a standard normal number below x."""
    return 0.5 * erfc(-x * 0.7071067811865476)


cdef inline double normal_of(unsigned long long count) noexcept nogil:
    """A standard normal number that depends on the counter alone (splitmix64)."""
    cdef unsigned long long z = (count + 1) * 0x9E3779B97F4A7C15ULL
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL
    z = z ^ (z >> 31)
    return normal_quantile((<double>(z >> 11) + 0.5) / 9007199254740992.0)
