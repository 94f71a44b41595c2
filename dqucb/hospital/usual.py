"""What is usual from one day to the next, before anything is learned, and the overflow that it lets expect."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

STAYING = 0.855  # share of COVID-19 patients who stay; a stay of 7 days is published
MOVEMENT = 0.0006  # the square of the other patients' daily movement, as a share of the beds
LEAST_SPREAD = 0.3  # patients: small hospitals move by whole ones


def expected_overflow(load: NDArray[Any], spread: NDArray[Any]) -> NDArray[Any]:
    """E max(0, load + e) for logistic e with this standard deviation: s ln(1 + exp(load / s)), s = sqrt(3) / pi spread.

    Logistic, because the others move in larger jumps than a Gaussian has.
    """
    s = spread * (3.0**0.5 / np.pi)
    share = load / s
    return s * (np.maximum(0.0, share) + np.log1p(np.exp(-np.abs(share))))  # np.logaddexp takes twice as long
