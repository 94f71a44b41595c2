"""Statistics over seeds, with bootstrap intervals that come out the same every time. NumPy only.

Intervals are percentile bootstraps over seeds. The interquartile mean and the probability of improvement follow
Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (2021).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate

RESAMPLES = 2_000
SEED = 20_260_101
BLOCKS = 1_000  # of seeds, where there are more seeds than that
PART = 2_000_000  # numbers that are drawn at a time: memory stays within some 100 MB


class Interval(NamedTuple):
    """An estimate and its interval; the ends are NaN when a single seed leaves nothing to resample."""

    value: float
    low: float
    high: float


class Band(NamedTuple):
    """A mean curve and its pointwise interval."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Choice(NamedTuple):
    """A parameter value that was best on some seeds, and what it reached on others."""

    value: Any
    chosen_on: tuple[int, ...]
    reported_on: tuple[int, ...]
    result: Interval


def bootstrap(
    values: ArrayLike,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """The statistic of `values` (one per seed) and its interval; the mean if no statistic is given.

    `statistic` maps (..., n) to (...), along the last axis.
    """
    sample = _sample("values", values)
    value = float((statistic or _mean)(sample))
    if sample.size == 1:
        return Interval(value, np.nan, np.nan)
    if statistic is None:
        resampled = _resampled_means(sample[:, None], resamples, seed)[:, 0]
    else:
        resampled = np.concatenate([statistic(sample[draws]) for draws in _draws(sample.size, resamples, seed)])
    low, high = np.quantile(resampled, _tails(level))
    return Interval(value, float(low), float(high))


def band(curves: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED) -> Band:
    """The mean over seeds of curves (seeds, points) with a pointwise interval."""
    array = _validate.finite_array("curves", curves, 2)
    mean = array.mean(axis=0)
    if len(array) == 1:
        return Band(mean, np.full(mean.shape, np.nan), np.full(mean.shape, np.nan))
    low, high = np.quantile(_resampled_means(array, resamples, seed), _tails(level), axis=0)
    return Band(mean, low, high)


def _resampled_means(array: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """Means over the rows of bootstrap samples of an array (n, points), (resamples, points).

    More than `BLOCKS` rows are first summed in that many blocks of equal size, up to one row, and blocks are drawn
    instead of rows. They are as independent as the rows are, and their means vary as those of rows do; the width of an
    interval then has a relative error of about 2 %, whatever the number of rows.
    """
    n = len(array)
    sizes = np.ones(n)
    if n > BLOCKS:
        starts = np.linspace(0, n, BLOCKS + 1).astype(np.int64)[:-1]
        array, sizes = np.add.reduceat(array, starts), np.diff(starts, append=n).astype(np.float64)
    parts = []
    for draws in _draws(len(array), resamples, seed):
        # How often each row was drawn, so that all resampled means are one matrix product.
        counts = _counts(draws, len(array))
        parts.append(counts @ array / (counts @ sizes)[:, None])
    return np.concatenate(parts)


def _counts(draws: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """How often each of `size` things was drawn in each row of `draws`."""
    rows = np.arange(len(draws))[:, None] * size
    return np.bincount((draws + rows).ravel(), minlength=len(draws) * size).reshape(-1, size).astype(np.float64)


def interquartile_mean(values: ArrayLike) -> NDArray[np.float64]:
    """The mean of the middle half along the last axis: a quarter is cut at each end, rounded down."""
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def probability_lower(
    ours: ArrayLike, theirs: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """The probability that a run of ours ends lower than one of theirs, ties counting half, over all pairs."""
    x, y = _sample("ours", ours), _sample("theirs", theirs)
    order = np.argsort(y, kind="stable")
    rank = np.empty(y.size, np.int64)
    rank[order] = np.arange(y.size)
    # For each x: how many y are below it, and how many are at most x. Half of both together are lost to it.
    below, at_most = np.searchsorted(y[order], x, "left"), np.searchsorted(y[order], x, "right")
    pairs = x.size * y.size
    value = float((pairs - 0.5 * (below.sum() + at_most.sum())) / pairs)
    if min(x.size, y.size) == 1:
        return Interval(value, np.nan, np.nan)
    parts, size = [], max(x.size, y.size)
    for rows, columns in zip(
        _draws(x.size, resamples, seed, size), _draws(y.size, resamples, seed + 1, size), strict=True
    ):
        drawn = np.zeros((len(columns), y.size + 1))
        np.cumsum(_counts(rank[columns], y.size), axis=1, out=drawn[:, 1:])
        lost = 0.5 * (drawn[:, below] + drawn[:, at_most])
        parts.append((pairs - (_counts(rows, x.size) * lost).sum(axis=1)) / pairs)
    low, high = np.quantile(np.concatenate(parts), _tails(level))
    return Interval(value, float(low), float(high))


def best_parameter(
    results: Mapping[Any, Mapping[int, float]], *, choose_on: Iterable[int], report_on: Iterable[int]
) -> Choice:
    """The value with the lowest mean on the seeds `choose_on`, and its mean on the seeds `report_on`.

    `results` maps value -> seed -> result. The two sets must not overlap: the winner of a contest looks better on
    the seeds that made it win than it is.
    """
    chosen, reported = tuple(choose_on), tuple(report_on)
    shared = sorted(set(chosen) & set(reported))
    if shared or not chosen or not reported:
        raise ValueError(
            f"choose_on and report_on must be seeds without overlap, at least one each, got {chosen} and {reported}"
        )
    for value, by_seed in results.items():
        missing = sorted({*chosen, *reported} - set(by_seed))
        if missing:
            raise ValueError(f"results of {value!r} must hold every seed, got none for {missing}")
    value = min(results, key=lambda name: float(np.mean([results[name][seed] for seed in chosen])))
    return Choice(value, chosen, reported, bootstrap([results[value][seed] for seed in reported]))


def halves(seeds: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The seeds split in two for choosing and reporting."""
    if len(seeds) < 2:
        raise ValueError(f"seeds must be at least 2, to choose on some and report on others, got {len(seeds)}")
    middle = len(seeds) // 2
    return tuple(seeds[:middle]), tuple(seeds[middle:])


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.mean(axis=-1)


def _sample(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = _validate.finite_array(name, values, 1)
    if array.size == 0:
        raise ValueError(f"{name} must hold at least one number, got none")
    return array


def _draws(size: int, resamples: int, seed: int, widest: int | None = None) -> Iterator[NDArray[np.int64]]:
    """Indices of bootstrap samples, in parts of at most `PART` numbers; the parts do not change the numbers."""
    rng = np.random.default_rng(seed)
    left = _validate.integer("resamples", resamples)
    most = max(1, PART // (widest or size))
    while left:
        rows = min(most, left)
        yield rng.integers(0, size, (rows, size))
        left -= rows


def _tails(level: float) -> tuple[float, float]:
    level = _validate.real("level", level, 0.0, 1.0, open_left=True)
    return (1.0 - level) / 2.0, (1.0 + level) / 2.0
