"""All compiled code: Numba for loops over whole blocks of episodes, Cython for calls that Python makes once a step.

Numba kernels receive validated, C-contiguous arrays and never raise; inputs come first, outputs last. The Cython
classes are entry points: for speed, they validate the points that users pass in themselves. Every other package of the
library calls this one, which imports NumPy, Numba and the standard library only.
"""
