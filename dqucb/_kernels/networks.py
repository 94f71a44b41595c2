"""Fully connected ReLU networks of many seeds: outputs, derivatives, Adam.

The weights of a network are one row of float32: for each layer its matrix (inputs, outputs), then its biases. Matrix
products are BLAS's (Numba finds SciPy's); all else is done here, so that an update of a small network is a few calls
in place of a hundred. Seeds are computed one after the other and never mix.
"""

import numpy as np

from dqucb._kernels._jit import allocating_kernel, kernel


@kernel
def add_biases(biases, is_last, outputs):
    """outputs + biases, in place; in hidden layers what is negative becomes zero."""
    for row in range(outputs.shape[0]):
        for j in range(outputs.shape[1]):
            total = outputs[row, j] + biases[j]
            outputs[row, j] = total if is_last or total > 0 else np.float32(0.0)


@kernel
def silence(outputs, slopes):
    """Zero slopes at units whose output is zero: ReLU passes nothing on there."""
    for row in range(slopes.shape[0]):
        for j in range(slopes.shape[1]):
            slopes[row, j] = slopes[row, j] if outputs[row, j] > 0 else np.float32(0.0)


@kernel
def sum_rows(rows, total):
    """The sum of all rows."""
    total[:] = np.float32(0.0)
    for row in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += rows[row, j]


@allocating_kernel
def forward(sizes, weights, inputs, hidden, outputs):
    """Outputs (seeds, rows, last size) for inputs (seeds, rows, first size).

    hidden (seeds, rows * sum of hidden sizes) keeps what the hidden layers gave, one layer after the other, for
    `backward`.
    """
    rows, layers = inputs.shape[1], sizes.size - 1
    for seed in range(inputs.shape[0]):
        below, at, kept = inputs[seed], 0, 0
        for layer in range(layers):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            matrix = weights[seed, at : at + n_in * n_out].reshape((n_in, n_out))
            at += n_in * n_out
            is_last = layer == layers - 1
            here = outputs[seed]
            if not is_last:
                here = hidden[seed, kept : kept + rows * n_out].reshape((rows, n_out))
            np.dot(below, matrix, here)
            add_biases(weights[seed, at : at + n_out], is_last, here)
            at += n_out
            kept += rows * n_out
            below = here


@allocating_kernel
def backward(sizes, weights, inputs, hidden, slopes, gradient):
    """Derivatives by all weights, (seeds, P), from the slopes of a loss by the outputs, (seeds, rows, last size)."""
    rows, layers = inputs.shape[1], sizes.size - 1
    widest = 0
    for size in sizes:
        widest = max(widest, size)
    scratch = np.empty((2, rows * widest), np.float32)
    for seed in range(inputs.shape[0]):
        slope, at, kept = slopes[seed], weights.shape[1], hidden.shape[1]
        for layer in range(layers - 1, -1, -1):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            below = inputs[seed]
            if layer > 0:
                kept -= rows * n_in
                below = hidden[seed, kept : kept + rows * n_in].reshape((rows, n_in))
            at -= n_out
            sum_rows(slope, gradient[seed, at : at + n_out])
            at -= n_in * n_out
            np.dot(below.T, slope, gradient[seed, at : at + n_in * n_out].reshape((n_in, n_out)))
            if layer > 0:
                matrix = weights[seed, at : at + n_in * n_out].reshape((n_in, n_out))
                passed = scratch[layer % 2, : rows * n_in].reshape((rows, n_in))
                np.dot(slope, matrix.T, passed)
                silence(below, passed)
                slope = passed


@allocating_kernel
def adam(learning_rate, largest_norm, count, gradient, mean, square, weights):
    """The count-th step of Adam (Kingma and Ba 2015), with each seed's gradient cut to a largest norm."""
    size = np.float32(learning_rate / (1.0 - 0.9**count))
    unbias = np.float32(1.0 / np.sqrt(1.0 - 0.999**count))
    for seed in range(weights.shape[0]):
        slopes = gradient[seed]
        norm = np.sqrt(np.dot(slopes, slopes))
        share = np.float32(min(1.0, largest_norm / (norm + 1e-6)))
        for i in range(slopes.size):
            slope = share * slopes[i]
            mean[seed, i] += np.float32(0.1) * (slope - mean[seed, i])
            square[seed, i] = np.float32(0.999) * square[seed, i] + np.float32(0.001) * slope * slope
            root = unbias * np.sqrt(square[seed, i]) + np.float32(1e-8)
            weights[seed, i] -= size * mean[seed, i] / root


@kernel
def move_towards(goal, rate, weights):
    """weights + rate * (goal - weights), in place."""
    share = np.float32(rate)
    for seed in range(weights.shape[0]):
        for i in range(weights.shape[1]):
            weights[seed, i] += share * (goal[seed, i] - weights[seed, i])
