"""`aggregate`: agents over several problems, by the statistics of Agarwal et al. (2021).

"Deep Reinforcement Learning at the Edge of the Statistical Precipice" asks for the interquartile mean, performance
profiles and the probability of improvement over all runs of all problems, with intervals from a bootstrap that is
stratified by problem. Scores need a common scale: here the score of a run is its regret divided by the smallest mean
regret that any agent has on that problem, so that 1 is the best agent in hindsight and lower is better. Where regret is
unknown, it is (best - return) / (best - worst), with the largest and smallest mean return of any agent.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.experiments import statistics
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES = 2000
Scores = dict[str, NDArray[np.float64]]  # problem -> one score per seed


@dataclass(frozen=True)
class Aggregate:
    """Scores of several agents on several problems: label -> problem -> one score per seed; lower is better.

    Examples
    --------
    >>> over = Aggregate({"a": {"lake": np.array([1.0, 1.2])}, "b": {"lake": np.array([2.0, 3.0])}})
    >>> over.improvement("a", "b").value
    1.0
    """

    scores: dict[str, Scores]

    @property
    def labels(self) -> list[str]:
        """The agents."""
        return list(self.scores)

    @property
    def problems(self) -> list[str]:
        """The problems."""
        return list(self.scores[self.labels[0]])

    def interquartile_mean(self, label: str) -> Interval:
        """The mean of the middle half of all runs, with its 95 % interval."""
        return self._interval(statistics.interquartile_mean, label)

    def worst_decile(self, label: str) -> Interval:
        """The score that a tenth of all runs is worse than, with its 95 % interval."""
        return self._interval(lambda runs: np.quantile(runs, 0.9, axis=-1), label)

    def geometric_mean(self, label: str) -> float:
        """The geometric mean over problems of the mean score; zero if it is zero on some problem."""
        means = np.array([runs.mean() for runs in self._of(label).values()])
        return float(np.exp(np.mean(np.log(means)))) if (means > 0).all() else float("nan" if (means < 0).any() else 0)

    def improvement(self, ours: str, theirs: str) -> Interval:
        """The probability that a run of `ours` beats one of `theirs` on the same problem, a mean over problems.

        Parameters
        ----------
        ours, theirs : str
            Two agents.
        """
        x, y = self._of(ours), self._of(theirs)
        value = float(np.mean([_improvement(x[name], y[name]) for name in self.problems]))
        random = np.random.default_rng(0)
        drawn = [
            _improvement(_resampled(x[name], random), _resampled(y[name], random)) for name in self.problems
        ]  # fmt: skip
        return _with_quantiles(value, np.mean(drawn, axis=0))

    def profile(self, label: str, thresholds: ArrayLike) -> NDArray[np.float64]:
        """The performance profile: the fraction of runs with a score of at most each threshold, a mean over problems.

        Parameters
        ----------
        label : str
            An agent.
        thresholds : array_like
            Scores.
        """
        at = np.asarray(thresholds, np.float64)
        return np.mean([(runs[:, None] <= at).mean(axis=0) for runs in self._of(label).values()], axis=0)

    def table(self) -> "pd.DataFrame":
        """One row per agent: interquartile mean and worst decile with 95 % intervals, geometric mean, and how often a
        run beats one of another agent (a mean over the others)."""
        import pandas as pd

        rows = []
        for label in self.labels:
            others = [self.improvement(label, other).value for other in self.labels if other != label]
            middle, worst = self.interquartile_mean(label), self.worst_decile(label)
            row = {"agent": label, "iqm": middle.value, "low": middle.low, "high": middle.high}
            row |= {"worst_decile": worst.value, "worst_low": worst.low, "worst_high": worst.high}
            row |= {"geometric_mean": self.geometric_mean(label)}
            rows.append(row | {"improvement": float(np.mean(others)) if others else float("nan")})
        return pd.DataFrame(rows).set_index("agent")

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the interquartile means and the performance profiles; `path` also writes them, as PNG and SVG."""
        from dqucb._figures import saved
        from dqucb.experiments.plots import aggregate_figure

        return saved(aggregate_figure(self), path)

    def _of(self, label: str) -> Scores:
        return self.scores[_validate.known("agent of this aggregate", label, self.labels)]

    def _interval(self, statistic: Any, label: str) -> Interval:
        """A statistic of all runs of an agent, its interval by a bootstrap stratified by problem."""
        scores, random = self._of(label), np.random.default_rng(0)
        drawn = np.concatenate([_resampled(runs, random) for runs in scores.values()], axis=1)
        return _with_quantiles(float(statistic(np.concatenate(list(scores.values())))), statistic(drawn))

    def __repr__(self) -> str:
        return f"Aggregate({', '.join(self.labels)} on {len(self.problems)} problems)"


def aggregate(comparisons: Mapping[str, Comparison]) -> Aggregate:
    """The agents of several comparisons over all of their problems.

    Parameters
    ----------
    comparisons : mapping of str to Comparison
        Problem -> comparison; all must hold the same agents and measure the same, regret or return.

    Examples
    --------
    >>> from dqucb import compare
    >>> from dqucb.experiments import aggregate
    >>> problems = ["combination-lock", "frozen-lake"]
    >>> over = aggregate({name: compare(["qucb", "random"], name, 200, seeds=5, jobs=1) for name in problems})
    >>> over
    Aggregate(QUCB, Random on 2 problems)
    """
    if not comparisons:
        raise ValueError("comparisons must hold at least one comparison, got none")
    found = list(comparisons.values())
    for name, each in comparisons.items():
        if set(each.labels) != set(found[0].labels) or each.measure != found[0].measure:
            raise ValueError(
                f"comparisons must hold the same agents and the same measure, got {each.labels} by {each.measure} on "
                f"{name!r} and {found[0].labels} by {found[0].measure}"
            )
    scores: dict[str, Scores] = {label: {} for label in found[0].labels}
    for name, each in comparisons.items():
        losses = {label: np.array(list(each.losses(label).values())) for label in scores}
        means = [runs.mean() for runs in losses.values()]
        best, worst = min(means), max(means)
        if best <= 0 < worst and each.measure == "regret":
            raise ValueError(f"regret on {name!r} must be above 0 for a ratio, got a mean of {best:.6g}")
        for label, runs in losses.items():
            if each.measure == "regret":
                scores[label][name] = runs / best if best > 0 else np.ones(len(runs))
            else:
                scores[label][name] = (runs - best) / (worst - best) if worst > best else np.zeros(len(runs))
    return Aggregate(scores)


def _resampled(runs: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Bootstrap samples of the runs of one problem: shape (RESAMPLES, runs)."""
    return runs[random.integers(len(runs), size=(RESAMPLES, len(runs)))]


def _improvement(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Any:
    """The fraction of pairs in which ours is lower, ties counting half, along the last axis."""
    difference = theirs[..., None, :] - ours[..., :, None]
    return ((difference > 0).mean(axis=(-1, -2)) + 0.5 * (difference == 0).mean(axis=(-1, -2)))[()]


def _with_quantiles(value: float, drawn: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(low), float(high))
