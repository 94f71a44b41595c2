"""Obvious, slow twins of the continuous densities: NumPy and SciPy only, nothing from the library."""

from collections import deque
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

LOG_PROFILES = {"gaussian": lambda u: -0.5 * u**2, "exponential": lambda u: -u}
COMPACT_PROFILES = {
    "linear": lambda u: 1 - u,
    "cosine": lambda u: np.sin(0.5 * np.pi * (1 - u)),
    "epanechnikov": lambda u: (1 - u) * (1 + u),
    "tophat": lambda u: np.ones_like(u),
}


def profile(kernel, u):
    u = np.asarray(u, dtype=float)
    if kernel in LOG_PROFILES:
        return np.exp(LOG_PROFILES[kernel](u))
    return np.where(u < 1, COMPACT_PROFILES[kernel](np.minimum(u, 1.0)), 0.0)


def log_kernel_sum(kernel, distances, bandwidth):
    u = np.asarray(distances) / bandwidth
    if kernel in LOG_PROFILES:
        return logsumexp(LOG_PROFILES[kernel](u))
    total = np.where(distances < bandwidth, profile(kernel, u), 0.0).sum()
    return np.log(total) if total > 0 else -np.inf


def log_normalization(kernel, bandwidth, dimension):
    """-log of h^d S_d times the integral of r^(d-1) k(r), by quadrature around the integrand's peak."""
    if kernel in LOG_PROFILES:
        peak = np.sqrt(dimension - 1) if kernel == "gaussian" else dimension - 1.0
        pieces = [0.0, max(0.5 * peak, 0.5), peak + 1, 2 * peak + 8, 4 * peak + 60]
    else:
        pieces = [0.0, 0.5, 0.8, 0.95, 1.0]
    integral = sum(
        quad(lambda r: r ** (dimension - 1) * profile(kernel, r), a, b, epsabs=0, epsrel=1e-12, limit=200)[0]
        for a, b in pairwise(pieces)
    )
    log_sphere = np.log(2) + 0.5 * dimension * np.log(np.pi) - gammaln(0.5 * dimension)
    return -(dimension * np.log(bandwidth) + log_sphere + np.log(integral))


class SlidingDensity:
    """The last `window` points in a deque; each score is a sum over all of them."""

    def __init__(self, window, kernel, bandwidth):
        self.points = deque(maxlen=window)
        self.kernel, self.bandwidth = kernel, bandwidth

    def push(self, x):
        self.points.append(np.array(x, dtype=float))

    def score(self, x):
        points = np.array(self.points)
        distances = np.sqrt(((points - x) ** 2).sum(axis=1))
        constant = log_normalization(self.kernel, self.bandwidth, points.shape[1])
        return constant - np.log(len(points)) + log_kernel_sum(self.kernel, distances, self.bandwidth)


def transition_likelihood(transitions, query, kernel, bandwidth, likelihood="normalized", floor=0.0):
    """p(s' | s, a) over a list of (s, a, s') with vectors as entries; 1 without mass at (s, a)."""
    if not transitions:
        return 1.0
    pairs = np.array([np.concatenate([s, a]) for s, a, _ in transitions])
    nexts = np.array([after for _, _, after in transitions])
    pair_squares = ((pairs - np.concatenate(query[:2])) ** 2).sum(axis=1)
    joint_squares = pair_squares + ((nexts - query[2]) ** 2).sum(axis=1)
    marginal = log_kernel_sum(kernel, np.sqrt(pair_squares), bandwidth)
    if marginal == -np.inf:
        return 1.0
    log_p = min(0.0, log_kernel_sum(kernel, np.sqrt(joint_squares), bandwidth) - marginal)
    if likelihood == "density":
        small, large = pairs.shape[1], pairs.shape[1] + nexts.shape[1]
        log_p += log_normalization(kernel, bandwidth, large) - log_normalization(kernel, bandwidth, small)
    return max(float(np.exp(log_p)), floor)
