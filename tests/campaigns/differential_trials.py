"""Trials of the differential campaign: one problem, one agent, one seed, for every kind of agent."""

import functools
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from dqucb import AGENTS, Agent, TabularAgent
from dqucb.agents.confidence import BonusAgent
from dqucb.deep import DeepAgent
from dqucb.envs.tabular import TabularEnv
from dqucb.hospital import AllocationAgent, HospitalAllocationEnv, synthetic_hospitals
from dqucb.run import CURVES, Run
from tests.campaigns.differential_reference import draw_problem

SMALL = {"hidden": (8,), "batch_size": 8, "learning_starts": 20, "epsilon_steps": 100, "buffer_size": 100}
ADAPTIVE = {"burn_in": 100}  # DeepDQUCB: short enough for its detector to be in use


class DisagreementError(AssertionError):
    """Two ways in that differ."""


class Trial:
    """One problem, one agent, one seed; what one trial needs more than once is kept here."""

    kind: Any = None  # the class of the agents that are tried in this way
    problem: Any  # what `train` takes
    compared: ClassVar[dict[str, Any]] = {}  # further arguments of `compare`

    def __init__(self, name: str, number: int, seed: int, folder: Path) -> None:
        self.name, self.number, self.folder = name, number, folder
        self.rng = np.random.default_rng([seed, number])
        self.length = self.draw()
        self.units = next(iter(self.length.values()))
        self.seed = int(self.rng.integers(1_000))
        self.agent = self.new_agent(name)
        self.cut = int(self.rng.integers(1, self.units))
        self.table: Any = None  # the run that all others are compared with

    def draw(self) -> dict[str, int]:
        """Draw the problem; the length of a run as an argument of `train`."""
        raise NotImplementedError

    def new_agent(self, name: str) -> Agent:
        """An agent with the options that this trial drew."""
        return AGENTS[name](**self.options(AGENTS[name]))  # type: ignore[no-any-return]

    def options(self, kind: Any) -> dict[str, Any]:
        """Arguments of an agent of this trial."""
        return {}

    def mates(self) -> list[str]:
        """All agents of this kind, if this trial is that of the first of them: they share one pool of workers."""
        names = [name for name, kind in AGENTS.items() if issubclass(kind, self.kind)]
        return names if names[0] == self.name else []

    def env(self) -> Any:
        """A new env of the problem."""
        return self.problem()

    def run(self, problem: Any = None, **options: Any) -> Run:
        """A run of a new agent."""
        return self.trained(problem, **options)[1]

    def trained(self, problem: Any = None, agent: Agent | None = None, **options: Any) -> tuple[Agent, Run]:
        """A new agent and its run."""
        agent = self.agent.clone() if agent is None else agent
        problem = self.problem if problem is None else problem
        return agent, agent.train(problem, seed=self.seed, **self.length, **options)

    def same(
        self, what: str, found: Run, wanted: Run | None = None, names: tuple[str, ...] = (*CURVES, "alarms")
    ) -> None:
        """Raise unless two runs agree bit for bit."""
        wanted = self.table if wanted is None else wanted
        for name in names:
            if getattr(found, name).tobytes() != getattr(wanted, name).tobytes():
                raise DisagreementError(f"{what}: {name} differ from those of the first way")

    def close(self, what: str, found: Any, wanted: Any) -> None:
        """Raise unless numbers agree up to rounding."""
        scale = 1e-9 * (1.0 + float(np.abs(wanted).max(initial=0.0)))
        if np.shape(found) != np.shape(wanted) or not np.allclose(found, wanted, rtol=1e-9, atol=scale):
            raise DisagreementError(f"{what}: {np.ravel(found)[:6]} is not {np.ravel(wanted)[:6]}")

    def __str__(self) -> str:
        return f"{self.agent!r} on {getattr(self, 'drawn', self.problem)}, seed {self.seed}"


class TabularTrial(Trial):
    """A drawn finite problem, as a table."""

    kind = TabularAgent

    def draw(self) -> dict[str, int]:
        self.drawn = draw_problem(self.rng)
        self.problem = self.drawn.problem()
        self.bonus_scale = float(self.rng.choice([0.0625, 0.25, 1.0]))
        return {self.drawn.unit: self.drawn.length}

    def options(self, kind: Any) -> dict[str, Any]:
        return {"bonus_scale": self.bonus_scale} if issubclass(kind, BonusAgent) else {}

    def env(self) -> TabularEnv:
        return TabularEnv(self.problem)


class RowsEnv(gymnasium.Env):  # type: ignore[type-arg]
    """A drawn problem whose states are shown as rows of zeros and a one, for deep agents."""

    def __init__(self, problem: Any) -> None:
        self.inner = TabularEnv(problem)
        self.action_space = self.inner.action_space
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (problem.n_states,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        state, info = self.inner.reset(seed=seed, options=options)
        return self._row(state), info

    def step(self, action: Any) -> Any:
        state, *rest = self.inner.step(action)
        return (self._row(state), *rest)

    def checkpoint_state(self) -> dict[str, Any]:
        return self.inner.checkpoint_state()

    def restore_state(self, state: dict[str, Any]) -> None:
        self.inner.restore_state(state)

    def _row(self, state: int) -> Any:
        return np.eye(self.inner.problem.n_states, dtype=np.float32)[state]


class DeepTrial(Trial):
    """The same problems with states as rows, for deep agents."""

    kind = DeepAgent
    compared: ClassVar[dict[str, Any]] = {"regret": "none"}  # the best return is unknown

    def draw(self) -> dict[str, int]:
        self.drawn = draw_problem(self.rng)
        self.problem = functools.partial(RowsEnv, self.drawn.problem())
        return {self.drawn.unit: self.drawn.length}

    def options(self, kind: Any) -> dict[str, Any]:
        known = kind().get_params()
        return {name: value for name, value in (SMALL | ADAPTIVE).items() if name in known}


class AllocationTrial(Trial):
    """A drawn hospital system."""

    kind = AllocationAgent

    def draw(self) -> dict[str, int]:
        days = int(self.rng.integers(20, 60))
        system = synthetic_hospitals(
            int(self.rng.integers(2, 6)), days=days, change_at=(int(self.rng.integers(1, days)),),
            seed=int(self.rng.integers(1_000)),
        )  # fmt: skip
        self.problem = functools.partial(HospitalAllocationEnv, system)
        return {"steps": days}


KINDS = (TabularTrial, DeepTrial, AllocationTrial)


def agent_names() -> dict[str, type[Trial]]:
    """The agents that are tried, and how."""
    return {name: trial for trial in KINDS for name, kind in AGENTS.items() if issubclass(kind, trial.kind)}


def new_trial(number: int, seed: int, folder: Path, name: str | None = None) -> Trial:
    """A trial by its number: agents take turns."""
    kinds = agent_names()
    name = list(kinds)[number % len(kinds)] if name is None else name
    return kinds[name](name, number, seed, folder)
