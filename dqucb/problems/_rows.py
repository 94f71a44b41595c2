"""Convert transition entries to the rows of a model: checked, sorted, with equal outcome distributions stored once.

The outcome distribution of a row is its list of probabilities and rewards. A large problem is converted in chunks of
CHUNK rows, so that memory holds the finished rows and the work of one chunk; the result does not depend on the chunks.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.problems._transitions import Entries

SUM_TOLERANCE = 1e-8  # allowed error of a row's sum before it is normalised
CHUNK = 1 << 14  # rows
FEW = 1 << 10  # distributions of a chunk that are looked up among those of other chunks; more are not worth it

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """Fields of `Model`, for one phase."""

    row_start: Integers
    outcome_start: Integers
    successor: NDArray[np.int32]
    probability: Floats
    cumulative: Floats
    reward: Floats


def rows_of(parts: Iterable[Entries], terminal: NDArray[np.bool_]) -> Rows:
    """The rows of a model from entries in parts, which together hold all rows in order."""
    distributions = Distributions()
    row_start, outcome_start, successor = np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    row = used = 0
    for entries in parts:
        _check_rewards(entries.reward)
        for part in _cut(entries):
            starts, kept = canonical(part, terminal)
            if row == 0:
                n_rows = part.steps * part.n_states * part.n_actions
                row_start, outcome_start = np.zeros(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
            here = slice(row, row + starts.size - 1)
            row_start[1:][here] = used + starts[1:]
            outcome_start[here] = distributions.add(starts, kept.probability, kept.reward)
            row, end = here.stop, used + kept.successor.size
            if end > successor.size:
                # Resized in place, with capacity for chunks like those so far.
                successor.resize(max(end, end * outcome_start.size // row), refcheck=False)
            successor[used:end] = kept.successor
            used = end
    successor.resize(used, refcheck=False)
    return Rows(row_start, outcome_start, successor, *distributions.tables())


def _check_rewards(reward: Floats) -> None:
    if reward.size and np.abs(reward).max() > check.MAX_REWARD:
        largest = reward[np.abs(reward).argmax()]
        raise ValueError(f"each of R must be >= {-check.MAX_REWARD:g} and <= {check.MAX_REWARD:g}, got {largest!r}")


def _cut(entries: Entries) -> Iterator[Entries]:
    """Chunks of CHUNK rows each where the entries are ordered by row, else one chunk."""
    rows = entries.rows
    if len(rows) <= CHUNK or (np.diff(entries.row) < 0).any():
        yield entries
        return
    edges = [*range(rows.start, rows.stop, CHUNK), rows.stop]
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
    """Row offsets and checked entries: merged, without zeros, normalised, by decreasing probability.

    Entries with the same row, successor and reward are merged; entries with different rewards are not, so that a
    sampled reward is one that was given and not a mean. Terminal states get a self-loop without reward, whatever the
    user gave there. The order makes sampling scans short and is the same for every form of input.
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


class Distributions:
    """Outcome distributions of rows. Equal ones are stored once within a chunk, and across chunks that have few."""

    def __init__(self) -> None:
        self._probability: list[Floats] = []
        self._reward: list[Floats] = []
        self._sizes: list[Integers] = []
        self._used = 0
        self._known: dict[tuple[bytes, bytes], int] = {}

    def add(self, row_start: Integers, probability: Floats, reward: Floats) -> Integers:
        """The index at which the distribution of each row begins."""
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
    """A hash of each entry, by the finaliser of SplitMix64 (Steele et al. 2014); a row sums those of its entries."""
    mixed = probability * np.uint64(0x9E3779B97F4A7C15) + reward + place
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(27))


def _first_alike(row_start: Integers, probability: Floats, reward: Floats) -> Integers:
    """For each row the first row with the bit-identical distribution."""
    sizes = np.diff(row_start)
    place = np.arange(probability.size) - np.repeat(row_start[:-1], sizes)
    bits = [np.ascontiguousarray(table).view(np.uint64) for table in (probability, reward)]
    hashes = np.add.reduceat(_mixed(bits[0], bits[1], place.astype(np.uint64)), row_start[:-1])
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    candidate = first[group]
    # Different distributions may have the same hash, so that all are compared.
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
    # Column by column: the sum of a row starts at that row, so that its bits do not depend on other rows.
    while (live := np.flatnonzero(position < row_start[1:])).size:
        running[live] += probability[position[live]]
        result[position[live]] = np.minimum(running[live], 1.0)
        position[live] += 1
    result[row_start[1:] - 1] = 1.0
    return result
