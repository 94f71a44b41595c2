"""The protocol that every regret figure follows.

The paper does not state its bonus scale c. So each figure sweeps c for every agent, and shows two comparisons: all
agents at the same c, and each agent at its own best c, chosen on five seeds and reported on ten others. Finished
runs are kept, so a script that was stopped goes on where it was.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, Agent, Run
from dqucb._validate import known
from dqucb.experiments import Comparison, compare, statistics
from dqucb.experiments.design import varied
from dqucb.problems import Problem
from dqucb.run import versions

CHOOSE_ON = tuple(range(100, 105))
SCALES = (0.03, 0.1, 0.2, 0.5, 1.0, 3.0)  # a 100-fold range
SMALL = 0.2  # the c of the same-c comparison: where QUCB explores too little
QUICK_SCALES = (0.2, 1.0)


# The paper's algorithm: one window of 100 per (step, state, action), Gaussian kernel of bandwidth 1, its learning rate.
# What the paper leaves open is fixed here, so that figures do not change when the library's defaults do.
PAPER_DQUCB: dict[str, Any] = {
    "bonus": "root",
    "window": 100,
    "kernel": "gaussian",
    "bandwidth": 1.0,
    "scope": "pair",
    "likelihood": "normalized",
    "likelihood_floor": 0.1,
    "learning_rate_horizon": None,
}


def paper_agents() -> dict[str, Agent]:
    """The four agents of the paper's tabular figures, all with the same form of bonus."""
    root: dict[str, Any] = {"bonus": "root"}
    return {"DQUCB": DQUCB(**PAPER_DQUCB), "QUCB": QUCB(**root), "UCBMQ": UCBMQ(**root), "UCBVI": UCBVI(**root)}


@dataclass
class Claim:
    """A statement of the paper, what was measured, and whether it holds."""

    text: str
    holds: bool
    measured: dict[str, Any]


@dataclass
class Panel:
    """One problem of a figure and the runs on it."""

    title: str
    problem: Any
    runs: Comparison
    report_on: tuple[int, ...]
    choose_on: tuple[int, ...]

    @property
    def agents(self) -> list[str]:
        """The agents, whatever their c."""
        return list(self.runs.groups())

    @property
    def length(self) -> int:
        """Of each run."""
        return int(self.runs.settings["length"])

    def runs_of(self, label: str) -> list[Run]:
        """The runs of the reporting seeds."""
        return [self.runs.load_run(label, seed) for seed in self.report_on]

    def curves(self, label: str, name: str) -> np.ndarray:
        """A curve of each reporting seed, (seeds, records)."""
        return np.array([getattr(run, name) for run in self.runs_of(label)])

    def final(self, label: str, seeds: tuple[int, ...] | None = None) -> np.ndarray:
        """Final regret on the reporting seeds, or on others."""
        by_seed = self.runs.final_regret(label)
        return np.array([by_seed[seed] for seed in seeds or self.report_on])

    def same(self, scale: float = SMALL) -> dict[str, str]:
        """Agent -> its runs at a common c (the smallest one if that was not swept), or its only runs."""
        found = {}
        for agent, members in self.runs.groups().items():
            scales = {values.get("bonus_scale"): label for label, values in members.items()}
            found[agent] = scales.get(scale) or next(iter(scales.values()))
        return found

    def best(self) -> dict[str, str]:
        """Agent -> its runs at its own best c, chosen on the other seeds."""
        return {agent: choice.value for agent, choice in self.runs.best(self.choose_on, self.report_on).items()}

    def ways(self) -> dict[str, dict[str, str]]:
        """The two comparisons that every figure shows."""
        return {"at the same c": self.same(), "each at its own best c": self.best()}

    def scale_of(self, label: str) -> float | None:
        """The c of these runs, None for an agent without one."""
        return self.runs.settings["agents"][label]["varied"].get("bonus_scale")

    def table(self) -> dict[str, dict[str, Any]]:
        """Final regret of every agent at every c, in all and per phase, and what it took."""
        return {
            label: {
                "mean": round(float(self.final(label).mean()), 1),
                "std": spread(self.final(label)),
                "per_phase": np.mean([run.phase_regret() for run in self.runs_of(label)], axis=0).round(1).tolist(),
                "mean_on_choosing_seeds": round(float(self.final(label, self.choose_on).mean()), 1),
                "seconds_all_seeds": round(sum(each.seconds for (name, _), each in self.runs.traces.items()
                                               if name == label), 1),
            }
            for label in self.runs.labels
        }  # fmt: skip


def spread(values: np.ndarray) -> float:
    """The standard deviation over seeds; 0 for one."""
    return round(float(values.std(ddof=1)), 1) if len(values) > 1 else 0.0


@dataclass
class Figure:
    """The command line of a script, and what it has to write in the end."""

    name: str
    settings: Mapping[str, Any]
    arguments: argparse.Namespace
    began: float = field(default_factory=time.perf_counter)

    @property
    def out(self) -> Path:
        """The folder of this figure."""
        return Path(self.arguments.out) / self.name

    @property
    def quick(self) -> bool:
        """A run of seconds that shows that the script works; its figures mean nothing."""
        return bool(self.arguments.quick)

    @property
    def report_on(self) -> tuple[int, ...]:
        """The seeds that are reported."""
        return tuple(range(2 if self.quick else self.arguments.seeds))

    @property
    def choose_on(self) -> tuple[int, ...]:
        """The seeds on which parameters are chosen."""
        return CHOOSE_ON[:2] if self.quick else CHOOSE_ON

    @property
    def seeds(self) -> list[int]:
        """The seeds that are reported and those on which parameters are chosen."""
        return [*self.report_on, *self.choose_on]

    def compare(self, agents: Any, problem: Any, episodes: int | None = None, *, folder: str | Path = "",
                seeds: Iterable[int] | None = None, **options: Any) -> Comparison:  # fmt: skip
        """`dqucb.compare` with the seeds and jobs of the command line; runs are kept in `folder` below `out`."""
        return compare(
            agents,
            problem,
            episodes,
            seeds=list(self.report_on if seeds is None else seeds),
            jobs=self.arguments.jobs,
            out=self.out / ("quick_runs" if self.quick else "runs") / folder,
            command=f"python reproduce/{self.name}.py",
            **{"progress": True, **options},
        )

    def panel(
        self,
        title: str,
        build: Callable[[int], Problem],
        episodes: int,
        agents: Mapping[str, Agent] | None = None,
        scales: Iterable[float] = SCALES,
    ) -> Panel:
        """Run (or find) every agent at every c on the problem that `build(episodes)` makes."""
        length = min(episodes, 600) if self.quick else episodes
        values = QUICK_SCALES if self.quick else tuple(scales)
        problem = build(length)
        folder = "".join(letter if letter.isalnum() else "-" for letter in title.lower())
        chosen = varied(agents or paper_agents(), {"bonus_scale": list(values)})
        runs = self.compare(chosen, problem, length, folder=folder, seeds=self.seeds)
        return Panel(title, problem, runs, self.report_on, self.choose_on)

    def write(self, claims: Iterable[Claim], results: Mapping[str, Any]) -> Path:
        """Write the JSON verdict and print it."""
        verdicts = list(claims)
        content = {
            "figure": self.name,
            "quick": self.quick,
            "settings": self.settings,
            "versions": versions(),
            "report_on": self.report_on,
            "choose_on": self.choose_on,
            "seconds": round(time.perf_counter() - self.began, 1),
            "claims": [vars(claim) for claim in verdicts],
            "results": results,
        }
        path = self.out / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_known(content), indent=2, allow_nan=False) + "\n")
        for claim in verdicts:
            print(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}")
            print(f"    {json.dumps(claim.measured, default=_plain)}")
        print(f"wrote {path}")
        return path


def begin(
    name: str,
    doc: str | None,
    settings: Mapping[str, Any],
    choices: Mapping[str, Iterable[str]] | None = None,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> Figure:
    """Read the command line that all scripts share.

    `choices` are options that take some of the given words, `more` others: flag -> keywords of add_argument.
    """
    parser = argparse.ArgumentParser(prog=f"python reproduce/{name}.py", description=(doc or "").strip().split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; figures that mean nothing")
    parser.add_argument("--seeds", type=int, default=10, help="seeds that are reported (default: 10)")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: one per core)")
    parser.add_argument("--out", default="out/reproduce", help="folder for runs, pictures and the JSON verdict")
    for option, words in (choices or {}).items():
        listed = ", ".join(words)
        parser.add_argument(f"--{option}", default=None, help=f"some of these, with commas (default: all): {listed}")
    for flag, keywords in (more or {}).items():
        parser.add_argument(flag, **keywords)
    arguments = parser.parse_args()
    for option, words in (choices or {}).items():
        given = getattr(arguments, option)
        chosen = list(words) if given is None else [known(option, word.strip(), words) for word in given.split(",")]
        setattr(arguments, option, chosen)
    return Figure(name, settings, arguments)


def mean_ranks(table: np.ndarray) -> np.ndarray:
    """The mean over columns of the rank of each row, the lowest value first; ties share the mean of their ranks."""
    lower = (table[None] < table[:, None]).sum(axis=1)
    equal = (table[None] == table[:, None]).sum(axis=1)
    return (lower + (equal + 1) / 2).mean(axis=1)


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """Two means, their ratio, and how often a run of ours ends lower, with its 95 % interval."""
    positive = theirs.mean() > 0  # a ratio means nothing where regret is negative
    return {
        "mean_ours": round(float(ours.mean()), 1),
        "mean_theirs": round(float(theirs.mean()), 1),
        "ratio": round(float(ours.mean() / theirs.mean()), 3) if positive else None,
        "probability_lower": [round(value, 3) for value in statistics.probability_lower(ours, theirs)],
    }


def ratio(panel: Panel, ours: str, theirs: str) -> dict[str, Any]:
    """`compared` for the final regret of two labels."""
    return {"ours": ours, "theirs": theirs, **compared(panel.final(ours), panel.final(theirs))}


def is_lower(measured: Mapping[str, Any]) -> bool:
    """Lower on average, and the interval of the probability of ending lower lies above one half."""
    return measured["mean_ours"] < measured["mean_theirs"] and measured["probability_lower"][1] > 0.5


def band_delays(run: Run, reference: int = 500, sigmas: float = 4.0) -> list[int | None]:
    """How long after each change the likelihood first leaves its normal band, in episodes or steps.

    The band is the mean plus and minus `sigmas` standard deviations over the last `reference` records before the
    change; None if the likelihood stays in it until the next change or the end.
    """
    delays: list[int | None] = []
    for change, end in itertools.pairwise([*run.change_at, int(run.ends[-1])]):
        first, last = np.searchsorted(run.ends, [change, end], side="right")
        before = run.likelihood[max(0, first - reference) : first]
        # A deterministic phase has no spread at all; rounding alone must not count.
        width = sigmas * float(before.std()) + 1e-9 if len(before) > 1 else np.inf
        hits = np.flatnonzero(np.abs(run.likelihood[first:last] - before.mean()) > width) if len(before) > 1 else []
        starts = np.concatenate([[0], run.ends[:-1]])
        delays.append(int(starts[first + hits[0]] - change) if len(hits) else None)
    return delays


def regret_claims(panel: Panel) -> list[Claim]:
    """The paper's claims about the four agents on one problem, at the same c and at each agent's best c."""
    claims = []
    for way, labels in panel.ways().items():
        for text, ours, theirs in (
            ("DQUCB ends with less regret than QUCB", "DQUCB", "QUCB"),
            ("DQUCB ends with more regret than UCBVI", "UCBVI", "DQUCB"),
            ("DQUCB is competitive with UCBMQ (at most 1.1 times its regret)", "DQUCB", "UCBMQ"),
        ):
            if ours not in labels or theirs not in labels:
                continue
            measured = ratio(panel, labels[ours], labels[theirs])
            holds = measured["ratio"] <= 1.1 if "competitive" in text else is_lower(measured)
            claims.append(Claim(f"{panel.title}: {text}, {way}", bool(holds), measured))
    return [*claims, *likelihood_claims(panel)]


def likelihood_claims(panel: Panel, agent: str = "DQUCB") -> list[Claim]:
    """Whether the likelihood falls at every change and rises again, and how soon it left its normal band.

    It falls if the first episodes of a phase have less than the last ones before it, on at least nine seeds of
    ten; it rises again if the end of the phase has more than its lowest stretch, on as many. Where that stretch lies
    is read from one half of the seeds for the other, or chance alone would find one.
    """
    label = panel.same()[agent]
    runs = panel.runs_of(label)
    curves = np.array([run.likelihood for run in runs])
    edges = [*panel.runs.change_at, panel.length]
    changes = []
    for change, end in itertools.pairwise(edges):
        few = max(1, min(100, (end - change) // 10))
        before = curves[:, max(0, change - 5 * few) : change].mean(axis=1)
        first, last = curves[:, change : change + few].mean(axis=1), curves[:, end - 5 * few : end].mean(axis=1)
        sums = np.cumsum(np.pad(curves[:, change:end], ((0, 0), (1, 0))), axis=1)
        stretches = (sums[:, few:] - sums[:, :-few]) / few
        halves = (slice(0, None, 2), slice(1, None, 2))
        lowest = np.empty(len(runs))
        for half, other in (halves, halves[::-1]):
            lowest[half] = stretches[half, stretches[other].mean(axis=0).argmin()]
        changes.append(
            {
                "change_at": change,
                "before": round(float(before.mean()), 4),
                "first_episodes": round(float(first.mean()), 4),
                "lowest_stretch": round(float(lowest.mean()), 4),
                "end_of_phase": round(float(last.mean()), 4),
                "seeds_fallen": int((first < before).sum()),
                "seeds_recovered": int((last > lowest).sum()),
                "detection_delays": [band_delays(run)[len(changes)] for run in runs],
            }
        )
    most = 0.9 * len(runs)
    measured = {"runs": label, "changes": changes}
    fallen, recovered = (all(c[name] >= most for c in changes) for name in ("seeds_fallen", "seeds_recovered"))
    return [
        Claim(f"{panel.title}: the likelihood falls at every change point", bool(changes) and fallen, measured),
        Claim(
            f"{panel.title}: the likelihood rises again within each new phase", bool(changes) and recovered, measured
        ),
    ]


def regret_results(panel: Panel) -> dict[str, Any]:
    """The numbers behind a panel's pictures."""
    table = {label: {name: row[name] for name in ("mean", "std")} for label, row in panel.table().items()}
    settings = panel.runs.settings
    return {
        "episodes": panel.length, "problem": settings["problem"], "best": panel.best(), "final_regret": table,
    }  # fmt: skip


def _known(value: Any) -> Any:
    """The value in JSON's own types; what is not a number, such as the interval of one seed, is null."""
    if isinstance(value, Mapping):
        return {str(key): _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_known(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)
