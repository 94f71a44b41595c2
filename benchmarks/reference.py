"""What the paper's listing does: two scikit-learn densities, refitted at every step on the last n transitions.

Everything else is the same as in DQUCB with shared scope: root bonus, floor, learning rate, values of zero past
the horizon. NumPy tables, a Python step loop, no compiled code of ours.
"""

from collections import deque
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import KernelDensity


class RefitRun(NamedTuple):
    """Time of the measured steps, and bytes of tables, window and fitted estimators."""

    seconds: float
    steps: int
    nbytes: int
    likelihoods: np.ndarray
    transitions: list[tuple[int, int, int]]  # (s', s, a) of the measured steps


def run_refit(
    problem: Any,
    steps: int,
    window: int = 100,
    scale: float = 0.2,
    floor: float = 0.1,
    seed: int = 0,
    normalized: bool = True,
    full: bool = False,
) -> RefitRun:
    """Run `steps` steps in phase 0. With `full` the window is filled by unmeasured random steps first."""
    rng = np.random.default_rng(seed)
    phase = problem.phases[0]
    H, S, A = problem.horizon, problem.n_states, problem.n_actions
    bounds = problem.value_bounds
    Q = np.repeat(bounds[:H, None], S * A, axis=1).reshape(H, S, A)
    V = np.repeat(bounds[:, None], S, axis=1)
    visits = np.zeros((H, S, A), np.int64)
    recent: deque[tuple[int, int, int]] = deque(maxlen=window)
    joint, marginal = KernelDensity(), KernelDensity()
    # The normalised form divides by the kernel at zero: the quotient of the two normalising constants.
    ratio = np.sqrt(2.0 * np.pi) if normalized else 1.0
    model = phase.model.written_out()
    start = int(model.initial_state[0])
    if full:
        state = start
        for _ in range(window):
            action = int(rng.integers(A))
            next_state, _ = _draw(model, state, action, A, rng)
            recent.append((next_state, state, action))
            state = start if model.terminal[next_state] else next_state
        _refit(joint, marginal, recent)
    likelihoods = np.ones(steps)
    transitions = []
    state, step = start, 0
    began = thread_time()
    for number in range(steps):
        action = int(Q[step, state].argmax())
        next_state, reward = _draw(model, state, action, A, rng)
        terminated = bool(model.terminal[next_state])
        p = 1.0
        if recent:
            point = np.array([[next_state, state, action]], np.float64)
            p = float(np.exp(joint.score_samples(point)[0] - marginal.score_samples(point[:, 1:])[0])) * ratio
            p = max(floor, p)
        likelihoods[number] = p
        visits[step, state, action] += 1
        t = visits[step, state, action]
        bonus = min(scale / np.sqrt(t), bounds[step]) / p
        alpha = (H + 1.0) / (H + t)
        target = reward + bonus + (0.0 if terminated else V[step + 1, next_state])
        Q[step, state, action] = (1.0 - alpha) * Q[step, state, action] + alpha * target
        V[step, state] = min(bounds[step], Q[step, state].max())
        recent.append((next_state, state, action))
        transitions.append((next_state, state, action))
        _refit(joint, marginal, recent)
        step += 1
        state = next_state
        if terminated or step == H:
            state, step = start, 0
    seconds = thread_time() - began
    held = 8 * 3 * len(recent) + 8 * 5 * len(recent)  # the tuples, and the copies inside the two estimators
    return RefitRun(seconds, steps, Q.nbytes + V.nbytes + visits.nbytes + held, likelihoods, transitions)


def _draw(model: Any, state: int, action: int, n_actions: int, rng: np.random.Generator) -> tuple[int, float]:
    row = state * n_actions + action
    begin, end = model.row_start[row], model.row_start[row + 1]
    entry = begin + int(np.searchsorted(model.cumulative[begin:end], rng.random(), side="right"))
    return int(model.successor[entry]), float(model.reward[entry])


def _refit(joint: KernelDensity, marginal: KernelDensity, recent: "deque[tuple[int, int, int]]") -> None:
    sample = np.array(recent, np.float64)
    joint.fit(sample)
    marginal.fit(sample[:, 1:])
