"""The cost of a transition in a window, inside a kernel, as the window grows: `python -m benchmarks.windows`.

Each scope takes in the same stream over 50 distinct tuples, whose likelihood is asked before. Times are of one core, in
units of that of the smallest window, the fastest of several rounds in turn. A window of ten holds at most ten distinct
tuples, one of a thousand all fifty, and their number is what a query costs.
"""

import argparse
import sys
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import workloads
from dqucb._kernels import discrete, window_pools
from dqucb._kernels._jit import kernel
from dqucb.density import DiscreteTransitionKDE

SIZES = (10, 100, 1_000, 10_000)
BAR = 1.5  # the dearest window over the smallest, where a window is not a pair's own
DISTINCT, N_STATES, N_ACTIONS, STEPS = 50, 50, 4, 10


@kernel
def observe_all(windows, stream, repeats):
    """The sum of the likelihoods of a stream (k, 4) of (step, next state, state, action), taken in `repeats` times."""
    total = 0.0
    for _ in range(repeats):
        for i in range(stream.shape[0]):
            total += discrete.observe(windows, stream[i, 0], stream[i, 1], stream[i, 2], stream[i, 3])
    return total


def stream_of(length: int, seed: int = 0) -> NDArray[np.int64]:
    """A random stream over DISTINCT tuples of a walk among N_STATES states."""
    rng = np.random.default_rng(seed)
    state, action = rng.permutation(N_STATES)[:DISTINCT], rng.integers(N_ACTIONS, size=DISTINCT)
    tuples = np.stack([(state + rng.integers(-1, 2, size=DISTINCT)) % N_STATES, state, action], axis=1)
    drawn = tuples[rng.integers(DISTINCT, size=length)]
    return np.concatenate([rng.integers(STEPS, size=(length, 1)), drawn], axis=1)


def filled_windows(scope: str, size: int, stream: NDArray[np.int64]) -> Any:
    """Windows of a scope that have seen as much as they hold."""
    density = DiscreteTransitionKDE(N_STATES, N_ACTIONS, window=size, scope=scope, horizon=STEPS)
    repeats = 1 + 2 * STEPS * size // len(stream)
    windows = window_pools.enlarged(density._windows, 2 * STEPS * size + len(stream) * repeats)
    observe_all(windows, stream, repeats)
    return window_pools.enlarged(windows, 10 * len(stream))


def costs(scope: str, rounds: int, length: int) -> dict[int, float]:
    """Window size -> seconds of a transition, the fastest round."""
    stream = stream_of(length)
    windows = {size: filled_windows(scope, size, stream) for size in SIZES}
    fastest = dict.fromkeys(SIZES, np.inf)
    for _ in range(rounds):
        for size in SIZES:
            began = thread_time()
            observe_all(windows[size], stream, 1)
            fastest[size] = min(fastest[size], (thread_time() - began) / length)
    return fastest


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="short streams, two rounds")
    options = parser.parse_args(arguments)
    print("| scope | " + " | ".join(f"n = {size:,}" for size in SIZES) + " | dearest / smallest | bar |")
    print("|---|" + "---|" * (len(SIZES) + 2))
    with workloads.one_core():
        for scope in workloads.SCOPES:
            found = costs(scope, 2 if options.quick else options.rounds, 2_000 if options.quick else 100_000)
            ratio = max(found.values()) / found[SIZES[0]]
            verdict = "-" if scope == "pair" else f"{BAR:g} {'holds' if ratio <= BAR else 'MISSED'}"
            times = " | ".join(f"{1e9 * seconds:.0f} ns" for seconds in found.values())
            print(f"| {scope} | {times} | {ratio:.2f} | {verdict} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
