"""`write_report`: a comparison as one self-contained HTML page, without network or server.

`report_template.html` is the page; this module fills in the tables as HTML, readable without scripts, and the
subsampled curves as JSON, which the page's script draws.
"""

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dqucb._figures import COLOURS, DARK_COLOURS
from dqucb._storage import write_atomically
from dqucb.agents.diagnosis import NUMBERS, Diagnosis
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.statistics import FEWEST_SEEDS, heavy_tail, unseen_share, why_no_interval
from dqucb.experiments.tables import interval_text, number

PANELS = {"regret": "Cumulative regret", "returns": "Mean return", "likelihood": "Mean likelihood of what happened"}
HEADINGS = {
    "agent": "agent",
    "runs": "runs",
    "regret": "final regret",
    "return": "mean return",
    "low": "95 % from",
    "high": "to",
    "heavy_tail": "heavy tail",
    "median": "median",
    "median_low": "95 % from",
    "median_high": "to",
    "worst_decile": "worst 10 %",
    "worst": "worst run",
    "iqm": "IQM",
    "seconds": "wall s per run",
    "steps_per_second": "steps/s",
}
MEASURES = {"regret": "regret", "return": "mean return"}
BEST = {"regret": "least", "return": "highest"}
BETTER = {"regret": "less regret", "return": "a higher return"}
MOST_ALARMS = 400  # markers of one agent in a panel
MOST_DIAGNOSES = 20  # runs of an agent that are read for its diagnosis
MOST_CHANGES = 4  # that are named one by one
_DIGITS = 6  # significant digits of the numbers in the page's data


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report and return its path.

    Parameters
    ----------
    comparison : Comparison
        At least one finished run.
    path : path
        The HTML file.
    """
    if not comparison.labels:
        raise ValueError(f"{comparison.folder} must hold at least one finished run, got none")
    problem = str(comparison.settings["problem"]["problem"])
    parts = {
        "TITLE": _text(f"{problem}: {', '.join(comparison.groups())}"),
        "FINDING": _text(_finding(comparison)),
        "LEAD": _lead(comparison),
        "NOTES": "".join(f'<p class="note">{_text(note)}</p>' for note in comparison.notes),
        "SUMMARY": _summary(comparison),
        "ALARMS": _alarms(comparison),
        "DIAGNOSIS": _diagnoses(comparison),
        "BEATS": _improvement(comparison),
        "BEST": _best(comparison),
        "FACTS": _facts(comparison),
        "SETTINGS": _text(json.dumps(comparison.settings, indent=2)),
        "DATA": _data(comparison),
    }
    page = resources.files("dqucb.experiments").joinpath("report_template.html").read_text(encoding="utf-8")
    page = page.replace("<!--POLICY-->", _policy(page))
    for name, part in parts.items():
        # Data is inserted last, so that no label can be taken for a placeholder.
        page = page.replace(f"<!--{name}-->", part)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, page.encode())
    return target


def _policy(template: str) -> str:
    """A content security policy that allows only the template's own style and scripts, by their hashes."""

    def hashes(element: str) -> str:
        own = re.findall(rf"<{element}>(.*?)</{element}>", template, re.S)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; style-src {hashes('style')}; script-src {hashes('script')}; base-uri 'none'; "
        "form-action 'none'"
    )


def _finding(comparison: Comparison) -> str:
    """What the runs show, in one sentence: the best agent, or those that may be as good."""
    problem, measure = comparison.settings["problem"]["problem"], MEASURES[comparison.measure]
    losses = {label: list(comparison.losses(label).values()) for label in comparison.labels}
    ordered = sorted(losses, key=lambda label: float(np.median(losses[label])))
    best = ordered[0]
    if len(ordered) == 1:
        return f"{best} on {problem}"
    level = [label for label in ordered[1:] if not comparison.probability_of_improvement(best, label).low > 0.5]
    if not level:
        return f"{best} has the {BEST[comparison.measure]} {measure} on {problem}"
    if len(level) == len(ordered) - 1 > 1:
        return f"{problem}: these runs do not tell {best} from the other agents"
    rest = "; all others are worse" if len(level) < len(ordered) - 1 else ""
    return f"{problem}: these runs do not tell {best} from {_listed(level)}{rest}"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _lead(comparison: Comparison) -> str:
    settings = comparison.settings
    share = unseen_share(len(settings["seeds"]))
    return _text(
        f"{len(settings['agents'])} agents, {len(settings['seeds'])} seeds, {settings['length']:,} {comparison.unit} "
        f"each; {_when(comparison)}. Bands and intervals are 95 % intervals over seeds, shown from {FEWEST_SEEDS} "
        f"seeds on. A rare failure may be missing: one that happens in up to {share:.0%} of runs need not occur here. "
        "With a heavy tail, a few runs decide the mean; compare medians then. One run in ten is worse than the value "
        "called worst 10 %. IQM is the interquartile mean. Times are wall times."
    )


def _when(comparison: Comparison) -> str:
    """The change points, in words."""
    times, unit = [f"{index:,}" for index in comparison.change_at], comparison.unit
    if not times:
        return "it does not change"
    if len(times) == 1:
        return f"it changes at {unit[:-1]} {times[0]}"
    if len(times) > MOST_CHANGES:
        return f"it changes {len(times)} times, from {unit[:-1]} {times[0]} to {times[-1]}"
    return f"it changes at {unit} {', '.join(times[:-1])} and {times[-1]}"


def _summary(comparison: Comparison) -> str:
    frame = comparison.summary().reset_index()
    head = "".join(
        f'<th scope="col"><button type="button" data-column="{place}">{_text(_heading(name))}</button></th>'
        for place, name in enumerate(frame.columns)
    )
    # An unknown interval is replaced by the reason.
    unknown = {name: f'<td class="word" data-value="">{text}</td>' for name, text in (("low", "{}"), ("high", ""))}
    rows = ""
    leader = min(comparison.labels, key=lambda label: float(np.median(list(comparison.losses(label).values()))))
    for row in frame.to_dict("records"):
        why = why_no_interval(row["runs"])
        cells = (
            unknown[name].format(why) if name in unknown and not np.isfinite(value) else _cell(value)
            for name, value in row.items()
        )
        best = ' class="best" title="the best median"' if row["agent"] == leader else ""
        rows += f"<tr{best}>{''.join(cells)}</tr>"
    return f'<table id="summary"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _alarms(comparison: Comparison) -> str:
    """Which changes were detected, with what delay, and how many alarms were false."""
    frame = comparison.alarms()
    if frame.empty:
        return ""
    titles = ["agent", "runs"]
    for change in comparison.change_at:
        titles += [f"found {change:,}", f"median delay ({comparison.unit})"]
    titles += ["false alarms", "per million steps"]
    rows = [[_cell(value) for value in row] for row in frame.reset_index().itertuples(index=False, name=None)]
    about = "<p>The first alarm after a change finds it; all others are false.</p>"
    return "<h2>Alarms</h2>" + about + _table(titles, rows)


def _diagnoses(comparison: Comparison) -> str:
    """What agents say of their own runs, `run.extras["diagnosis"]`: means over the first seeds."""
    rows = []
    for label in comparison.labels:
        seeds = comparison.seeds_of(label)[:MOST_DIAGNOSES]
        found = [comparison.load_run(label, seed).extras.get("diagnosis", np.zeros(0)) for seed in seeds]
        if all(len(numbers) == len(NUMBERS) for numbers in found):
            means = replace(Diagnosis(*np.mean(found, axis=0).tolist()), last_alarm=-1.0)
            cells = (f'<th scope="row">{_text(name)}</th><td class="word">{_text(words)}</td>'
                     for name, words in means.lines().items())  # fmt: skip
            head = f'<th scope="row">{_text(label)}</th><td class="word">means of {len(seeds)} runs</td>'
            rows += [[head], *([row] for row in cells)]
    if not rows:
        return ""
    about = (
        "<p>Where an agent relies on few visits when the run ends. A high share of rarely tried states is no fault "
        "where nothing is random; where outcomes are, it says that the agent may hold on to a second-best action.</p>"
    )
    return "<h2>Diagnosis</h2>" + about + _table(("", ""), rows)


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML, under titles that are text."""
    head = "".join(f'<th scope="col">{_text(title)}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _heading(name: str) -> str:
    if name.startswith("regret_phase_"):
        return f"phase {name.rsplit('_', 1)[1]}"
    return HEADINGS.get(name, name)


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        value = "yes" if value else ""
    if isinstance(value, int | float | np.number):
        if not np.isfinite(value):
            return '<td data-value="">–</td>'
        return f'<td data-value="{value!r}">{number(float(value))}</td>'.replace("np.float64(", "").replace(')"', '"')
    return f'<td class="word" data-value="{_text(value)}">{_text(value)}</td>'


def _improvement(comparison: Comparison) -> str:
    """Probability of improvement of the agent of each row over that of each column."""
    labels = comparison.labels
    if not 2 <= len(labels) <= 8:
        return ""
    rows = []
    for ours in labels:
        cells = [f'<th scope="row">{_text(ours)}</th>']
        for theirs in labels:
            if ours == theirs:
                cells.append("<td>–</td>")
                continue
            value = comparison.probability_of_improvement(ours, theirs)
            interval = f" <small>{value.low:.2f} .. {value.high:.2f}</small>" if value.is_known else ""
            cells.append(f"<td>{value.value:.2f}{interval}</td>")
        rows.append(cells)
    title = f"Probability that the agent of the row ends with {BETTER[comparison.measure]}"
    return f"<h2>{title}</h2>{_table(['', *labels], rows)}"


def _best(comparison: Comparison) -> str:
    """The best values of a sweep."""
    if not comparison.is_sweep or comparison.missing or len(comparison.settings["seeds"]) < 2:
        return ""
    rows = []
    for group, (label, chosen, reported, result) in comparison.best().items():
        heavy = heavy_tail([comparison.final(label)[seed] for seed in reported])
        interval = interval_text(result, len(reported), heavy)
        cells = (label, number(result.value), interval, f"{len(chosen)} / {len(reported)}")
        rows.append([f'<th scope="row">{_text(group)}</th>', *(f"<td>{_text(cell)}</td>" for cell in cells)])
    titles = ("", "best", HEADINGS[comparison.measure], "95 % interval", "seeds to choose / report")
    return "<h2>Best values, chosen on some seeds and reported on others</h2>" + _table(titles, rows)


def _facts(comparison: Comparison) -> str:
    manifest = comparison.manifest
    compute = sum(each.seconds for each in comparison.traces.values())
    steps = sum(each.steps for each in comparison.traces.values())
    sessions = [
        f"{session['runs']} runs in {session['seconds']:.1f} s on {session['workers']}"
        for session in manifest["sessions"]
        if session["runs"]
    ]
    facts = {
        "Command": f"<code>{_text(manifest['command'])}</code>",
        "Runs": _text(f"{len(comparison.traces)} finished, {len(comparison.missing)} missing"),
        "Time": _text("; ".join(sessions) or "no session was finished"),
        "Work": _text(f"{compute:.1f} s of computing for {steps:,} environment steps"),
        "Begun": _text(manifest["created"]),
        "Versions": _text(", ".join(f"{name} {version}" for name, version in manifest["versions"].items())),
    }
    return "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())


def _data(comparison: Comparison) -> str:
    panels = {name: title for name, title in PANELS.items() if name != "regret" or comparison.measure == "regret"}
    agents = []
    for place, label in enumerate(comparison.labels):
        agent: dict[str, Any] = {"label": label, "light": COLOURS[place % 8], "dark": DARK_COLOURS[place % 8]}
        agent["alarms"] = _alarm_times(comparison, label)
        for what in panels:
            ends, band = comparison.band(label, what)
            agent["x"] = ends.tolist()
            agent[what] = {name: _rounded(getattr(band, name)) for name in ("mean", "low", "high")}
        agents.append(agent)
    data = {
        "agents": agents,
        "panels": panels,
        "changes": comparison.change_at,
        "unit": comparison.unit[:-1],
        "length": comparison.settings["length"],
    }
    # "<" would let a label end the script element.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _alarm_times(comparison: Comparison, label: str) -> list[int]:
    """The times of an agent's alarms over all seeds; large numbers of them are subsampled."""
    times = sorted({time for alarms in comparison.alarms_of(label).values() for time in alarms})
    return times[:: -(-len(times) // MOST_ALARMS) or 1]


def _rounded(values: Any) -> list[float | None]:
    return [None if not np.isfinite(value) else float(f"{value:.{_DIGITS}g}") for value in values]


def _text(value: Any) -> str:
    return html.escape(str(value))
