"""Obvious, slow twins of the fast paths. Imports nothing from the library."""

from collections import defaultdict, deque

import numpy as np


def profile(kernel, distance, bandwidth):
    """k(distance / bandwidth) with k(0) = 1, as scikit-learn defines its kernels."""
    u = np.asarray(distance, float) / bandwidth
    inside = u < 1
    return {
        "gaussian": lambda: np.exp(-0.5 * u * u),
        "exponential": lambda: np.exp(-u),
        "linear": lambda: np.where(inside, 1 - u, 0.0),
        "cosine": lambda: np.where(inside, np.cos(0.5 * np.pi * u), 0.0),
        "epanechnikov": lambda: np.where(inside, 1 - u * u, 0.0),
        "tophat": lambda: np.where(inside, 1.0, 0.0),
    }[kernel]()


class DiscreteTransitions:
    """Keeps the last n tuples of each window in a deque and sums kernels over all of them."""

    def __init__(self, window, kernel, bandwidth, scope, features=None, floor=0.0):
        self.kernel, self.bandwidth, self.scope, self.floor = kernel, bandwidth, scope, floor
        self.features = features
        self.windows = defaultdict(lambda: deque(maxlen=window))

    def key(self, state, action, step):
        return {"pair": (step, state, action), "step": step, "shared": 0}[self.scope]

    def place(self, state):
        return [state] if self.features is None else list(self.features[state])

    def push(self, state, action, next_state, step=0):
        self.windows[self.key(state, action, step)].append((next_state, state, action))

    def sums(self, state, action, next_state, step=0):
        """(joint, marginal)."""
        held = self.windows[self.key(state, action, step)]
        here = np.array([self.place(next_state) + self.place(state) + [action]], float)
        if not held:
            return 0.0, 0.0
        tuples = np.array([self.place(n) + self.place(s) + [a] for n, s, a in held], float)
        skip = len(self.place(state))
        joint = profile(self.kernel, np.linalg.norm(tuples - here, axis=1), self.bandwidth).sum()
        marginal = profile(self.kernel, np.linalg.norm((tuples - here)[:, skip:], axis=1), self.bandwidth).sum()
        return joint, marginal

    def likelihood(self, state, action, next_state, step=0):
        joint, marginal = self.sums(state, action, next_state, step)
        if marginal <= 0:
            return 1.0
        return max(self.floor, joint / marginal)


def learning_rate_weights(t, H):
    """alpha_t^i for i = 0..t by their definition: alpha_i times the product of (1 - alpha_j), j > i."""
    alpha = [(H + 1) / (H + i) for i in range(1, t + 1)]
    weights = [np.prod([1 - a for a in alpha])]
    weights += [alpha[i] * np.prod([1 - a for a in alpha[i + 1 :]]) for i in range(t)]
    return np.array(weights)
