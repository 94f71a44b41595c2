# Sums of kernel profiles over the points of a window, in C for GCC's target_clones: the same source is compiled
# for AVX-512, AVX2 and plain x86-64, and the machine picks one at load time. Elementwise results are the same in
# all of them (no contraction, no reassociation), and the order of summation is explicit.

from libc.math cimport INFINITY, log

from dqucb._kernels.profiles cimport dq_exp  # brings the inline profiles into the including file

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
    #define DQ_LANES 8    /* partial sums: the order of summation is written here, not left to the SIMD width */
    #define DQ_BLOCK 512  /* points at a time: distances and values of a block stay in the first-level cache */

    /* sum_i k_i = exp(peak) * sum; peak stays 0 for profiles that are given as k and not as log k. */
    typedef struct { double peak, sum; } dq_log_sum;

    #define DQ_EACH(FORMULA) for (i = 0; i < n; i++) values[i] = FORMULA(squared[i], h, inverse)
    #define DQ_CASE(name, is_log, edge) case DQ_##name: DQ_EACH(dq_##name); break;

    /* Add the profiles of n points (a multiple of DQ_LANES) to *total; squared is IN, values is scratch. */
    DQ_INLINE void dq_add_profiles(int kernel, double h, double inverse, const double *squared, ptrdiff_t n,
                                   double *values, dq_log_sum *total) {
        double lanes[DQ_LANES];
        ptrdiff_t i, j;
        switch (kernel) { DQ_PROFILES(DQ_CASE) }
        if (dq_is_log(kernel)) {
            double peak;
            for (j = 0; j < DQ_LANES; j++) lanes[j] = values[j];
            for (i = DQ_LANES; i < n; i += DQ_LANES)
                for (j = 0; j < DQ_LANES; j++) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
            peak = lanes[0];
            for (j = 1; j < DQ_LANES; j++) peak = lanes[j] > peak ? lanes[j] : peak;
            if (peak == -INFINITY) return; /* squared distances above 1e308 carry no mass */
            if (peak > total->peak) {
                total->sum *= dq_exp(total->peak - peak);
                total->peak = peak;
            }
            peak = total->peak;
            for (i = 0; i < n; i++) values[i] = dq_exp(values[i] - peak);
        }
        for (j = 0; j < DQ_LANES; j++) lanes[j] = 0.0;
        for (i = 0; i < n; i += DQ_LANES)
            for (j = 0; j < DQ_LANES; j++) lanes[j] += values[i + j];
        total->sum += ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    }

    DQ_INLINE void dq_add_squares(const double *column, double x, ptrdiff_t n, double *squared) {
        for (ptrdiff_t i = 0; i < n; i++) squared[i] += (column[i] - x) * (column[i] - x);
    }

    /* One pass over the points: the kernel sum over the first `leading` coordinates (marginal, skipped if leading
       is 0 or all) and over all of them (joint). Column j starts at columns + j * stride. */
    DQ_CLONES void dq_kernel_sums(int kernel, double h, const double *columns, ptrdiff_t stride, ptrdiff_t n,
                                  const double *x, ptrdiff_t leading, ptrdiff_t dimension,
                                  dq_log_sum *marginal, dq_log_sum *joint);
    DQ_CLONES void dq_kernel_sums(int kernel, double h, const double *columns, ptrdiff_t stride, ptrdiff_t n,
                                  const double *x, ptrdiff_t leading, ptrdiff_t dimension,
                                  dq_log_sum *marginal, dq_log_sum *joint) {
        double squared[DQ_BLOCK], values[DQ_BLOCK];
        double inverse = 1.0 / h;
        double start = dq_is_log(kernel) ? -INFINITY : 0.0;
        marginal->peak = joint->peak = start;
        marginal->sum = joint->sum = 0.0;
        for (ptrdiff_t first = 0; first < n; first += DQ_BLOCK) {
            ptrdiff_t size = n - first < DQ_BLOCK ? n - first : DQ_BLOCK;
            ptrdiff_t padded = (size + DQ_LANES - 1) / DQ_LANES * DQ_LANES, j;
            for (j = 0; j < size; j++) squared[j] = 0.0;
            for (; j < padded; j++) squared[j] = INFINITY; /* every profile is 0 there */
            for (j = 0; j < leading; j++) dq_add_squares(columns + j * stride + first, x[j], size, squared);
            if (leading > 0 && leading < dimension)
                dq_add_profiles(kernel, h, inverse, squared, padded, values, marginal);
            for (j = leading; j < dimension; j++) dq_add_squares(columns + j * stride + first, x[j], size, squared);
            dq_add_profiles(kernel, h, inverse, squared, padded, values, joint);
        }
    }
    """
    ctypedef struct dq_log_sum:
        double peak
        double sum
    void dq_kernel_sums(int kernel, double h, const double *columns, Py_ssize_t stride, Py_ssize_t n,
                        const double *x, Py_ssize_t leading, Py_ssize_t dimension,
                        dq_log_sum *marginal, dq_log_sum *joint) noexcept nogil


cdef inline double log_of(dq_log_sum total) noexcept nogil:
    return total.peak + log(total.sum) if total.sum > 0.0 else -INFINITY
