"""Detection delay against false alarms: `python -m benchmarks.drift [--quick] [--out DIR]`.

Parts: `detect` (every family with a change and its placebo), `policy` (the policy changes alone), `rate` (false alarms
measured against those asked for), `peers` (others, calibrated on placebos of other seeds), `cost`. Settings were chosen
on seeds 100 to 139; the report uses seeds from 900 on.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drift_peers as peers
from benchmarks.drift_streams import FAMILIES, POLICIES, stored
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

FALSE_ALARMS = 1e-6
RATES = (1e-3, 1e-4)
STILL = {  # one name for each family of still streams
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


def length_of(name: str) -> tuple[int, int]:
    """(steps, change) of a family."""
    return (20_000, 10_000) if is_finite(name) else (8_000, 4_000)


def is_finite(name: str) -> bool:
    """Whether the states of a family are integers."""
    return "lake" in name or "MDP" in name


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
                still = stored(name, seed, None, steps)
                placebo += bool(peers.alarms_of(still, peers.ours(still, FALSE_ALARMS)))
        out.append({
            "stream": name, "seeds": len(seeds), "found": len(delays), "median_delay": _median(delays),
            "worst_delay": max(delays, default=None), "median_error_of_date": _median(dated), "early_alarms": early,
            "placebo_alarms": placebo if with_placebo else None,
        })  # fmt: skip
        print(json.dumps(out[-1]), flush=True)
    return out


def _median(values: list[int]) -> float | None:
    return float(np.median(values)) if values else None


def rate(names: dict[str, str], seeds: range, steps: int) -> list[dict[str, Any]]:
    """Alarms per armed update on still streams, over the rate asked for, with its exact 95 % interval."""
    out = []
    for label, name in names.items():
        for asked in RATES:
            count, updates = 0, 0
            for seed in seeds:
                stream = stored(name, seed, None, steps)
                detector = peers.ours(stream, asked)
                alarms = [alarm for alarm, _ in peers.alarms_of(stream, detector)]
                count += len(alarms)
                updates += armed(alarms, len(stream.states), detector.get_params()["burn_in"])
            measured = count / max(updates, 1)
            lowest, highest = (bound / max(updates, 1) / asked for bound in poisson_interval(count))
            out.append({"stream": label, "asked": asked, "streams": len(seeds), "alarms": count, "updates": updates,
                        "ratio": measured / asked, "from": lowest, "to": highest,
                        "within a factor of two": verdict(lowest, measured / asked, highest)})  # fmt: skip
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


def compare(names: list[str], seeds: range, calibration: range, folder: Path) -> list[dict[str, Any]]:
    """The peers on the same streams, each calibrated for each family on placebos of other seeds.

    `folder` holds a file for each family that is done; it is not run again.
    """
    out = []
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}, {seeds.start} to {seeds.stop}.json".replace(" ", "_")
        if not path.exists():
            path.write_text(json.dumps(_compared(name, seeds, calibration), indent=2))
        out += json.loads(path.read_text())
    return out


def _compared(name: str, seeds: range, calibration: range) -> list[dict[str, Any]]:
    numbers = {
        "residual": peers.residual,
        "our statistic": peers.our_statistic,
        "reward": lambda stream: stream.rewards,
    }
    steps, change = length_of(name)
    cases = {
        "calibration": [stored(name, seed, None, steps) for seed in calibration],
        "changed": [stored(name, seed, change, steps) for seed in seeds],
        "placebo": [stored(name, seed, None, steps) for seed in seeds],
    }
    rivals = peers.peers()
    values = {
        number: {case: [numbers[number](stream) for stream in streams] for case, streams in cases.items()}
        for number in {rival.number for rival in rivals}
    }
    out = [_ours_among_peers(name, cases, change)]
    for rival in rivals:
        data = values[rival.number]
        sensitivity = peers.calibrate(rival, data["calibration"])
        changed = [rival.run(series, sensitivity) for series in data["changed"]]
        placebo = [rival.run(series, sensitivity) for series in data["placebo"]]
        out.append(_peer_row(name, f"{rival.name} on {rival.number}", sensitivity, changed, placebo, change))
    return out


def _ours_among_peers(name: str, cases: dict[str, list[peers.Stream]], change: int) -> dict[str, Any]:
    def first(stream: peers.Stream) -> int | None:
        return next((alarm for alarm, _ in peers.alarms_of(stream, peers.ours(stream, FALSE_ALARMS))), None)

    changed, placebo = ([first(stream) for stream in cases[case]] for case in ("changed", "placebo"))
    return _peer_row(name, "ours", FALSE_ALARMS, changed, placebo, change)


def _peer_row(name: str, detector: str, sensitivity: float, changed: list[int | None], placebo: list[int | None],
              change: int) -> dict[str, Any]:  # fmt: skip
    """What the first alarms of one detector on one family come to."""
    delays = [alarm - change for alarm in changed if alarm is not None and alarm >= change]
    row = {
        "stream": name, "detector": detector, "sensitivity": sensitivity, "seeds": len(changed), "found": len(delays),
        "median_delay": _median(delays),
        "early_alarms": sum(alarm is not None and alarm < change for alarm in changed),
        "placebo_alarms": sum(alarm is not None for alarm in placebo),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def cost(repeats: int) -> dict[str, float]:
    """CPU time of an update, the best of several runs."""
    rng = np.random.default_rng(0)
    n, d = 20_000, 10
    s, a = rng.integers(0, 16, n), rng.integers(0, 4, n)
    following = (s + a) % 16
    noisy = (s + a + rng.integers(0, 3, n)) % 16
    X, U = rng.standard_normal((2_000, d)), rng.standard_normal((2_000, 2))
    Y = 0.9 * X + 0.1 * rng.standard_normal(X.shape)
    best: dict[str, float] = {}

    def timed(label: str, updates: int, function: Any) -> None:
        began = time.process_time()
        function()
        seconds = (time.process_time() - began) / updates
        best[label] = min(best.get(label, np.inf), seconds)

    lists = [x.tolist() for x in (s, a, following)]

    def one_by_one() -> None:
        detector = FiniteDriftDetector(16, 4)
        for transition in zip(*lists, strict=True):
            detector.update(*transition)

    def continuous() -> None:
        detector = ContinuousDriftDetector(burn_in=500)
        for x, u, y in zip(X, U, Y, strict=True):
            detector.update(x, u, y)

    for _ in range(repeats):
        timed("finite, from Python", n, one_by_one)
        timed("finite, in the kernel", n, lambda: FiniteDriftDetector(16, 4).update_many(s, a, following))
        timed("finite, in the kernel, three outcomes", n, lambda: FiniteDriftDetector(16, 4).update_many(s, a, noisy))
        timed("continuous, 10 state and 2 action dimensions", len(X), continuous)
    return best


def report(results: dict[str, Any], out: Path) -> None:
    """Markdown, JSON and a picture."""
    (out / "drift.json").write_text(json.dumps(results, indent=2))
    lines = ["# Drift detection: delay against false alarms", ""]
    lines += [f"Asked: {FALSE_ALARMS:g} false alarms per update. Commands: `python -m benchmarks.drift`.", ""]
    titles = {
        "detect": "Changes and placebos",
        "policy": "The policy changes, the world does not",
        "rate": "False alarms, measured against asked",
        "peers": "Others, calibrated on placebos",
    }
    for part, title in titles.items():
        if results.get(part):
            lines += [f"## {title}", "", *_table(results[part]), ""]
    if results.get("cost"):
        lines += ["## Cost of an update (CPU time)", "", "| what | ns |", "|---|---|"]
        lines += [f"| {name} | {seconds * 1e9:,.0f} |" for name, seconds in results["cost"].items()]
    (out / "drift.md").write_text("\n".join(lines) + "\n")
    if results.get("detect"):
        _draw(results, out / "drift.png")


def _table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(rows[0])

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else f"{value}"

    head = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|" + "---|" * len(names)]
    return head + ["| " + " | ".join(cell(row[name]) for name in names) + " |" for row in rows]


def _draw(results: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = [row for row in results["detect"] if row["median_delay"] is not None]
    left.barh([row["stream"] for row in rows], [max(row["median_delay"], 1) for row in rows], color="C0")
    left.set(xscale="log", xlabel="median delay (updates)", title="ours, by stream")
    for row in results.get("peers", []):
        if row["median_delay"] is not None:
            right.scatter(row["placebo_alarms"] / row["seeds"], row["found"] / row["seeds"], s=20, color="0.6")
    for row in results["detect"]:
        if row["placebo_alarms"] is not None:
            right.scatter(row["placebo_alarms"] / row["seeds"], row["found"] / row["seeds"], s=30, color="C0")
    right.set(xlabel="placebo alarms (share)", ylabel="found (share)", title="ours (blue), others (grey)")
    figure.savefig(path, dpi=120)


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
    parser.add_argument("--out", type=Path, default=Path("out/drift"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names, policies, still = list(FAMILIES), list(POLICIES), dict(STILL)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    few = range(options.first_seed, options.first_seed + options.peer_seeds)
    rated = range(options.first_seed, options.first_seed + options.rate_seeds)
    if options.quick:
        names, policies = ["lake slip 0.1 to 0.3", "cartpole noise"], ["lake, another policy"]
        still = {"lake, slip 0.1": "lake slip 0.1 to 0.3"}
        seeds = few = rated = range(100, 102)
    if options.streams:
        names = [name for name in names if options.streams in name]
        policies = [name for name in policies if options.streams in name]
        still = {label: name for label, name in still.items() if options.streams in label}
    parts = options.parts.split(",")
    results: dict[str, Any] = {"false_alarms": FALSE_ALARMS, "seeds": [seeds.start, seeds.stop]}
    if (options.out / "drift.json").exists():  # parts that were run before stay in the report
        results = json.loads((options.out / "drift.json").read_text()) | results
    if "detect" in parts:
        results["detect"] = detect(names, seeds)
    if "policy" in parts:
        results["policy"] = detect(policies, seeds, with_placebo=False)
    if "rate" in parts:
        results["rate"] = rate(still, rated, options.rate_steps)
    if "peers" in parts:
        results["peers"] = compare(names, few, range(100, 100 + len(few)), options.out / "peers")
    if "cost" in parts:
        results["cost"] = cost(2 if options.quick else 8)
    report(results, options.out)
    return results


if __name__ == "__main__":
    main()
