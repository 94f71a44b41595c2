"""The settings of a sweep as JSON, checked in full before anything runs."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dqucb import _validate
from dqucb.agents import Agent
from dqucb.experiments import catalog
from dqucb.experiments.tasks import Custom, as_json
from dqucb.problems import Problem


class Variant(NamedTuple):
    """An agent, the label that it had before parameters were varied, and their values."""

    agent: Agent
    group: str
    varied: dict[str, Any]


Agents = Agent | str | Iterable[Agent | str] | Mapping[str, Agent] | Mapping[str, str] | Mapping[str, Variant]


def settings_of(
    variants: Mapping[str, Variant],
    problem: Problem | str,
    episodes: int | None,
    steps: int | None,
    seeds: int | Iterable[int],
    regret: str,
) -> tuple[dict[str, Any], dict[str, Custom]]:
    """The settings, and by label what only our own processes can rebuild."""
    if isinstance(problem, str):
        problem = catalog.make_problem(problem, episodes=episodes)
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a TabularMDP, a ShiftingMDP or the name of a problem, got {problem!r}")
    _validate.one_of("regret", regret, ["realized", "expected"])
    from_catalog = problem.description["problem"] in catalog.PROBLEMS
    if from_catalog and episodes is None and steps is None and problem.horizon is not None:
        episodes = catalog.PROBLEMS[problem.description["problem"]].episodes
    unit, length, other = ("episodes", episodes, steps) if problem.horizon is not None else ("steps", steps, episodes)
    if length is None or other is not None:
        raise ValueError(f"this problem takes {unit}=, got episodes={episodes!r}, steps={steps!r}")
    problem.check_run(length)
    listed = range(_validate.integer("seeds", seeds)) if isinstance(seeds, int) else seeds
    numbers = [_validate.integer("each of seeds", seed, 0) for seed in listed]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be a number of seeds or different seeds, got {numbers}")
    described: dict[str, Any] = {}
    customs = {}
    for label, (agent, group, values) in variants.items():
        catalogued = catalog.AGENT_CLASSES.get(agent.name) is type(agent)
        customs[label] = Custom(None if catalogued else type(agent), None if from_catalog else problem)
        described[label] = {"agent": agent.name, "parameters": agent.parameters()}
        for earlier, what in described.items():
            if earlier != label and (what["agent"], what["parameters"]) == (agent.name, agent.parameters()):
                raise ValueError(f"agents must differ, got {earlier!r} and {label!r} with the same settings")
        described[label] |= {"group": group, "varied": values}
        _try(agent, problem)
    settings = {"problem": problem.description, "change_at": problem.change_at, "length": int(length), "unit": unit}
    return as_json(settings | {"regret": regret, "seeds": numbers, "agents": described}), customs


def labelled(agents: Agents) -> dict[str, Variant]:
    """Label -> agent; agents without a label are named by their class, or if that is not enough by how they print."""
    if isinstance(agents, Mapping):
        return {str(label): _variant(agent, str(label)) for label, agent in agents.items()}
    listed = [_agent(agent) for agent in ([agents] if isinstance(agents, Agent | str) else agents)]
    names = [agent.name for agent in listed]
    labels = [repr(agent) if names.count(agent.name) > 1 else agent.name for agent in listed]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice or not listed:
        raise ValueError(
            f"agents must be different agents, at least one, got {f'{twice[0]} twice' if twice else 'none'}"
        )
    return {label: Variant(agent, label, {}) for label, agent in zip(labels, listed, strict=True)}


def _variant(agent: "Agent | str | Variant", label: str) -> Variant:
    return agent if isinstance(agent, Variant) else Variant(_agent(agent), label, {})


def _agent(agent: Agent | str) -> Agent:
    if isinstance(agent, str):
        return catalog.make_agent(agent)
    if not isinstance(agent, Agent):
        raise ValueError(f"agents must be agents or their names, got {agent!r}")
    if getattr(agent, "density", None) is not None:
        raise ValueError(f"{agent.name} with a density of your own steps a Gymnasium env: it cannot be compared here")
    return agent


def _try(agent: Agent, problem: Problem) -> None:
    """Let an agent that cannot learn this kind of problem say so now, not in a worker."""
    if problem.discount is not None:
        type(agent)(**agent.parameters()).start(1, 1, discount=problem.discount)
