"""How deviations from a model depend on its features, from few rows: chosen by the marginal likelihood.

Let e be the deviations of n rows from a model that was fitted before, one output at a time, and x their features. The
candidates are no correction, one linear in the inputs (the first features) and one in all features, each with m
features admitted from 2 m rows on:

    e = x w + noise,    w ~ N(0, g s^2 M^-1),    noise ~ N(0, s^2),

where M is the mean product of the features before the change, so that g is the ratio of the variance that the
correction explains to that of the noise, on a grid; 1 / s^2 is the prior of s^2. Candidate and g are those of the
largest marginal likelihood. Deviations that do not depend on the inputs are left alone: for them, no correction wins.

Rows that follow each other are alike. Where the old model was wrong a little, they show a small and regular error that
any smooth function fits, and that function can be far too large elsewhere. So w' M w, the mean square of a correction
over the states before the change, may be at most LARGEST times that of the deviations it was learned from. Corrections
of Pendulum and CartPole that predicted later rows better had a ratio of 0.3 to 5; those that predicted them more than
ten times worse had one of 6 to 520. Limits of 5 and 20 gave nearly the same errors.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RATIOS = 10.0 ** np.arange(-2, 7)  # the grid of g
RIDGE = 1e-8
LARGEST = 10.0


class Correction(NamedTuple):
    """The chosen weights, what is left of each deviation when its own row is left out of the regression, and the log
    marginal likelihood of each output up to a constant."""

    weights: NDArray[np.float64]  # (features, outputs), zero where nothing is corrected
    left_out: NDArray[np.float64]  # (rows, outputs)
    likelihood: NDArray[np.float64]  # (outputs,)


def mean_products(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """M = x'x / n, with a small ridge in each feature's own unit: features may depend on each other."""
    products = x.T @ x / len(x)
    squares = products.diagonal()
    products.flat[:: len(products) + 1] += RIDGE * np.where(squares > 0.0, squares, 1.0)
    return np.asarray(products, np.float64)


def log_marginal_likelihood(ratios: NDArray[np.float64], projected: NDArray[np.float64], total: NDArray[np.float64],
                            n: int) -> NDArray[np.float64]:  # fmt: skip
    """log p(e | g) up to a constant, (grid, outputs).

    With whitened features z = x M^-1/2 = U D V', `ratios` g d_k^2 and h_k = g d_k^2 / (1 + g d_k^2) it is
    1/2 sum_k log(1 - h_k) - n/2 log(e'e + n v - sum_k h_k (U'e)_k^2), where v is the noise of the old model: deviations
    are not known more exactly than that.
    """
    left = total - ratios / (1.0 + ratios) @ np.square(projected)
    return np.asarray(-0.5 * np.log1p(ratios).sum(1)[:, None] - 0.5 * n * np.log(left), np.float64)


def correction(x: NDArray[np.float64], deviations: NDArray[np.float64], products: NDArray[np.float64],
               noise: NDArray[np.float64], sizes: tuple[int, ...]) -> Correction:  # fmt: skip
    """The most likely correction of each output.

    Parameters
    ----------
    x, deviations : arrays
        (rows, features) and (rows, outputs).
    products : array
        M, from `mean_products`.
    noise : array
        Variance of the residuals of the old model, positive, for each output.
    sizes : tuple of int
        How many of the first features each candidate has.
    """
    n = len(x)
    total = np.square(deviations).sum(0) + n * noise
    weights, left_out = np.zeros((x.shape[1], deviations.shape[1])), deviations.copy()
    best = -0.5 * n * np.log(total)
    for m in sizes:
        if n < 2 * m:
            continue
        lower = np.linalg.cholesky(products[:m, :m])
        u, d, vt = np.linalg.svd(np.linalg.solve(lower, x[:, :m].T).T, full_matrices=False)
        projected = u.T @ deviations
        ratios = RATIOS[:, None] * np.square(d)
        shrinkage = ratios / (1.0 + ratios)
        scores = log_marginal_likelihood(ratios, projected, total, n) - np.log(len(sizes) * len(RATIOS))
        factors = RATIOS[:, None] * d / (1.0 + ratios)  # of U'e in the whitened weights, whose squares sum to w' M w
        scores[np.square(factors) @ np.square(projected) > LARGEST * total / n] = -np.inf
        for j in np.flatnonzero(scores.max(0) > best):
            at = int(scores[:, j].argmax())
            weights[:, j] = 0.0
            weights[:m, j] = np.linalg.solve(lower.T, vt.T @ (factors[at] * projected[:, j]))
            explained = u @ (shrinkage[at] * projected[:, j])
            left_out[:, j] = (deviations[:, j] - explained) / (1.0 - np.square(u) @ shrinkage[at])
        best = np.maximum(best, scores.max(0))
    return Correction(weights, left_out, best)
