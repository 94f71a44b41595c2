"""Streams and detectors that the tests of drift share."""

import numpy as np
import pytest

from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector


def finite_stream(seed, steps, change_at=None, states=4, actions=2):
    """A chain whose moves slip; more so after the change."""
    rng = np.random.default_rng(seed)
    out, state = [], 0
    for t in range(steps):
        slip = 0.2 if change_at is None or t < change_at else 0.7
        action = int(rng.integers(actions))
        following = int(rng.integers(states)) if rng.random() < slip else (state + 1 + action) % states
        out.append((state, action, following))
        state = following
    return out


def moving_stream(seed, steps, change_at=None, noise=0.05, drag=0.3):
    """A driven mass; its drag changes."""
    rng = np.random.default_rng(seed)
    out, state = [], np.zeros(2)
    for t in range(steps):
        k = 0.1 if change_at is None or t < change_at else drag
        force = rng.normal(size=1)
        speed = (1.0 - k) * state[1] + 0.3 * force[0] + noise * rng.normal()
        following = np.array([0.98 * state[0] + 0.1 * speed + noise * rng.normal(), speed])
        out.append((state, force, following))
        state = following
    return out


def alarms(detector, stream):
    return [t for t, transition in enumerate(stream) if detector.update(*transition).drift_detected]


CASES = [
    (lambda **options: FiniteDriftDetector(4, 2, **options), finite_stream),
    (lambda **options: ContinuousDriftDetector(**{"burn_in": 600, **options}), moving_stream),
]
both = pytest.mark.parametrize(("make", "stream"), CASES, ids=["finite", "continuous"])
