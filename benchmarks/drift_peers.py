"""Detectors for the harness: ours, river's on three numbers, and a CUSUM on a linear residual.

A peer is calibrated on streams without a change: its sensitivity is the largest of a grid at which at most one of the
calibration streams gives an alarm. Ours are not calibrated: they are asked for a rate and calibrate themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_streams import Stream
from dqucb.drift import ContinuousDriftDetector, DriftDetector, FiniteDriftDetector

BURN_IN = 2_000  # no alarm of any detector counts before


def ours(stream: Stream, false_alarms: float) -> DriftDetector:
    """Our detector for a stream, with its defaults."""
    if stream.finite:
        return FiniteDriftDetector(stream.n_states, stream.n_actions, false_alarms=false_alarms)
    return ContinuousDriftDetector(false_alarms=false_alarms)


def alarms_of(stream: Stream, detector: DriftDetector) -> list[tuple[int, int]]:
    """(update, estimated change) of every alarm."""
    found = []
    if isinstance(detector, FiniteDriftDetector):
        done = 0
        while done < len(stream.states):
            done += detector.update_many(stream.states[done:], stream.actions[done:], stream.next_states[done:])
            if detector.drift_detected:
                found.append((done - 1, int(detector.changed_at or 0)))
        return found
    for t in range(len(stream.states)):
        if detector.update(stream.states[t], stream.actions[t], stream.next_states[t]).drift_detected:
            found.append((t, int(detector.changed_at or 0)))
    return found


def residual(stream: Stream) -> NDArray[np.float64]:
    """Size of what a running linear model does not explain; for finite streams the surprise of the next state."""
    if stream.finite:
        counts = np.full((stream.n_states * stream.n_actions, stream.n_states), 0.5 / stream.n_states)
        out = np.zeros(len(stream.states))
        for t, (row, following) in enumerate(
            zip(stream.states * stream.n_actions + stream.actions, stream.next_states, strict=True)
        ):
            out[t] = -np.log(counts[row, following] / counts[row].sum())
            counts[row, following] += 1.0
        return out
    from dqucb.drift.adapters import _LinearModel

    model = _LinearModel(stream.states.shape[1] + stream.actions.shape[1], stream.states.shape[1])
    inputs, targets = np.hstack([stream.states, stream.actions]), stream.next_states - stream.states
    return np.array([model.error(x, y) for x, y in zip(inputs, targets, strict=True)])


def our_statistic(stream: Stream) -> NDArray[np.float64]:
    """The increment-like part of ours that a detector of single numbers can use: the statistic itself."""
    detector = ours(stream, 1e-6)
    values = np.zeros(len(stream.states))
    for t in range(len(values)):
        detector.update(stream.states[t], stream.actions[t], stream.next_states[t])
        values[t] = 0.0 if detector.drift_detected else detector.statistic
    return np.minimum(values, 1.0)


@dataclass(frozen=True)
class Peer:
    """A detector of single numbers: `run(values, sensitivity)` gives the first alarm after the burn-in, or None."""

    name: str
    number: str
    run: Callable[[NDArray[np.float64], float], int | None]
    grid: Sequence[float]  # from the most sensitive to the least


def _river(make: Callable[[float], Any]) -> Callable[[NDArray[np.float64], float], int | None]:
    def run(values: NDArray[np.float64], sensitivity: float) -> int | None:
        detector = make(sensitivity)
        for t, value in enumerate(values.tolist()):
            detector.update(value)
            if detector.drift_detected and t >= BURN_IN:
                return t
        return None

    return run


def _adwin(delta: float) -> Any:
    from river.drift import ADWIN

    return ADWIN(delta=delta)


def _page_hinkley(threshold: float) -> Any:
    from river.drift import PageHinkley

    return PageHinkley(threshold=threshold, delta=0.05, min_instances=BURN_IN // 2)


def _kswin(alpha: float) -> Any:
    from river.drift import KSWIN

    return KSWIN(alpha=alpha, window_size=300, stat_size=100, seed=0)


def cusum(values: NDArray[np.float64], threshold: float) -> int | None:
    """Page's CUSUM of values in units of the burn-in's mean and spread, with an allowance of half a spread."""
    start = values[BURN_IN // 2 : BURN_IN]
    scaled = (values - start.mean()) / (start.std() + 1e-12) - 0.5
    level = 0.0
    for t in range(BURN_IN, len(values)):
        level = max(0.0, level + scaled[t])
        if level > threshold:
            return t
    return None


def peers() -> list[Peer]:
    """All rivals; empty of river's where river is not installed."""
    found = [Peer("CUSUM", "residual", cusum, [4.0 * 2.0**i for i in range(14)])]
    try:
        import river.drift  # noqa: F401
    except ImportError:
        return found
    made: list[tuple[str, Callable[[float], Any], list[float]]] = [
        ("ADWIN", _adwin, [10.0**-i for i in (3, 6, 12, 24, 48, 96, 192)]),
        ("Page-Hinkley", _page_hinkley, [10.0 * 2.0**i for i in range(14)]),
        ("KSWIN", _kswin, [10.0**-i for i in (3, 6, 12, 24, 40, 60)]),
    ]
    for number in ("reward", "residual", "our statistic"):
        found += [Peer(name, number, _river(make), grid) for name, make, grid in made]
    return found


def calibrate(peer: Peer, still: Sequence[NDArray[np.float64]]) -> float:
    """The most sensitive setting with at most one alarm on the streams without a change, else the least sensitive."""
    for sensitivity in peer.grid:
        if sum(peer.run(values, sensitivity) is not None for values in still) <= 1:
            return sensitivity
    return peer.grid[-1]
