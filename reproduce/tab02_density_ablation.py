"""Table 2: kernels, bandwidths and windows of DQUCB's density on FrozenLake, the paper's numbers beside ours."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from itertools import pairwise
from typing import Any

import numpy as np

from dqucb import DQUCB, QUCB, UCBVI, Agent
from dqucb.experiments import Comparison
from dqucb.problems import frozen_lake
from reproduce._protocol import PAPER_DQUCB, SMALL, Claim, begin

KERNELS = ("linear", "cosine", "gaussian", "exponential")
BANDWIDTHS = (0.01, 0.1, 1.0, 10.0)
WINDOWS = (1, 10, 100, 1000)
MIDDLE = ("bandwidth=0.1", "bandwidth=1.0")
SETTINGS = {"slip": (0, 1 / 2, 2 / 3), "horizon": 500, "episodes": 60_000, "bonus_scale": SMALL}

# The paper's means at T/3, 2T/3, 3T/4 and T.
PAPER = {
    "QUCB": (4512.0, 7571.0, 8129.0, 8951.0),
    "UCBVI": (4513.5, 5737.25, 6101.0, 6703.25),
    "kernel=linear": (4515.5, 5139.25, 5441.0, 5970.0),
    "kernel=cosine": (4515.5, 5137.0, 5442.5, 5974.5),
    "kernel=gaussian": (4513.5, 5126.0, 5425.0, 5954.0),
    "kernel=exponential": (4512.5, 5125.0, 5422.5, 5948.0),
    "bandwidth=0.01": (4513.5, 5598.0, 6055.25, 6501.5),
    "bandwidth=0.1": (4513.0, 5123.5, 5420.0, 5947.5),
    "bandwidth=1.0": (4513.5, 5126.0, 5425.0, 5954.0),
    "bandwidth=10.0": (4513.5, 7526.0, 8121.25, 8949.0),
    "window=1": (4513.0, 7514.25, 8122.0, 8943.0),
    "window=10": (4513.0, 6098.25, 6391.0, 7007.0),
    "window=100": (4513.5, 5126.0, 5425.0, 5954.0),
    "window=1000": (4513.5, 5049.0, 5311.25, 5729.25),
}


def variants() -> dict[str, Agent]:
    """Every row of the table that is not DQUCB with its defaults, which stands in three rows."""
    scale = SETTINGS["bonus_scale"]
    paper = {**PAPER_DQUCB, "bonus_scale": scale}
    rows: dict[str, Agent] = {"QUCB": QUCB(bonus_scale=scale), "UCBVI": UCBVI(bonus_scale=scale)}
    rows["default"] = DQUCB(**paper)
    for name, values in (("kernel", KERNELS), ("bandwidth", BANDWIDTHS), ("window", WINDOWS)):
        for value in values:
            agent = DQUCB(**{**paper, name: value})
            if agent.parameters() != rows["default"].parameters():
                rows[f"{name}={value}"] = agent
    return rows


def row(runs: Comparison, name: str, seeds: tuple[int, ...], episodes: int) -> dict[str, Any]:
    """Regret at the four times, mean and spread over seeds."""
    label = name if name in runs.labels else "default"
    times = [episodes // 3, 2 * episodes // 3, 3 * episodes // 4, episodes]
    regret = np.array([runs.load_run(label, seed).regret[np.array(times) - 1] for seed in seeds])
    return {
        "paper": PAPER[name],
        "mean": regret.mean(axis=0).round(1).tolist(),
        "spread": regret.std(axis=0, ddof=1).round(1).tolist(),
    }


def claims(table: dict[str, dict[str, Any]]) -> list[Claim]:
    """What the paper reads off its table."""
    final = {name: values["mean"][-1] for name, values in table.items()}
    kernels = [final[f"kernel={kernel}"] for kernel in KERNELS]
    middle = [final[name] for name in MIDDLE]

    def figures(*names: str) -> dict[str, float]:
        return {name: final[name] for name in names}

    def statement(text: str, holds: bool, *names: str) -> Claim:
        return Claim(text, bool(holds), figures(*names))

    by_kernel = [f"kernel={kernel}" for kernel in KERNELS]
    by_window = [f"window={window}" for window in WINDOWS]
    falling = all(final[small] > final[large] for small, large in pairwise(by_window))
    wide, short, qucb = final["bandwidth=10.0"], final["window=1"], final["QUCB"]
    return [
        statement("DQUCB is robust to the kernel (within 10 %)", max(kernels) / min(kernels) < 1.1, *by_kernel),
        statement(
            "bandwidth 10 gives QUCB's regret (within 5 %)", abs(wide / qucb - 1) < 0.05, "bandwidth=10.0", "QUCB"
        ),
        statement("bandwidths 0.1 and 1 agree (within 5 %)", max(middle) / min(middle) < 1.05, *MIDDLE),
        statement(
            "a window of 1 gives QUCB's regret (within 5 %)",
            abs(short / qucb - 1) < 0.05,
            "window=1",
            "QUCB",
        ),
        statement("the larger the window, the lower the regret", falling, *by_window),
        statement("DQUCB with its defaults beats QUCB", final["window=100"] < qucb, "window=100", "QUCB"),
        statement("DQUCB with its defaults beats UCBVI", final["window=100"] < final["UCBVI"], "window=100", "UCBVI"),
    ]


def main() -> None:
    figure = begin("tab02_density_ablation", __doc__, SETTINGS)
    episodes = 600 if figure.quick else SETTINGS["episodes"]
    lake = frozen_lake(slip=SETTINGS["slip"], change_at=(episodes // 3, 2 * episodes // 3), horizon=SETTINGS["horizon"])
    runs = figure.compare(variants(), lake, episodes)
    table = {name: row(runs, name, figure.report_on, episodes) for name in PAPER}
    lines = ["| row | T/3 | 2T/3 | 3T/4 | T | the paper's T |", "|---|---|---|---|---|---|"]
    for name, values in table.items():
        cells = [f"{m:.0f} ± {s:.0f}" for m, s in zip(values["mean"], values["spread"], strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} | {values['paper'][-1]:.0f} |")
    (figure.out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    figure.write(claims(table), table)


if __name__ == "__main__":
    main()
