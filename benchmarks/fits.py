"""The exponent of a power law, with its interval."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

WIDEST = 0.5  # an interval that is wider says nothing and is not shown


class Exponent(NamedTuple):
    """y ~ x ** value, with a 95 % interval of the least-squares slope of log y against log x."""

    value: float
    low: float
    high: float
    points: int

    def __str__(self) -> str:
        if self.high - self.low > WIDEST:
            return f"{self.value:.2f} ({self.points} points, interval wider than {WIDEST:g})"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> Exponent | None:
    """The fitted exponent; None for fewer than three points, of which no interval can be had."""
    if len(x) < 3:
        return None
    fit = stats.linregress(np.log(x), np.log(y))
    spread = fit.stderr if np.isfinite(fit.stderr) else 0.0  # a constant has no residue to estimate it from
    half = stats.t.ppf(0.975, len(x) - 2) * spread
    return Exponent(float(fit.slope), float(fit.slope - half), float(fit.slope + half), len(x))
