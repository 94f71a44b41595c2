"""Fully connected ReLU networks of many seeds: outputs, gradients, Adam, target updates.

The weights of a network are one row of float32: for each layer its matrix (inputs, outputs), then its biases. Matrix
products are BLAS's (Numba finds SciPy's); the rest is computed here, so that an update of a small network takes a few
calls instead of a hundred. Seeds are computed one after the other and never mix.
"""

import numpy as np

from dqucb._kernels._jit import allocating_kernel, kernel


@kernel
def add_biases(biases, is_last, outputs):
    """Add the biases in place; hidden layers also apply ReLU."""
    for row in range(outputs.shape[0]):
        for j in range(outputs.shape[1]):
            total = outputs[row, j] + biases[j]
            outputs[row, j] = total if is_last or total > 0 else np.float32(0.0)


@kernel
def relu_backward(outputs, gradients):
    """Set the gradient to zero, in place, at units whose output is zero."""
    for row in range(gradients.shape[0]):
        for j in range(gradients.shape[1]):
            gradients[row, j] = gradients[row, j] if outputs[row, j] > 0 else np.float32(0.0)


@kernel
def sum_rows(rows, total):
    """Sum over rows."""
    total[:] = np.float32(0.0)
    for row in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += rows[row, j]


@allocating_kernel
def forward(sizes, weights, inputs, hidden, outputs):
    """Outputs (seeds, rows, last size) for inputs (seeds, rows, first size).

    hidden (seeds, rows * sum of hidden sizes) keeps the activations of the hidden layers, layer after layer, for
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
def backward(sizes, weights, inputs, hidden, output_gradients, gradient):
    """The gradient of a loss, (seeds, P), from its gradients by the outputs, (seeds, rows, last size)."""
    rows, layers = inputs.shape[1], sizes.size - 1
    widest = 0
    for size in sizes:
        widest = max(widest, size)
    scratch = np.empty((2, rows * widest), np.float32)
    for seed in range(inputs.shape[0]):
        above, at, kept = output_gradients[seed], weights.shape[1], hidden.shape[1]
        for layer in range(layers - 1, -1, -1):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            below = inputs[seed]
            if layer > 0:
                kept -= rows * n_in
                below = hidden[seed, kept : kept + rows * n_in].reshape((rows, n_in))
            at -= n_out
            sum_rows(above, gradient[seed, at : at + n_out])
            at -= n_in * n_out
            np.dot(below.T, above, gradient[seed, at : at + n_in * n_out].reshape((n_in, n_out)))
            if layer > 0:
                matrix = weights[seed, at : at + n_in * n_out].reshape((n_in, n_out))
                passed = scratch[layer % 2, : rows * n_in].reshape((rows, n_in))
                np.dot(above, matrix.T, passed)
                relu_backward(below, passed)
                above = passed


@allocating_kernel
def adam(learning_rate, max_grad_norm, count, gradient, mean, square, weights, norms):
    """The count-th step of Adam (Kingma and Ba 2015), with each seed's gradient clipped to a norm.

    norms (seeds,) receives the norms before clipping.
    """
    size = np.float32(learning_rate / (1.0 - 0.9**count))
    unbias = np.float32(1.0 / np.sqrt(1.0 - 0.999**count))
    for seed in range(weights.shape[0]):
        row = gradient[seed]
        norms[seed] = np.sqrt(np.dot(row, row))
        share = np.float32(min(1.0, max_grad_norm / (norms[seed] + 1e-6)))
        for i in range(row.size):
            clipped = share * row[i]
            mean[seed, i] += np.float32(0.1) * (clipped - mean[seed, i])
            square[seed, i] = np.float32(0.999) * square[seed, i] + np.float32(0.001) * clipped * clipped
            root = unbias * np.sqrt(square[seed, i]) + np.float32(1e-8)
            weights[seed, i] -= size * mean[seed, i] / root


@kernel
def move_towards(online, tau, target):
    """The Polyak update target + tau * (online - target), in place."""
    share = np.float32(tau)
    for seed in range(target.shape[0]):
        for i in range(target.shape[1]):
            target[seed, i] += share * (online[seed, i] - target[seed, i])
