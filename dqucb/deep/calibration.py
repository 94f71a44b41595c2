"""Calibration of the confidence intervals that Q-values and their bonuses imply.

At a visit of (s_t, a_t) an agent has the estimate Q(s_t, a_t), and the bonus b_t measures its uncertainty. Read as a
Gaussian with mean Q and standard deviation c * b_t, they imply the interval Q +- c * z_p * b_t for each confidence
level p, z_p = Phi^-1((1 + p) / 2). The realised discounted return is

    G_t = r_t + gamma r_{t+1} + ... (+ gamma^m max_a Q(s_T, a) where a time limit and not the task ended the episode).

The intervals are calibrated if for every p the share of visits with G_t inside (the coverage) is p. The calibration
curve is the coverage against p; the expected calibration error (ECE) is the mean of |coverage - p| over the levels.
Coverage below p means over-confidence. The scale of a bonus is a free parameter, so c = 1 judges that choice too.
`fitted_scale` gives the c that calibrates the 50 % interval on other visits (those before a shift), and so isolates the
effect of the shift. `corrected` refits continually: the c of each level is the one that would have been right for the
last episodes, whose returns are known (conformal intervals from recent visits; Barber et al. 2023 justify them for data
that drift).
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

if TYPE_CHECKING:
    from dqucb.deep.trainer import DeepProgress

_quantile = NormalDist().inv_cdf
LEVELS = np.linspace(0.05, 0.95, 19)


class Visits(NamedTuple):
    """Visits of one seed, in arrays of the same length.

    Parameters
    ----------
    episodes : array of int
        The episode of each visit.
    q, bonus : array
        At the visit.
    returns : array
        Realised, discounted.
    """

    episodes: NDArray[np.int64]
    q: NDArray[np.float64]
    bonus: NDArray[np.float64]
    returns: NDArray[np.float64]


class Calibration(NamedTuple):
    """A calibration curve.

    Parameters
    ----------
    levels : array
        Confidence levels p.
    coverage : array
        The share of visits inside the interval of each level.
    ece : float
        Expected calibration error.
    bias : float
        Mean of coverage - level: negative if over-confident, positive if too cautious.
    scale : float
        The factor c of the bonus.
    visits : int
        How many.
    """

    levels: NDArray[np.float64]
    coverage: NDArray[np.float64]
    ece: float
    bias: float
    scale: float
    visits: int


def calibration(
    q: NDArray[np.float64],
    bonus: NDArray[np.float64],
    returns: NDArray[np.float64],
    *,
    scale: float = 1.0,
    levels: NDArray[np.float64] = LEVELS,
) -> Calibration:
    """Return the calibration curve of the intervals q +- scale * z_p * bonus.

    Parameters
    ----------
    q, bonus, returns : array
        Of each visit, as in `Visits`.
    scale : float
        The factor of the bonus.
    levels : array
        Confidence levels p.
    """
    if not len(q):
        raise ValueError("q must hold at least one visit, got none")
    distances = np.abs(returns - q)
    coverage = np.array([(distances <= scale * _quantile((1 + p) / 2) * bonus).mean() for p in levels])
    misses = coverage - levels
    return Calibration(levels, coverage, float(np.abs(misses).mean()), float(misses.mean()), float(scale), len(q))


def fitted_scale(q: NDArray[np.float64], bonus: NDArray[np.float64], returns: NDArray[np.float64]) -> float:
    """Return the factor c with which half of the visits lie in the 50 % interval.

    Parameters
    ----------
    q, bonus, returns : array
        Of each visit, as in `Visits`.
    """
    ratios = np.abs(returns - q) / np.maximum(bonus, 1e-300)
    return float(np.median(ratios) / _quantile(0.75))


def corrected(visits: Visits, first: int = 0, *, memory: int = 10, levels: NDArray[np.float64] = LEVELS) -> Calibration:
    """Return the calibration curve of intervals that are corrected online, over the episodes from `first` on.

    The interval of level p in an episode is q +- c_p * bonus, c_p the p-quantile of |return - q| / bonus over the
    visits of the previous `memory` episodes.

    Parameters
    ----------
    visits : Visits
        In order of their episodes.
    first : int
        Earlier episodes are used for correction only; the first episode of all is never counted.
    memory : int
        Number of episodes.
    levels : array
        Confidence levels p.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> deviation = np.repeat([1.0, 8.0], 20_000)  # the variance of returns rises; q and bonus do not change
    >>> visits = Visits(np.arange(40_000) // 100, np.zeros(40_000), np.ones(40_000), rng.normal(0.0, deviation))
    >>> bool(calibration(visits.q[20_000:], visits.bonus[20_000:], visits.returns[20_000:]).ece > 0.3)
    True
    >>> bool(corrected(visits, first=200).ece < 0.05)
    True
    """
    memory = _validate.integer("memory", memory)
    ratios = np.abs(visits.returns - visits.q) / np.maximum(visits.bonus, 1e-300)
    starts = np.flatnonzero(np.diff(visits.episodes, prepend=-1))
    parts = np.split(ratios, starts[1:])
    inside, counted = np.zeros(len(levels)), 0
    for number in range(1, len(parts)):
        if visits.episodes[starts[number]] >= first:
            widths = np.quantile(np.concatenate(parts[max(0, number - memory) : number]), levels)
            inside, counted = inside + (parts[number][:, None] <= widths).sum(0), counted + len(parts[number])
    if not counted:
        raise ValueError(f"visits must hold a second episode and one from {first} on, got {len(parts)} episodes")
    misses = inside / counted - levels
    return Calibration(levels, inside / counted, float(np.abs(misses).mean()), float(misses.mean()), 1.0, counted)


class CalibrationRecorder:
    """A callback for deep agents that records the visits in given episodes of every seed.

    After training the visits are in `run.extras` ("visit_episodes", "visit_q", "visit_bonus", "visit_returns"). They
    are part of checkpoints.

    Parameters
    ----------
    windows : sequence of (int, int)
        Episodes [first, last) whose visits are recorded.
    discount : float
        Of the agent.

    Examples
    --------
    >>> from dqucb.deep import DQNUCB
    >>> agent = DQNUCB(hidden=(16,))
    >>> run = agent.train("cartpole", episodes=4, callback=CalibrationRecorder([(1, 3)], agent.discount))
    >>> len(run.extras["visit_q"]) == run.lengths[1:3].sum()
    np.True_
    """

    def __init__(self, windows: Sequence[tuple[int, int]], discount: float) -> None:
        self.windows, self.discount = list(windows), discount
        self._open: dict[int, list[tuple[float, float, float]]] = {}
        self._done: dict[int, list[tuple[int, NDArray[np.float64]]]] = {}

    def __call__(self, progress: "DeepProgress") -> None:
        ended = progress.terminated | progress.truncated
        tails: NDArray[np.float64] | None = None
        for i in progress.rows.tolist():
            episode = int(progress.episodes[i])
            if not any(first <= episode < last for first, last in self.windows):
                continue
            steps = self._open.setdefault(i, [])
            steps.append((progress.q[i], progress.bonus[i], progress.rewards[i]))
            if ended[i]:
                if progress.truncated[i] and tails is None:
                    tails = progress.trainer.greedy_values(progress.next_observations)
                tail = float(tails[i]) if tails is not None and progress.truncated[i] else 0.0
                self._done.setdefault(i, []).append((episode, self._closed(steps, tail)))
                self._open[i] = []

    def _closed(self, steps: list[tuple[float, float, float]], tail: float) -> NDArray[np.float64]:
        table = np.array(steps)
        for row in table[::-1]:
            tail = row[2] = row[2] + self.discount * tail
        return table

    def visits(self, i: int) -> Visits:
        """Return the visits of the i-th seed."""
        done = self._done.get(i, [])
        table = np.concatenate([np.zeros((0, 3)), *(steps for _, steps in done)])
        episodes = np.concatenate([np.zeros(0, np.int64), *(np.full(len(steps), at) for at, steps in done)])
        return Visits(episodes, table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())

    def results(self, i: int) -> dict[str, NDArray[np.generic]]:
        """Return the visits of the i-th seed, for `run.extras`."""
        visits = self.visits(i)
        return {"visit_episodes": visits.episodes, "visit_q": visits.q, "visit_bonus": visits.bonus,
                "visit_returns": visits.returns}  # fmt: skip

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return arrays from which `restore` continues, also within an episode."""
        arrays = {f"open.{i}": np.array(steps).reshape(-1, 3) for i, steps in self._open.items()}
        for i, done in self._done.items():
            arrays |= {f"done.{i}.{episode}": table for episode, table in done}
        return arrays

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Restore `state()`, bit-identically; other entries are ignored."""
        self._open, self._done = {}, {}
        for name, table in state.items():
            kind, *numbers = name.split(".")
            if kind == "open":
                self._open[int(numbers[0])] = [tuple(row) for row in table.tolist()]
            elif kind == "done":
                self._done.setdefault(int(numbers[0]), []).append((int(numbers[1]), table))
        for done in self._done.values():
            done.sort(key=lambda item: item[0])
