"""The seeded workloads that every benchmark shares, and the one way in which all of them are timed."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from time import sleep, thread_time
from typing import Any, NamedTuple

import numpy as np

from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, PlanningDQUCB
from dqucb._kernels.learners.planning.plan_workspace import Workspace
from dqucb._kernels.window_pools import DiscreteWindows
from dqucb.agents.checkpoint import leaves
from dqucb.density.discrete import bytes_of
from dqucb.problems import frozen_lake, gridworld

SEED = 0
GRID = {"rows": 5, "cols": 10, "horizon": 100}
GRID_EPISODES = 50_000  # of the GridWorld on which speeds are stated: long enough to meet most of its pairs
SCOPES = ("pair", "step", "shared")


class Timed(NamedTuple):
    """One run of an agent: what it took and what it holds."""

    seconds: float
    steps: int
    nbytes: int

    @property
    def per_step(self) -> float:
        """Seconds per step."""
        return self.seconds / self.steps


def grid_problem(episodes: int, **changes: Any) -> Any:
    """GridWorld as in the paper, with the shift in the middle of the run."""
    return gridworld(noise=(0.01, 0.2), change_at=(max(1, episodes // 2),), **{**GRID, **changes})


def lake_problem(episodes: int) -> Any:
    """FrozenLake as in the paper, with the two shifts at thirds of the run."""
    first, second = max(1, episodes // 3), max(2, 2 * episodes // 3)
    return frozen_lake(slip=(0, 1 / 2, 2 / 3), change_at=(first, second), horizon=500)


def square_grid(n_states: int, episodes: int) -> Any:
    """A square GridWorld of about `n_states` states; a horizon of 100 and noise as in the paper."""
    side = round(n_states**0.5)
    return grid_problem(episodes, rows=side, cols=side)


@lru_cache(maxsize=8)  # a million states take longer to make than to learn in
def endless_grid(n_states: int) -> Any:
    """The same with a discount of 0.9 and without episodes, which never changes."""
    side = round(n_states**0.5)
    return gridworld(noise=0.2, rows=side, cols=side, discount=0.9)


def agent(name: str, **settings: Any) -> Any:
    """A fresh agent by its name in tables: DQUCB, QUCB, UCBVI, UCBVI real time, UCBMQ, PlanningDQUCB."""
    makers: Mapping[str, Callable[..., Any]] = {
        "DQUCB": DQUCB,
        "QUCB": QUCB,
        "UCBVI": UCBVI,
        "UCBVI real time": lambda **given: UCBVI(planning="real_time", **given),
        "UCBMQ": UCBMQ,
        "PlanningDQUCB": PlanningDQUCB,
    }
    return makers[name](**settings)


def train(learner: Any, problem: Any, length: int, seed: int = SEED) -> Timed:
    """Train once, for so many episodes or steps. Both clocks bound the loop's time from above: the run's own counts
    waiting for a busy core, that of the thread counts making the tables; the smaller one is taken."""
    unit = "steps" if problem.horizon is None else "episodes"
    for phase in range(problem.n_phases):  # the optimum that regret is counted from is no part of a step
        problem.optimal_values(phase)
    # Not timed: a window above 65,536 has wider rings, and so machine code of its own, which may not be compiled yet.
    shortest: dict[str, Any] = {unit: max(problem.change_at, default=0) + 1}
    type(learner)(**learner.parameters()).train(problem, stop_at=1, seed=seed, **shortest)
    wanted: dict[str, Any] = {unit: length}
    began = thread_time()
    run = learner.train(problem, seed=seed, **wanted)
    return Timed(min(run.seconds, thread_time() - began), run.steps, agent_bytes(learner))


def agent_bytes(learner: Any) -> int:
    """Bytes of the tables that an agent holds: of pools that grow, the used part."""
    total = 0
    for name, table in leaves("learner", learner._started().learner):
        if isinstance(table, DiscreteWindows):
            total += bytes_of(table)
        elif name == "learner.bias":  # UCBMQ reserves rows ahead
            total += int(learner._started().learner.used[0]) * table.shape[1] * table.itemsize
        elif isinstance(table, np.ndarray):
            total += table.nbytes
        elif isinstance(table, Workspace):
            total += sum(part.nbytes for part in table)
    return total


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, the idlest, while it is timed, where the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before, key=idle_ticks())})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def idle_ticks() -> Callable[[int], int]:
    """How idle each core was over the last moment; all alike where the system does not say."""

    def read() -> dict[int, int]:
        stat = Path("/proc/stat")
        lines = [line.split() for line in stat.read_text().splitlines()] if stat.exists() else []
        return {int(words[0][3:]): int(words[4]) for words in lines if words[0][3:].isdigit()}

    first = read()
    sleep(0.2)
    second = read()
    return lambda core: second.get(core, 0) - first.get(core, 0)
