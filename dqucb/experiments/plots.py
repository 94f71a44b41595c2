"""Figures of comparisons for papers: each function takes a `Comparison` and returns a matplotlib figure."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb._figures import GREY, LINES, MARKERS, colour, figure_of, literal, save, saved, styled, thousands
from dqucb.experiments import statistics
from dqucb.experiments.aggregate import Aggregate
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.design import runnable
from dqucb.problems import Problem

MAIN = {"regret": ("regret", "cumulative regret"), "return": ("returns", "mean return")}  # curve and title
CURVES = {**dict(MAIN.values()), "likelihood": "mean likelihood"}


def draw(
    comparison: Comparison,
    path: str | os.PathLike[str] | None,
    what: str | None,
    ax: Any,
    style: str | Mapping[str, Any] | None,
) -> Any:
    """Draw a figure for `Comparison.plot`; return the figure, or the axes that were given."""
    what = _validate.one_of("what", what or MAIN[comparison.measure][0], [*CURVES, "overview", "final"])
    with styled(style):
        if ax is None:
            if what == "overview":
                return saved(overview(comparison), path)
            if what == "final":
                return saved(final_bars(comparison), path)
            labels = with_density(comparison) if what == "likelihood" else None
            return saved(_curves(comparison, what, CURVES[what], labels), path)
        if what == "overview":
            raise ValueError("ax must be None for what='overview', which has two panels")
        if what == "final":
            _draw_bars(ax, comparison)
        else:
            labels = with_density(comparison) if what == "likelihood" else comparison.labels
            _draw_curves(ax, comparison, what, CURVES[what], labels)
    saved(ax.figure, path)
    return ax


def regret(comparison: Comparison) -> Any:
    """Cumulative regret: mean over seeds, 95 % band, change points."""
    return _curves(comparison, "regret", "cumulative regret")


def main_curves(comparison: Comparison) -> Any:
    """Cumulative regret, or the returns where regret is unknown."""
    return _curves(comparison, *MAIN[comparison.measure])


def likelihood(comparison: Comparison) -> Any:
    """Mean likelihood of the observed transitions, for the agents that have a density."""
    return _curves(comparison, "likelihood", "mean likelihood", with_density(comparison))


def overview(comparison: Comparison) -> Any:
    """Cumulative regret (or returns), and below it the likelihood, which drops at changes."""
    with styled():
        figure, (above, below) = figure_of(5.8, 5.2, 2, 1)
        _draw_curves(above, comparison, *MAIN[comparison.measure], comparison.labels)
        _draw_curves(below, comparison, "likelihood", "mean likelihood", with_density(comparison))
        _mark_alarms(below, comparison)
        above.set_xlabel("")
        below.set_ylim(0.0, 1.05)
    return figure


def _mark_alarms(axes: Any, comparison: Comparison) -> None:
    """Draw a triangle at each alarm of each seed, one row per agent, at the bottom of the axes."""
    rows = [label for label in comparison.labels if any(comparison.alarms_of(label).values())]
    for row, label in enumerate(rows):
        times = [time for alarms in comparison.alarms_of(label).values() for time in alarms]
        axes.plot(times, np.full(len(times), 0.03 + 0.05 * row), linestyle="", marker="^", markersize=5, alpha=0.6,
                  color=_colour(comparison, label), label=f"alarms of {literal(label)}")  # fmt: skip
    if rows:
        axes.legend()


def with_density(comparison: Comparison) -> list[str]:
    """The agents whose likelihood is not always one."""
    return [
        label for label in comparison.labels if np.any(np.abs(comparison.curves(label, "likelihood")[1] - 1.0) > 1e-12)
    ]


def final_bars(comparison: Comparison) -> Any:
    """Final regret (or mean return) by agent, with its interval and every run."""
    with styled():
        figure, axes = figure_of(5.4, 0.9 + 0.36 * len(comparison.labels))
        _draw_bars(axes, comparison)
    return figure


def _draw_bars(axes: Any, comparison: Comparison) -> None:
    labels = comparison.labels
    for row, label in enumerate(labels):
        values = list(comparison.final(label).values())
        interval = statistics.mean_interval(values)
        value, low, high = interval
        axes.barh(row, value, color=_colour(comparison, label), alpha=0.75, height=0.62)
        if interval.is_known:
            axes.errorbar(value, row, xerr=[[value - low], [high - value]], color="black", capsize=3, linewidth=1)
        spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else [0.0]
        axes.plot(values, row + np.asarray(spread), ".", color="black", markersize=3, alpha=0.6)
    axes.set_yticks(range(len(labels)), [literal(label) for label in labels])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    what = f"{comparison.measure} after" if comparison.measure == "regret" else "mean return over"
    axes.set_xlabel(f"{what} {comparison.settings['length']:,} {comparison.unit} (mean, 95 % interval, runs)")
    thousands(axes.xaxis)


def regret_by_parameter(comparison: Comparison, parameter: str = "bonus_scale") -> Any:
    """Final regret against a parameter of a sweep, one line per agent."""
    with styled():
        figure, axes = figure_of(5.4, 3.4)
        positive, swept = True, set[float]()
        for number, (group, members) in enumerate(comparison.groups().items()):
            by_value: dict[Any, list[float]] = {}
            for label, values in members.items():
                if parameter in values:
                    by_value.setdefault(values[parameter], []).extend(comparison.final(label).values())
            if not by_value:
                everything = [r for label in members for r in comparison.final(label).values()]
                axes.axhline(
                    np.mean(everything), color=colour(number), linestyle=LINES[number % 8], label=literal(group)
                )
                continue
            ordered = sorted(by_value)
            swept |= set(ordered)
            positive = positive and ordered[0] > 0
            means = [statistics.mean_interval(by_value[value]) for value in ordered]
            axes.plot(ordered, [m.value for m in means], marker=MARKERS[number % 8], markersize=5, color=colour(number),
                      linestyle=LINES[number % 8], label=literal(group))  # fmt: skip
            lows, highs = [m.low for m in means], [m.high for m in means]
            axes.fill_between(ordered, lows, highs, color=colour(number), alpha=0.18, linewidth=0)
        if positive and swept:
            axes.set_xscale("log")
        axes.set_xticks(sorted(swept), [f"{value:g}" for value in sorted(swept)])
        axes.minorticks_off()
        axes.set_xlabel(parameter.replace("_", " "))
        axes.set_ylabel("final regret" if comparison.measure == "regret" else "mean return")
        if comparison.measure == "regret":
            axes.set_ylim(bottom=0)
        thousands(axes.yaxis)
        axes.legend()
    return figure


def aggregate_figure(over: Aggregate) -> Any:
    """Interquartile means with their intervals, and performance profiles, over several problems."""
    with styled():
        figure, (left, right) = figure_of(8.4, 3.4, 1, 2)
        scores = np.concatenate([runs for each in over.scores.values() for runs in each.values()])
        thresholds = np.linspace(0.0, float(np.quantile(scores, 0.98)), 300)
        for number, label in enumerate(over.labels):
            value, low, high = over.interquartile_mean(label)
            left.plot(
                [low, high], [number, number], color=colour(number), linewidth=7, alpha=0.35, solid_capstyle="butt"
            )
            left.plot([value], [number], marker="|", markersize=14, markeredgewidth=2, color=colour(number))
            right.plot(thresholds, over.profile(label, thresholds), color=colour(number), linestyle=LINES[number % 8],
                       label=literal(label))  # fmt: skip
        left.set_yticks(range(len(over.labels)), [literal(label) for label in over.labels])
        left.invert_yaxis()
        left.set_xlabel("interquartile mean of scores, 95 % interval\n(1 is the best agent of each problem)")
        right.set(xlabel="score", ylabel="fraction of runs with this score or a lower one", ylim=(0.0, 1.02))
        right.legend(fontsize=8)
    return figure


def visits(counts: dict[str, Any], problem: Problem) -> Any:
    """Visits on a grid by agent, from label -> counts (H, S, A) or (S, A), as fractions on one logarithmic scale."""
    from matplotlib.colors import LogNorm

    if problem.coordinates is None or problem.grid is None:
        raise ValueError(f"problem must be a grid for a heat map, got {problem!r}")
    rows, columns = problem.coordinates.max(axis=0) + 1
    shares = {}
    for label, table in counts.items():
        by_state = np.asarray(table, np.float64).reshape(-1, problem.n_states, problem.n_actions).sum(axis=(0, 2))
        cells = np.full((rows, columns), np.nan)
        cells[tuple(problem.coordinates.T)] = by_state / max(by_state.sum(), 1.0)
        shares[label] = cells
    lowest = min(float(np.min(cells[cells > 0])) for cells in shares.values())
    across = min(2, len(shares))
    down = -(-len(shares) // across)
    highest = max(float(np.nanmax(cells)) for cells in shares.values())
    panel = max(2.2, 0.3 * float(columns))
    with styled():
        height = 0.2 + down * (0.4 + panel * float(rows) / float(columns))
        figure, panels = figure_of(1.2 + across * panel, height, down, across)
        for axes in np.ravel(panels)[len(shares) :]:
            axes.set_visible(False)
        for axes, (label, cells) in zip(np.ravel(panels), shares.items(), strict=False):
            image = axes.imshow(np.where(cells > 0, cells, np.nan), cmap="viridis", norm=LogNorm(lowest, highest))
            axes.set_facecolor("#dddddd")
            axes.set(title=literal(label), xticks=[], yticks=[])
            axes.grid(visible=False)
            for (row, column), letter in np.ndenumerate(np.array([list(line) for line in problem.grid])):
                if letter in "SGH#":
                    bright = cells[row, column] > np.sqrt(lowest * highest)
                    axes.text(column, row, letter, ha="center", va="center", color="black" if bright else "white",
                              fontsize=8)  # fmt: skip
        figure.colorbar(image, ax=np.ravel(panels).tolist(), label="share of steps", shrink=0.9)
    return figure


def draw_all(comparison: Comparison, folder: str | os.PathLike[str], visits: bool = False) -> list[Path]:
    """Save every figure that applies to the comparison; return the files.

    Parameters
    ----------
    comparison : Comparison
        The runs.
    folder : path
        Where the files go.
    visits : bool
        Whether to train once more to draw the visits on a grid.
    """
    if not comparison.labels:
        raise ValueError(f"{comparison.folder} must hold at least one finished run, got none")
    measure = comparison.measure
    figures = {measure: main_curves(comparison), f"final_{measure}": final_bars(comparison)}
    if with_density(comparison):
        figures |= {"overview": overview(comparison), "likelihood": likelihood(comparison)}
    for parameter in varied_parameters(comparison):
        figures[f"{measure}_by_{parameter}"] = regret_by_parameter(comparison, parameter)
    if visits:
        figures["visits"] = _trained_visits(comparison)
    return [path for name, figure in figures.items() for path in save(figure, Path(folder) / name)]


def varied_parameters(comparison: Comparison) -> list[str]:
    """The numeric parameters of a sweep, which can be drawn along an axis."""
    found: dict[str, None] = {}
    for members in comparison.groups().values():
        for values in members.values():
            found |= {
                name: None for name, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)
            }
    return list(found)


def _trained_visits(comparison: Comparison) -> Any:
    """The visits of one run per agent, which are not stored with the curves: the same seed reproduces them."""
    counts: dict[str, Any] = {}
    for label, trial in comparison.trials.items():
        again = runnable(trial.only(trial.seeds[:1]))
        problem = again.live.problem
        if not isinstance(problem, Problem) or problem.grid is None:
            raise ValueError(f"visits can be drawn on grids only, got {trial.problem['problem']}")
        agent, _ = again.train()
        counts[label] = agent.visits_  # type: ignore[attr-defined]
    return visits(counts, problem)


def _curves(comparison: Comparison, what: str, title: str, labels: Sequence[str] | None = None) -> Any:
    with styled():
        figure, axes = figure_of(5.8, 3.5)
        _draw_curves(axes, comparison, what, title, comparison.labels if labels is None else labels)
    return figure


def _draw_curves(axes: Any, comparison: Comparison, what: str, title: str, labels: Sequence[str]) -> None:
    for label in labels:
        ends, (mean, low, high) = comparison.band(label, what)
        colour = _colour(comparison, label)
        style = LINES[comparison.labels.index(label) % 8]
        axes.plot(ends, mean, color=colour, linestyle=style, label=literal(label))
        if np.isfinite(low).any():  # where all seeds are equal there is no interval
            axes.fill_between(ends, low, high, color=colour, alpha=0.2, linewidth=0)
    for number, index in enumerate(comparison.change_at):
        axes.axvline(index, color=GREY, linewidth=0.9, linestyle=":", label=None if number else "change")
    axes.set_xlim(0, comparison.settings["length"])
    axes.set_xlabel(comparison.unit[:-1])
    axes.set_ylabel(title)
    if what == "regret":
        axes.set_ylim(bottom=0.0)
    thousands(axes.xaxis)
    if what != "likelihood":
        thousands(axes.yaxis)
    axes.legend(fontsize=8)


def _colour(comparison: Comparison, label: str) -> str:
    return colour(comparison.labels.index(label))
