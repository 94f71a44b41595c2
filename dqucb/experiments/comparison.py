"""`Comparison`: the runs of several agents on one problem, as tables, statistics and pictures."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _html, _validate
from dqucb.experiments import statistics
from dqucb.experiments.statistics import Band, Choice, Interval, why_no_interval
from dqucb.experiments.trials import Trial
from dqucb.run import Run

if TYPE_CHECKING:
    import pandas as pd

POINTS = 500  # of a thinned curve: more than a page shows


@dataclass(frozen=True)
class Trace:
    """A run thinned to a few hundred points: regret at each, return and likelihood averaged since the last one."""

    ends: NDArray[np.int64]
    regret: NDArray[np.float64]
    returns: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    phase_regret: tuple[float, ...]
    mean_return: float
    alarms: tuple[int, ...]
    delays: tuple[int | None, ...]
    false_alarms: int
    steps: int
    seconds: float
    versions: Mapping[str, str]


def trace(run: Run, points: int | None = POINTS) -> Trace:
    """Thin a run; the last record of each phase is always among the points. None keeps every record."""
    n = len(run)
    if points is None or points >= n:
        last = np.arange(n)
    else:
        phase_ends = np.searchsorted(run.ends, run.change_at, side="right") - 1
        last = np.union1d(np.linspace(0, n - 1, points + 1).round().astype(np.int64)[1:], phase_ends)
    first = np.concatenate([[0], last[:-1] + 1])
    sizes = last - first + 1
    return Trace(
        ends=run.ends[last],
        regret=run.regret[last],
        returns=np.add.reduceat(run.returns, first) / sizes,
        likelihood=np.add.reduceat(run.likelihood, first) / sizes,
        phase_regret=tuple(run.phase_regret()),
        mean_return=float(run.returns.mean()),
        alarms=tuple(run.alarms.tolist()),
        delays=tuple(run.detection_delays()),
        false_alarms=run.false_alarms,
        steps=run.steps,
        seconds=run.seconds,
        versions=run.versions,
    )


@dataclass
class Comparison:
    """Runs of several agents with several seeds, as `compare`, `sweep` and `load_comparison` return them.

    Parameters
    ----------
    settings : dict
        JSON values that describe the experiment.
    traces : dict
        (label, seed) -> summary of a run.
    trials : dict
        Label -> the trial of an agent.
    load_run : callable
        (label, seed) -> the whole run.
    manifest : dict
        Content of the manifest file.
    folder : Path, optional
        Where the runs are stored.
    computed : int
        Runs computed by this call; the others were stored already.
    notes : list of str
        Remarks for the reader of the results.

    Examples
    --------
    >>> from dqucb import compare
    >>> made = compare(["qucb", "random"], "combination-lock", 200, seeds=2, jobs=1)
    >>> made
    Comparison(QUCB, Random on combination-lock, 4 runs)
    >>> sorted(made.final_regret("QUCB"))
    [0, 1]
    """

    settings: dict[str, Any]
    traces: dict[tuple[str, int], Trace]
    trials: dict[str, Trial] = field(repr=False)
    load_run: Callable[[str, int], Run] = field(repr=False)
    manifest: dict[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    computed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        """The agents of which at least one run is there."""
        return [label for label, seeds in self._seeds.items() if seeds]

    def seeds_of(self, label: str) -> list[int]:
        """The seeds that are done."""
        return list(self._seeds.get(label, ()))

    @cached_property
    def _seeds(self) -> dict[str, list[int]]:
        """The seeds of each label that are done, found once: most methods ask for them."""
        found: dict[str, list[int]] = {label: [] for label in self.settings["agents"]}
        for label, seeds in found.items():
            seeds += [seed for seed in self.settings["seeds"] if (label, seed) in self.traces]
        return found

    @property
    def missing(self) -> list[tuple[str, int]]:
        """(label, seed) of the runs that are not there."""
        places = ((label, seed) for label, trial in self.trials.items() for seed in trial.seeds)
        return [place for place in places if place not in self.traces]

    @property
    def unit(self) -> str:
        """What the horizontal axis counts: "episodes" or "steps"."""
        return self.settings["unit"]

    @property
    def change_at(self) -> list[int]:
        """Where the problem changes."""
        return list(self.settings["change_at"])

    @property
    def measure(self) -> str:
        """What agents are compared by: "regret" of the whole run, or where that is unknown the mean "return"."""
        return "return" if self.settings["regret"] == "none" else "regret"

    def curves(self, label: str, what: str = "regret") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(ends, values of shape (seeds, points)) of "regret", "returns" or "likelihood"."""
        _validate.one_of("what", what, ["regret", "returns", "likelihood"])
        traces = self._traces(label)
        ends, values = traces[0].ends, [getattr(each, what) for each in traces]
        if not all(np.array_equal(each.ends, ends) for each in traces):
            # Episodes of a run that is counted in steps end at other steps for each seed: take the one under way.
            ends = np.linspace(0, self.settings["length"], POINTS + 1).astype(np.int64)[1:]
            under_way = [np.minimum(np.searchsorted(each.ends, ends), len(each.ends) - 1) for each in traces]
            values = [curve[places] for curve, places in zip(values, under_way, strict=True)]
        return ends, np.stack(values)

    def band(self, label: str, what: str = "regret") -> tuple[NDArray[np.int64], Band]:
        """The mean curve over seeds and its 95 % interval."""
        ends, values = self.curves(label, what)
        return ends, statistics.band(values)

    def final_regret(self, label: str) -> dict[int, float]:
        """The regret of the whole run, by seed."""
        return {seed: float(self.traces[label, seed].regret[-1]) for seed in self.seeds_of(label)}

    def final(self, label: str) -> dict[int, float]:
        """The measure of each run, by seed: its regret, or its mean return where regret is unknown."""
        if self.measure == "regret":
            return self.final_regret(label)
        return {seed: self.traces[label, seed].mean_return for seed in self.seeds_of(label)}

    def losses(self, label: str) -> dict[int, float]:
        """`final` with a sign such that less is better."""
        sign = 1.0 if self.measure == "regret" else -1.0
        return {seed: sign * value for seed, value in self.final(self._known(label)).items()}

    def probability_of_improvement(self, ours: str, theirs: str) -> Interval:
        """The probability that a run of `ours` ends better than one of `theirs`, with its interval."""
        x, y = (list(self.losses(label).values()) for label in (ours, theirs))
        return statistics.probability_of_improvement(x, y)

    def groups(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Agents of a sweep before parameters were varied: group -> label -> the values varied."""
        grouped: dict[str, dict[str, dict[str, Any]]] = {}
        for label in self.labels:
            agent = self.settings["agents"][label]
            grouped.setdefault(agent.get("group", label), {})[label] = agent.get("varied", {})
        return grouped

    @property
    def is_sweep(self) -> bool:
        """Whether some agent runs with several values, so that there is a best one to choose."""
        return any(len(members) > 1 for members in self.groups().values())

    def best(self, choose_on: Sequence[int] | None = None, report_on: Sequence[int] | None = None) -> dict[str, Choice]:
        """For each agent of a sweep the best values, chosen on some seeds and reported on others (half and half)."""
        if (choose_on is None) != (report_on is None):
            raise ValueError("give both choose_on and report_on, or neither to split the seeds in half")
        if choose_on is None or report_on is None:
            labels = self.labels
            complete = [s for s in self.settings["seeds"] if all((label, s) in self.traces for label in labels)]
            choose_on, report_on = statistics.halves(complete)
        best = {}
        for group, members in self.groups().items():
            losses = {label: self.losses(label) for label in members}
            choice = statistics.best_parameter(losses, choose_on=choose_on, report_on=report_on)
            finals = self.final(choice.value)
            best[group] = choice._replace(
                result=statistics.mean_interval([finals[seed] for seed in choice.reported_on])
            )
        return best

    # ---- tables ---------------------------------------------------------------------------------------

    def frame(self, points: int | None = POINTS) -> "pd.DataFrame":
        """Tidy curves, one row per agent, seed and point; `points=None` gives every episode."""
        import pandas as pd

        parts = []
        for label, seed in self.traces:
            thin = self.traces[label, seed] if points == POINTS else trace(self.load_run(label, seed), points)
            columns: dict[str, Any] = {"agent": label, **self._varied(label), "seed": seed}
            columns |= {self.unit[:-1]: thin.ends, "phase": np.searchsorted(self.change_at, thin.ends - 1, "right")}
            columns |= {"return": thin.returns, "regret": thin.regret, "likelihood": thin.likelihood}
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def finals(self) -> "pd.DataFrame":
        """One row per run: final regret, mean return, regret per phase, steps and seconds."""
        import pandas as pd

        return pd.DataFrame(
            {"agent": label, **self._varied(label), "seed": seed, "regret": float(each.regret[-1])}
            | {"return": each.mean_return}
            | {f"regret_phase_{number}": value for number, value in enumerate(each.phase_regret)}
            | {"alarms": len(each.alarms), "false_alarms": each.false_alarms}
            | {"steps": each.steps, "seconds": each.seconds}
            for (label, seed), each in self.traces.items()
        )

    def summary(self) -> "pd.DataFrame":
        """One row per agent: its mean and median with 95 % intervals, its worst runs, regret per phase, time.

        `worst_decile` is the quantile that a tenth of the runs is worse than, and `worst` the worst run. Where
        `heavy_tail` is true, a few runs decide the mean: compare medians then. `seconds` is the wall time of a run,
        without compilation.
        """
        import pandas as pd

        rows = [self._summary_row(label) for label in self.labels]
        return pd.DataFrame(rows).set_index("agent") if rows else pd.DataFrame()

    def alarms_of(self, label: str) -> dict[int, tuple[int, ...]]:
        """The episodes or steps in which an agent gave an alarm, by seed."""
        label = self._known(label)
        return {seed: self.traces[label, seed].alarms for seed in self.seeds_of(label)}

    def alarms(self) -> "pd.DataFrame":
        """One row per agent that gave an alarm: how many seeds found each change, how soon, and the false alarms.

        A delay is counted from the change to the first alarm after it; all other alarms are false ones.
        """
        import pandas as pd

        rows = []
        for label in self.labels:
            traces = self._traces(label)
            if not any(each.alarms for each in traces):
                continue
            row: dict[str, Any] = {"agent": label, "runs": len(traces)}
            for number, change in enumerate(self.change_at):
                found = [delay for each in traces if (delay := each.delays[number]) is not None]
                row[f"found_{change}"] = len(found)
                row[f"median_delay_{change}"] = float(np.median(found)) if found else float("nan")
            steps = sum(each.steps for each in traces)
            false = sum(each.false_alarms for each in traces)
            rows.append(row | {"false_alarms": false, "per_million_steps": 1e6 * false / steps})
        return pd.DataFrame(rows).set_index("agent") if rows else pd.DataFrame()

    def _summary_row(self, label: str) -> dict[str, Any]:
        traces = self._traces(label)
        finals = list(self.final(label).values())
        mean = statistics.mean_interval(finals)
        row: dict[str, Any] = {"agent": label, **self._varied(label), "runs": len(traces), self.measure: mean.value}
        middle, losses = statistics.median_interval(finals), list(self.losses(label).values())
        sign = 1.0 if self.measure == "regret" else -1.0
        row |= {"low": mean.low, "high": mean.high, "heavy_tail": statistics.heavy_tail(finals)}
        row |= {"median": middle.value, "median_low": middle.low, "median_high": middle.high}
        row |= {"worst_decile": sign * float(np.quantile(losses, 0.9)), "worst": sign * max(losses)}
        row |= {"iqm": float(statistics.interquartile_mean(finals))}
        phases = np.array([each.phase_regret for each in traces]).mean(axis=0) if self.measure == "regret" else ()
        row |= {f"regret_phase_{number}": float(value) for number, value in enumerate(phases)}
        seconds = float(np.mean([each.seconds for each in traces]))
        steps = float(np.mean([each.steps for each in traces]))
        return row | {"seconds": seconds, "steps_per_second": steps / seconds if seconds else float("nan")}

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        what: str | None = None,
        ax: Any = None,
        style: str | Mapping[str, Any] | None = None,
    ) -> Any:
        """Draw the comparison; a notebook shows the picture by itself.

        Parameters
        ----------
        path : path, optional
            Also write the picture there, as PNG and SVG.
        what : {"regret", "returns", "likelihood", "overview", "final"}, optional
            Cumulative regret by default, or the returns where regret is unknown.
        ax : matplotlib Axes, optional
            Draw there, not in a figure of its own; not for "overview".
        style : str or mapping, optional
            A style of matplotlib, or rcParams. They, and rcParams that you have set, win over those of this library.

        Returns
        -------
        Figure or Axes
            The figure, or `ax` where it was given.
        """
        from dqucb.experiments import plots

        return plots.draw(self, path, what, ax, style)

    def _traces(self, label: str) -> list[Trace]:
        label = self._known(label)
        return [self.traces[label, seed] for seed in self.seeds_of(label)]

    def _known(self, label: str) -> str:
        return _validate.known("agent of this comparison", label, self.labels)

    def _varied(self, label: str) -> dict[str, Any]:
        return dict(self.settings["agents"][label].get("varied", {}))

    def _repr_html_(self) -> str:
        rows = []
        for label in self.labels:
            finals = list(self.final(label).values())
            mean = statistics.mean_interval(finals)
            interval = f"{mean.low:,.4g} .. {mean.high:,.4g}" if mean.is_known else why_no_interval(len(finals))
            interval += " (heavy tail)" * statistics.heavy_tail(finals)
            worst = max(finals) if self.measure == "regret" else min(finals)
            median = f"{np.median(finals):,.6g}"
            rows.append((label, len(finals), f"{mean.value:,.6g}", interval, median, f"{worst:,.6g}"))
        headings = ("agent", "runs", f"mean {self.measure}", "95 % interval", "median", "worst run")
        return _html.table(repr(self), headings, rows)

    def __repr__(self) -> str:
        agents = ", ".join(self.labels)
        missing = f", {len(self.missing)} missing" if self.missing else ""
        problem = self.settings["problem"].get("problem")
        return f"Comparison({agents} on {problem}, {len(self.traces)} runs{missing})"
