"""Detectors for the harness: ours, river's on three numbers, and a CUSUM on a linear residual.

A peer is calibrated on streams without a change: its sensitivity is the largest of a grid at which at most one of the
calibration streams gives an alarm. "ours" is not calibrated: it is asked for a rate and calibrates itself. "ours,
calibrated" is the same with the rate chosen as the settings of the others are, so that like is compared with like.
KSWIN is written anew here, with window, sample and statistic of river's: one pass gives the distance at every step,
where river's costs a call of SciPy each. Its sensitivity is that distance, of which river's p is a function.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_streams import Stream
from dqucb.drift import ContinuousDriftDetector, DriftDetector, FiniteDriftDetector

BURN_IN = 2_000  # no alarm of any detector counts before
WINDOW, SAMPLE = 300, 100  # of KSWIN: river's defaults but for the sample, which is 30 there


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
    """The largest of our sums, in nats."""
    return _followed(stream)[0]


def our_significance(stream: Stream) -> NDArray[np.float64]:
    """How often, per update, a still stream shows as much as ours sees; 1 in the burn-in."""
    return _followed(stream)[1]


_KEPT: dict[bytes, NDArray[np.float64]] = {}  # both numbers come from one pass


def _followed(stream: Stream) -> NDArray[np.float64]:
    """(statistic, significance), never stopped by an alarm: the threshold is out of reach."""
    key = hashlib.sha1(np.ascontiguousarray(stream.next_states).tobytes()).digest()
    if key not in _KEPT:
        detector = ours(stream, 1e-200)
        values = np.zeros((2, len(stream.states)))
        for t in range(len(stream.states)):
            detector.update(stream.states[t], stream.actions[t], stream.next_states[t])
            levels = detector._tests.levels
            rarest = min(1.0, *(rate for _, _, rate, *_ in levels))
            values[:, t] = max(level for level, *_ in levels), 1.0 if detector.warming_up else rarest
        _KEPT[key] = values
    return _KEPT[key]


NUMBERS: dict[str, Callable[[Stream], NDArray[np.float64]]] = {
    "our significance": our_significance,
    "residual": residual,
    "our statistic": our_statistic,
    "reward": lambda stream: stream.rewards,
}


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


@numba.njit(cache=True)
def _distances(values, draws):  # IN: values, uniforms (steps, SAMPLE)
    """At each step, in hundredths, the distance of the newest values from a sample of those before."""
    out = np.zeros(values.shape[0], np.int64)
    for t in range(BURN_IN, values.shape[0]):
        old = values[t - WINDOW + 1 : t - SAMPLE + 1].copy()
        for i in range(SAMPLE):
            j = i + int(draws[t, i] * (old.shape[0] - i))
            old[i], old[j] = old[j], old[i]
        old = np.sort(old[:SAMPLE])
        new = np.sort(values[t - SAMPLE + 1 : t + 1])
        i = j = 0
        while i < SAMPLE and j < SAMPLE:
            x = min(old[i], new[j])
            while i < SAMPLE and old[i] <= x:
                i += 1
            while j < SAMPLE and new[j] <= x:
                j += 1
            out[t] = max(out[t], abs(i - j))
    return out


@lru_cache(maxsize=64)  # every setting of the grid looks at the same distances
def _distances_of(octets: bytes) -> NDArray[np.int64]:
    values = np.frombuffer(octets)
    return _distances(values, np.random.default_rng(0).random((values.size, SAMPLE)))


def _kswin(values: NDArray[np.float64], distance: float) -> int | None:
    found = np.flatnonzero(_distances_of(np.ascontiguousarray(values, np.float64).tobytes()) >= distance)
    return int(found[0]) if found.size else None


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


def rarer(values: NDArray[np.float64], rate: float) -> int | None:
    """The first significance below a rate: ours, with the rate calibrated like the settings of the others."""
    found = np.flatnonzero(values[BURN_IN:] < rate)
    return BURN_IN + int(found[0]) if found.size else None


def peers() -> list[Peer]:
    """All rivals, without river's where river is not installed, and ours with a rate that is calibrated like theirs."""
    found = [
        Peer("CUSUM", "residual", cusum, [4.0 * 2.0 ** (i / 2) for i in range(28)]),
        Peer("ours, calibrated", "our significance", rarer, [10.0 ** (-i / 4) for i in range(8, 64)]),
    ]
    try:
        import river.drift  # noqa: F401
    except ImportError:
        return found
    made: list[tuple[str, Callable[[float], Any], list[float]]] = [
        ("ADWIN", _adwin, [10.0**-i for i in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)]),
        ("Page-Hinkley", _page_hinkley, [10.0 * 2.0 ** (i / 2) for i in range(32)]),
    ]
    for number in ("reward", "residual", "our statistic"):
        found += [Peer(name, number, _river(make), grid) for name, make, grid in made]
        found.append(Peer("KSWIN", number, _kswin, [float(i) for i in range(20, SAMPLE + 1, 4)]))
    return found


def calibrate(peer: Peer, still: Sequence[NDArray[np.float64]]) -> float:
    """The most sensitive setting with at most one alarm on the streams without a change, else the least sensitive."""

    def quiet(i: int) -> bool:
        return sum(peer.run(values, peer.grid[i]) is not None for values in still) <= 1

    first, last = 0, len(peer.grid) - 1  # a less sensitive setting gives no more alarms, so that halving finds it
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if quiet(middle) else (middle + 1, last)
    return peer.grid[first]
