"""Log-log plots of the sweeps, in colours that colour-blind readers can tell apart (Okabe and Ito)."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.sweeps import C_LOOP, REFIT, Record

STYLES = {  # colour, marker
    "DQUCB pair": ("#0072B2", "o"),
    "DQUCB": ("#0072B2", "o"),
    "DQUCB step": ("#56B4E9", "s"),
    "DQUCB shared": ("#009E73", "^"),
    "QUCB": ("#000000", "D"),
    "UCBVI": ("#D55E00", "v"),
    "UCBVI real time": ("#E69F00", "<"),
    "UCBMQ": ("#CC79A7", "P"),
    "PlanningDQUCB": ("#882255", "h"),
    "QUCB shared steps": ("#666666", "d"),
    "DQUCB shared steps": ("#44AA99", "p"),
    "UCBVI shared steps": ("#AA4499", ">"),
    C_LOOP: ("#F0E442", "*"),
    REFIT: ("#7F7F7F", "X"),
}
X_LABELS = {
    "n": "window n (transitions)",
    "S": "states S",
    "K": "episodes K",
    "seeds": "seeds, one after the other",
}
TIME, BYTES = "time per step (ns)", "tables (bytes)"


def draw_sweep(records: Sequence[Record], sweep: str, path: Path) -> list[Path]:
    """Time above, bytes below, one column per workload (a single one side by side); writes PNG and SVG."""
    chosen = [record for record in records if record.sweep == sweep and record.seconds_per_step is not None]
    names = list(dict.fromkeys(record.workload for record in chosen))
    if len(names) == 1:
        figure, side_by_side = plt.subplots(1, 2, figsize=(9.2, 4.2))
        axes = side_by_side.reshape(2, 1)
    else:
        figure, axes = plt.subplots(2, len(names), figsize=(4.6 * len(names), 6.4), sharex=True, sharey="row")
    for column, workload in enumerate(names):
        own = [record for record in chosen if record.workload == workload]
        for series in dict.fromkeys(record.series for record in own):
            points = [record for record in own if record.series == series]
            colour, marker = STYLES[series]
            x = [record.x for record in points]
            y = [
                [1e9 * (record.seconds_per_step or 0.0) for record in points],
                [record.nbytes or 0 for record in points],
            ]
            for row in (0, 1):
                axes[row, column].plot(x, y[row], color=colour, marker=marker, markersize=5, lw=1.6, label=series)
        for axis in axes[:, column] if len(names) == 1 else axes[:1, column]:
            axis.set_title(workload, fontsize=11)
        for axis in axes[:, column] if len(names) == 1 else axes[1:, column]:
            axis.set_xlabel(X_LABELS[sweep])
    axes[0, 0].set_ylabel(TIME)
    axes[1, 0].set_ylabel(BYTES)
    for axis in axes.flat:
        axis.set_xscale("log", base=2 if sweep == "seeds" else 10)
        axis.set_yscale("log")
        axis.grid(True, which="major", lw=0.4, alpha=0.6)
        if sweep == "seeds":
            axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_major_locator(LogLocator(numticks=12))
        low, high = axis.get_ylim()
        if high < 30 * low:  # a flat line: keep it from looking steep
            axis.set_ylim(low / 4, high * 4)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False, fontsize=9)
    figure.tight_layout(
        rect=(0, (0.28 if len(names) == 1 else 0.26) / figure.get_figheight() * (1 + (len(labels) - 1) // 4), 1, 1)
    )
    return save(figure, path)


def save(figure: plt.Figure, path: Path) -> list[Path]:
    """Write PNG and SVG beside each other and close the figure."""
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for target in written:
        figure.savefig(target, dpi=160)
    plt.close(figure)
    return written
