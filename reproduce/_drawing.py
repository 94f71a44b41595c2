"""The pictures of the regret figures: same c, own best c, final regret against c, and the likelihood."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from dqucb.experiments import statistics
from reproduce._protocol import Panel

# Okabe and Ito's colours: distinct for colour-blind readers, and in grey by line style.
COLOURS = {
    "DQUCB": "#0072B2", "QUCB": "#D55E00", "UCBMQ": "#009E73", "UCBVI": "#CC79A7",
    "DQUCB shared": "#56B4E9", "QUCB shared": "#E69F00", "UCBVI shared": "#882255", "PlanningDQUCB": "#000000",
    "DeepDQUCB": "#0072B2", "DQNUCB": "#D55E00", "DQN": "#009E73", "RandomPolicy": "#999999",
    "DeepDQUCB paper": "#56B4E9",
}  # fmt: skip
STYLES: dict[str, Any] = {
    "DQUCB": "-", "QUCB": "--", "UCBMQ": "-.", "UCBVI": ":",
    "DQUCB shared": "-", "QUCB shared": "--", "UCBVI shared": ":", "PlanningDQUCB": (0, (5, 1)),
    "DeepDQUCB": "-", "DQNUCB": "--", "DQN": "-.", "RandomPolicy": ":", "DeepDQUCB paper": (0, (5, 1)),
}  # fmt: skip
plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})


def draw_panels(panels: Sequence[Panel], path: Path, title: str) -> None:
    """Two by two axes for each panel, one panel below the other: readable at the width of a page."""
    parts = (regret_same, regret_best, regret_by_scale, likelihood)
    figure = plt.figure(figsize=(9, 6.4 * len(panels)), layout="constrained")
    for panel, place in zip(panels, figure.subfigures(len(panels), 1, squeeze=False).ravel(), strict=True):
        for part, axis in zip(parts, place.subplots(2, 2).ravel(), strict=True):
            part(panel, axis)
        if len(panels) > 1:
            place.suptitle(panel.title, fontsize=11, fontweight="bold")
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_ranks(
    results: Mapping[str, Any], ranks: Mapping[str, float], informed: Sequence[str], ours: Sequence[str], path: Path
) -> None:
    """A map of regret in units of QUCB's, and bars of the mean ranks; agents informed of the changes apart."""
    problems = list(results)
    agents = [*ranks, *informed]
    times = np.array(
        [
            [results[problem].get(agent, {"best": {}})["best"].get("times_qucb", np.nan) for problem in problems]
            for agent in agents
        ]
    )
    figure, (top, below) = plt.subplots(
        2,
        1,
        figsize=(2 + 0.72 * len(agents), 3.4 + 0.33 * len(problems)),
        layout="constrained",
        sharex=True,
        height_ratios=(1, 0.16 * len(problems)),
    )
    powers = np.log2(np.maximum(times, 1e-4))  # NaN where an agent is left out
    shown = below.imshow(powers.T, cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
    for (column, row), value in np.ndenumerate(times):
        dark = abs(powers[column, row]) > 1.9
        text = "" if np.isnan(value) else f"{value:.2g}"
        below.text(column, row, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    below.set_yticks(range(len(problems)), problems)
    below.set_xticks(range(len(agents)), agents, rotation=40, ha="right")
    below.set_title("final regret in units of QUCB's, each at its own best c", fontsize=10)
    bar = figure.colorbar(shown, ax=below, ticks=range(-3, 4), location="right", pad=0.02, fraction=0.05)
    bar.ax.set_yticklabels([f"{2.0**power:g}" for power in range(-3, 4)])
    colours = ["#0072B2" if agent in ours else "0.6" for agent in ranks]
    top.bar(range(len(ranks)), list(ranks.values()), color=colours)
    for place, rank in enumerate(ranks.values()):
        top.text(place, rank, f"{rank:.3g}", ha="center", va="bottom")
    for place in range(len(ranks), len(agents)):
        top.text(place, 0.2, "knows the\nchanges", ha="center", fontsize=8, style="italic")
    for axis in (top, below):
        axis.axvline(len(ranks) - 0.5, color="black", linewidth=1)
    top.tick_params(bottom=False, labelbottom=False)
    top.set(ylabel="mean rank", ylim=(0, len(ranks) + 1))
    top.set_title("mean rank, 1 is the least regret; blue: ours", fontsize=10)
    save(figure, path)


def save(figure: plt.Figure, path: Path) -> None:
    """PNG and SVG beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"))
    plt.close(figure)
    print(f"wrote {path.with_suffix('.png')}")


def regret_same(panel: Panel, axis: Axes) -> None:
    """Cumulative regret of all agents at the same c."""
    labels = panel.same()
    _curves(panel, axis, labels)
    axis.set_title(f"all at c = {panel.scale_of(next(iter(labels.values()))):g}")


def regret_best(panel: Panel, axis: Axes) -> None:
    """Cumulative regret of each agent at its own best c."""
    labels = panel.best()
    _curves(panel, axis, labels, {agent: _with_scale(panel, agent, label) for agent, label in labels.items()})
    if "PlanningDQUCB" in labels:  # a hundred times less regret than some others
        least = min(panel.final(label).mean() for label in labels.values())
        axis.set(yscale="log", ylim=(max(1.0, least / 30), None))
        _legend_beside(axis)
    axis.set_title("each at its own best c")


def _legend_beside(axis: Axes) -> None:
    """Eight curves leave no free corner."""
    axis.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _with_scale(panel: Panel, agent: str, label: str) -> str:
    scale = panel.scale_of(label)
    return agent if scale is None else f"{agent} (c = {scale:g})"


def regret_by_scale(panel: Panel, axis: Axes) -> None:
    """Final regret against c, with intervals over the reporting seeds."""
    for agent in panel.agents:
        labels = [label for label in panel.runs.groups()[agent] if panel.scale_of(label) is not None]
        if not labels:
            axis.axhline(panel.final(agent).mean(), label=agent, **look(agent))
            continue
        intervals = [statistics.mean_interval(panel.final(label)) for label in labels]
        mean = np.array([interval.value for interval in intervals])
        error = np.abs(np.array([[i.low, i.high] for i in intervals]).T - mean)
        axis.errorbar(
            [panel.scale_of(label) for label in labels],
            mean,
            error,
            label=agent,
            marker="o",
            markersize=3,
            capsize=2,
            **look(agent),
        )
    axis.set(xscale="log", yscale="log", xlabel="bonus scale c", ylabel="final regret", title="final regret against c")
    _legend_beside(axis)


def likelihood(panel: Panel, axis: Axes) -> None:
    """The mean likelihood per episode of DQUCB, at both values of c."""
    for way, labels, style in (("same c", panel.same(), "-"), ("own best c", panel.best(), "--")):
        label = labels.get("DQUCB")
        if label is None:
            continue
        ends, values = panel.runs.curves(label, "likelihood")
        seeds = [panel.runs.seeds_of(label).index(seed) for seed in panel.report_on]
        axis.plot(ends, values[seeds].mean(axis=0), style, color=COLOURS["DQUCB"], label=f"DQUCB, {way}", linewidth=1)
    # Not from 0: what matters is a fall that may be a few hundredths deep.
    axis.set(ylabel="mean likelihood", title="likelihood of the transitions")
    axis.legend(frameon=False)
    mark_changes(panel, axis)


def _curves(panel: Panel, axis: Axes, labels: dict[str, str], names: dict[str, str] | None = None) -> None:
    draw_bands(panel, axis, {agent: (label, (names or {}).get(agent, agent)) for agent, label in labels.items()})
    axis.set(ylabel="cumulative regret", ylim=(0, None))
    axis.legend(frameon=False)
    mark_changes(panel, axis)


def draw_bands(panel: Panel, axis: Axes, labels: Mapping[str, tuple[str, str]], unit: float = 1.0) -> None:
    """Mean cumulative regret with 95 % intervals: agent -> (its runs, its name in the legend)."""
    for agent, (label, name) in labels.items():
        ends, values = panel.runs.curves(label)
        seeds = [panel.runs.seeds_of(label).index(seed) for seed in panel.report_on]
        band = statistics.band(values[seeds] / unit)
        axis.plot(ends, band.mean, label=name, **look(agent))
        axis.fill_between(ends, band.low, band.high, color=COLOURS.get(agent), alpha=0.2, linewidth=0)


def mark_changes(panel: Panel, axis: Axes) -> None:
    """Dashed lines where the problem changes, over the whole length of the run."""
    for change in panel.runs.change_at:
        axis.axvline(change, color="0.5", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
    axis.set(xlabel=panel.runs.unit[:-1], xlim=(0, panel.length))
    axis.xaxis.set_major_locator(MaxNLocator(4))  # more numbers would run into each other
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def look(agent: str) -> dict[str, Any]:
    """Colour and style of an agent's lines."""
    return {"color": COLOURS.get(agent), "linestyle": STYLES.get(agent, "-"), "linewidth": 1.4}
