"""The design of an experiment: which agents, problem, length and seeds, checked in full before anything runs."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from dqucb import _validate
from dqucb._fingerprint import UnidentifiedError
from dqucb.agents import TabularAgent
from dqucb.base import AGENTS, Agent, make_agent
from dqucb.envs.making import check_reusable, restarts
from dqucb.experiments.manifest import AGENT_IDENTITY
from dqucb.experiments.trials import Evaluation, Parts, Trial, as_json, described_recorder
from dqucb.problems import Problem
from dqucb.run import REGRETS
from dqucb.running import catalog
from dqucb.running import options as declared
from dqucb.running.files import code_of
from dqucb.running.request import savable


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

    def only(self, seeds: Mapping[str, list[int]]) -> "Design":
        """The same experiment with these seeds of each label."""
        agents = {label: {**agent, "seeds": seeds[label]} for label, agent in self.settings["agents"].items()}
        used = list(dict.fromkeys(seed for numbers in seeds.values() for seed in numbers))
        trials = {label: trial.only(tuple(seeds[label])) for label, trial in self.trials.items()}
        return Design({**self.settings, "seeds": used, "agents": agents}, trials)


def designed(
    agents: Agents,
    problem: Any,
    episodes: int | None,
    steps: int | None,
    seeds: int | Iterable[int],
    evaluations: Sequence[Evaluation] = (),
    recorder: Callable[[], Any] | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
    named: Mapping[str, str | None] = MappingProxyType({}),
    out: Any = None,
) -> Design:
    """The design of what `compare` is asked for; `given` are options of `Agent.train` for all runs."""
    variants = labelled(agents)
    problem, (length, unit) = target(problem, episodes, steps)
    numbers = _validate.seeds(seeds)
    regret, options, detectors = _options(given, list(variants))
    check_reusable(problem, len(variants) * len(numbers))
    shared = {name: options[name] for name in ("change_at", "max_return") if name in options}
    settings: dict[str, Any] = {}
    common = declared.identity(options)
    live: dict[str, Parts] = {}
    described: dict[str, Any] = {}
    doubts = _Doubts({name: _word(name, word) for name, word in named.items() if word is not None})
    if recorder is not None:
        common["recorder"] = doubts.of(
            "recorder", described_recorder, recorder, getattr(recorder, "__name__", "recorder")
        )
    for label, (agent, group, values) in variants.items():
        own = options | ({} if detectors[label] is None else {"detector": detectors[label]})
        facts = agent.describe(problem, unit=unit, **shared)
        doubts.add(facts.unidentified)
        _check_fit(agent, problem, catalog.Length(length, unit), options)
        if not facts.regret_known and regret != "none":
            name = facts.problem["problem"]
            raise ValueError(f'max_return must be given: {name} does not state its best return; or regret="none"')
        found = {"problem": facts.problem, "change_at": facts.change_at, "length": length, "unit": unit}
        if not settings:
            if evaluations:
                common["evaluations"] = _described(evaluations, agent, length, doubts)
            settings = found | {"regret": regret}
        elif as_json(found["problem"]) != as_json(settings["problem"]):
            raise ValueError(f"agents must see the same problem, got {found['problem']} for {label!r}")
        resumable = facts.resumable and (detectors[label] is None or savable(detectors[label]))
        train = own | ({"regret": regret} if regret not in ("none", "realized") else {})
        live[label] = Parts(agent, problem, tuple(evaluations), recorder, resumable, train)
        identity: dict[str, Any] = {"agent": agent.name, "parameters": agent.parameters()}
        if detectors[label] is not None:
            identity["watch"] = doubts.of(
                "detector", lambda given: declared.identity(given)["watch"], own,
                {"detector": repr(detectors[label]), "on_alarm": options.get("on_alarm", declared.ON_ALARM[0])},
            )  # fmt: skip
        if (code := doubts.of("agent", code_of, agent, None)) is not None:
            identity["code"] = code
        for earlier, what in described.items():
            if all(identity.get(name) == what.get(name) for name in AGENT_IDENTITY):
                raise ValueError(f"agents must differ, got {earlier!r} and {label!r} with the same settings")
        described[label] = identity | {"group": group, "varied": values, "seeds": numbers}
    if doubts.named:
        common["named"] = doubts.named
    elif doubts.reasons and out is not None:
        raise ValueError(
            f"out={str(out)!r} needs name= and version= for {'; '.join(doubts.reasons)}: runs are found again by what "
            "they are, which cannot be told here. Change the version whenever it changes"
        )
    settings |= {"options": common} if common else {}
    settings = as_json(settings | {"seeds": numbers, "agents": described})
    return Design(settings, trials_of(settings, live))


class _Doubts:
    """Why parts of an experiment cannot say completely what they are, and what the user calls them instead.

    The user's word for a version stands for the code of agents, recorders and detectors.
    """

    def __init__(self, named: dict[str, str]) -> None:
        self.named = named
        self.reasons: list[str] = []

    def add(self, reason: str | None) -> None:
        """Keep a reason, once."""
        if reason is not None and reason not in self.reasons:
            self.reasons.append(reason)

    def of(self, what: str, identity: Callable[[Any], Any], part: Any, otherwise: Any) -> Any:
        """The identity of a part with its code; `otherwise` where it cannot be told or the user names a version."""
        try:
            return otherwise if "version" in self.named else identity(part)
        except UnidentifiedError as error:
            self.add(f"the {what} ({error})")
            return otherwise


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a word, got {value!r}")
    return value


def _options(given: Mapping[str, Any], labels: list[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The kind of regret, the checked options of all runs, and the detector of each label."""
    for name in given:
        if name not in declared.SHARED:
            declared.checked({name: None}, "compare")  # refuses what is no option at all
            raise TypeError(f"compare takes {name} for itself or not at all; it is no option of all runs")
    kinds = (*REGRETS, "none")
    regret = _validate.one_of("regret", given.get("regret") or kinds[0], kinds)
    options = declared.checked({name: value for name, value in given.items() if name not in ("regret", "detector")})
    chosen = given.get("detector")
    detectors = dict(chosen) if isinstance(chosen, Mapping) else dict.fromkeys(labels, chosen)
    for label, detector in detectors.items():
        _validate.known("label in detector", label, labels)
        declared.checked({"detector": detector})
    return regret, options, {label: detectors.get(label) for label in labels}


def trials_of(settings: Mapping[str, Any], live: Mapping[str, Parts] | None = None) -> dict[str, Trial]:
    """Label -> trial, from the settings; with `live` they can be run."""
    names = ("problem", "length", "unit", "regret")
    return {
        label: Trial(
            agent=agent["agent"],
            parameters=agent["parameters"],
            seeds=tuple(agent["seeds"]),
            options=settings.get("options", {}) | {name: agent[name] for name in ("watch", "code") if name in agent},
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
        raise ValueError(f"a run with a detector cannot be run again from a folder, got {trial.agent} with a detector")
    kind = next((kind for kind in AGENTS.values() if kind.__name__ == trial.agent), None)
    if kind is None or kind.in_lockstep or trial.problem["problem"] not in catalog.PROBLEMS:
        raise ValueError(
            f"only tabular agents of this package on registered problems can be run again from a folder, got "
            f"{trial.agent} on {trial.problem['problem']}"
        )
    options = {name: trial.options[name] for name in declared.SHARED if name in trial.options}
    problem = catalog.rebuild_problem(trial.problem)
    return replace(trial, parts=Parts(kind(**trial.parameters), problem, options=options))


def target(problem: Any, episodes: int | None, steps: int | None) -> tuple[Any, catalog.Length]:
    """The problem in the form that agents take, and the length of a run on it."""
    given = [catalog.Length(_validate.length(unit, count), unit)
             for unit, count in (("episodes", episodes), ("steps", steps)) if count is not None]  # fmt: skip
    usual = None
    if isinstance(problem, str) and not catalog.is_gymnasium_id(problem):
        name = catalog.registered(problem)
        usual = catalog.usual_length(name)
        same_unit = len(given) == 1 and usual is not None and given[0].unit == usual.unit
        problem = catalog.make_problem(name, length=given[0].number if same_unit else None)
    elif isinstance(problem, Problem):
        usual = catalog.usual_length(str(problem.description["problem"]))
    if isinstance(problem, Problem) and usual is not None and usual.unit != problem.unit:
        usual = None
    if not given and usual is not None:
        given = [usual]
    if isinstance(problem, Problem):
        unit = problem.unit
        if len(given) != 1 or given[0].unit != unit:
            raise ValueError(f"this problem takes {unit}=, got episodes={episodes!r}, steps={steps!r}")
        problem.check_run(given[0].number)
    elif len(given) != 1:
        raise ValueError(f"give exactly one of episodes and steps, got episodes={episodes!r}, steps={steps!r}")
    return problem, given[0]


def _described(evaluations: Sequence[Evaluation], agent: Agent, length: int, doubts: _Doubts) -> dict[str, Any]:
    """Evaluations as JSON, each name once and none after the end of the run."""
    result: dict[str, Any] = {}
    for name, at, problem, episodes in evaluations:
        if name in result:
            raise ValueError(f"evaluations must have different names, got {name!r} twice")
        if not re.fullmatch(r"[\w.:-]+", name, re.ASCII):
            raise ValueError(f"names of evaluations must be letters, digits and any of _.:-, got {name!r}")
        at = _validate.integer(f"at of the evaluation {name!r}", at, 1, length)
        where = agent.describe(problem)
        doubts.add(where.unidentified)
        result[name] = {"at": at, "problem": where.problem, "episodes": _validate.integer("episodes", episodes)}
    return result


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
