"""All compiled code: Numba for loops over whole blocks of episodes, Cython for what Python calls once a step.

Numba kernels receive validated, C-contiguous arrays of numbers and never raise; inputs come first, outputs
last. The Cython classes are a door themselves, for speed: they check the points that users pass in. This room
imports numpy, numba and math only; `problems`, `density` and `agents` call it.
"""
