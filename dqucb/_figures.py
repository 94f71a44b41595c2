"""Figures: colours that colour-blind readers can distinguish, line styles for print, and files as PNG and SVG.

Figures do not use pyplot, so no display is needed and nothing global changes. matplotlib is imported when one is drawn.
"""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

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
GREY = "#666666"


def save(figure: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write a PNG and an SVG file, whatever suffix the path has."""
    stem = Path(path)
    if stem.suffix.lower() in (".png", ".svg"):
        stem = stem.with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    with styled():
        for file in files:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def saved(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """The figure, saved if there is a path."""
    if path is not None:
        save(figure, path)
    return figure


def literal(label: str) -> str:
    """A label as literal text: matplotlib would read text between dollar signs as mathematics."""
    return label.replace("$", r"\$")


def figure_of(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
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
def styled(style: str | Mapping[str, Any] | None = None) -> Iterator[None]:
    """Our rcParams, except for those set by the user or by `style`."""
    import matplotlib
    from matplotlib import style as styles

    chosen: Any = [] if style is None else dict(style) if isinstance(style, Mapping) else style
    with styles.context(chosen), matplotlib.rc_context():
        matplotlib.rcParams.update({name: value for name, value in STYLE.items() if _is_default(name)})
        yield


def thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"))


def colour(number: int) -> str:
    import matplotlib

    if _is_default("axes.prop_cycle"):
        return COLOURS[number % len(COLOURS)]
    own = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", COLOURS)
    return str(own[number % len(own)])
