"""The settings of a sweep as JSON, checked in full before anything runs."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from dqucb import _validate
from dqucb.base import Agent
from dqucb.experiments import catalog
from dqucb.experiments.tasks import Custom, as_json
from dqucb.problems import Problem
from dqucb.run import Run


@runtime_checkable
class LockstepAgent(Protocol):
    """An agent that trains all its seeds at once on an env: those of `dqucb.deep`, which this room need not know."""

    @property
    def name(self) -> str:
        """The name in tables and plots."""

    def parameters(self) -> dict[str, Any]:
        """The settings as JSON values."""

    def describe(self, env: Any, env_options: dict[str, Any] | None, max_return: float | None) -> Any:
        """What is known of the env: `problem`, `change_at`, `change_steps`, `regret_known`, `checkpointable`."""

    def learn(self, env: Any, **options: Any) -> list[Run]:
        """Train all seeds; their runs."""


AnyAgent = Agent | LockstepAgent


class Variant(NamedTuple):
    """An agent, the label that it had before parameters were varied, and their values."""

    agent: AnyAgent
    group: str
    varied: dict[str, Any]


Agents = AnyAgent | str | Iterable[AnyAgent | str] | Mapping[str, AnyAgent] | Mapping[str, str] | Mapping[str, Variant]


def settings_of(
    variants: Mapping[str, Variant],
    problem: Problem | str,
    episodes: int | None,
    steps: int | None,
    seeds: int | Iterable[int],
    regret: str,
) -> tuple[dict[str, Any], dict[str, Custom]]:
    """The settings of tabular agents, and by label what only our own processes can rebuild."""
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
    customs = {}
    for label, variant in variants.items():
        agent = _tabular(variant.agent)
        catalogued = catalog.AGENT_CLASSES.get(agent.name) is type(agent)
        customs[label] = Custom(None if catalogued else type(agent), None if from_catalog else problem)
        _try(agent, problem)
    described = {"problem": problem.description, "change_at": problem.change_at, "length": int(length), "unit": unit}
    return with_agents(described | {"regret": regret}, seeds, variants), customs


def lockstep_settings_of(
    variants: Mapping[str, Variant],
    env: Any,
    episodes: int | None,
    steps: int | None,
    seeds: int | Iterable[int],
    env_options: dict[str, Any] | None,
    max_return: float | None,
) -> dict[str, Any]:
    """The settings of agents that train their seeds at once, on an env."""
    if (episodes is None) == (steps is None):
        raise ValueError(f"give exactly one of episodes and steps, got episodes={episodes!r}, steps={steps!r}")
    unit, length = ("episodes", episodes) if steps is None else ("steps", steps)
    length = _validate.integer(unit, length)
    first = next(iter(variants.values())).agent
    assert isinstance(first, LockstepAgent)
    told = first.describe(env, env_options, max_return)
    if not told.regret_known:
        raise ValueError(f"max_return must be given: {told.problem['problem']} does not state its best return")
    changes = told.change_at if unit == "episodes" else told.change_steps
    described = {"problem": told.problem, "change_at": changes, "length": length, "unit": unit, "regret": "realized"}
    return with_agents(described, seeds, variants)


def with_agents(
    settings: dict[str, Any], seeds: int | Iterable[int], variants: Mapping[str, Variant]
) -> dict[str, Any]:
    """The settings with seeds and agents, as JSON values."""
    listed = range(_validate.integer("seeds", seeds)) if isinstance(seeds, int) else seeds
    numbers = [_validate.integer("each of seeds", seed, 0) for seed in listed]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be a number of seeds or different seeds, got {numbers}")
    described: dict[str, Any] = {}
    for label, (agent, group, values) in variants.items():
        described[label] = {"agent": agent.name, "parameters": agent.parameters()}
        for earlier, what in described.items():
            if earlier != label and (what["agent"], what["parameters"]) == (agent.name, agent.parameters()):
                raise ValueError(f"agents must differ, got {earlier!r} and {label!r} with the same settings")
        described[label] |= {"group": group, "varied": values}
    return as_json(settings | {"seeds": numbers, "agents": described})


def in_lockstep(variants: Mapping[str, Variant]) -> bool:
    """Whether these agents train their seeds at once; a mixture has no common problem and is refused."""
    kinds = {label: not isinstance(variant.agent, Agent) for label, variant in variants.items()}
    if len(set(kinds.values())) > 1:
        deep = [label for label, is_deep in kinds.items() if is_deep]
        raise ValueError(f"agents must be all tabular or all deep, got {', '.join(deep)} among tabular ones")
    return next(iter(kinds.values()))


def labelled(agents: Agents) -> dict[str, Variant]:
    """Label -> agent; agents without a label are named by their class, or if that is not enough by how they print."""
    if isinstance(agents, Mapping):
        return {str(label): _variant(agent, str(label)) for label, agent in agents.items()}
    one = isinstance(agents, (Agent, str, LockstepAgent))
    listed = [_agent(agent) for agent in ([agents] if one else agents)]  # type: ignore[arg-type, union-attr]
    names = [agent.name for agent in listed]
    labels = [repr(agent) if names.count(agent.name) > 1 else agent.name for agent in listed]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice or not listed:
        raise ValueError(
            f"agents must be different agents, at least one, got {f'{twice[0]} twice' if twice else 'none'}"
        )
    return {label: Variant(agent, label, {}) for label, agent in zip(labels, listed, strict=True)}


def _variant(agent: AnyAgent | str | Variant, label: str) -> Variant:
    return agent if isinstance(agent, Variant) else Variant(_agent(agent), label, {})


def _tabular(agent: AnyAgent) -> Agent:
    assert isinstance(agent, Agent)
    return agent


def _agent(agent: AnyAgent | str) -> AnyAgent:
    if isinstance(agent, str):
        return catalog.make_agent(agent)
    if not isinstance(agent, Agent | LockstepAgent):
        raise ValueError(f"agents must be agents or their names, got {agent!r}")
    if getattr(agent, "density", None) is not None:
        raise ValueError(f"{agent.name} with a density of your own steps a Gymnasium env: it cannot be compared here")
    return agent


def _try(agent: Agent, problem: Problem) -> None:
    """Let an agent that cannot learn this kind of problem say so now, not in a worker."""
    if problem.discount is not None:
        type(agent)(**agent.parameters()).start(1, 1, discount=problem.discount)
