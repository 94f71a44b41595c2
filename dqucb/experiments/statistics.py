"""Statistics over a few seeds: means and medians with intervals, and a test for heavy tails. NumPy only.

Coverage of the intervals, as measured by `python -m benchmarks.coverage`:

- Means: Student's t, made longer towards the longer tail by the skewness term of Johnson (1978), "Modified t tests
  and confidence intervals for asymmetrical populations". Never shorter than t. It covers the mean in about 95 % of
  cases where results are normal or mildly skewed. No interval covers the mean of results of which a few are failures
  that the sample does not show: with one large failure in ten runs it covers in 41, 65 and 88 % of cases at 5, 10 and
  20 seeds, because 59, 35 and 12 % of such samples contain no failure. So it is valid for runs like those observed;
  `unseen_share` bounds the frequency of failures that none of them showed, and `heavy_tail` tells whether some did.
- Medians: two order statistics. These cover the median of any continuous distribution, failures or not, in 95 % of
  cases or more (94 % with 5 runs). Where results may hold failures, compare medians and worst runs.
- A percentile bootstrap of 5 seeds covers the mean of normal results in 84 % of cases where it says 95 %.
- Probabilities: Newcombe (2006), "Confidence intervals for an effect size measure based on the Mann-Whitney
  statistic", method 5, made wider where the variance of the ranks is larger than that method assumes.

The interquartile mean and the probability of improvement follow Agarwal et al., "Deep Reinforcement Learning at the
Edge of the Statistical Precipice" (2021).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate

FEWEST_SEEDS = 5  # for an interval: with fewer runs t is so wide and its coverage so uncertain that none is given
EQUAL = 1e-12  # a smaller standard deviation, as a fraction of the values, is rounding error
OUTLIER_LEVEL = 0.01  # the fraction of normal samples that are classified as heavy-tailed
_HALVINGS = 60  # of the range in which a bound of an interval is searched


class Interval(NamedTuple):
    """An estimate and its 95 % interval; the bounds are NaN where there is none, and `words` says why."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def rounded(self, digits: int) -> list[float | None]:
        """The three numbers for JSON, with None for NaN."""
        return [round(number, digits) if np.isfinite(number) else None for number in self]


class Band(NamedTuple):
    """A mean curve and its pointwise interval, NaN where there is none."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Choice(NamedTuple):
    """The parameter value that was best on some seeds, and its result on others."""

    value: Any
    chosen_on: tuple[int, ...]
    reported_on: tuple[int, ...]
    result: Interval


def why_no_interval(runs: int) -> str:
    """The text in place of an unknown interval."""
    return f"fewer than {FEWEST_SEEDS} runs" if runs < FEWEST_SEEDS else "all runs equal"


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """The mean of `values` (one per seed) and its interval.

    It covers the mean of normal and mildly skewed results. It cannot cover that of results with rare failures that
    are absent from `values`: see `unseen_share`, `heavy_tail` and `median_interval`.
    """
    mean, low, high = band(_sample("values", values)[:, None], level=level)
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def band(curves: ArrayLike, *, level: float = 0.95) -> Band:
    """The mean over seeds of curves (seeds, points) with a pointwise interval.

    mean ± q s / √n, where q is the quantile of Student's t; the end on the side of the longer tail moves outwards by
    |m₃| (1 + 2 q²) / (6 s² n), where m₃ is the unbiased third central moment. Coverage as in `mean_interval`.
    """
    array = _validate.finite_array("curves", curves, 2)
    n, mean, tail = len(array), array.mean(axis=0), _tail(level)
    unknown = np.full(mean.shape, np.nan)
    if n < FEWEST_SEEDS:
        return Band(mean, unknown, unknown.copy())
    q = student_quantile(n - 1, tail)
    deviations = array - mean
    variance = np.sum(deviations**2, axis=0) / (n - 1)
    spread = np.sqrt(variance)
    known = spread > EQUAL * np.abs(array).max(axis=0)
    # The cube of a standardised deviation: the cube of a deviation of 1e150 would overflow.
    skewness = np.sum((deviations / np.where(known, spread, 1.0)) ** 3, axis=0) * n / ((n - 1) * (n - 2))
    shift = skewness * spread * (1.0 + 2.0 * q * q) / (6.0 * n)
    half = q * spread / np.sqrt(n)
    low, high = mean - half + np.minimum(shift, 0.0), mean + half + np.maximum(shift, 0.0)
    return Band(mean, np.where(known, low, np.nan), np.where(known, high, np.nan))


def heavy_tail(values: ArrayLike) -> bool:
    """Whether some of `values` (one per seed) are outliers that dominate the mean.

    Rosner's generalised test for outliers (1983, "Percentage points for a generalized ESD many-outlier procedure"), of
    up to a quarter of the runs, at a level of 1 %: one normal sample in a hundred is classified as heavy-tailed.
    """
    left = _sample("values", values)
    if left.size < FEWEST_SEEDS:
        return False
    rounding = EQUAL * np.abs(left).max()
    for _ in range(max(1, left.size // 4)):
        size = left.size
        deviations = np.abs(left - left.mean())
        furthest = int(deviations.argmax())
        if deviations[furthest] <= rounding:
            return False
        # In units of the largest deviation, whose square cannot overflow.
        spread = math.sqrt(float(np.sum((deviations / deviations[furthest]) ** 2)) / (size - 1))
        t = student_quantile(size - 2, OUTLIER_LEVEL / (2.0 * size))
        if spread * (size - 1) * t < math.sqrt((size - 2 + t * t) * size):
            return True
        left = np.delete(left, furthest)
    return False


def unseen_share(runs: int, *, level: float = 0.95) -> float:
    """The largest fraction of failures for which n runs show none in 5 % of cases: 1 - 0.05^(1/n).

    >>> round(unseen_share(10), 2)
    0.26
    """
    return 1.0 - (1.0 - level) ** (1.0 / _validate.integer("runs", runs))


def median_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """The median of `values` (one per seed) and a distribution-free interval.

    The bounds are the k-th smallest and the k-th largest value, k being the largest number with
    P(Binomial(n, 1/2) < k) <= (1 - level) / 2, or 1. With 5 runs these are the extremes, which cover 94 %.
    """
    ordered = np.sort(_sample("values", values))
    n, tail = ordered.size, _tail(level)
    if n < FEWEST_SEEDS:
        return Interval(float(np.median(ordered)), np.nan, np.nan)
    k, below = 0, 0.0
    logs = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2.0) for i in range(n // 2)]
    while k < len(logs) and below + math.exp(logs[k]) <= tail:
        below += math.exp(logs[k])
        k += 1
    k = max(1, k)
    return Interval(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[n - k]))


@cache
def student_quantile(freedom: int, tail: float) -> float:
    """The point that Student's t exceeds with probability `tail` < 1/2 (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    odd = freedom % 2
    k = np.arange(1, (freedom - 1 + odd) // 2 if odd else freedom // 2, dtype=np.float64)
    factors = np.cumprod(2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))

    def within(angle: float) -> float:
        """P(|T| < √freedom tan(angle))."""
        sine, cosine = math.sin(angle), math.cos(angle)
        total = 1.0 + float(factors @ cosine ** (2 * k))
        if not odd:
            return sine * total
        return 2.0 / math.pi * (angle + (sine * cosine * total if freedom > 1 else 0.0))

    low, high = 0.0, 0.5 * math.pi
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if within(middle) < 1.0 - 2.0 * tail else (low, middle)
    return math.sqrt(freedom) * math.tan(0.5 * (low + high))


def interquartile_mean(values: ArrayLike) -> NDArray[np.float64]:
    """The mean of the middle half along the last axis: a quarter is cut at each end, rounded down."""
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike, *, level: float = 0.95) -> Interval:
    """Probability of improvement: that a run of ours ends lower than one of theirs, ties counting half.

    The interval contains every p with |estimate - p| <= z r sd(p): sd(p) is the standard deviation that Newcombe's
    method 5 assumes, and r >= 1 the measured one over it, so that groups with different variances are covered. It has
    a positive width even where every run of ours is lower than every one of theirs.

    Parameters
    ----------
    ours, theirs : array_like
        Results of both groups, one per seed; lower is better.
    level : float
        Confidence level.
    """
    x, y = _sample("ours", ours), _sample("theirs", theirs)
    of_x, of_y = 1.0 - _share_below(x, y), _share_below(y, x)  # for each run: the fraction of the others that are worse
    value, z = float(of_x.mean()), NormalDist().inv_cdf(1.0 - _tail(level))
    if min(x.size, y.size) < FEWEST_SEEDS:
        return Interval(value, np.nan, np.nan)
    measured = of_x.var(ddof=1) / x.size + of_y.var(ddof=1) / y.size
    inside = (value * x.size * y.size + 0.5) / (x.size * y.size + 1)  # away from 0 and 1, where no variance is assumed
    wider = np.sqrt(max(1.0, measured / _newcombe_variance(inside, x.size, y.size)))

    def end(outermost: float) -> float:
        covered, outside = value, outermost
        for _ in range(_HALVINGS):
            middle = 0.5 * (covered + outside)
            if abs(value - middle) <= z * wider * np.sqrt(_newcombe_variance(middle, x.size, y.size)):
                covered = middle
            else:
                outside = middle
        return covered

    return Interval(value, end(0.0), end(1.0))


def _newcombe_variance(p: float, m: int, n: int) -> float:
    """Variance of the fraction of pairs won (Newcombe 2006, method 5), if both groups are exponential."""
    others = 0.5 * (m + n) - 1.0
    return p * (1.0 - p) * (1.0 + others * ((1.0 - p) / (2.0 - p) + p / (1.0 + p))) / (m * n)


def _share_below(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each x the fraction of y below it, ties counting half."""
    ordered = np.sort(y)
    return 0.5 * (np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right")) / y.size


def best_parameter(
    results: Mapping[Any, Mapping[int, float]], *, choose_on: Iterable[int], report_on: Iterable[int]
) -> Choice:
    """The value with the lowest mean on the seeds `choose_on`, and its mean on the seeds `report_on`.

    `results` maps value -> seed -> result. The two sets must not overlap: on the seeds that it was chosen on, the
    best value looks better than it is.
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
    return Choice(value, chosen, reported, mean_interval([results[value][seed] for seed in reported]))


def halves(seeds: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The seeds split in two for choosing and reporting."""
    if len(seeds) < 2:
        raise ValueError(f"seeds must be at least 2, to choose on some and report on others, got {len(seeds)}")
    middle = len(seeds) // 2
    return tuple(seeds[:middle]), tuple(seeds[middle:])


def _sample(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = _validate.finite_array(name, values, 1)
    if array.size == 0:
        raise ValueError(f"{name} must hold at least one number, got none")
    return array


def _tail(level: float) -> float:
    """The probability beyond each bound of an interval."""
    level = _validate.real("level", level, 0.0, 0.9999, open_left=True)
    return (1.0 - level) / 2.0
