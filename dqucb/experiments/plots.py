"""Figures for papers, with colours that colour-blind readers can distinguish and line styles for print.

Each function takes a `Comparison` and returns a matplotlib figure; `saved` writes it as PNG and SVG. Figures do not
use pyplot, so no display is needed and nothing global changes.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import _validate
from dqucb.experiments import statistics
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.design import runnable
from dqucb.problems import Problem

# Distinguishable with protanopia and deuteranopia, with a contrast of 4.5 to white; the second for dark pages.
COLOURS = ("#0072b2", "#bf4800", "#00563f", "#ad4688", "#5c3300", "#2f2fff", "#331f99", "#000000")
DARK_COLOURS = ("#56b4e9", "#ff8a3d", "#3fd6a0", "#f29ccb", "#c7a27c", "#8f8cff", "#f2dc4e", "#ffffff")
LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)), (0, (3, 1)), (0, (2, 2)))
MARKERS = "osD^vPX*"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "dqucb",
}
_GREY = "#666666"
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
    with _style(style):
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
    with _style():
        figure, (above, below) = _figure(5.8, 5.2, 2, 1)
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
                  color=_colour(comparison, label), label=f"alarms of {_text(label)}")  # fmt: skip
    if rows:
        axes.legend()


def with_density(comparison: Comparison) -> list[str]:
    """The agents whose likelihood is not always one."""
    return [
        label for label in comparison.labels if np.any(np.abs(comparison.curves(label, "likelihood")[1] - 1.0) > 1e-12)
    ]


def final_bars(comparison: Comparison) -> Any:
    """Final regret (or mean return) by agent, with its interval and every run."""
    with _style():
        figure, axes = _figure(5.4, 0.9 + 0.36 * len(comparison.labels))
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
    axes.set_yticks(range(len(labels)), [_text(label) for label in labels])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    what = f"{comparison.measure} after" if comparison.measure == "regret" else "mean return over"
    axes.set_xlabel(f"{what} {comparison.settings['length']:,} {comparison.unit} (mean, 95 % interval, runs)")
    _thousands(axes.xaxis)


def regret_by_parameter(comparison: Comparison, parameter: str = "bonus_scale") -> Any:
    """Final regret against a parameter of a sweep, one line per agent."""
    with _style():
        figure, axes = _figure(5.4, 3.4)
        positive, swept = True, set[float]()
        for number, (group, members) in enumerate(comparison.groups().items()):
            by_value: dict[Any, list[float]] = {}
            for label, values in members.items():
                if parameter in values:
                    by_value.setdefault(values[parameter], []).extend(comparison.final(label).values())
            if not by_value:
                everything = [r for label in members for r in comparison.final(label).values()]
                axes.axhline(np.mean(everything), color=_nth(number), linestyle=LINES[number % 8], label=_text(group))
                continue
            ordered = sorted(by_value)
            swept |= set(ordered)
            positive = positive and ordered[0] > 0
            means = [statistics.mean_interval(by_value[value]) for value in ordered]
            axes.plot(ordered, [m.value for m in means], marker=MARKERS[number % 8], markersize=5, color=_nth(number),
                      linestyle=LINES[number % 8], label=_text(group))  # fmt: skip
            axes.fill_between(ordered, [m.low for m in means], [m.high for m in means], color=_nth(number), alpha=0.18,
                              linewidth=0)  # fmt: skip
        if positive and swept:
            axes.set_xscale("log")
        axes.set_xticks(sorted(swept), [f"{value:g}" for value in sorted(swept)])
        axes.minorticks_off()
        axes.set_xlabel(parameter.replace("_", " "))
        axes.set_ylabel("final regret" if comparison.measure == "regret" else "mean return")
        if comparison.measure == "regret":
            axes.set_ylim(bottom=0)
        _thousands(axes.yaxis)
        axes.legend()
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
    with _style():
        height = 0.2 + down * (0.4 + panel * float(rows) / float(columns))
        figure, panels = _figure(1.2 + across * panel, height, down, across)
        for axes in np.ravel(panels)[len(shares) :]:
            axes.set_visible(False)
        for axes, (label, cells) in zip(np.ravel(panels), shares.items(), strict=False):
            image = axes.imshow(np.where(cells > 0, cells, np.nan), cmap="viridis", norm=LogNorm(lowest, highest))
            axes.set_facecolor("#dddddd")
            axes.set(title=_text(label), xticks=[], yticks=[])
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


def save(figure: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write a PNG and an SVG file, whatever suffix the path has."""
    stem = Path(path)
    if stem.suffix.lower() in (".png", ".svg"):
        stem = stem.with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    with _style():
        for file in files:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def saved(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """The figure, saved if there is a path."""
    if path is not None:
        save(figure, path)
    return figure


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


def _text(label: str) -> str:
    """A label as literal text: matplotlib would read text between dollar signs as mathematics."""
    return label.replace("$", r"\$")


def _curves(comparison: Comparison, what: str, title: str, labels: Sequence[str] | None = None) -> Any:
    with _style():
        figure, axes = _figure(5.8, 3.5)
        _draw_curves(axes, comparison, what, title, comparison.labels if labels is None else labels)
    return figure


def _draw_curves(axes: Any, comparison: Comparison, what: str, title: str, labels: Sequence[str]) -> None:
    for label in labels:
        ends, (mean, low, high) = comparison.band(label, what)
        colour = _colour(comparison, label)
        style = LINES[comparison.labels.index(label) % 8]
        axes.plot(ends, mean, color=colour, linestyle=style, label=_text(label))
        if np.isfinite(low).any():  # where all seeds are equal there is no interval
            axes.fill_between(ends, low, high, color=colour, alpha=0.2, linewidth=0)
    for number, index in enumerate(comparison.change_at):
        axes.axvline(index, color=_GREY, linewidth=0.9, linestyle=":", label=None if number else "change")
    axes.set_xlim(0, comparison.settings["length"])
    axes.set_xlabel(comparison.unit[:-1])
    axes.set_ylabel(title)
    if what == "regret":
        axes.set_ylim(bottom=0.0)
    _thousands(axes.xaxis)
    if what != "likelihood":
        _thousands(axes.yaxis)
    axes.legend(fontsize=8)


def _figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    size = (width, height) if _is_default("figure.figsize") else None
    figure = _picture()(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns)


@cache
def _picture() -> Any:
    """The class of our figures, which notebooks display with or without pyplot."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=120)
            return file.getvalue()

    return Picture


def _is_default(name: str) -> bool:
    """Whether an rcParam has matplotlib's default value."""
    import matplotlib

    return bool(matplotlib.rcParams[name] == matplotlib.rcParamsDefault[name])


@contextmanager
def _style(style: str | Mapping[str, Any] | None = None) -> Iterator[None]:
    """Our rcParams, except for those set by the user or by `style`."""
    import matplotlib
    from matplotlib import style as styles

    chosen: Any = [] if style is None else dict(style) if isinstance(style, Mapping) else style
    with styles.context(chosen), matplotlib.rc_context():
        matplotlib.rcParams.update({name: value for name, value in STYLE.items() if _is_default(name)})
        yield


def _thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"))


def _nth(number: int) -> str:
    import matplotlib

    if _is_default("axes.prop_cycle"):
        return COLOURS[number % len(COLOURS)]
    own = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", COLOURS)
    return str(own[number % len(own)])


def _colour(comparison: Comparison, label: str) -> str:
    return _nth(comparison.labels.index(label))
