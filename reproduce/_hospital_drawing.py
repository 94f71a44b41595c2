"""The pictures of the hospital figure: the system, regret, the likelihood, and synthetic beside real curves."""

from pathlib import Path
from string import capwords

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import SymmetricalLogLocator

from dqucb.experiments import statistics
from dqucb.hospital import HospitalSystem
from reproduce._drawing import COLOURS, STYLES, draw_bands, mark_changes, plt, save
from reproduce._protocol import Panel

LABELS = {
    "DeepDQUCB": "deep DQUCB (ours)",
    "DQNUCB": "DQN-UCB",
    "DQN": "DQN (CNeural_RA)",
    "CUCBRA": "CUCB_RA",
    "UCBRA": "UCB_RA",
    "ModelAllocation": "expected overflow, learned model (ours)",
    "GreedyByFreeBeds": "greedy by free beds",
    "ProportionalToFreeBeds": "proportional to free beds",
    "RandomAllocation": "random",
}
COLOURS |= {
    "CUCBRA": "#CC79A7", "UCBRA": "#E69F00", "ModelAllocation": "#56B4E9",
    "GreedyByFreeBeds": "0.25", "ProportionalToFreeBeds": "0.45", "RandomAllocation": "0.65",
}  # fmt: skip
STYLES |= {
    "CUCBRA": (0, (5, 1)), "UCBRA": (0, (3, 1, 1, 1)), "ModelAllocation": "-",
    "GreedyByFreeBeds": "-", "ProportionalToFreeBeds": ":", "RandomAllocation": "--",
}  # fmt: skip


def draw(system: HospitalSystem, panel: Panel, ways: dict[str, dict[str, str]], path: Path) -> None:
    """(a) the hospitals, (b) regret at the same scale and at each agent's best, (c) the likelihood."""
    figure, axes = plt.subplots(4, 1, figsize=(7.5, 20), layout="constrained", height_ratios=(1.4, 1, 1, 1))
    schematic(axes[0], system)
    for axis, (way, labels) in zip(axes[1:3], ways.items(), strict=True):
        regret(axis, panel, labels)
        scales = [f"{LABELS[agent]} {panel.scale_of(label):g}" for agent, label in labels.items()
                  if panel.scale_of(label) is not None]  # fmt: skip
        axis.set_title(f"(b) cumulative regret, {way}\nc: {', '.join(scales)}", fontsize=9)
    lines, names = axes[1].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False)
    likelihood(axes[3], panel, {way: labels["DeepDQUCB"] for way, labels in ways.items()})
    kind = "synthetic hospitals" if system.source.get("source") == "synthetic" else "data of HHS"
    figure.suptitle(f"COVID-19 patient allocation, {kind}: beta changes at the dashed line", fontsize=11)
    save(figure, path)


def schematic(axis: Axes, system: HospitalSystem) -> None:
    """Arriving patients in the middle, hospitals around, as large as their beds and as dark as they are full."""
    k = len(system.names)
    angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
    x, y = np.cos(angle), np.sin(angle)
    full = system.non_covid.mean(0) / system.capacity
    for i in range(k):
        axis.plot([0, 0.93 * x[i]], [0, 0.93 * y[i]], color="0.85", linewidth=0.8, zorder=0)
        flip = x[i] < -1e-9
        name = f"{short(system.names[i])} ({system.capacity[i]:.0f})"
        axis.text(1.1 * x[i], 1.1 * y[i], name, fontsize=7, rotation=np.degrees(angle[i]) + (180 if flip else 0),
                  ha="right" if flip else "left", va="center", rotation_mode="anchor")  # fmt: skip
    dots = axis.scatter(x, y, s=4 * np.sqrt(system.capacity), c=full, cmap="Blues", vmin=0.4, vmax=1.0,
                        edgecolors="0.3", linewidths=0.5, zorder=2)  # fmt: skip
    axis.scatter([0], [0], s=2600, color="#D55E00", zorder=1)
    axis.text(0, 0, f"$N_t$ patients\nto place\n(up to {system.arrivals.max()})", ha="center", va="center", fontsize=8)
    axis.set(xlim=(-2.6, 2.6), ylim=(-2.7, 2.7), aspect="equal")
    axis.axis("off")
    axis.set_title(f"(a) {k} hospitals, {system.capacity.sum():,.0f} adult beds (beds in brackets)")
    plt.colorbar(dots, ax=axis, shrink=0.5, label="mean share of beds with other patients")


def short(name: str) -> str:
    """A name that fits beside a dot; the middle goes, since hospitals of a group differ in the last word."""
    text = capwords(name) if name.isupper() else name
    return text if len(text) <= 24 else f"{text[:10].rstrip()} \u2026 {text[-11:].lstrip()}"


def regret(axis: Axes, panel: Panel, labels: dict[str, str]) -> None:
    """Mean cumulative regret against the clairvoyant, with 95 % intervals over seeds."""
    draw_bands(panel, axis, {agent: (labels[agent], name) for agent, name in LABELS.items()}, unit=1000.0)
    axis.set_yscale("symlog", linthresh=1.0)  # rules and bandits differ a hundredfold, and regret can be negative
    axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1.0, subs=(1, 3)))
    axis.yaxis.set_major_formatter("{x:g}")
    mark_changes(panel, axis)
    axis.set(xlabel="day", ylabel="patient-days of overflow above\nthe clairvoyant, thousands")


def likelihood(axis: Axes, panel: Panel, labels: dict[str, str]) -> None:
    """The normalised likelihood of each day's transition: the mean over seeds, at the scale of each comparison."""
    shown: dict[str, str] = {}
    for way, label in labels.items():
        shown.setdefault(label, way)
    for (label, way), style in zip(shown.items(), ("-", "--"), strict=False):
        values = panel.curves(label, "likelihood")
        band = statistics.band(values)
        days = np.arange(1, values.shape[1] + 1)
        name = f"{way}, c = {panel.scale_of(label):g}"
        axis.plot(days, band.mean, style, color=COLOURS["DeepDQUCB"], linewidth=0.9, label=name)
        axis.fill_between(days, band.low, band.high, color=COLOURS["DeepDQUCB"], alpha=0.2, linewidth=0)
    mark_changes(panel, axis)
    axis.set(xlabel="day", ylabel="normalised likelihood", ylim=(0, 1.02))
    axis.set_title("(c) likelihood of the transitions, deep DQUCB")
    axis.legend(frameon=False, fontsize=7, loc="lower left")


def draw_beside(synthetic: HospitalSystem, real: HospitalSystem, path: Path) -> None:
    """Arrivals, occupancy by others, bed sizes and beta of the synthetic hospitals beside the real ones, per bed."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4), layout="constrained")
    looks = ((real, "real", "#0072B2", "-"), (synthetic, "synthetic", "#D55E00", "--"))
    for system, name, colour, style in looks:
        days = np.arange(system.days)
        week = np.convolve(system.arrivals / system.capacity.sum() * 1000, np.ones(7) / 7, "same")
        axes[0, 0].plot(days, week, style, color=colour, label=name, linewidth=1)
        axes[0, 1].plot(days, system.non_covid[:-1].sum(1) / system.capacity.sum(), style, color=colour, linewidth=1)
        axes[1, 0].plot(np.sort(system.capacity)[::-1], style, color=colour, marker=".")
        axes[1, 1].plot(np.sort(system.beta)[::-1], style, color=colour, marker=".")
    axes[0, 0].set(xlabel="day", ylabel="arrivals per 1,000 beds, 7-day mean", ylim=(0, None))
    axes[0, 1].set(xlabel="day", ylabel="share of beds with other patients", ylim=(0.5, 1))
    axes[1, 0].set(xlabel="hospital, by size", ylabel="adult beds", yscale="log")
    axes[1, 1].set(xlabel="hospital, by beta", ylabel="beta, share who stay a day")
    axes[0, 0].legend(frameon=False)
    figure.suptitle("Synthetic hospitals beside the real ones", fontsize=11)
    save(figure, path)
