"""Q-learning on outputs of networks: greedy choices, values of choices, goals of chains, slopes of the loss.

Outputs are (seeds, rows, outputs); a choice is the index of an output. Actions of several dimensions have one choice
in each block of `bins` outputs.
"""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.rows import best_action


@kernel
def best_choices(outputs, bins, choices):
    """The largest output of each block of `bins`, the first of equals, (seeds, rows, blocks)."""
    for seed in range(outputs.shape[0]):
        for row in range(outputs.shape[1]):
            for block in range(choices.shape[2]):
                first = block * bins
                choices[seed, row, block] = first + best_action(outputs[seed, row, first : first + bins])


@kernel
def mean_of_choices(outputs, choices, values):
    """The mean of the outputs chosen, (seeds, rows, 1)."""
    for seed in range(outputs.shape[0]):
        for row in range(outputs.shape[1]):
            total = np.float32(0.0)
            for k in range(choices.shape[2]):
                total += outputs[seed, row, choices[seed, row, k]]
            values[seed, row, 0] = total / np.float32(choices.shape[2])


@kernel
def slopes_of_mean(slopes, choices, by_output):
    """From the slopes by `mean_of_choices`, (seeds, rows, 1), those by each output."""
    by_output[:] = np.float32(0.0)
    for seed in range(by_output.shape[0]):
        for row in range(by_output.shape[1]):
            share = slopes[seed, row, 0] / np.float32(choices.shape[2])
            for k in range(choices.shape[2]):
                by_output[seed, row, choices[seed, row, k]] += share


@kernel
def slopes_of_huber(discount, bound, largest, rewards, bonus, alive, terminated, following, values, slopes):
    """The slopes of the Huber loss at values (seeds, rows, parts), the mean over rows, towards the goal

        sum_k discount^k (r_k + bonus_k) + discount^length min(bound, following)

    of each chain: rewards and bonuses are (seeds, rows, k, parts), and a chain is as long as it is alive. `following`
    is expected after its end, unless it terminated. The loss is linear from errors of `largest` on.
    """
    for seed in range(values.shape[0]):
        for row in range(values.shape[1]):
            for part in range(values.shape[2]):
                goal, weight = 0.0, 1.0
                for k in range(alive.shape[2]):
                    if alive[seed, row, k]:
                        goal += weight * (rewards[seed, row, k, part] + bonus[seed, row, k, part])
                        weight *= discount
                if not terminated[seed, row]:
                    goal += weight * min(bound, following[seed, row, part])
                error = values[seed, row, part] - goal
                slopes[seed, row, part] = min(largest, max(-largest, error)) / values.shape[1]
