"""The design of an experiment: which agents, problem, length and seeds, checked in full before anything runs."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dqucb import _validate
from dqucb.agents import TabularAgent
from dqucb.base import AGENTS, Agent, make_agent
from dqucb.drift.base import checked_detector
from dqucb.envs.making import check_reusable, restarts
from dqucb.experiments import catalog
from dqucb.experiments.trials import TRAIN_OPTIONS, Evaluation, Parts, Trial, as_json, described_recorder
from dqucb.problems import Problem
from dqucb.session import ON_ALARM, watch_identity


class Variant(NamedTuple):
    """An agent, the label that it had before parameters were varied, and their values."""

    agent: Agent
    group: str
    varied: dict[str, Any]


Agents = Agent | str | Iterable[Agent | str] | Mapping[str, Agent] | Mapping[str, str] | Mapping[str, Variant]


class Design(NamedTuple):
    """An experiment: its settings as JSON, and the trial of each label."""

    settings: dict[str, Any]
    trials: dict[str, Trial]


def designed(
    agents: Agents,
    problem: Any,
    episodes: int | None,
    steps: int | None,
    seeds: int | Iterable[int],
    regret: str = "realized",
    evaluations: Sequence[Evaluation] = (),
    recorder: Callable[[], Any] | None = None,
    detector: Any = None,
    on_alarm: str = "restart",
    **given: Any,
) -> Design:
    """The design of what `compare` is asked for; `given` are options of `Agent.train`, None where not given."""
    variants = labelled(agents)
    problem, (length, unit) = target(problem, episodes, steps)
    _validate.one_of("regret", regret, ["realized", "expected", "none"])
    numbers = _validate.seeds(seeds)
    options: dict[str, Any] = {name: given[name] for name in TRAIN_OPTIONS if given.get(name) is not None}
    if recorder is not None:
        options["recorder"] = described_recorder(recorder)
    check_reusable(problem, len(variants) * len(numbers))
    shared = {name: options[name] for name in ("change_at", "max_return") if name in options}
    detectors = _detectors(detector, on_alarm, list(variants))
    settings: dict[str, Any] = {}
    live = {}
    for label, variant in variants.items():
        watch = None if detectors[label] is None else {"detector": detectors[label], "on_alarm": on_alarm}
        facts = variant.agent.describe(problem, unit=unit, **shared)
        _check_fit(variant.agent, problem, catalog.Length(length, unit), given)
        if not facts.regret_known and regret != "none":
            name = facts.problem["problem"]
            raise ValueError(f'max_return must be given: {name} does not state its best return; or regret="none"')
        found = {"problem": facts.problem, "change_at": facts.change_at, "length": length, "unit": unit}
        if not settings:
            if evaluations:
                options["evaluations"] = _described(evaluations, variant.agent, length)
            settings = found | {"regret": regret} | ({"options": options} if options else {})
        elif as_json(found["problem"]) != as_json(settings["problem"]):
            raise ValueError(f"agents must see the same problem, got {found['problem']} for {label!r}")
        resumable = facts.resumable and (watch is None or savable(watch["detector"]))
        live[label] = Parts(variant.agent, problem, tuple(evaluations), recorder, resumable, watch)
    described: dict[str, Any] = {}
    for label, (agent, group, values) in variants.items():
        identity: dict[str, Any] = {"agent": agent.name, "parameters": agent.parameters()}
        if detectors[label] is not None:
            identity["watch"] = watch_identity(detectors[label], on_alarm)
        for earlier, what in described.items():
            if all(identity.get(name) == what.get(name) for name in ("agent", "parameters", "watch")):
                raise ValueError(f"agents must differ, got {earlier!r} and {label!r} with the same settings")
        described[label] = identity | {"group": group, "varied": values, "seeds": numbers}
    settings = as_json(settings | {"seeds": numbers, "agents": described})
    return Design(settings, trials_of(settings, live))


def trials_of(settings: Mapping[str, Any], live: Mapping[str, Parts] | None = None) -> dict[str, Trial]:
    """Label -> trial, from the settings; with `live` they can be run."""
    names = ("problem", "length", "unit", "regret")
    return {
        label: Trial(
            agent=agent["agent"],
            parameters=agent["parameters"],
            seeds=tuple(agent["seeds"]),
            options=settings.get("options", {}) | ({"watch": agent["watch"]} if "watch" in agent else {}),
            parts=(live or {}).get(label),
            **{name: settings[name] for name in names},
        )
        for label, agent in settings["agents"].items()
    }


def runnable(trial: Trial) -> Trial:
    """A trial that was read from a folder, with a registered agent and a registered problem built anew."""
    if trial.parts is not None:
        return trial
    if "watch" in trial.options:
        raise ValueError(f"a watched run cannot be run again from a folder, got {trial.agent} with a detector")
    kind = next((kind for kind in AGENTS.values() if kind.__name__ == trial.agent), None)
    if kind is None or kind.in_lockstep or trial.problem["problem"] not in catalog.PROBLEMS:
        raise ValueError(
            f"only tabular agents of this package on registered problems can be run again from a folder, got "
            f"{trial.agent} on {trial.problem['problem']}"
        )
    return replace(trial, parts=Parts(kind(**trial.parameters), catalog.rebuild_problem(trial.problem)))


def target(problem: Any, episodes: int | None, steps: int | None) -> tuple[Any, catalog.Length]:
    """The problem in the form that agents take, and the length of a run on it."""
    given = [catalog.Length(_validate.length(unit, count), unit)
             for unit, count in (("episodes", episodes), ("steps", steps)) if count is not None]  # fmt: skip
    usual = None
    if isinstance(problem, str) and not catalog.is_gymnasium_id(problem):
        name = _validate.known("problem", problem.lower(), catalog.names())
        usual = catalog.usual_length(name)
        same_unit = len(given) == 1 and usual is not None and given[0].unit == usual.unit
        problem = catalog.make_problem(name, length=given[0].number if same_unit else None)
    elif isinstance(problem, Problem):
        usual = catalog.usual_length(str(problem.description["problem"]))
    if isinstance(problem, Problem) and usual is not None and usual.unit != catalog.unit_of(problem):
        usual = None
    if not given and usual is not None:
        given = [usual]
    if isinstance(problem, Problem):
        unit = catalog.unit_of(problem)
        if len(given) != 1 or given[0].unit != unit:
            raise ValueError(f"this problem takes {unit}=, got episodes={episodes!r}, steps={steps!r}")
        problem.check_run(given[0].number)
    elif len(given) != 1:
        raise ValueError(f"give exactly one of episodes and steps, got episodes={episodes!r}, steps={steps!r}")
    return problem, given[0]


def _described(evaluations: Sequence[Evaluation], agent: Agent, length: int) -> dict[str, Any]:
    """Evaluations as JSON, each name once and none after the end of the run."""
    result: dict[str, Any] = {}
    for name, at, problem, episodes in evaluations:
        if name in result:
            raise ValueError(f"evaluations must have different names, got {name!r} twice")
        if not re.fullmatch(r"[\w.:-]+", name, re.ASCII):
            raise ValueError(f"names of evaluations must be letters, digits and any of _.:-, got {name!r}")
        at = _validate.integer(f"at of the evaluation {name!r}", at, 1, length)
        where = agent.describe(problem).problem
        result[name] = {"at": at, "problem": where, "episodes": _validate.integer("episodes", episodes)}
    return result


def _detectors(given: Any, on_alarm: str, labels: list[str]) -> dict[str, Any]:
    """Label -> its detector, "auto" or None; `given` is one for all agents or a mapping of labels to them."""
    _validate.one_of("on_alarm", on_alarm, ON_ALARM)
    chosen = dict(given) if isinstance(given, Mapping) else dict.fromkeys(labels, given)
    for label, detector in chosen.items():
        _validate.known("label in detector", label, labels)
        if isinstance(detector, str):
            _validate.one_of("detector", detector, ("auto",))
        elif detector is not None:
            checked_detector(detector, "clone")
    return {label: chosen.get(label) for label in labels}


def savable(detector: Any) -> bool:
    """Whether the state of a detector can be kept in a checkpoint."""
    return isinstance(detector, str) or hasattr(detector, "from_state")


def _check_fit(agent: Agent, problem: Any, length: catalog.Length, given: Mapping[str, Any]) -> None:
    """Let a tabular agent that cannot learn this kind of problem say so now, not in a worker."""
    if not isinstance(agent, TabularAgent):
        return
    if not isinstance(problem, Problem):
        if restarts(problem):  # another env object may have only one run, and that begins now
            options: dict[str, Any] = {length.unit: length.number, "stop_at": 1, **given}
            agent.clone().train(problem, **options)
    elif problem.discount is not None:
        agent.clone().start(1, 1, discount=problem.discount)


# ---- agents -----------------------------------------------------------------------------------------------


def labelled(agents: Agents) -> dict[str, Variant]:
    """Label -> agent; agents without a label are named by their class, or if that is not enough by how they print."""
    if isinstance(agents, Mapping):
        names = _validate.labels("labels of agents", agents)
        return {name: _variant(agent, name) for name, agent in zip(names, agents.values(), strict=True)}
    listed = [_agent(agent) for agent in ([agents] if isinstance(agents, Agent | str) else agents)]
    names = [agent.name for agent in listed]
    labels = [repr(agent) if names.count(agent.name) > 1 else agent.name for agent in listed]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice or not listed:
        found = f"{twice[0]} twice" if twice else "none"
        raise ValueError(f"agents must be different agents, at least one, got {found}")
    return {label: Variant(agent, label, {}) for label, agent in zip(labels, listed, strict=True)}


def varied(agents: Agents, values: Mapping[str, Sequence[Any]]) -> dict[str, Variant]:
    """A variant of each agent for every combination of the values of the parameters that it has."""
    given = labelled(agents)
    values = {name: options if isinstance(options, str) else list(options) for name, options in values.items()}
    if not values:
        raise ValueError('values must name at least one parameter, such as {"bonus_scale": [0.1, 1.0]}, got none')
    everywhere = sorted({name for variant in given.values() for name in variant.agent.get_params()})
    for name, options in values.items():
        _validate.known("parameter of these agents", name, everywhere)
        if isinstance(options, str) or not options:
            raise ValueError(f"{name} must be a list of at least one value, got {options!r}")
        _validate.labels(f"values of {name}", options)
    variants = {}
    for label, (agent, _, _) in given.items():
        own = {name: list(options) for name, options in values.items() if name in agent.get_params()}
        for chosen in itertools.product(*own.values()):
            changes = dict(zip(own, chosen, strict=True))
            name = " ".join([label, *(f"{key}={value}" for key, value in changes.items())])
            variants[name] = Variant(agent.clone(**changes), label, changes)
    return variants


def _variant(agent: Agent | str | Variant, label: str) -> Variant:
    return agent if isinstance(agent, Variant) else Variant(_agent(agent), label, {})


def _agent(agent: Agent | str) -> Agent:
    if isinstance(agent, str):
        return make_agent(agent)
    if not isinstance(agent, Agent):
        hint = f": write {agent.__name__}(...)" if isinstance(agent, type) else ""
        raise ValueError(f"agents must be agents or their names, got {agent!r}{hint}")
    return agent
