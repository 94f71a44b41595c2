"""HTML representations for notebooks: plain tables and a small curve, escaped, without scripts."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WIDTH, _HEIGHT, _POINTS = 420, 90, 200
_LONGEST = 120  # characters of a value


def text(value: Any) -> str:
    """A value as escaped text, truncated if it is long."""
    words = str(value)
    return html.escape(words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…")


def card(title: str, facts: Mapping[str, Any], below: str = "") -> str:
    """A title and a table of facts; `below` is HTML that is shown as it is."""
    rows = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in facts.items())
    return f"<div><b>{text(title)}</b><table><tbody>{rows}</tbody></table>{below}</div>"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A titled table with one heading per column."""
    top = "".join(f"<th>{text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><b>{text(title)}</b><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def curve(values: NDArray[np.float64], changes: Iterable[float], label: str) -> str:
    """A small SVG curve in the colour of the text; `changes` are fractions of its length."""
    if not len(values) or not np.isfinite(values).all():
        return ""
    thin = values[np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(np.int64)]
    low, high = float(min(thin.min(), 0.0)), float(thin.max())
    across = np.linspace(0, _WIDTH, len(thin))
    down = _HEIGHT * (1.0 - (thin - low) / ((high - low) or 1.0))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    marks = "".join(
        f'<line x1="{_WIDTH * share:.1f}" x2="{_WIDTH * share:.1f}" y1="0" y2="{_HEIGHT}" stroke="currentColor" '
        'stroke-dasharray="3 4" opacity="0.6"/>'
        for share in changes
    )
    return (
        f'<svg viewBox="-2 -2 {_WIDTH + 4} {_HEIGHT + 4}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{text(label)}"><title>{text(label)}</title>{marks}'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
