"""The protocol that every regret figure follows.

The paper does not state its bonus scale c. So each figure sweeps c for every agent, and shows two comparisons: all
agents at the same c, and each agent at its own best c, chosen on five seeds and reported on ten others. Finished
runs are kept, so a script that was stopped goes on where it was.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, Agent, PlanningDQUCB, Run
from dqucb._validate import known
from dqucb.experiments import Comparison, compare
from dqucb.experiments.design import labelled, varied
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


SHARED_SCALES = (0.01, 0.03, 0.1, 0.3)  # of agents whose steps learn together: their best c is smaller


def paper_agents() -> dict[str, Agent]:
    """The four agents of the paper's tabular figures, all with the same form of bonus."""
    root: dict[str, Any] = {"bonus": "root"}
    return {"DQUCB": DQUCB(**PAPER_DQUCB), "QUCB": QUCB(**root), "UCBMQ": UCBMQ(**root), "UCBVI": UCBVI(**root)}


def shared_agents() -> dict[str, Agent]:
    """The same algorithms with steps that learn together, all with the paper's learning rate."""
    shared: dict[str, Any] = {"bonus": "root", "stage_dependent": False}
    return {
        "DQUCB shared": DQUCB(**{**PAPER_DQUCB, **shared}),
        "QUCB shared": QUCB(**shared),
        "UCBVI shared": UCBVI(**shared),
    }


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
        """Agent -> its runs at a common c (the smallest one if that was not swept), or its only runs.

        Agents whose steps learn together are left out: a c means something else to them.
        """
        found = {}
        for agent, members in self.runs.groups().items():
            if agent.endswith(" shared"):
                continue
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
        if agents is None:
            common = QUICK_SCALES if self.quick else SHARED_SCALES
            chosen |= varied(shared_agents(), {"bonus_scale": list(common)}) | labelled(
                {"PlanningDQUCB": PlanningDQUCB()}
            )
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
    seeds: int = 10,
) -> Figure:
    """Read the command line that all scripts share.

    `choices` are options that take some of the given words, `more` others: flag -> keywords of add_argument.
    """
    parser = argparse.ArgumentParser(prog=f"python reproduce/{name}.py", description=(doc or "").strip().split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; figures that mean nothing")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"seeds that are reported (default: {seeds})")
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
