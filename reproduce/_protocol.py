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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np

from dqucb.agents import DQUCB, QUCB, UCBMQ, UCBVI, Agent
from dqucb.run import versions
from dqucb.experiments import Comparison, statistics, sweep
from dqucb.experiments.catalog import known
from dqucb.problems import Problem

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
    problem: Problem
    episodes: int
    runs: Comparison
    report_on: tuple[int, ...]
    choose_on: tuple[int, ...]
    scales: tuple[float, ...]
    agents: tuple[str, ...]

    def label(self, agent: str, scale: float) -> str:
        """The runs of an agent at one c."""
        return f"{agent} bonus_scale={scale}"

    def final(self, label: str) -> np.ndarray:
        """Final regret on the reporting seeds."""
        by_seed = self.runs.final_regret(label)
        return np.array([by_seed[seed] for seed in self.report_on])

    def same(self) -> dict[str, str]:
        """Agent -> its runs at the small c."""
        scale = SMALL if SMALL in self.scales else self.scales[0]
        return {agent: self.label(agent, scale) for agent in self.agents}

    def best(self) -> dict[str, str]:
        """Agent -> its runs at its own best c, chosen on the other seeds."""
        return {agent: choice.value for agent, choice in self.runs.best(self.choose_on, self.report_on).items()}

    def scale_of(self, label: str) -> float:
        """The c of these runs."""
        return float(self.runs.settings["agents"][label]["varied"]["bonus_scale"])


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

    def panel(
        self,
        title: str,
        build: Callable[[int], Problem],
        episodes: int,
        agents: Mapping[str, Agent] | None = None,
        scales: Iterable[float] = SCALES,
    ) -> Panel:
        """Run (or find) every agent at every c on the problem that `build(episodes)` makes."""
        chosen = dict(agents or paper_agents())
        length = min(episodes, 600) if self.quick else episodes
        values = QUICK_SCALES if self.quick else tuple(scales)
        problem = build(length)
        folder = "".join(letter if letter.isalnum() else "-" for letter in title.lower())
        runs = sweep(
            chosen,
            problem,
            {"bonus_scale": list(values)},
            length,
            seeds=[*self.report_on, *self.choose_on],
            jobs=self.arguments.jobs,
            out=self.out / "runs" / folder,
            progress=True,
            command=f"python reproduce/{self.name}.py",
        )
        return Panel(title, problem, length, runs, self.report_on, self.choose_on, values, tuple(chosen))

    def do(self, work: Callable[[Any], str], parts: Sequence[Any]) -> None:
        """Train the parts, in processes if there are several jobs, and print the line that each returns."""
        jobs = min(self.arguments.jobs if self.arguments.jobs > 0 else cpu_count() or 1, len(parts))
        # torch and fork do not go together
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else nullcontext()
        with pool as processes:
            lines = map(work, parts) if processes is None else processes.map(work, parts)
            for number, line in enumerate(lines, 1):
                print(f"[{number}/{len(parts)}] {line}", flush=True)

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


def ratio(panel: Panel, ours: str, theirs: str) -> dict[str, Any]:
    """Our mean final regret over theirs, and how often a run of ours ends lower, with its 95 % interval."""
    x, y = panel.final(ours), panel.final(theirs)
    lower = statistics.probability_lower(x, y)
    return {
        "ours": ours,
        "theirs": theirs,
        "mean_ours": round(float(x.mean()), 1),
        "mean_theirs": round(float(y.mean()), 1),
        "ratio": round(float(x.mean() / y.mean()), 3),
        "probability_lower": [round(value, 3) for value in lower],
    }


def is_lower(measured: Mapping[str, Any]) -> bool:
    """Lower on average, and the interval of the probability of ending lower lies above one half."""
    return measured["ratio"] < 1.0 and measured["probability_lower"][1] > 0.5


def regret_claims(panel: Panel) -> list[Claim]:
    """The paper's claims about the four agents on one problem, at the same c and at each agent's best c."""
    claims = []
    for way, labels in (("at the same c", panel.same()), ("each at its own best c", panel.best())):
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
    runs = [panel.runs.load_run(label, seed) for seed in panel.report_on]
    curves = np.array([run.likelihood for run in runs])
    edges = [*panel.problem.change_at, panel.episodes]
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
                "detection_delays": [run.detection_delays()[len(changes)] for run in runs],
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
    table = {
        label: {
            "mean": round(float(panel.final(label).mean()), 1),
            "std": round(float(panel.final(label).std(ddof=1)), 1),
        }
        for label in panel.runs.labels
    }
    return {
        "episodes": panel.episodes,
        "problem": panel.problem.description,
        "best": panel.best(),
        "final_regret": table,
    }


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
