"""False alarms of the finite detector under policies that choose pairs by what they know.

    python -m benchmarks.drift_cheating [--seeds 20] [--steps 20000] [--rate 1e-3]

Nothing changes. "uniform" visits pairs at random; "streak" repeats a pair as long as its last outcome was its rarest so
far, as a curious agent might; "cheat" knows the distributions and takes, at every step, the pair that promises the
largest sum in the mean. Prints alarms over those asked for.
"""

import argparse

import numpy as np

from dqucb._kernels import betting
from dqucb._kernels._jit import kernel

POLICIES = ("uniform", "streak", "cheat")
NO_PART = 1.0  # the factor of the bet on the common window, which these streams leave out
FAMILIES = {"coins": (4, 2), "dice": (4, 6), "many pairs": (16, 3)}  # pairs and outcomes of each


@kernel
def promised(pairs, pool, counts, recents, P, x, threshold, pair, spare):
    """The mean of the pooled sum after a visit of pair x."""
    mean = 0.0
    for y in range(P.shape[1]):
        for i in range(pair.shape[0]):
            pair[i] = pairs[x, i]
        for i in range(spare.shape[0]):
            spare[i] = pool[i]
        betting.weigh(pair, spare, counts[x, y] + 1.0, recents[x, y], NO_PART, 1.0, threshold)
        mean += P[x, y] * spare[betting.POOL_SUM]
    return mean


@kernel
def alarms(P, rate, policy, choices, draws, pairs, pool, counts, recents, pair, spare):
    """How many alarms a policy provokes; everything is forgotten after each."""
    found = 0
    x = 0
    stays = False
    for t in range(choices.shape[0]):
        if policy == 2:
            best = -1.0
            for other in range(P.shape[0]):
                value = promised(pairs, pool, counts, recents, P, other, 2.0 / rate, pair, spare)
                if value > best:
                    best = value
                    x = other
        elif policy == 0 or not stays:
            x = choices[t]
        y = 0
        total = P[x, 0]
        while draws[t] >= total and y < P.shape[1] - 1:
            y += 1
            total += P[x, y]
        counts[x, y] += 1.0
        result = betting.weigh(pairs[x], pool, counts[x, y], recents[x, y], NO_PART, 1.0, 2.0 / rate)
        stays = True
        for other in range(P.shape[1]):
            if 0.0 < counts[x, other] < counts[x, y]:
                stays = False
        if result % betting.NEW_WINDOW != 0:
            found += 1
            pairs[:] = 0.0
            betting.clear_pool(pool)
            counts[:] = 0.0
            recents[:] = 0.0
        elif result == betting.NEW_WINDOW:
            for other in range(P.shape[1]):
                recents[x, other] = 0.0
        else:
            recents[x, y] += 1.0
    return found


def provoked(policy: str, n_pairs: int, n_outcomes: int, seed: int, steps: int, rate: float) -> int:
    """Alarms of one stream."""
    rng = np.random.default_rng([seed, n_pairs, n_outcomes])
    P = rng.dirichlet(np.ones(n_outcomes), size=n_pairs)
    tables = np.zeros((2, n_pairs, n_outcomes))
    pools = np.zeros((2, betting.POOL_SIZE_WITH_PART))
    betting.clear_pool(pools[0])
    return int(
        alarms(
            P,
            rate,
            POLICIES.index(policy),
            rng.integers(n_pairs, size=steps),
            rng.random(steps),
            betting.new_pairs(n_pairs),
            pools[0],
            tables[0],
            tables[1],
            np.zeros(betting.PAIR_SIZE),
            pools[1],
        )
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=1e-3)
    given = parser.parse_args()
    asked = given.seeds * given.steps * given.rate
    for name, (n_pairs, n_outcomes) in FAMILIES.items():
        for policy in POLICIES:
            found = sum(
                provoked(policy, n_pairs, n_outcomes, seed, given.steps, given.rate) for seed in range(given.seeds)
            )
            print(f"{name:12} {policy:8} {found / asked:6.2f} ({found} alarms, {asked:.0f} asked for)")


if __name__ == "__main__":
    main()
