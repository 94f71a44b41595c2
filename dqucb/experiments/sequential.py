"""How many seeds are enough: a sequential test of all pairs of agents, with family-wise error control.

The test follows the idea of AdaStop (Mathieu et al., "AdaStop: adaptive statistical testing for sound comparisons of
Deep RL agents", TMLR 2024): a group-sequential permutation test. Runs come in blocks of seeds. After each block, the
pairs of agents that are still undecided are compared with what permutations of the runs within each block give. The
statistic of a pair is |U - n²/2|, where U counts the pairs of runs that the first agent wins, that is Wilcoxon's rank
sum; so one failed run counts as one run, and all pairs have the same scale.

The boundary of a look is the smallest number b such that a fraction of at most k α / K of permutations exceed one of
the first k boundaries in any undecided pair, for k of at most K looks. If all undecided agents have equal
distributions, then some pair of them is told apart with a probability of at most α. A pair that exceeds the boundary
is decided, and the boundary is computed again for the others (step-down).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

BLOCK = 5  # seeds of each look
LEVEL = 0.05  # family-wise error
PERMUTATIONS = 10_000
MOST_AGENTS = 12  # 66 pairs; with more, so many runs are needed to tell them all apart that a fixed number is better

Pair = tuple[str, str]


class Decision(NamedTuple):
    """Two agents that were told apart, and the number of seeds of each that it took."""

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
        self._boundaries: list[float] = []

    @property
    def is_over(self) -> bool:
        """Whether every pair is decided or the last look is done."""
        return not self.undecided or len(self._boundaries) == self.looks

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
        number = len(self._boundaries) + 1
        size = number * self.block
        samples = {label: _validate.finite_array(f"results of {label}", results[label], 1) for label in self.active}
        for label, sample in samples.items():
            if sample.size != size:
                raise ValueError(f"results of {label} must be {size} numbers at look {number}, got {sample.size}")
        # The same permutations for every pair, so that their statistics have the right joint distribution.
        permuted = {pair: self._permuted(samples, pair, np.random.default_rng(number)) for pair in self.undecided}
        observed = {pair: _statistic(samples[pair[0]], samples[pair[1]]) for pair in self.undecided}
        decided: list[Decision] = []
        while self.undecided:
            boundary = self._boundary(np.max([permuted[pair] for pair in self.undecided], axis=0))
            first, second = pair = max(self.undecided, key=lambda each: abs(observed[each]))
            if abs(observed[pair]) <= boundary:
                break
            better, worse = (first, second) if observed[pair] > 0 else (second, first)
            decided.append(Decision(better, worse, size))
            self.undecided.remove(pair)
        self._boundaries.append(boundary)
        self.decisions += decided
        return decided

    def _permuted(
        self, samples: Mapping[str, NDArray[np.float64]], pair: Pair, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """|statistic| at each look so far, under permutations within blocks: shape (looks, PERMUTATIONS)."""
        blocks = np.concatenate([samples[label].reshape(-1, self.block) for label in pair], axis=1)
        order = random.permuted(np.tile(np.arange(2 * self.block), (PERMUTATIONS, len(blocks), 1)), axis=2)
        first = order < self.block  # which results of a block the permutation gives to the first agent
        found = np.empty((len(blocks), PERMUTATIONS))
        for look in range(1, len(blocks) + 1):
            ranks = _mid_ranks(blocks[:look].ravel())
            sums = first[:, :look].reshape(PERMUTATIONS, -1) @ ranks
            found[look - 1] = np.abs(sums - ranks.sum() / 2.0)
        return found

    def _boundary(self, largest: NDArray[np.float64]) -> float:
        """The boundary of this look, from the largest statistic of any pair: shape (looks, PERMUTATIONS)."""
        crossed = np.zeros(PERMUTATIONS, bool)
        for statistics, boundary in zip(largest, self._boundaries, strict=False):
            crossed |= statistics > boundary
        allowed = int(self.level * len(largest) / self.looks * PERMUTATIONS) - int(crossed.sum())
        last = np.sort(np.where(crossed, -np.inf, largest[-1]))[::-1]
        return float(last[max(0, allowed)]) if allowed < PERMUTATIONS else -np.inf


def _statistic(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """How far the rank sum of ours is below its mean; above zero, ours are lower."""
    ranks = _mid_ranks(np.concatenate([ours, theirs]))
    return float(ranks.sum() / 2.0 - ranks[: ours.size].sum())


def _mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, equal values sharing their mean rank."""
    ordered = np.sort(values)
    sums = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1
    return sums.astype(np.float64) / 2.0


def told_apart(decisions: Sequence[Decision], undecided: Sequence[Pair]) -> str:
    """What a test found, as one sentence."""
    told = [f"{better} is better than {worse} ({seeds} seeds)" for better, worse, seeds in decisions]
    return "; ".join([*told, *(f"{first} and {second} cannot be told apart" for first, second in undecided)])
