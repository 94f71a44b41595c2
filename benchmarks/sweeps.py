"""Time per step and bytes of every agent as one size grows: the measurements behind the report and Figure 4.

Cells of a sweep are timed in turn, round after round, each beside the C ceiling, and the fastest round counts: on a
shared machine a slow round says something about the neighbours only. A cell whose time or memory, predicted
from the cell before it, is beyond the budget is skipped, and the record says so.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import workloads
from benchmarks.ceiling import run_ceiling
from benchmarks.reference import run_refit
from benchmarks.workloads import SCOPES, Timed

REFIT = "refit reference"
C_LOOP = "QUCB in C"


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    windows: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 60_000)
    refit_windows: tuple[int, ...] = (100, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
    states: tuple[int, ...] = (49, 100, 225, 484, 1_024, 3_025, 10_000)
    endless_states: tuple[int, ...] = (49, 225, 1_024, 3_025, 10_000, 99_856, 1_000_000)
    episodes: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    seeds: tuple[int, ...] = (1, 2, 4, 8)
    window_episodes: dict[str, int] = field(default_factory=lambda: {"pair": 20_000, "step": 10_000, "shared": 2_000})
    state_episodes: int = 10_000
    planner_episodes: int = 300  # by S, of agents whose steps are long
    endless_steps: int = 100_000
    seed_episodes: int = 10_000
    refit_steps: int = 30
    rounds: int = 2
    seconds_budget: float = 4.0
    bytes_budget: float = 1.5e9


QUICK = Settings(
    windows=(1, 10, 100, 1_000),
    refit_windows=(100, 1_000, 2_000, 4_000),
    states=(49, 225, 1_024),
    endless_states=(49, 225, 1_024),
    episodes=(100, 300, 1_000),
    seeds=(1, 2, 3),
    window_episodes={"pair": 2_000, "step": 500, "shared": 100},
    state_episodes=300,
    planner_episodes=100,
    endless_steps=2_000,
    seed_episodes=300,
    refit_steps=10,
    rounds=1,
    seconds_budget=2.0,
    bytes_budget=2e8,
)


class Series(NamedTuple):
    """One line of a plot: how to measure it at x, and how its cost is expected to grow with x."""

    sweep: str
    workload: str
    name: str
    sizes: tuple[int, ...]
    measure: Callable[[int], Timed]
    growth: float  # of the seconds of a cell, to predict the next one; bytes are taken to grow like x


@dataclass
class Record:
    """One cell of the report."""

    sweep: str
    workload: str
    series: str
    x: int
    seconds_per_step: float | None = None
    to_ceiling: float | None = None  # the same in units of the C loop's step on GridWorld, timed next to it
    nbytes: int | None = None
    steps: int | None = None
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def window_series(settings: Settings) -> Iterator[Series]:
    """By n: DQUCB of each scope on both workloads, and the refit reference."""
    problems: dict[str, Callable[[int], Any]] = {
        "GridWorld": workloads.grid_problem,
        "FrozenLake": workloads.lake_problem,
    }
    for workload, build in problems.items():
        for scope in SCOPES:
            episodes = settings.window_episodes[scope] // (5 if workload == "FrozenLake" else 1)  # H = 500, not 100
            problem = build(episodes)

            def measure(n: int, problem: Any = problem, episodes: int = episodes, scope: str = scope) -> Timed:
                return workloads.train(workloads.agent("DQUCB", window=n, scope=scope), problem, episodes)

            yield Series("n", workload, f"DQUCB {scope}", settings.windows, measure, 0.5)

        small = build(10)

        def refit(n: int, problem: Any = small) -> Timed:
            return Timed(*run_refit(problem, settings.refit_steps, window=n, full=True)[:3])

        yield Series("n", workload, REFIT, settings.refit_windows, refit, 1.0)


def state_series(settings: Settings) -> Iterator[Series]:
    """By S: every agent on square GridWorlds, at n = 100."""
    names = {
        "DQUCB pair": ("DQUCB", {}, 0.3),
        "QUCB": ("QUCB", {}, 0.3),
        "UCBVI": ("UCBVI", {}, 1.0),
        "UCBVI real time": ("UCBVI real time", {}, 0.5),
        "UCBMQ": ("UCBMQ", {}, 1.5),
        "QUCB shared steps": ("QUCB", {"stage_dependent": False}, 0.3),
        "DQUCB shared steps": ("DQUCB", {"stage_dependent": False}, 0.3),
        "UCBVI shared steps": ("UCBVI", {"stage_dependent": False}, 1.0),
        "PlanningDQUCB": ("PlanningDQUCB", {}, 1.0),
    }
    fast = ("DQUCB pair", "QUCB", "UCBVI real time")
    for label, (name, given, growth) in names.items():
        episodes = settings.state_episodes if label in fast else settings.planner_episodes

        def measure(S: int, name: str = name, given: dict[str, Any] = given, episodes: int = episodes) -> Timed:
            problem = workloads.square_grid(S, episodes)
            return workloads.train(workloads.agent(name, **given), problem, episodes)

        yield Series("S", "square GridWorlds", label, settings.states, measure, growth)

    def c_loop(S: int) -> Timed:  # a control: what caches alone do to the smallest possible step
        episodes = settings.state_episodes
        run = run_ceiling(workloads.square_grid(S, episodes), episodes)
        return Timed(run.seconds, 100 * episodes, run.Q.nbytes + run.V.nbytes + run.visits.nbytes)

    yield Series("S", "square GridWorlds", C_LOOP, settings.states, c_loop, 0.3)

    def refit(S: int) -> Timed:
        return Timed(*run_refit(workloads.square_grid(S, 10), settings.refit_steps, window=100, full=True)[:3])

    yield Series("S", "square GridWorlds", REFIT, settings.states, refit, 0.3)


def endless_series(settings: Settings) -> Iterator[Series]:
    """By S without episodes, where a million states fit into memory: agents that take a discount, at n = 100."""
    for name, growth in (("DQUCB", 0.3), ("QUCB", 0.3), ("PlanningDQUCB", 0.3)):

        def measure(S: int, name: str = name) -> Timed:
            return workloads.train(workloads.agent(name), workloads.endless_grid(S), settings.endless_steps)

        yield Series("S", "GridWorlds without episodes", name, settings.endless_states, measure, growth)


def episode_series(settings: Settings) -> Iterator[Series]:
    """By K: every agent on GridWorld, at n = 100."""
    names: dict[str, tuple[str, dict[str, Any]]] = {
        **{f"DQUCB {scope}": ("DQUCB", {"scope": scope}) for scope in SCOPES},
        **{name: (name, {}) for name in ("QUCB", "UCBVI", "UCBMQ", "PlanningDQUCB")},
        **{f"{name} shared steps": (name, {"stage_dependent": False}) for name in ("QUCB", "DQUCB", "UCBVI")},
    }
    for label, (name, given) in names.items():

        def measure(K: int, name: str = name, given: dict[str, Any] = given) -> Timed:
            return workloads.train(workloads.agent(name, **given), workloads.grid_problem(K), K)

        yield Series("K", "GridWorld", label, settings.episodes, measure, 1.0)


def seed_series(settings: Settings) -> Iterator[Series]:
    """By seeds, run one after the other: nothing of one run may slow the next or stay in memory."""
    problem = workloads.grid_problem(settings.seed_episodes)
    for name in ("DQUCB", "QUCB", "UCBVI", "UCBMQ", "PlanningDQUCB"):

        def measure(seeds: int, name: str = name) -> Timed:
            runs = [
                workloads.train(workloads.agent(name), problem, settings.seed_episodes, seed) for seed in range(seeds)
            ]
            return Timed(sum(r.seconds for r in runs), sum(r.steps for r in runs), max(r.nbytes for r in runs))

        yield Series("seeds", "GridWorld", name, settings.seeds, measure, 1.0)


def all_state_series(settings: Settings) -> Iterator[Series]:
    """By S, with a horizon and without."""
    yield from state_series(settings)
    yield from endless_series(settings)


SWEEPS = {"n": window_series, "S": all_state_series, "K": episode_series, "seeds": seed_series}


def run_series(series: Series, settings: Settings, ceiling: Callable[[], float]) -> list[Record]:
    """All cells of one series; the first is run once unmeasured, so that no time holds a compilation."""
    records = [Record(series.sweep, series.workload, series.name, x) for x in series.sizes]
    known: tuple[int, float, float] | None = None  # size, seconds and bytes of the last cell that ran
    feasible = []
    if series.name != REFIT:
        series.measure(series.sizes[0])
    for record in records:
        if known is not None:
            factor = record.x / known[0]
            seconds, nbytes = known[1] * factor**series.growth, known[2] * factor
            if seconds > settings.seconds_budget:
                record.skipped = f"about {seconds:.0f} s a run, budget {settings.seconds_budget:g} s"
            elif nbytes > settings.bytes_budget:
                record.skipped = f"about {nbytes / 1e9:.1f} GB, budget {settings.bytes_budget / 1e9:g} GB"
        if record.skipped:
            continue
        timed = _timed(record, series, ceiling)
        known = (record.x, timed.seconds, timed.nbytes)
        if timed.seconds < settings.seconds_budget / 3:
            feasible.append(record)
    for _ in range(settings.rounds - 1):
        for record in feasible:
            _timed(record, series, ceiling)
    return records


def _timed(record: Record, series: Series, ceiling: Callable[[], float]) -> Timed:
    unit = ceiling()
    timed = series.measure(record.x)
    if record.seconds_per_step is None or timed.per_step < record.seconds_per_step:
        record.seconds_per_step = timed.per_step
        record.to_ceiling = timed.per_step / unit
    record.nbytes, record.steps = timed.nbytes, timed.steps
    return timed


def ceiling_step() -> float:
    """Seconds per step of the C loop on GridWorld, measured now."""
    episodes = workloads.GRID_EPISODES
    return run_ceiling(workloads.grid_problem(episodes), episodes).seconds / (episodes * 100)


def peak_memory(episodes: int) -> int:
    """Peak bytes of a fresh process that trains DQUCB on GridWorld for this many episodes.

    Linux counts the parent's memory before exec into ru_maxrss, so its own high-water mark is read there.
    """
    code = (
        "import resource, sys, pathlib\n"
        "from benchmarks import workloads\n"
        f"run = workloads.agent('DQUCB').train(workloads.grid_problem({episodes}), episodes={episodes})\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024)\n"
        "if status.exists():\n"
        "    peak = 1024 * int(status.read_text().split('VmHWM:')[1].split()[0])\n"
        "print(peak)\n"
    )
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def curve_bytes(episodes: int) -> int:
    """Bytes of the curves of a run: five arrays of eight bytes per episode."""
    return 5 * 8 * episodes
