"""The ring of the last `window` real points, and the fast reader of what users pass in as a point.

Points lie dimension by dimension, so that loops over points vectorise.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport isfinite
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from dqucb._kernels.profiles import KERNELS


cdef int read_vector(str name, object value, Py_ssize_t size, double *out) except -1:
    """Read `size` finite numbers into `out`: lists, tuples, plain numbers and float64 vectors without a detour."""
    cdef Py_ssize_t i, length
    if isinstance(value, (float, int)):
        value = (value,)
    elif type(value) is list:
        value = tuple(value)  # a number's __float__ could shorten the list while it is read
    if type(value) is tuple:
        length = len(<tuple>value)
        if length == size:
            try:
                for i in range(size):
                    out[i] = (<tuple>value)[i]
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"{name} must be {size} finite numbers, got {value!r}") from None
    else:
        length = copy_float64(value, size, out)
        if length < 0:
            length = copy_float64(as_vector(name, value), size, out)
    if length != size:
        raise ValueError(f"{name} must have {size} numbers, got {length}")
    for i in range(size):
        if not isfinite(out[i]):
            raise ValueError(f"{name} must be finite, got {out[i]} at index {i}")
    return 0


cdef Py_ssize_t copy_float64(object value, Py_ssize_t size, double *out) except -2:
    """Copy a contiguous float64 vector of `size` numbers; returns its length, or -1 if it is something else."""
    cdef Py_buffer buffer
    cdef Py_ssize_t length = -1
    try:
        PyObject_GetBuffer(value, &buffer, PyBUF_ND | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError):
        return -1
    if buffer.ndim == 1 and buffer.format != NULL and buffer.format[0] == b"d" and buffer.format[1] == 0:
        length = buffer.shape[0]
        if length == size:
            memcpy(out, buffer.buf, size * sizeof(double))
    PyBuffer_Release(&buffer)
    return length


cdef object as_vector(str name, object value):
    """`value` as a contiguous float64 vector; words and complex numbers are not cast silently."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = np.atleast_1d(np.ascontiguousarray(array, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a vector of finite numbers, got {value!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a vector of at least one number, got shape {array.shape}")
    return array


cdef class PointRing:
    """The last `window` points: O(dimension) per push, storage doubled as needed up to `window`, then fixed.

    Arguments of the constructors are validated by the callers in `density`.
    """

    def __cinit__(self, *args, **kwargs):
        self.window = 1
        self.width = 1.0

    def __dealloc__(self):
        free(self.columns)
        free(self.row)

    def __len__(self):
        return self.count

    @property
    def kernel(self):
        """Name of the kernel."""
        return KERNELS[self.code]

    @property
    def points(self):
        """The window's content, oldest first: a copy of shape (len, dimension)."""
        cdef Py_ssize_t i, j, slot, n = self.count, oldest = self.next_slot - self.count + self.window
        copy = np.empty((n, self.size))
        cdef double[:, ::1] out = copy
        if n != self.count or self.size != out.shape[1]:
            raise RuntimeError("the window changed while it was copied: use it from one thread at a time")
        for i in range(n):
            slot = (oldest + i) % self.window
            for j in range(self.size):
                out[i, j] = self.columns[j * self.capacity + slot]
        return copy

    @property
    def nbytes(self):
        """Bytes held for points: it grows with the content up to the window, never with the stream."""
        return (self.capacity + 1) * self.size * sizeof(double)

    def reset(self):
        """Forget every point; the dimension stays."""
        self.count = self.next_slot = 0

    cdef int begin(self, Py_ssize_t window, str kernel, double width) except -1:
        """Settings, once: another window over the same memory would leave it."""
        if self.begun:
            raise RuntimeError(f"a {type(self).__name__} is set up once: make a new one instead of calling __init__ again")
        if window < 1:
            raise ValueError(f"window must be >= 1, got {window}")
        self.code = KERNELS.index(kernel)
        self.window = window
        self.width = width
        self.begun = True
        return 0

    cdef int set_dimension(self, Py_ssize_t size) except -1:
        if self.row != NULL:
            raise RuntimeError("the dimension of a window is set once")
        self.row = <double *>malloc(size * sizeof(double))
        if self.row == NULL:
            raise MemoryError(f"no memory for a point of {size} numbers")
        self.size = size
        return 0

    cdef int reserve(self, Py_ssize_t wanted) except -1:
        """Room for `wanted` points (at most the window); only ever called before the ring has wrapped."""
        cdef Py_ssize_t capacity = max(self.capacity, 16), j
        if wanted <= self.capacity:
            return 0
        while capacity < wanted:
            capacity *= 2
        capacity = min(capacity, self.window)
        cdef double *columns = <double *>malloc(<size_t>capacity * self.size * sizeof(double))
        if columns == NULL:
            raise MemoryError(f"no memory for a window of {capacity} points of {self.size} numbers")
        for j in range(self.size):
            if self.count > 0:
                memcpy(columns + j * capacity, self.columns + j * self.capacity, self.count * sizeof(double))
        free(self.columns)
        self.columns = columns
        self.capacity = capacity
        return 0

    cdef int check_columns(self, const double[:, ::1] rows) except -1:
        """The loops below run without bounds: a wrong number of columns stops here."""
        if rows.shape[1] != self.size or self.size == 0:
            raise ValueError(f"points must have {self.size or 'a fixed number of'} columns, got {rows.shape[1]}")
        return 0

    cdef void commit(self, const double *point) noexcept:
        """Write one point over the oldest; room was reserved before."""
        cdef Py_ssize_t j
        for j in range(self.size):
            self.columns[j * self.capacity + self.next_slot] = point[j]
        self.next_slot = self.next_slot + 1 if self.next_slot + 1 < self.window else 0
        if self.count < self.window:
            self.count += 1

    cdef int commit_row(self) except -1:
        if self.count == self.capacity and self.count < self.window:
            self.reserve(self.count + 1)
        self.commit(self.row)
        return 0

    cdef int commit_all(self, const double[:, ::1] rows) except -1:
        cdef Py_ssize_t i
        if rows.shape[0] == 0:
            return 0
        self.check_columns(rows)
        self.reserve(min(self.window, self.count + rows.shape[0]))
        for i in range(rows.shape[0]):
            self.commit(&rows[i, 0])
        return 0

    def ring(self):
        """(points oldest first, next slot): all that `fill` needs to continue with the same bits."""
        return self.points, self.next_slot

    def fill(self, const double[:, ::1] points, Py_ssize_t next_slot):
        """Replace the content by `points`, placed so that the next push goes to `next_slot`."""
        cdef Py_ssize_t n = points.shape[0]
        if n > self.window or next_slot != (n if n < self.window else next_slot % self.window) or next_slot < 0:
            raise ValueError(f"next_slot must fit {n} points in a window of {self.window}, got {next_slot}")
        if n > 0:
            self.check_columns(points)
            self.reserve(n)
        self.count = 0
        self.next_slot = next_slot if n == self.window else 0
        self.commit_all(points)
