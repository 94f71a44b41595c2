"""How many seeds are enough: a sequential test of all pairs of agents, with family-wise error control.

The aim is that of AdaStop (Mathieu et al., "AdaStop: adaptive statistical testing for sound comparisons of Deep RL
agents", TMLR 2024): runs come in blocks of seeds, and after each block undecided pairs of agents are compared again.

One pair. The statistic is the sum over blocks of 2 (R - E R), where R is the rank sum of the first agent among the
results of both in that block (van Elteren's stratified Wilcoxon statistic). One failed run counts as one run. If both
agents have the same distribution, then given the results of a block all choices of which results belong to the first
agent are equally likely, and blocks are independent: the distribution of the path of the sums is counted exactly, ties
included, without drawing permutations. The boundary of look k of K is the smallest number for which the probability of
having reached a boundary by then is at most k α / K. So the pair is told apart with a probability of at most α.

All pairs. The agents with equal distributions form groups. Let m be the largest number of pairs within groups that is
possible when no group holds a decided pair; each undecided pair is tested at level α / m (Shaffer, "Modified
sequentially rejective multiple test procedures", JASA 1986), and m is computed again after each decision. If m0 pairs
are truly equal, the first wrong decision happens while m >= m0, in one of m0 tests at level α / m0 or less: with a
probability of at most α, for any number of agents and looks and any truth.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

BLOCK = 5  # seeds of each look
LEVEL = 0.05  # family-wise error
MOST_AGENTS = 12  # 66 pairs; with more, so many runs are needed to tell them all apart that a fixed number is better
ROUNDING = 1e-12  # of sums of probabilities

Pair = tuple[str, str]


class Decision(NamedTuple):
    """Two agents that differ significantly, and the number of seeds of each that it took."""

    better: str
    worse: str
    seeds: int


class SequentialTest:
    """Tells agents apart by their results, block of seeds by block of seeds.

    Parameters
    ----------
    labels : list of str
        The agents, at least two.
    looks : int
        The largest number of blocks.
    block : int
        Seeds of each block.
    level : float
        Family-wise error: the probability that any two agents with equal distributions are told apart.

    Examples
    --------
    >>> test = SequentialTest(["a", "b"], looks=4)
    >>> test.look({"a": [1, 2, 3, 4, 5], "b": [11, 12, 13, 14, 15]})
    [Decision(better='a', worse='b', seeds=5)]
    >>> test.undecided
    []
    """

    def __init__(self, labels: Sequence[str], looks: int, *, block: int = BLOCK, level: float = LEVEL) -> None:
        names = list(labels)
        if not 2 <= len(names) <= MOST_AGENTS:
            raise ValueError(f"agents to tell apart must be 2 to {MOST_AGENTS}, got {len(names)}")
        self.looks, self.block = _validate.integer("looks", looks), _validate.integer("block", block, 2)
        self.level = _validate.real("level", level, 0.0, 1.0, open_left=True)
        self.undecided: list[Pair] = list(combinations(names, 2))
        self.decisions: list[Decision] = []
        self._done = 0

    @property
    def is_over(self) -> bool:
        """Whether every pair is decided or the last look is done."""
        return not self.undecided or self._done == self.looks

    @property
    def active(self) -> list[str]:
        """The agents of undecided pairs: only these need more runs."""
        return list(dict.fromkeys(label for pair in self.undecided for label in pair))

    def look(self, results: Mapping[str, Sequence[float]]) -> list[Decision]:
        """Compare the undecided pairs once more.

        Parameters
        ----------
        results : mapping of str to list of float
            All results so far of each active agent, in the order of its seeds; lower is better.

        Returns
        -------
        list of Decision
            The pairs that this look told apart.
        """
        if self.is_over:
            raise ValueError(f"at most {self.looks} looks, and only while a pair is undecided")
        number = self._done + 1
        size = number * self.block
        samples = {label: _validate.finite_array(f"results of {label}", results[label], 1) for label in self.active}
        for label, sample in samples.items():
            if sample.size != size:
                raise ValueError(f"results of {label} must be {size} numbers at look {number}, got {sample.size}")
        ranks = {pair: self._ranks(samples, pair) for pair in self.undecided}
        decided: list[Decision] = []
        while self.undecided:
            level = self.level / _most_equal_pairs(self.undecided)
            sums = {pair: sum_beyond_boundary(ranks[pair], level, self.looks) for pair in self.undecided}
            pair = max(sums, key=lambda each: abs(sums[each]))
            if not sums[pair]:
                break
            decided.append(Decision(*(pair if sums[pair] < 0 else pair[::-1]), size))
            self.undecided.remove(pair)
        self._done = number
        self.decisions += decided
        return decided

    def _ranks(self, samples: Mapping[str, NDArray[np.float64]], pair: Pair) -> NDArray[np.int64]:
        """Doubled ranks within blocks, those of the first agent first: shape (looks, 2 block)."""
        blocks = np.concatenate([samples[label].reshape(-1, self.block) for label in pair], axis=1)
        return np.array([_doubled_ranks(block) for block in blocks])


def sum_beyond_boundary(ranks: NDArray[np.int64], level: float, looks: int) -> int:
    """The first sum of a pair that reached a boundary.

    Parameters
    ----------
    ranks : array of int, shape (looks so far, 2 block)
        Doubled ranks of the results within each block, those of the first agent first.
    level : float
        The probability of reaching a boundary at any look, if both agents have the same distribution.
    looks : int
        The largest number of looks.

    Returns
    -------
    int
        Twice the rank sum of the first agent less its mean, summed over the blocks up to the one that told the pair
        apart; below 0, the first agent has the lower results. 0 if no boundary was reached.

    Examples
    --------
    >>> sum_beyond_boundary(np.array([[2, 4, 6, 8, 10, 12, 14, 16, 18, 20]]), level=0.05, looks=6)  # 2/252 < 0.05/6
    -25
    """
    total, half = 0, ranks.shape[1] // 2
    staying = np.ones(1)  # probability of each sum, of paths that have not reached a boundary; the middle is 0
    for look, block in enumerate(ranks, 1):
        total += int(block[:half].sum() - block.sum() // 2)
        staying = np.convolve(staying, _block_distribution(tuple(sorted(block.tolist()))))
        distance = np.abs(np.arange(staying.size) - staying.size // 2)
        beyond = np.cumsum(np.bincount(distance, staying)[::-1])[::-1]  # probability of a distance of at least d
        spent = 1.0 - staying.sum()
        boundary = int(np.argmax(np.append(beyond, 0.0) <= level * look / looks - spent + ROUNDING))
        if abs(total) >= boundary:
            return total
        staying[distance >= boundary] = 0.0
    return 0


@cache
def _block_distribution(ranks: tuple[int, ...]) -> NDArray[np.float64]:
    """Probability of each sum of half of these doubled ranks, less its mean; the middle of the array is 0."""
    half, total = len(ranks) // 2, sum(ranks)
    counts = np.zeros((half + 1, total + 1))  # number of choices by how many were chosen and their sum
    counts[0, 0] = 1.0
    for rank in ranks:
        counts[1:, rank:] += counts[:-1, : total + 1 - rank].copy()
    return np.asarray(counts[half] / counts[half].sum())


@cache
def _largest_partition(agents: frozenset[str], undecided: frozenset[Pair]) -> int:
    """The most pairs within groups, over partitions of the agents into groups without a decided pair."""
    if len(agents) < 2:
        return 0
    first, *others = sorted(agents)
    partners = [other for other in others if (first, other) in undecided or (other, first) in undecided]
    found = 0
    for size in range(len(partners) + 1):
        for group in combinations(partners, size):
            if all((a, b) in undecided or (b, a) in undecided for a, b in combinations(group, 2)):
                rest = _largest_partition(agents - {first, *group}, undecided)
                found = max(found, (size + 1) * size // 2 + rest)
    return found


def _most_equal_pairs(undecided: Sequence[Pair]) -> int:
    """The largest number of undecided pairs that can all be pairs of equal agents."""
    return _largest_partition(frozenset(label for pair in undecided for label in pair), frozenset(undecided))


def _doubled_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the ranks, equal values sharing their mean rank; so they are integers."""
    ordered = np.sort(values)
    return np.asarray(np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1)


def findings(decisions: Sequence[Decision], undecided: Sequence[Pair]) -> str:
    """What a test found, as one sentence."""
    decided = [f"{better} is better than {worse} ({seeds} seeds)" for better, worse, seeds in decisions]
    return "; ".join([*decided, *(f"{first} and {second}: no significant difference" for first, second in undecided)])
