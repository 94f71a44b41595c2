"""Figure 4: time and space of the agents on the 5x10 GridWorld."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import json
from typing import Any

import numpy as np

from benchmarks import plots, workloads
from benchmarks.sweeps import ceiling_step
from reproduce._protocol import Claim, begin

SETTINGS: dict[str, Any] = {
    "episodes": 50_000,
    "quick_episodes": 200,
    "window": 100,
    "rows": 5,
    "cols": 10,
    "horizon": 100,
}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "DQUCB": ("DQUCB", {"window": SETTINGS["window"]}),
    "DQUCB shared": ("DQUCB", {"window": SETTINGS["window"], "scope": "shared"}),
    "QUCB": ("QUCB", {}),
    "UCBMQ": ("UCBMQ", {}),
    "UCBVI": ("UCBVI", {}),
    "QUCB shared steps": ("QUCB", {"stage_dependent": False}),
    "UCBVI shared steps": ("UCBVI", {"stage_dependent": False}),
    "PlanningDQUCB": ("PlanningDQUCB", {}),
}
DENSE_MODEL = "dense model S x S x A x H"  # what the paper counts for UCBVI; ours stores the successors it saw


def measure(name: str, episodes: int, seeds: tuple[int, ...], raw: Path) -> dict[str, Any]:
    """Nanoseconds per step (of each seed, and the fastest) and bytes; kept in a file, so a stopped script goes on."""
    path = raw / f"{name.replace(' ', '-')}.json"
    wanted = {"agent": name, "episodes": episodes, "seeds": list(seeds)}
    if path.exists():
        saved = json.loads(path.read_text())
        if {key: saved[key] for key in wanted} == wanted:
            return saved
    agent, given = AGENTS[name]
    problem = workloads.grid_problem(episodes)
    workloads.train(workloads.agent(agent, **given), problem, episodes)  # compiles
    units, runs = [], []
    for seed in seeds:
        units.append(1e9 * ceiling_step())
        runs.append(workloads.train(workloads.agent(agent, **given), problem, episodes, seed))
    times = [1e9 * run.per_step for run in runs]
    result = {
        **wanted,
        "ns_per_step": times,
        "fastest_ns_per_step": min(times),
        "to_ceiling": min(times) / min(units),
        "bytes": max(run.nbytes for run in runs),
    }
    raw.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return result


def claims(results: dict[str, dict[str, Any]], dense: int) -> list[Claim]:
    """The paper: DQUCB takes remarkably less time and space than UCBVI and UCBMQ."""
    found = []
    for ours in ("DQUCB", "DQUCB shared"):
        for theirs in ("UCBVI", "UCBMQ"):
            for what, key in (("time", "fastest_ns_per_step"), ("space", "bytes")):
                mine, other = results[ours][key], results[theirs][key]
                measured = {ours: mine, theirs: other, "ratio": round(mine / other, 3)}
                found.append(Claim(f"{ours} takes less {what} than {theirs}", bool(mine < other), measured))
        mine = results[ours]["bytes"]
        text = f"{ours} takes less space than UCBVI with a dense transition model, as the paper counts it"
        found.append(Claim(text, bool(mine < dense), {ours: mine, DENSE_MODEL: dense, "ratio": round(mine / dense, 3)}))
    return found


def draw(results: dict[str, dict[str, Any]], dense: int, path: Path) -> None:
    """Time on the left, space on the right, both logarithmic."""
    plt = plots.plt
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    labels = {"DQUCB": "DQUCB per pair", "DQUCB shared": "DQUCB, one window"}
    names = list(results)
    colours = [plots.STYLES.get(name, ("0.45", ""))[0] for name in names]
    places = np.arange(len(names))
    for axis, values, unit in (
        (axes[0], [results[name]["fastest_ns_per_step"] for name in names], "time per step (ns)"),
        (axes[1], [results[name]["bytes"] / 1e6 for name in names], "tables (MB)"),
    ):
        bars = axis.bar(places, values, color=colours, width=0.65)
        axis.bar_label(bars, fmt=lambda v: f"{v:,.0f}" if v >= 100 else f"{v:.3g}", padding=2, fontsize=9)
        axis.set(yscale="log", ylabel=unit, ylim=(min(values) / 3, max(values) * 3))
        axis.set_xticks(places, [labels.get(name, name) for name in names], rotation=30, ha="right")
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].axhline(dense / 1e6, color="0.4", lw=1, ls="--")
    axes[1].annotate(
        "dense model of UCBVI", (-0.4, dense / 1e6), xytext=(0, 3), textcoords="offset points", color="0.3", fontsize=7
    )
    figure.suptitle("Time and space on the 5x10 GridWorld, one core", fontsize=11)
    plots.save(figure, path)


def main() -> None:
    figure = begin("fig04_complexity", __doc__, SETTINGS)
    raw = figure.out / ("quick" if figure.quick else "runs")
    results = {}
    with workloads.one_core():  # --jobs is accepted like everywhere, but times are taken one after the other
        for name in AGENTS:
            episodes = SETTINGS["quick_episodes"] if figure.quick else SETTINGS["episodes"]
            results[name] = measure(name, episodes, figure.report_on, raw)
            print(f"{name:14} {results[name]['fastest_ns_per_step']:10.1f} ns/step {results[name]['bytes']:12,} bytes")
    S, A, H = SETTINGS["rows"] * SETTINGS["cols"], 4, SETTINGS["horizon"]
    dense = 8 * S * S * A * H
    figure.out.mkdir(parents=True, exist_ok=True)
    draw(results, dense, figure.out / figure.name)
    figure.write(claims(results, dense), {"agents": results, DENSE_MODEL: dense})


if __name__ == "__main__":
    main()
