"""The allocation oracle: allocate N patients to K hospitals to maximise the sum of values[k, amount].

Exact (max,+) dynamic programming, O(K N^2), with totals[k, b] the best sum of the first k + 1 hospitals for b patients:

    totals[k, b] = max_a totals[k - 1, b - a] + values[k, a].

Where every row is concave (checked, O(K N)), the greedy rule, each patient to the largest gain, is exact as well,
O(K N). With an optimistic bonus rows are not concave and the greedy rule is wrong. Ties: both prefer the fewest
patients in the last hospital, then in the one before, and so on.
"""

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import allocating_kernel, kernel


@kernel
def is_concave(values, patients):
    """Whether the gain values[k, a + 1] - values[k, a] never increases in any row, up to `patients`."""
    for k in range(values.shape[0]):
        for a in range(1, patients):
            if values[k, a + 1] - values[k, a] > values[k, a] - values[k, a - 1]:
                return False
    return True


@kernel
def allocate_by_gain(values, patients, amounts):
    """Assign each patient to the largest gain, ties to the first; exact for concave rows. Fills `amounts`."""
    amounts[:] = 0
    for _ in range(patients):
        best, largest = 0, -np.inf
        for k in range(values.shape[0]):
            gain = values[k, amounts[k] + 1] - values[k, amounts[k]]
            if gain > largest:
                best, largest = k, gain
        amounts[best] += 1


@kernel
def allocate_by_programming(values, patients, totals, amounts):
    """Exact for any values. Fills `amounts` (K,); `totals` (K, patients + 1 or more) is scratch."""
    n_hospitals = values.shape[0]
    for b in range(patients + 1):
        totals[0, b] = values[0, b]
    for k in range(1, n_hospitals):
        before, now = totals[k - 1], totals[k]
        for b in range(patients + 1):
            now[b] = before[b] + values[k, 0]
        # Amounts outside, patients inside: no choice is stored, so that the inner loop vectorises.
        for a in range(1, patients + 1):
            value = values[k, a]
            for b in range(a, patients + 1):
                total = before[b - a] + value
                now[b] = total if total > now[b] else now[b]
    left = patients
    for k in range(n_hospitals - 1, 0, -1):
        a = 0  # the same sums as above, so that one of them is bit-identical
        while a < left and totals[k - 1, left - a] + values[k, a] != totals[k, left]:
            a += 1
        amounts[k] = a
        left -= a
    amounts[0] = left


@kernel
def allocate_one(values, patients, totals, amounts):
    """The optimal allocation by the faster exact method. Fills `amounts`; `totals` is scratch."""
    if is_concave(values, patients):
        allocate_by_gain(values, patients, amounts)
    else:
        allocate_by_programming(values, patients, totals, amounts)


@kernel
def allocate_between_knots(knots, left, share, patients, values, totals, amounts):
    """One allocation for each of R matrices that are linear between L knots, (R, K, L), and patients (R,).

    values[k, a] = (1 - share[a]) knots[k, left[a]] + share[a] knots[k, left[a] + 1]. Fills `amounts` (R, K); `values`
    and `totals`, (K, N + 1), are scratch.
    """
    for row in range(knots.shape[0]):
        n = patients[row]
        for k in range(knots.shape[1]):
            for a in range(n + 1):
                at = left[a]
                values[k, a] = (1.0 - share[a]) * knots[row, k, at] + share[a] * knots[row, k, at + 1]
        allocate_one(values, n, totals, amounts[row])


@kernel
def allocate_by_room(load, capacity, patients, by_share, amounts):
    """Assign each patient where the overflow grows least, ties to the most free capacity. Fills `amounts`.

    `load` (K,) is the occupancy without them. Free capacity is counted in beds, or with `by_share` as a fraction of the
    capacity. The overflow of a hospital is convex in its patients, so that the total overflow is minimal.
    """
    amounts[:] = 0
    for _ in range(patients):
        best, least, most = 0, np.inf, -np.inf
        for k in range(load.shape[0]):
            room = capacity[k] - load[k] - amounts[k]
            growth = min(1.0, max(0.0, 1.0 - room))
            space = room / capacity[k] if by_share else room
            if growth < least or (growth == least and space > most):
                best, least, most = k, growth, space
        amounts[best] += 1


@allocating_kernel
def _allocate(values, patients):
    amounts = np.zeros(values.shape[0], np.int64)
    totals = np.empty((values.shape[0], patients + 1))
    allocate_one(values, patients, totals, amounts)
    return amounts


def allocate(values: NDArray[np.float64], patients: int) -> NDArray[np.int64]:
    """The amounts (K,), `patients` in all, that maximise sum_k values[k, amount]; values (K, N + 1), N >= patients."""
    return _allocate(values, patients)
