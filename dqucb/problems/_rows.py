"""From entries to the rows of a model: checked, sorted, and with the laws that rows have in common kept once.

A large problem comes in parts, and so does the work: at no time are there more than the finished rows and what one part
of PART rows needs. The result does not depend on how a problem is cut.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems._transitions import Entries

SUM_TOLERANCE = 1e-8  # a row may miss one by this much; it is then renormalised
PART = 1 << 16  # rows
FEW = 1 << 10  # laws of a part that are looked for among those of other parts; more are not worth it

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """Fields of `Model`, for one phase."""

    row_start: Integers
    law_start: Integers
    successor: NDArray[np.int32]
    probability: Floats
    cumulative: Floats
    reward: Floats


def rows_of(parts: Iterable[Entries], terminal: NDArray[np.bool_]) -> Rows:
    """The rows of all parts, which describe all rows in their order."""
    laws = Laws()
    row_start, law_start, successor = np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    row = used = 0
    for entries in parts:
        _check_rewards(entries.reward)
        for part in _cut(entries):
            starts, kept = canonical(part, terminal)
            if row == 0:
                n_rows = part.steps * part.n_states * part.n_actions
                row_start, law_start = np.zeros(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
            here = slice(row, row + starts.size - 1)
            row_start[1:][here] = used + starts[1:]
            law_start[here] = laws.add(starts, kept.probability, kept.reward)
            row, end = here.stop, used + kept.successor.size
            if end > successor.size:
                # Moved within the address space, not copied, and with room for parts like those so far.
                successor.resize(max(end, end * law_start.size // row), refcheck=False)
            successor[used:end] = kept.successor
            used = end
    successor.resize(used, refcheck=False)
    return Rows(row_start, law_start, successor, *laws.tables())


def _check_rewards(reward: Floats) -> None:
    if reward.size and np.abs(reward).max() > check.MAX_REWARD:
        largest = reward[np.abs(reward).argmax()]
        raise ValueError(f"each of R must be >= {-check.MAX_REWARD:g} and <= {check.MAX_REWARD:g}, got {largest!r}")


def _cut(entries: Entries) -> Iterator[Entries]:
    """Parts of PART rows each, where entries come in the order of their rows; else all of them."""
    rows = entries.rows
    if len(rows) <= PART or (np.diff(entries.row) < 0).any():
        yield entries
        return
    edges = [*range(rows.start, rows.stop, PART), rows.stop]
    places = np.searchsorted(entries.row, edges)
    for i in range(len(edges) - 1):
        here = slice(places[i], places[i + 1])
        yield entries._replace(
            row=entries.row[here],
            successor=entries.successor[here],
            probability=entries.probability[here],
            reward=entries.reward[here],
            part=range(edges[i], edges[i + 1]),
        )


def canonical(entries: Entries, terminal: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Entries]:
    """Row offsets and checked entries: merged, without zeros, normalised, in order of falling probability.

    Entries with the same row, successor and reward become one; with differing rewards they stay apart, so
    that a drawn reward is a real one and not a mean. Terminal states get a loop without reward: what the
    user gave there is never used. The order makes the scan for a draw short, and is the same for
    every form of input.
    """
    entries.check()
    S, A, rows = entries.n_states, entries.n_actions, entries.rows
    keep = (entries.probability > 0.0) & ~terminal[entries.row % (S * A) // A]
    ends = np.arange(rows.start, rows.stop)
    ends = ends[terminal[ends % (S * A) // A]]
    row = np.concatenate([entries.row[keep], ends])
    successor = np.concatenate([entries.successor[keep], ends % (S * A) // A])
    probability = np.concatenate([entries.probability[keep], np.ones(ends.size)])
    reward = np.concatenate([entries.reward[keep], np.zeros(ends.size)])

    order = np.lexsort((reward, successor, row))
    row, successor, probability, reward = (x[order] for x in (row, successor, probability, reward))
    fresh = np.ones(row.size, dtype=np.bool_)
    fresh[1:] = (np.diff(row) != 0) | (np.diff(successor) != 0) | (np.diff(reward) != 0)
    starts = np.flatnonzero(fresh)
    probability = np.add.reduceat(probability, starts) if starts.size else probability
    row, successor, reward = row[starts], successor[starts], reward[starts]

    row -= rows.start
    total = np.bincount(row, weights=probability, minlength=len(rows))
    wrong = np.flatnonzero(~(np.abs(total - 1.0) <= SUM_TOLERANCE))
    if wrong.size:
        raise ValueError(
            f"{entries.where(rows[int(wrong[0])])} sums to {total[wrong[0]]:.10g}: the probabilities of each row "
            f"must sum to one (within {SUM_TOLERANCE:g}; {wrong.size} of {len(rows)} rows do not). Fix or "
            "normalise P, or list the state in terminal= if the episode ends there"
        )
    probability = probability / total[row]
    order = np.lexsort((reward, successor, -probability, row))
    row, successor, probability, reward = (x[order] for x in (row, successor, probability, reward))
    row_start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=len(rows)), out=row_start[1:])
    return row_start, entries._replace(row=row, successor=successor, probability=probability, reward=reward)


class Laws:
    """Probabilities and rewards of rows, each law once as far as rows of one part, or parts of few laws, share it."""

    def __init__(self) -> None:
        self._probability: list[Floats] = []
        self._reward: list[Floats] = []
        self._sizes: list[Integers] = []
        self._used = 0
        self._known: dict[tuple[bytes, bytes], int] = {}

    def add(self, row_start: Integers, probability: Floats, reward: Floats) -> Integers:
        """Where the law of each row begins."""
        first_alike = _first_alike(row_start, probability, reward)
        fresh = np.flatnonzero(first_alike == np.arange(first_alike.size))
        start = np.empty(first_alike.size, np.int64)
        if fresh.size <= FEW:
            for row in fresh.tolist():
                here = slice(row_start[row], row_start[row + 1])
                name = probability[here].tobytes(), reward[here].tobytes()
                if name not in self._known:
                    self._known[name] = self._used
                    self._append(probability[here], reward[here], np.diff(row_start[row : row + 2]))
                start[row] = self._known[name]
        else:
            sizes = np.diff(row_start)
            inside = np.repeat(first_alike == np.arange(first_alike.size), sizes)
            start[fresh] = self._used + np.cumsum(sizes[fresh]) - sizes[fresh]
            self._append(probability[inside], reward[inside], sizes[fresh])
        return start[first_alike]

    def _append(self, probability: Floats, reward: Floats, sizes: Integers) -> None:
        self._probability.append(probability)
        self._reward.append(reward)
        self._sizes.append(sizes)
        self._used += probability.size

    def tables(self) -> tuple[Floats, Floats, Floats]:
        """Probabilities, cumulative ones, rewards."""
        probability = np.concatenate(self._probability)
        starts = np.concatenate([[0], np.cumsum(np.concatenate(self._sizes))])
        return probability, cumulative_rows(starts, probability), np.concatenate(self._reward)


def _mixed(probability: Any, reward: Any, place: Any) -> Any:
    """A number for each entry, by the finaliser of SplitMix64 (Steele et al. 2014), of which rows add up their own."""
    mixed = probability * np.uint64(0x9E3779B97F4A7C15) + reward + place
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(27))


def _first_alike(row_start: Integers, probability: Floats, reward: Floats) -> Integers:
    """The first row with the same law, bit for bit, for each row."""
    sizes = np.diff(row_start)
    place = np.arange(probability.size) - np.repeat(row_start[:-1], sizes)
    bits = [np.ascontiguousarray(table).view(np.uint64) for table in (probability, reward)]
    marks = np.add.reduceat(_mixed(bits[0], bits[1], place.astype(np.uint64)), row_start[:-1])
    _, first, group = np.unique(marks, return_index=True, return_inverse=True)
    candidate = first[group]
    # Laws that differ may have the same mark, so that all are compared.
    alike = sizes == sizes[candidate]
    entry = np.repeat(np.where(alike, row_start[candidate], row_start[:-1]), sizes) + place
    equal = (bits[0] == bits[0][entry]) & (bits[1] == bits[1][entry])
    alike &= np.logical_and.reduceat(equal, row_start[:-1])
    return np.where(alike, candidate, np.arange(sizes.size))


def cumulative_rows(row_start: NDArray[np.int64], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative probabilities within each row, clipped at 1; the last one of each row is exactly 1.0."""
    result = np.empty_like(probability)
    position = row_start[:-1].copy()
    running = np.zeros(position.size)
    # Column by column: summing from each row's start keeps one row's bits free of all others.
    while (live := np.flatnonzero(position < row_start[1:])).size:
        running[live] += probability[position[live]]
        result[position[live]] = np.minimum(running[live], 1.0)
        position[live] += 1
    result[row_start[1:] - 1] = 1.0
    return result
