# The kernel profiles k(u), u = distance / bandwidth, k(0) = 1, as inline C point functions for other Cython files.
#
# They are C and not Cython because the loops over them carry GCC's target_clones attribute, which Cython
# cannot write, and because an inline C function is vectorised into each clone. None of them branches.
# Arguments everywhere: squared distance, bandwidth h, and inverse = 1 / h, which loops compute once.
#
# A new profile is three functions and one row of DQ_PROFILES; names, codes and every switch come from that table, so
# that a profile without one of its functions does not compile.

cdef extern from *:
    """
    #ifndef DQUCB_PROFILES
    #define DQUCB_PROFILES
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    /* e^x for x <= 0: x = k ln 2 + r with |r| <= ln(2)/2, Taylor to r^13 (remainder 4e-18), then the exponent
       bits. Below -708 the result would leave the normal range and is 0. The constants ln2_high (21 trailing
       zero bits, so that k * ln2_high is exact) and ln2_low are the usual two-part reduction (Cody and Waite 1980). */
    static inline double dq_exp(double x) {
        const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer in the low bits */
        double inside = x < -708.0 ? -708.0 : x;
        double shifted = inside * 1.4426950408889634 + shift;
        double k = shifted - shift;
        double r = (inside - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
        double r2 = r * r, r4 = r2 * r2;
        double low = (1.0/2 + r * (1.0/6)) + r2 * (1.0/24 + r * (1.0/120));
        double middle = (1.0/720 + r * (1.0/5040)) + r2 * (1.0/40320 + r * (1.0/362880));
        double high = (1.0/3628800 + r * (1.0/39916800)) + r2 * (1.0/479001600 + r * (1.0/6227020800.0));
        double value = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
        uint64_t bits, exponent;
        memcpy(&bits, &value, sizeof bits);
        memcpy(&exponent, &shifted, sizeof exponent);
        bits += exponent << 52;
        memcpy(&value, &bits, sizeof value);
        return x < -708.0 ? 0.0 : value;
    }

    /* k(u), or log k for the profiles that never reach zero: gaussian -u^2/2, exponential -u. */
    static inline double dq_gaussian(double squared, double h, double inverse) {
        (void)h;
        return -0.5 * ((squared * inverse) * inverse);
    }
    static inline double dq_exponential(double squared, double h, double inverse) {
        (void)h;
        return -(sqrt(squared) * inverse);
    }

    /* The four compact profiles; scikit-learn's support test is distance < h, so that u = 1 is outside. */
    static inline double dq_linear(double squared, double h, double inverse) {
        double distance = sqrt(squared), value = 1.0 - distance * inverse;
        return distance < h ? value : 0.0;
    }
    static inline double dq_epanechnikov(double squared, double h, double inverse) {
        double value = 1.0 - (squared * inverse) * inverse;
        return sqrt(squared) < h ? value : 0.0;
    }
    static inline double dq_tophat(double squared, double h, double inverse) {
        (void)inverse;
        return sqrt(squared) < h ? 1.0 : 0.0;
    }
    /* cos(pi u / 2) = (1 - u)(1 + u) * sum_n c_n u^(2n) with c_n = sum_(j<=n) (-1)^j (pi/2)^(2j) / (2j)!: the cosine's
       Taylor series divided by 1 - u^2, which takes out its zero at u = 1, so that the relative precision stays
       there, and leaves c_0 = 1, so that k(0) = 1 exactly. Up to u^20; the next coefficient is 8e-20. */
    static inline double dq_cosine(double squared, double h, double inverse) {
        double distance = sqrt(squared), u = distance * inverse, t = u * u;
        double tail = -0.23370055013616983 + t * (0.019968957764878188 + t * (-0.0008945229984747746
            + t * (2.473727636465199e-05 + t * (-4.64766008408616e-07 + t * (6.321469473201112e-09
            + t * (-6.513361059074086e-11 + t * (5.26020559053867e-13 + t * (-3.419461019595456e-15
            + t * 1.8278159503151067e-17))))))));
        double value = ((1.0 - u) * (1.0 + u)) * (1.0 + t * tail);
        return distance < h ? value : 0.0;
    }

    /* log of I_d, the integral of r^(d-1) k(r) over r >= 0: elementary for all kernels but the cosine. */
    static inline double dq_integral_gaussian(double d) { return (0.5 * d - 1.0) * log(2.0) + lgamma(0.5 * d); }
    static inline double dq_integral_exponential(double d) { return lgamma(d); }
    static inline double dq_integral_linear(double d) { return -log(d * (d + 1.0)); }
    static inline double dq_integral_epanechnikov(double d) { return log(2.0) - log(d * (d + 2.0)); }
    static inline double dq_integral_tophat(double d) { return -log(d); }
    /* cos(pi r / 2) = sin(pi (1 - r) / 2), expanded in powers of 1 - r; each power is a beta integral (DLMF 5.12.1):
       I_d = sum_j (-1)^j (pi/2)^(2j+1) (d-1)! / (d+2j+1)!. The first term dominates in every dimension (the second
       is at most a fifth of it). The finite sum from integration by parts, used elsewhere, cancels: it has lost half
       its digits at d = 13, and without its constant of integration it is wrong in every even d. */
    static inline double dq_integral_cosine(double d) {
        const double pi = 3.14159265358979323846;
        double term = 1.0, series = 1.0, square = 0.25 * pi * pi;
        for (int j = 1; j < 12; j++) { /* the last term is below 1e-19 already for d = 1 */
            term *= -square / ((d + 2 * j) * (d + 2 * j + 1));
            series += term;
        }
        return log(0.5 * pi) - log(d * (d + 1.0)) + log(series);
    }

    /* The squared distance beyond which k is below `smallest`. */
    static inline double dq_edge_gaussian(double h, double smallest) { return -2.0 * log(smallest) * h * h; }
    static inline double dq_edge_exponential(double h, double smallest) {
        return (log(smallest) * h) * (log(smallest) * h);
    }
    static inline double dq_edge_compact(double h, double smallest) { (void)smallest; return h * h; }

    /* The table: name, whether its formula gives log k, the edge. */
    #define DQ_PROFILES(ROW) \
        ROW(gaussian, 1, dq_edge_gaussian) \
        ROW(exponential, 1, dq_edge_exponential) \
        ROW(linear, 0, dq_edge_compact) \
        ROW(cosine, 0, dq_edge_compact) \
        ROW(epanechnikov, 0, dq_edge_compact) \
        ROW(tophat, 0, dq_edge_compact)

    #define DQ_CODE(name, is_log, edge) DQ_##name,
    enum { DQ_PROFILES(DQ_CODE) DQ_COUNT };

    typedef struct {
        const char *name;
        int is_log;
        double (*formula)(double, double, double);
        double (*integral)(double);
        double (*edge)(double, double);
    } dq_row;

    /* The row of a code between 0 and DQ_COUNT - 1. */
    static inline const dq_row *dq_profile_row(int kernel) {
        #define DQ_ROW(name, is_log, edge) {#name, is_log, dq_##name, dq_integral_##name, edge},
        static const dq_row rows[] = {DQ_PROFILES(DQ_ROW)};
        return &rows[kernel];
    }

    static inline int dq_is_log(int kernel) { return dq_profile_row(kernel)->is_log; }

    static inline double dq_profile(int kernel, double squared, double h, double inverse) {
        double value = dq_profile_row(kernel)->formula(squared, h, inverse);
        return dq_is_log(kernel) ? dq_exp(value) : value;
    }
    #endif
    """
    ctypedef struct dq_row:
        const char *name
        double integral(double d) noexcept nogil
        double edge(double h, double smallest) noexcept nogil
    int DQ_COUNT
    const dq_row *dq_profile_row(int kernel) noexcept nogil
    double dq_exp(double x) noexcept nogil
    double dq_profile(int kernel, double squared, double h, double inverse) noexcept nogil
