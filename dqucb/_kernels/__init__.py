"""All compiled code: Numba for loops over whole blocks of episodes, Cython for what Python calls once a step.

Arguments arrive validated, C-contiguous, float64 or integer; kernels never raise. Inputs come first,
outputs last. This room imports numpy, numba and math only; `problems`, `density` and `agents` call it.
"""
