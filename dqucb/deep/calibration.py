"""Are the confidence intervals that Q and its bonus imply as wide as they claim?

At a visit of (s_t, a_t) an agent holds Q(s_t, a_t), and the bonus b_t says how unsure it is. Read as a Gaussian with
mean Q and standard deviation c * b_t, they imply the interval Q +- c * z_p * b_t for each confidence p, z_p =
Phi^-1((1 + p) / 2). The realised discounted return is

    G_t = r_t + gamma r_{t+1} + ... (+ gamma^m max_a Q(s_T, a) where a time limit and not the task ended the episode).

Calibrated: for every p the share of visits with G_t inside is p. The curve is that share against p; the expected
calibration error (ECE) the mean of |share - p| over the p's; shares below p mean over-confidence. The scale of a
bonus is a free setting, so c = 1 judges that setting too; `fitted_scale` gives instead the one c that makes the middle
interval right on other visits (those before a shift), and so shows the effect of the shift alone. `corrected` goes on
fitting: the c of each level is what the last episodes, whose returns are known, would have needed (conformal intervals
from recent visits; Barber et al. 2023 say why this holds up where the world drifts).
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

if TYPE_CHECKING:
    from dqucb.deep.trainer import DeepMoment

_quantile = NormalDist().inv_cdf
LEVELS = np.linspace(0.05, 0.95, 19)


class Visits(NamedTuple):
    """Visits of one seed, one place each."""

    episodes: NDArray[np.int64]
    q: NDArray[np.float64]
    bonus: NDArray[np.float64]
    returns: NDArray[np.float64]  # realised, discounted


class Calibration(NamedTuple):
    """The calibration curve of some visits."""

    levels: NDArray[np.float64]
    coverage: NDArray[np.float64]  # the share of visits inside the interval of each level
    ece: float
    bias: float  # mean of coverage - level: below 0 over-confident, above 0 too cautious
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
    """The calibration curve of intervals q +- scale * z_p * bonus against realised returns (see the module)."""
    if not len(q):
        raise ValueError("q must hold at least one visit, got none")
    distances = np.abs(returns - q)
    coverage = np.array([(distances <= scale * _quantile((1 + p) / 2) * bonus).mean() for p in levels])
    misses = coverage - levels
    return Calibration(levels, coverage, float(np.abs(misses).mean()), float(misses.mean()), float(scale), len(q))


def fitted_scale(q: NDArray[np.float64], bonus: NDArray[np.float64], returns: NDArray[np.float64]) -> float:
    """The c with which half of these visits lie in the 50 % interval."""
    ratios = np.abs(returns - q) / np.maximum(bonus, 1e-300)
    return float(np.median(ratios) / _quantile(0.75))


def corrected(visits: Visits, first: int = 0, *, memory: int = 10, levels: NDArray[np.float64] = LEVELS) -> Calibration:
    """The calibration curve of intervals that are corrected online, over the episodes from `first` on.

    The interval of level p in an episode is q +- c_p * bonus, c_p the p-quantile of |return - q| / bonus over the
    visits of the last `memory` episodes. No interval knows a return of its own episode or of a later one.

    Parameters
    ----------
    visits : Visits
        In the order of their episodes.
    first : int
        Episodes before it only correct; the very first one is never counted.
    memory : int
        Episodes.
    levels : array
        The p's.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> spread = np.repeat([1.0, 8.0], 20_000)  # returns become wilder; q and bonus know nothing of it
    >>> visits = Visits(np.arange(40_000) // 100, np.zeros(40_000), np.ones(40_000), rng.normal(0.0, spread))
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
    """A callback of deep agents that keeps the visits of given episodes of every seed.

    The visits are in `run.extras` afterwards ("visit_episodes", "visit_q", "visit_bonus", "visit_returns"), and stay in
    a checkpoint while the run goes on.

    Parameters
    ----------
    windows : sequence of (int, int)
        Episodes [first, last) whose visits are kept.
    discount : float
        The agent's.

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

    def __call__(self, moment: "DeepMoment") -> None:
        ended = moment.terminated | moment.truncated
        tails: NDArray[np.float64] | None = None
        for i in moment.rows.tolist():
            episode = int(moment.episodes[i])
            if not any(first <= episode < last for first, last in self.windows):
                continue
            steps = self._open.setdefault(i, [])
            steps.append((moment.q[i], moment.bonus[i], moment.rewards[i]))
            if ended[i]:
                if moment.truncated[i] and tails is None:
                    tails = moment.trainer.greedy_values(moment.next_observations)
                tail = float(tails[i]) if tails is not None and moment.truncated[i] else 0.0
                self._done.setdefault(i, []).append((episode, self._closed(steps, tail)))
                self._open[i] = []

    def _closed(self, steps: list[tuple[float, float, float]], tail: float) -> NDArray[np.float64]:
        table = np.array(steps)
        for row in table[::-1]:
            tail = row[2] = row[2] + self.discount * tail
        return table

    def visits(self, i: int) -> Visits:
        """The visits of the i-th seed."""
        done = self._done.get(i, [])
        table = np.concatenate([np.zeros((0, 3)), *(steps for _, steps in done)])
        episodes = np.concatenate([np.zeros(0, np.int64), *(np.full(len(steps), at) for at, steps in done)])
        return Visits(episodes, table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())

    def results(self, i: int) -> dict[str, NDArray[np.generic]]:
        """The visits of the i-th seed, for `run.extras`."""
        visits = self.visits(i)
        return {"visit_episodes": visits.episodes, "visit_q": visits.q, "visit_bonus": visits.bonus,
                "visit_returns": visits.returns}  # fmt: skip

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays from which `restore` goes on, in the middle of an episode too."""
        arrays = {f"open.{i}": np.array(steps).reshape(-1, 3) for i, steps in self._open.items()}
        for i, done in self._done.items():
            arrays |= {f"done.{i}.{episode}": table for episode, table in done}
        return arrays

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Go on exactly from `state()`; other names are passed over."""
        self._open, self._done = {}, {}
        for name, table in state.items():
            kind, *numbers = name.split(".")
            if kind == "open":
                self._open[int(numbers[0])] = [tuple(row) for row in table.tolist()]
            elif kind == "done":
                self._done.setdefault(int(numbers[0]), []).append((int(numbers[1]), table))
        for done in self._done.values():
            done.sort(key=lambda item: item[0])
