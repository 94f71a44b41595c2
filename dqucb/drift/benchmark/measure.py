"""What the benchmark measures: false alarms per armed update, and delays over Lorden's limit."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dqucb.drift.benchmark.adapters import Adapter, armed
from dqucb.drift.benchmark.streams import FAMILIES, draw

MOST = 1.5  # the ratio of measured to asked false alarms that still counts as kept
MOST_HIDDEN = 3.0  # where (s, a) is not the whole state


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
    """Whether a rate was kept: the ratio against the bar, and whether its interval decides."""
    if ratio <= bar:
        return "kept" if highest <= 2.0 * bar else "kept, few counts"
    return "broken" if lowest > bar else "above, few counts"


def false_alarms(adapter: Adapter, name: str, seeds: Iterable[int], rate: float, *, steps: int = 20_000,
                 setting: float | None = None) -> dict[str, Any]:  # fmt: skip
    """Alarms per armed update on streams of a family without a change (for a policy placebo, with its own).

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
        updates += armed(found, steps, adapter.burn_in(stream))
    expected = max(updates, 1) * rate
    low, high = (bound / expected for bound in poisson_interval(count))
    bar = MOST_HIDDEN if family.hidden else MOST
    return {
        "family": name, "detector": adapter.name, "asked": rate, "streams": streams, "alarms": count,
        "updates": updates, "ratio": count / expected, "from": low, "to": high,
        "verdict": verdict(count / expected, low, high, bar),
    }  # fmt: skip


def delays(adapter: Adapter, name: str, seeds: Iterable[int], rate: float, *,
           setting: float | None = None) -> dict[str, Any]:  # fmt: skip
    """Delays of the first alarm after the change of each stream, and their multiples of log(1/rate) / information."""
    family = FAMILIES[name]
    found: list[int] = []
    multiples: list[float] = []
    limits: list[float] = []
    early = streams = covered = intervals = 0
    dated: list[int] = []
    for seed in seeds:
        stream = draw(name, seed)
        alarms = adapter.run(stream, rate if setting is None else setting)
        streams += 1
        early += bool(alarms and alarms[0].at < family.change_at)
        limit = stream.limit(rate)
        limits += [] if limit is None else [limit]
        first = next((alarm for alarm in alarms if alarm.at >= family.change_at), None)
        if first is None:
            continue
        found.append(first.at - family.change_at + 1)
        multiples += [] if limit is None else [found[-1] / limit]
        dated += [] if first.changed_at is None else [abs(first.changed_at - family.change_at)]
        if first.interval is not None:
            intervals += 1
            covered += first.interval[0] <= family.change_at <= first.interval[1]
    return {
        "family": name, "detector": adapter.name, "asked": rate, "streams": streams, "found": len(found),
        "early": early, "delay": _quantile(found, 0.5), "worst_decile": _quantile(found, 0.9),
        "limit": _quantile(limits, 0.5), "over_limit": _quantile(multiples, 0.5),
        "error_of_date": _quantile(dated, 0.5), "covered": covered / intervals if intervals else None,
    }  # fmt: skip


def _quantile(values: list[Any], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
