"""A task: one agent on one problem with one seed, named by a hash of everything that decides its bits."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from dqucb.base import Agent
from dqucb.experiments import catalog
from dqucb.problems import Problem
from dqucb.run import Run

FORMAT = 1  # of a task's identity; a new number makes every old result a stranger


def canonical(value: Any) -> str:
    """JSON in one spelling, so that equal settings have equal hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def as_json(value: Any) -> Any:
    """The value as JSON would give it back: tuples become lists, NumPy numbers plain ones, order stays."""
    return json.loads(json.dumps(value, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise ValueError(f"settings must be numbers, words, lists or None, got {value!r}")


class Custom(NamedTuple):
    """What no registry can rebuild; it travels to our own worker processes and is never written to a file."""

    agent: type[Agent] | None = None
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run that is to be made. `agent` is the class name, `problem` the description, `unit` that of `length`."""

    agent: str
    parameters: Mapping[str, Any]
    problem: Mapping[str, Any]
    length: int
    unit: str
    regret: str
    seed: int
    custom: Custom = field(default=Custom(), compare=False, repr=False)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the result, as JSON."""
        names = ("agent", "parameters", "problem", "length", "unit", "regret", "seed")
        return as_json({"format": FORMAT, **{name: getattr(self, name) for name in names}})

    @cached_property
    def key(self) -> str:
        """SHA-256 of the identity: the name of the result's file."""
        return hashlib.sha256(canonical(self.identity).encode()).hexdigest()

    def ingredients(self) -> tuple[type[Agent], Problem]:
        """The agent's class and the problem."""
        cls = self.custom.agent or catalog.AGENT_CLASSES[self.agent]
        return cls, self.custom.problem or _problem(canonical(self.problem))

    def train(self) -> tuple[Agent, Run]:
        """Build agent and problem and train; the agent that learned, and the curves."""
        cls, problem = self.ingredients()
        agent = cls(**self.parameters)
        length: dict[str, Any] = {self.unit: self.length}
        return agent, agent.train(problem, seed=self.seed, regret=self.regret, **length)

    def run(self) -> Run:
        """The curves alone."""
        return self.train()[1]

    def matches(self, run: Run) -> bool:
        """Whether `run` is the finished result of this task."""
        found = {
            "format": FORMAT,
            "agent": run.agent,
            "parameters": run.parameters,
            "problem": run.problem,
            "length": int(run.ends[-1]) if len(run) else 0,
            "unit": run.unit,
            "regret": run.regret_form,
            "seed": run.seed,
        }
        return as_json(found) == self.identity


@lru_cache(maxsize=4)
def _problem(description: str) -> Problem:
    """Built once per worker: its optimal values are worth keeping."""
    return catalog.rebuild_problem(json.loads(description))
