"""Detection delay against false alarms: `python -m benchmarks.drift [--quick] [--out DIR]`.

Parts: `detect` (every family with a change and its placebo), `policy` (the policy changes alone), `rate` (false alarms
measured against those asked for), `peers` (others, calibrated on placebos of other seeds), `peer-policy` (those where
the policy changes alone), `cost`. Settings were chosen on seeds 100 to 139 and 200 to 239; the report names its seeds.
A run adds its rows to those in DIR/drift.json.
"""

import argparse
import json
import time
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drift_peers as peers
from benchmarks.drift_compare import compare, on_other_policies
from benchmarks.drift_streams import FAMILIES, POLICIES, length_of, still, still_name, stored
from benchmarks.drift_tables import merged, report
from dqucb._kernels.drift_pairs import PairTest
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

FALSE_ALARMS = 1e-6
RATED = {  # one name for each family of still streams
    "lake, slip 0.1": "lake slip 0.1 to 0.3",
    "lake, slip 0.3": "lake slip 0.3 to 0.1",
    "random MDP, 10 states": "random MDP, 10 states",
    "random MDP, 1,000 states": "random MDP, 1,000 states",
    "pendulum, random torque": "pendulum gravity, random torque",
    "pendulum, swing-up": "pendulum gravity, swing-up",
    "cartpole": "cartpole noise",
    "cheetah": "cheetah gravity",
    "hopper": "hopper gravity",
    "hospital": "hospital stays",
}


def _first(alarms: list[tuple[int, int]], change: int) -> tuple[int, int] | None:
    return next((alarm for alarm in alarms if alarm[0] >= change), None)


def detect(names: list[str], seeds: range, with_placebo: bool = True) -> list[dict[str, Any]]:
    """Found, delay and placebo alarms of ours, by family."""
    out = []
    for name in names:
        steps, change = length_of(name)
        delays, early, placebo, dated = [], 0, 0, []
        for seed in seeds:
            stream = stored(name, seed, change, steps)
            alarms = peers.alarms_of(stream, peers.ours(stream, FALSE_ALARMS))
            early += bool(alarms and alarms[0][0] < change)
            first = _first(alarms, change)
            if first is not None:
                delays.append(first[0] - change)
                dated.append(first[1] - change)
            if with_placebo:
                placebo += _alarms_without_change(still_name(name), seed, steps)
        out.append({
            "stream": name, "first_seed": seeds.start, "seeds": len(seeds), "found": len(delays),
            "median_delay": _median(delays), "worst_delay": max(delays, default=None),
            "median_error_of_date": _median(dated), "early_alarms": early,
            "placebo_alarms": placebo if with_placebo else None,
        })  # fmt: skip
        print(json.dumps(out[-1]), flush=True)
    return out


@cache  # families that differ in the change alone share their still streams
def _alarms_without_change(name: str, seed: int, steps: int) -> bool:
    stream = still(name, seed, steps)
    return bool(peers.alarms_of(stream, peers.ours(stream, FALSE_ALARMS)))


def _median(values: list[int]) -> float | None:
    return float(np.median(values)) if values else None


def rate(names: dict[str, str], seeds: range, steps: int, rates: Sequence[float]) -> list[dict[str, Any]]:
    """Alarms per armed update on still streams, over the rate asked for, with its exact 95 % interval."""
    out = []
    for label, name in names.items():
        for asked in rates:
            count, updates = 0, 0
            for seed in seeds:
                stream = stored(name, seed, None, steps)
                detector = peers.ours(stream, asked)
                alarms = [alarm for alarm, _ in peers.alarms_of(stream, detector)]
                count += len(alarms)
                updates += armed(alarms, len(stream.states), detector.get_params()["burn_in"])
            measured = count / max(updates, 1)
            lowest, highest = (bound / max(updates, 1) / asked for bound in poisson_interval(count))
            out.append({
                "stream": label, "asked": asked, "first_seed": seeds.start, "streams": len(seeds), "steps": steps,
                "alarms": count, "updates": updates, "ratio": measured / asked, "from": lowest, "to": highest,
                "within a factor of two": verdict(lowest, measured / asked, highest),
            })  # fmt: skip
            print(json.dumps(out[-1]), flush=True)
    return out


def armed(alarms: list[int], steps: int, burn_in: int) -> int:
    """Updates at which an alarm could come: the parts between alarms without their burn-ins (the last may be cut)."""
    ends = [0, *(alarm + 1 for alarm in alarms), steps]
    return sum(max(0, end - begin - burn_in) for begin, end in pairwise(ends))


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact 95 % interval of a Poisson mean of which `count` was seen (Garwood 1936)."""
    from scipy.stats import chi2

    lowest = float(chi2.ppf(0.025, 2 * count) / 2) if count else 0.0
    return lowest, float(chi2.ppf(0.975, 2 * count + 2) / 2)


def verdict(lowest: float, ratio: float, highest: float) -> str:
    """What an interval of the ratio says about a factor of two."""
    if lowest >= 0.5 and highest <= 2.0:
        return "yes"
    if highest < 0.5 or lowest > 2.0:
        return "no"
    return "likely" if 0.5 <= ratio <= 2.0 else "unlikely"


def cost(repeats: int) -> dict[str, float]:
    """CPU time of an update, the best of several runs."""
    rng = np.random.default_rng(0)
    n, d = 20_000, 10
    s, a = rng.integers(0, 16, n), rng.integers(0, 4, n)
    outcomes = {
        "one outcome": (s + a) % 16,
        "two outcomes (9 to 1)": (s + a + (rng.random(n) < 0.1)) % 16,
        "three outcomes": (s + a + rng.integers(0, 3, n)) % 16,
    }
    X, U = rng.standard_normal((2_000, d)), rng.standard_normal((2_000, 2))
    Y = 0.9 * X + 0.1 * rng.standard_normal(X.shape)
    best: dict[str, float] = {}

    def timed(label: str, updates: int, function: Any) -> None:
        began = time.process_time()
        function()
        seconds = (time.process_time() - began) / updates
        best[label] = min(best.get(label, np.inf), seconds)

    lists = [x.tolist() for x in (s, a, outcomes["one outcome"])]

    def one_by_one() -> None:
        detector = FiniteDriftDetector(16, 4)
        for transition in zip(*lists, strict=True):
            detector.update(*transition)

    def continuous() -> None:
        detector = ContinuousDriftDetector(burn_in=500)
        for x, u, y in zip(X, U, Y, strict=True):
            detector.update(x, u, y)

    rows = s * 4 + a
    for _ in range(repeats):
        timed("finite, from Python", n, one_by_one)
        timed("finite, many at once, with checks", n, lambda: FiniteDriftDetector(16, 4).update_many(s, a, rows % 16))
        timed("continuous, 10 state and 2 action dimensions", len(X), continuous)
    for label, following in outcomes.items():
        ids = following.astype(np.int32)
        for _ in range(5 * repeats):
            test = PairTest(16, 4, False, 1_000, 1e-200)  # the same stream over and over: an alarm would end it
            for part in ("first 20,000", "later", "later"):
                timed(f"finite, in the kernel, {label}, {part}", n, partial(test.update_rows, rows, ids, 0.0))
        for _ in range(240):  # until the counts of usual outcomes are beyond the table of logarithms
            test.update_rows(rows, ids, 0.0)
        for _ in range(5 * repeats):
            timed(f"finite, in the kernel, {label}, counts above 16,384", n, partial(test.update_rows, rows, ids, 0.0))
    return best


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the parts that are asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two streams, two seeds: a test of the harness itself")
    parser.add_argument("--parts", default="detect,policy,rate,peers,cost")
    parser.add_argument("--streams", default=None, help="only families whose name contains this")
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--first-seed", type=int, default=900)
    parser.add_argument("--peer-seeds", type=int, default=10)
    parser.add_argument("--rate-seeds", type=int, default=32)
    parser.add_argument("--rate-steps", type=int, default=20_000)
    parser.add_argument("--rates", default="1e-3,1e-4", help="false alarms per update that are asked for")
    parser.add_argument("--out", type=Path, default=Path("out/drift"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names, policies, rated_names = list(FAMILIES), list(POLICIES), dict(RATED)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    few = range(options.first_seed, options.first_seed + options.peer_seeds)
    rated = range(options.first_seed, options.first_seed + options.rate_seeds)
    if options.quick:
        names, policies = ["lake slip 0.1 to 0.3", "cartpole noise"], ["lake, another policy"]
        rated_names = {"lake, slip 0.1": "lake slip 0.1 to 0.3"}
        seeds = few = rated = range(100, 102)
    if options.streams:
        names = [name for name in names if options.streams in name]
        policies = [name for name in policies if options.streams in name]
        rated_names = {label: name for label, name in rated_names.items() if options.streams in label}
    rates = [float(text) for text in options.rates.split(",")]
    runs = {
        "detect": lambda: detect(names, seeds),
        "policy": lambda: detect(policies, seeds, with_placebo=False),
        "rate": lambda: rate(rated_names, rated, options.rate_steps, rates),
        "peer-policy": lambda: on_other_policies(results["peers"], policies, few),
        "peers": lambda: compare(names, few, range(100, 100 + len(few)), FALSE_ALARMS, options.out / "peers"),
    }
    results: dict[str, Any] = {"false_alarms": FALSE_ALARMS}
    if (options.out / "drift.json").exists():  # rows that were run before stay in the report
        results = json.loads((options.out / "drift.json").read_text()) | results
    for part in options.parts.split(","):
        if part == "cost":
            results["cost"] = cost(2 if options.quick else 8)
        else:
            results[part] = merged(results.get(part, []), runs[part]())
        report(results, options.out)
    return results


if __name__ == "__main__":
    main()
