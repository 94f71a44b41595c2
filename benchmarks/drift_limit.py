"""How soon can a change be found by a test that does not know it? `python -m benchmarks.drift_limit [--seeds N]`.

Lorden's limit, log(1/rate) / KL, is that of a test that knows the old rows, the new rows and which pairs change. Three
tests that know less are run on streams of finite families, all with Shiryaev-Roberts sums over all starts and an
alarm at 1 / rate, which keeps the rate exactly:

* known: old and new rows and the pairs. Its delay is near Lorden's limit.
* which: old and new rows, and the share pi of the pairs that change, not which: prod over pairs of 1 - pi + pi LR.
* fair: the old rows and pi alone. The new row of a pair has a Dirichlet prior around a mixture of the old row and equal
  shares, so that LR is that of its predictive distribution. The best of four priors for each stream, which is more
  than a test without hindsight can have.
* ours: `FiniteDriftDetector`, which has to learn the old rows as well.
"""

import argparse
import json

import numpy as np
from numpy.typing import NDArray

from dqucb.drift.benchmark.adapters import alarms_of, our_detector
from dqucb.drift.benchmark.streams import Draws
from dqucb.drift.benchmark.tables import Table, random_table, walk

CHANGES = {"all rows": Table.all_rows, "some pairs": Table.some_pairs, "one pair": Table.one_pair}
SIZES = {"dense": (4, 13, None), "dense, 30 to 59 states": (30, 60, None), "sparse": (10, 60, 4)}  # states, branches
BEFORE = 200  # updates before the change at which a test may believe that it began
PRIORS = tuple((k0, k1, b) for k0, k1 in ((1.0, 0.5), (4.0, 2.0)) for b in (0.3, 0.9))  # K = k0 + k1 k, share b of 1/k
VISITS = 1_000


def delay_of(
    pairs: NDArray[np.int64], outcomes: NDArray[np.int64], old: NDArray[np.float64], new: NDArray[np.float64] | None,
    share: float, rate: float, prior: tuple[float, float, float] = PRIORS[0],
) -> int:  # fmt: skip
    """The first update at which the sum over all starts exceeds 1 / rate, or the number of updates.

    Parameters
    ----------
    pairs, outcomes : ndarray of int
        The stream, by pair and number of the branch.
    old, new : ndarray
        Rows before and after, (pairs, branches); `new` is None for a test that learns them.
    share : float
        Of the pairs that change.
    rate : float
        False alarms per update.
    prior : tuple of float
        Of a test that learns.
    """
    n, k = old.shape
    strength, b = prior[0] + prior[1] * k, prior[2]
    steps = len(pairs)
    ratios, logs = np.ones((steps, n)), np.zeros(steps)
    counts, visits = np.zeros((steps, n, k) if new is None else (0, 0, 0), np.int16), np.zeros((steps, n), np.int16)
    for t, (x, y) in enumerate(zip(pairs, outcomes, strict=True)):
        starts = slice(0, t + 1)
        if new is None:
            mean = (1.0 - b) * old[x, y] + b / k
            factor = (counts[starts, x, y] + strength * mean) / (visits[starts, x] + strength) / old[x, y]
            counts[starts, x, y] += 1
            visits[starts, x] += 1
        else:
            factor = new[x, y] / old[x, y]
        before = 1.0 - share + share * ratios[starts, x]
        ratios[starts, x] = np.minimum(ratios[starts, x] * factor, 1e200)
        logs[starts] += np.log((1.0 - share + share * ratios[starts, x]) / before)
        if np.exp(np.minimum(logs[starts], 500.0)).sum() > 1.0 / rate:
            return t
    return steps


def measured(sizes: str, change: str, seed: int, rate: float) -> dict[str, float] | None:
    """Delays over Lorden's limit on one drawn stream; None if that limit is above 2,000 updates.

    Parameters
    ----------
    sizes, change : str
        Of `SIZES` and `CHANGES`.
    seed : int
        Everything is drawn from it.
    rate : float
        False alarms per update.
    """
    rng_of = Draws(seed, f"{sizes}, {change}")
    rng = rng_of("process")
    least, most, branches = SIZES[sizes]
    n_states = int(rng.integers(least, most))
    table = random_table(rng, n_states, n_states if branches is None else branches, 1.0)
    table = Table(table.successors, np.maximum(table.probabilities, 1e-3), table.n_actions)
    table.probabilities /= table.probabilities.sum(1, keepdims=True)
    after = CHANGES[change](table, rng)
    change_at = VISITS * len(table.successors)
    policies = (np.full((n_states, table.n_actions), 1.0 / table.n_actions),) * 2
    stream = walk((table, after), policies, rng_of("noise"), rng_of("actions"), change_at, change_at + 30_000)
    limit = stream.limit(rate)
    if limit is None or limit > 2_000.0:
        return None
    window = slice(change_at - BEFORE, change_at + int(8 * limit) + 100)
    pairs = (stream.states * stream.n_actions + stream.actions)[window]
    seen = zip(pairs, stream.next_states[window], strict=True)
    outcomes = np.array([np.flatnonzero(table.successors[x] == y)[0] for x, y in seen])
    changed = np.any(after.probabilities != table.probabilities, axis=1)
    old, new, share = table.probabilities, after.probabilities, min(0.999, float(changed.mean()))
    names, pairs = np.unique(pairs, return_inverse=True)
    old, new = old[names], new[names]
    alarms = [alarm.at for alarm in alarms_of(our_detector(stream, rate), stream) if alarm.at >= change_at]
    tests = {
        "known": delay_of(pairs, outcomes, old, new, 1.0, rate) - BEFORE,
        "which": delay_of(pairs, outcomes, old, new, share, rate) - BEFORE,
        "fair": min(delay_of(pairs, outcomes, old, None, share, rate, prior) for prior in PRIORS) - BEFORE,
        "ours": (alarms[0] if alarms else len(stream.states)) - change_at,
    }
    return {name: max(0, delay + 1) / limit for name, delay in tests.items()}


def main(arguments: list[str] | None = None) -> list[dict[str, object]]:
    """Print a JSON row for each kind of process and of change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=1e-6)
    options = parser.parse_args(arguments)
    rows: list[dict[str, object]] = []
    for sizes in SIZES:
        for change in CHANGES:
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            found = [row for seed in seeds if (row := measured(sizes, change, seed, options.rate)) is not None]
            means = {name: float(np.mean([row[name] for row in found])) for name in (found[0] if found else ())}
            rows.append({"process": sizes, "change": change, "streams": len(found), **means})
            print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
