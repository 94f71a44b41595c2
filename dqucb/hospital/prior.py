"""The dynamics assumed before anything is learned, and the expected overflow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

STAYING = 0.855  # fraction of COVID-19 patients who stay to the next day; published: a stay of 7 days
MOVEMENT = 0.0006  # variance of the daily change of other patients, as a fraction of the beds
LEAST_DEVIATION = 0.3  # standard deviation in patients: small hospitals change by whole ones


def expected_overflow(load: NDArray[Any], deviation: NDArray[Any]) -> NDArray[Any]:
    """E max(0, load + e) = s ln(1 + exp(load / s)), s = sqrt(3) / pi deviation, for logistic noise e.

    Logistic, because the number of other patients makes larger jumps than a Gaussian would.

    Parameters
    ----------
    load : array
        Patients in excess of the beds.
    deviation : array
        Standard deviation of the noise.
    """
    s = deviation * (3.0**0.5 / np.pi)
    share = load / s
    return s * (np.maximum(0.0, share) + np.log1p(np.exp(-np.abs(share))))  # np.logaddexp takes twice as long
