"""Detectors for the benchmark: ours, and others on the size of the residuals of a running linear model.

An `Adapter` gives the alarms of a stream. One without a `grid` is asked for a false-alarm rate. One with a grid has a
setting of its own, which is calibrated on streams without a change.
"""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb.drift.adapters import _LinearModel
from dqucb.drift.benchmark.streams import Stream

BURN_IN = 2_000  # of the detectors that watch one number
CHUNK = 100_000  # transitions for `update_many`, which looks at all of them again after an alarm
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """The update of an alarm, an estimate of the change and an interval around it, where the detector gives them."""

    at: int
    changed_at: int | None = None
    interval: tuple[int, int] | None = None


@dataclass(frozen=True)
class Adapter:
    """A detector in the benchmark.

    Attributes
    ----------
    name : str
        How tables name it.
    run : callable
        ``run(stream, setting)`` gives every `Alarm` of a stream; the detector restarts after each.
    burn_in : callable
        ``burn_in(stream)``: updates after a start at which it gives no alarm.
    grid : tuple of float, optional
        Settings from the most sensitive to the least. None: the setting is the false-alarm rate.
    """

    name: str
    run: Callable[[Stream, float], list[Alarm]]
    burn_in: Callable[[Stream], int]
    grid: tuple[float, ...] | None = None


def armed(alarms: Sequence[int], steps: int, burn_in: int) -> int:
    """Updates at which an alarm could come: the parts between alarms without their burn-ins (the last may be cut).

    Parameters
    ----------
    alarms : sequence of int
        Updates with an alarm, in order.
    steps : int
        Length of the stream.
    burn_in : int
        Updates after a start without alarms.
    """
    ends = [0, *(alarm + 1 for alarm in alarms), steps]
    return sum(max(0, end - begin - burn_in) for begin, end in pairwise(ends))


def our_detector(stream: Stream, false_alarms: float = 1e-6) -> Any:
    """Our detector for a stream, with its defaults.

    Parameters
    ----------
    stream : Stream
        Its kind and sizes decide which.
    false_alarms : float
        Per update.
    """
    from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

    if stream.finite:
        watch = bool(np.any(stream.rewards))
        return FiniteDriftDetector(
            stream.n_states, stream.n_actions, false_alarms=false_alarms, **({"watch_reward": True} if watch else {})
        )
    return ContinuousDriftDetector(false_alarms=false_alarms)


def alarms_of(detector: Any, stream: Stream) -> list[Alarm]:
    """The alarms of any object with `update` and `drift_detected` on a stream; `update_many` is used if there is one.

    Parameters
    ----------
    detector : object
        It is updated with every transition of the stream, and restarts after an alarm by itself.
    stream : Stream
        What it sees.
    """
    found: list[Alarm] = []
    columns = [stream.states, stream.actions, stream.next_states, stream.rewards]

    def note(t: int) -> None:
        found.append(Alarm(t, detector.changed_at, getattr(detector, "changed_between", None)))

    t = 0
    if hasattr(detector, "update_many"):
        while t < len(stream.states):
            t += detector.update_many(*(column[t : t + CHUNK] for column in columns))
            if detector.drift_detected:
                note(t - 1)
        return found
    if stream.finite:
        columns = [column.tolist() for column in columns]
    for t, transition in enumerate(zip(*columns, strict=True)):
        if detector.update(*transition).drift_detected:
            note(t)
    return found


def _ours(stream: Stream, rate: float) -> list[Alarm]:
    return alarms_of(our_detector(stream, rate), stream)


def _our_burn_in(stream: Stream) -> int:
    return int(our_detector(stream).get_params().get("burn_in", 0))


# Detectors of one number: first(values, setting) is the first alarm after the burn-in, or None.

First = Callable[[Values, float], int | None]


@lru_cache(maxsize=16)  # several detectors look at the same residuals
def residuals(stream: Stream) -> Values:
    """The size of what a running linear model does not explain; -log p of the next state for a finite stream."""
    if stream.finite:
        counts: dict[tuple[int, int], float] = {}
        visits: dict[int, float] = {}
        values = np.zeros(len(stream.states))
        pairs = (stream.states * stream.n_actions + stream.actions).tolist()
        for t, (pair, next_state) in enumerate(zip(pairs, stream.next_states.tolist(), strict=True)):
            seen, n = counts.get((pair, next_state), 0.0), visits.get(pair, 0.0)
            values[t] = -np.log((seen + 0.5 / stream.n_states) / (n + 0.5))
            counts[pair, next_state], visits[pair] = seen + 1.0, n + 1.0
    else:
        inputs = np.hstack([stream.states, stream.actions])
        first = inputs[: BURN_IN // 2]
        inputs = (inputs - first.mean(0)) / np.where(first.std(0) > 0.0, first.std(0), 1.0)
        model = _LinearModel(inputs.shape[1], stream.states.shape[1])
        values = np.array([model.error(x, y) for x, y in zip(inputs, stream.next_states - stream.states, strict=True)])
    return values


def on_residuals(name: str, first: First, grid: tuple[float, ...] | None = None) -> Adapter:
    """An adapter for a detector of one number; it restarts after each alarm.

    Parameters
    ----------
    name : str
        How tables name it.
    first : callable
        ``first(values, setting)`` is the index of the first alarm, or None.
    grid : tuple of float, optional
        As in `Adapter`.
    """

    def run(stream: Stream, setting: float) -> list[Alarm]:
        values, begin, found = residuals(stream), 0, []
        while (at := first(values[begin:], setting)) is not None:
            found.append(Alarm(begin + at))
            begin += at + 1
        return found

    return Adapter(name, run, lambda stream: BURN_IN, grid)


def _river(make: Callable[[float], Any]) -> First:
    def first(values: Values, setting: float) -> int | None:
        detector = make(setting)
        for t, value in enumerate(values.tolist()):
            detector.update(value)
            if detector.drift_detected and t >= BURN_IN:
                return t
        return None

    return first


def _scaled(values: Values) -> Values:
    start = values[BURN_IN // 2 : BURN_IN]
    return (values - start.mean()) / (start.std() + 1e-12) if start.size else values


def _focus(values: Values, threshold: float) -> int | None:
    """FOCuS (Romano, Eckley, Fearnhead and Rigaill 2023) for a change of the mean, from `changepoint_online`."""
    from changepoint_online import Focus, Gaussian

    detector, scaled = Focus(Gaussian()), _scaled(values)
    for t in range(BURN_IN, len(values)):
        detector.update(scaled[t])
        if detector.statistic() >= threshold:
            return t
    return None


def conformal(values: Values, rate: float) -> int | None:
    """A conformal test martingale (Vovk 2021) with a Shiryaev-Roberts sum and threshold 1 / rate.

    The bets are 1 + e (p - 1/2), e = -1, 0, 1, with jumps between them (the simple jumper).

    Parameters
    ----------
    values : ndarray
        What is watched.
    rate : float
        False alarms per update.
    """
    jump, bets = 0.01, np.array([-1.0, 0.0, 1.0])
    draws = np.random.default_rng(0).random(len(values))
    seen: list[float] = []
    sums = np.zeros(3)
    for t, value in enumerate(values.tolist()):
        below, upto = bisect.bisect_left(seen, value), bisect.bisect_right(seen, value)
        p = 1.0 - (below + draws[t] * (upto - below + 1)) / (len(seen) + 1)
        seen.insert(upto, value)
        if t < BURN_IN:
            continue
        sums = sums + 1.0 / 3.0
        sums = (1.0 - jump) * sums + jump * sums.mean()
        sums = sums * (1.0 + bets * (p - 0.5))
        if sums.sum() > 1.0 / rate:
            return t
    return None


def _mbcd_cusum(values: Values, rate: float) -> int | None:
    """The CUSUM of MBCD (Alegre, Bazzan and da Silva 2021) against shifted residuals; threshold log(1 / rate)."""
    shift, level = 1.0, 0.0
    scaled = _scaled(values)
    for t in range(BURN_IN, len(values)):
        level = max(0.0, level + shift * scaled[t] - 0.5 * shift * shift)
        if level > np.log(1.0 / rate):
            return t
    return None


def _adwin(delta: float) -> Any:
    from river.drift import ADWIN

    return ADWIN(delta=delta)


def _page_hinkley(threshold: float) -> Any:
    from river.drift import PageHinkley

    return PageHinkley(threshold=threshold, delta=0.05, min_instances=BURN_IN // 2)


def _kswin(alpha: float) -> Any:
    from river.drift import KSWIN

    return KSWIN(alpha=alpha, window_size=300, stat_size=100, seed=0)


ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        Adapter("ours", _ours, _our_burn_in),
        on_residuals("ADWIN", _river(_adwin)),
        on_residuals("KSWIN", _river(_kswin)),
        on_residuals("Page-Hinkley", _river(_page_hinkley), tuple(10.0 * 2.0 ** (i / 2) for i in range(32))),
        on_residuals("FOCuS", _focus, tuple(2.0 ** (i / 2) for i in range(4, 28))),
        on_residuals("conformal martingale", conformal),
        on_residuals("MBCD CUSUM", _mbcd_cusum),
    )
}


def calibrate(adapter: Adapter, streams: Sequence[Stream]) -> float:
    """The most sensitive setting of a grid with at most one stream of `streams` in alarm, else the least sensitive.

    Parameters
    ----------
    adapter : Adapter
        With a grid.
    streams : sequence of Stream
        Without a change.
    """
    grid = adapter.grid
    if grid is None:
        raise ValueError(f"adapter must have a grid, got {adapter.name!r}, which is asked for a rate")
    first, last = 0, len(grid) - 1  # a less sensitive setting gives no more alarms, so that halving finds it
    while first < last:
        middle = (first + last) // 2
        if sum(bool(adapter.run(stream, grid[middle])) for stream in streams) <= 1:
            last = middle
        else:
            first = middle + 1
    return grid[first]
