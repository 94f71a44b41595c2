cdef int read_vector(str name, object value, Py_ssize_t size, double *out) except -1
cdef object as_vector(str name, object value)


cdef class PointRing:
    cdef double *columns  # column j holds coordinate j of every slot: columns[j * capacity + slot]
    cdef double *row  # the point being read; it enters the ring only when all of it is valid
    cdef readonly Py_ssize_t window
    cdef Py_ssize_t size, capacity, count, next_slot
    cdef int code
    cdef bint begun
    cdef double width

    cdef int begin(self, Py_ssize_t window, str kernel, double width) except -1
    cdef int set_dimension(self, Py_ssize_t size) except -1
    cdef int reserve(self, Py_ssize_t wanted) except -1
    cdef int check_columns(self, const double[:, ::1] rows) except -1
    cdef void commit(self, const double *point) noexcept
    cdef int commit_row(self) except -1
    cdef int commit_all(self, const double[:, ::1] rows) except -1
