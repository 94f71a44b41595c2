"""Q-learning on the outputs of networks: greedy choices, values of choices, targets, and the Huber loss.

Outputs are (seeds, rows, outputs); a choice is the index of an output. Actions of several dimensions have one choice
in each block of `bins` outputs.
"""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.rows import best_action


@kernel
def best_choices(outputs, bins, choices):
    """The index of the largest output of each block of `bins`, the first of equals, (seeds, rows, blocks)."""
    for seed in range(outputs.shape[0]):
        for row in range(outputs.shape[1]):
            for block in range(choices.shape[2]):
                first = block * bins
                choices[seed, row, block] = first + best_action(outputs[seed, row, first : first + bins])


@kernel
def mean_of_choices(outputs, choices, values):
    """The mean of the chosen outputs, (seeds, rows, 1)."""
    for seed in range(outputs.shape[0]):
        for row in range(outputs.shape[1]):
            total = np.float32(0.0)
            for k in range(choices.shape[2]):
                total += outputs[seed, row, choices[seed, row, k]]
            values[seed, row, 0] = total / np.float32(choices.shape[2])


@kernel
def mean_of_choices_backward(value_gradients, choices, output_gradients):
    """Gradients by each output, (seeds, rows, outputs), from those by `mean_of_choices`, (seeds, rows, 1)."""
    output_gradients[:] = np.float32(0.0)
    for seed in range(output_gradients.shape[0]):
        for row in range(output_gradients.shape[1]):
            share = value_gradients[seed, row, 0] / np.float32(choices.shape[2])
            for k in range(choices.shape[2]):
                output_gradients[seed, row, choices[seed, row, k]] += share


@kernel
def n_step_targets(discount, bound, rewards, bonus, alive, terminated, next_values, targets):
    """What Q is to become, (seeds, rows, parts):

        sum_k discount^k (r_k + bonus_k) + discount^length min(bound, next_value)

    rewards and bonus are (seeds, rows, k, parts). A chain is as long as it is alive; `next_values` are those of the
    state after its end and count unless it terminated.
    """
    for seed in range(targets.shape[0]):
        for row in range(targets.shape[1]):
            for part in range(targets.shape[2]):
                target, weight = 0.0, 1.0
                for k in range(alive.shape[2]):
                    if alive[seed, row, k]:
                        target += weight * (rewards[seed, row, k, part] + bonus[seed, row, k, part])
                        weight *= discount
                if not terminated[seed, row]:
                    target += weight * min(bound, next_values[seed, row, part])
                targets[seed, row, part] = target


@kernel
def huber_loss(delta, values, targets, loss, gradients):
    """The Huber loss of each seed, (seeds,), the mean over rows of the sum over parts, and its gradients by `values`.

    It is quadratic in errors up to `delta` and linear beyond (Huber 1964).
    """
    for seed in range(values.shape[0]):
        total = 0.0
        for row in range(values.shape[1]):
            for part in range(values.shape[2]):
                error = values[seed, row, part] - targets[seed, row, part]
                clipped = min(delta, max(-delta, error))
                total += clipped * (error - 0.5 * clipped)
                gradients[seed, row, part] = clipped / values.shape[1]
        loss[seed] = total / values.shape[1]
