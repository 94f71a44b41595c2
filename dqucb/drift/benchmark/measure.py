"""What the benchmark measures: false alarms per armed update, and delays over Lorden's limit."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dqucb.drift.benchmark.adapters import Adapter, armed
from dqucb.drift.benchmark.streams import FAMILIES, Stream, draw

MOST = 1.5  # the ratio of measured to asked false alarms that still counts as kept
MOST_HIDDEN = 3.0  # where (s, a) is not the whole state
MOST_BEFORE, AFTER = 2_000_000, 60_000  # updates of a finite stream with `visits`, before and after its change


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact 95 % interval of a Poisson mean of which `count` was seen (Garwood 1936).

    Its ends are the means under which at least, and at most, `count` events have a probability of 2.5 %.
    """
    lowest = _mean_where(count - 1, 0.975) if count else 0.0
    return lowest, _mean_where(count, 0.025)


def _mean_where(count: int, probability: float) -> float:
    """The Poisson mean under which at most `count` events have this probability, by bisection."""
    logs = np.array([math.lgamma(k + 1) for k in range(count + 1)])
    low, high = 0.0, count + 10.0 * math.sqrt(count + 1.0) + 10.0
    for _ in range(100):
        mean = (low + high) / 2
        at_most = np.exp(np.arange(count + 1) * math.log(mean) - mean - logs).sum()
        low, high = (mean, high) if at_most > probability else (low, mean)
    return (low + high) / 2


def verdict(ratio: float, lowest: float, highest: float, bar: float) -> str:
    """Whether a rate was kept: the ratio against the bar, and whether its interval decides.

    Parameters
    ----------
    ratio, lowest, highest : float
        Measured over asked, and its interval.
    bar : float
        The largest ratio that counts as kept.
    """
    if ratio <= bar:
        return "kept" if highest <= 2.0 * bar else "kept, few counts"
    return "broken" if lowest > bar else "above, few counts"


def false_alarms(adapter: Adapter, name: str, seeds: Iterable[int], rate: float, *, steps: int = 20_000,
                 setting: float | None = None) -> dict[str, Any]:  # fmt: skip
    """Alarms per armed update on streams of a family without a change (for a policy placebo, with its own).

    Parameters
    ----------
    adapter : Adapter
        The detector.
    name : str
        One of `FAMILIES`.
    seeds : iterable of int
        One stream for each.
    rate : float
        False alarms per update that are asked for.
    steps : int
        Length of the streams.
    setting : float, optional
        Of a detector that has one of another kind.

    Returns
    -------
    dict
        Alarms, armed updates, the ratio of the measured rate to the one asked for, and its exact 95 % interval.
    """
    family = FAMILIES[name]
    count, updates, streams = 0, 0, 0
    for seed in seeds:
        stream = draw(name, seed, changes=family.placebo, steps=steps, change_at=steps // 2 if family.placebo else None)
        found = [alarm.at for alarm in adapter.run(stream, rate if setting is None else setting)]
        count, streams = count + len(found), streams + 1
        updates += armed(found, len(stream.states), adapter.burn_in(stream))
    expected = max(updates, 1) * rate
    low, high = (bound / expected for bound in poisson_interval(count))
    bar = MOST_HIDDEN if family.hidden else MOST
    return {
        "family": name, "detector": adapter.name, "asked": rate, "streams": streams, "alarms": count,
        "updates": updates, "ratio": count / expected, "from": low, "to": high,
        "verdict": verdict(count / expected, low, high, bar),
    }  # fmt: skip


def delays(adapter: Adapter, name: str, seeds: Iterable[int], rate: float, *, visits: int | None = None,
           setting: float | None = None) -> dict[str, Any]:  # fmt: skip
    """Delays of the first alarm after the change of each stream, and their multiples of log(1/rate) / information.

    Parameters
    ----------
    adapter : Adapter
        The detector.
    name : str
        One of `FAMILIES`.
    seeds : iterable of int
        One stream for each.
    rate : float
        False alarms per update that are asked for.
    visits : int, optional
        Of a finite family: updates before the change for each pair of state and action, at most two million in all.
        Default: the family's own number of updates.
    setting : float, optional
        Of a detector that has one of another kind.

    Returns
    -------
    dict
        Streams that were found, early alarms, delays, limits, and errors of the date where the detector has one.
    """
    found: list[tuple[int, float | None, int | None, bool | None]] = []  # delay, multiple, error, covered
    limits: list[float] = []
    early = streams = 0
    for seed in seeds:
        stream = _changing(name, seed, visits)
        alarms, limit = adapter.run(stream, rate if setting is None else setting), stream.limit(rate)
        change = 0 if stream.change_at is None else stream.change_at
        streams += 1
        early += bool(alarms and alarms[0].at < change)
        limits += [] if limit is None else [limit]
        for first in [alarm for alarm in alarms if alarm.at >= change][:1]:
            delay, interval = first.at - change + 1, first.interval
            found.append((
                delay, None if limit is None else delay / limit,
                None if first.changed_at is None else abs(first.changed_at - change),
                None if interval is None else interval[0] <= change <= interval[1],
            ))  # fmt: skip
    columns: list[list[Any]] = [[row[i] for row in found if row[i] is not None] for i in range(4)]
    waited, multiples, errors, covered = columns
    return {
        "family": name, "detector": adapter.name, "asked": rate, "streams": streams, "found": len(found),
        "early": early, "delay": _quantile(waited, 0.5), "worst_decile": _quantile(waited, 0.9),
        "limit": _quantile(limits, 0.5), "over_limit": _quantile(multiples, 0.5),
        "error_of_date": _quantile(errors, 0.5), "covered": float(np.mean(covered)) if covered else None,
    }  # fmt: skip


def _changing(name: str, seed: int, visits: int | None) -> Stream:
    """The stream of a seed; with `visits`, one that is long enough for so many before the change."""
    if visits is None or FAMILIES[name].kind != "finite":
        return draw(name, seed)
    start = draw(name, seed, changes=False, steps=1)
    change_at = min(visits * start.n_states * start.n_actions, MOST_BEFORE)
    return draw(name, seed, change_at=change_at, steps=change_at + AFTER)


def _quantile(values: list[Any], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
