"""From an agent's parameters and an env to the trainer of a run."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb.base import Facts
from dqucb.deep.double_q import DoubleQ
from dqucb.deep.factories import new_network, start_from
from dqucb.deep.head import Head
from dqucb.deep.lockstep import Lockstep, head_of, lockstep_of
from dqucb.deep.observations import Observations
from dqucb.deep.records import Records
from dqucb.deep.replay import Replay
from dqucb.deep.scaling import RunningScale
from dqucb.deep.trainer import Schedule, Trainer
from dqucb.envs.making import change_points, env_description, make_env, own_number
from dqucb.session import Request

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent

STEPPED = "stepped"  # the unit of a loop of one's own, which has no length


def facts_of(problem: Any, unit: str | None, change_at: Iterable[int] | int | None, max_return: float | None) -> Facts:
    """What is known of an env before training; a ValueError if no deep agent can learn it."""
    env = make_env(problem)
    Observations(env.observation_space)
    head_of(env)
    if unit is None:
        unit = env.get_wrapper_attr("unit") if env.has_wrapper_attr("unit") else "episodes"
    stated = change_points(env, unit)
    given = stated if change_at is None else _validate.increasing("change_at", change_at)
    if stated and given != stated:
        raise ValueError(f"change_at must be {stated}, as the env states, got {given}")
    known = max_return is not None or own_number(env, "max_return") is not None or env.has_wrapper_attr("info_has_gap")
    savable = env.has_wrapper_attr("checkpoint_state") or lockstep_of(problem, env, [0]).checkpointable
    return Facts(env_description(problem, env), unit, given, known, savable)


def new_trainer(agent: "DeepAgent", request: Request, records: Records | None) -> Trainer:
    """The trainer of a run, on fresh envs; `records` are those of a run that goes on."""
    facts = facts_of(request.problem, request.unit, request.change_at, request.max_return)
    env = make_env(request.problem)
    envs = lockstep_of(request.problem, env, request.seeds)
    best = own_number(env, "max_return") if request.max_return is None else request.max_return
    if records is None:
        records = Records(list(request.seeds), facts.problem, request.unit, request.length, facts.change_at, best,
                          envs.gaps is not None, own_number(env, "max_reward"))  # fmt: skip
    return trainer_of(agent, records, Observations(env.observation_space), head_of(env), envs)


def new_stepped_trainer(agent: "DeepAgent", problem: Any, seed: int) -> Trainer:
    """The trainer of a loop of one's own over an env."""
    env = make_env(problem)
    records = Records([seed], env_description(problem, env), STEPPED, 1 << 62, (), None, False,
                      own_number(env, "max_reward"))  # fmt: skip
    return trainer_of(agent, records, Observations(env.observation_space), head_of(env), None)


def trainer_of(agent: "DeepAgent", records: Records, form: Observations, head: Head, envs: Lockstep | None) -> Trainer:
    """Networks, bonus, replay and generators of all seeds."""
    seeds = records.seeds
    streams = [[np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)] for seed in seeds]
    weights, explore, replay, hashing = (list(column) for column in zip(*streams, strict=True))
    scale, dimension = RunningScale(len(seeds), form.dimension, agent.freeze_after), form.dimension
    network = new_network(agent, weights, form, head)
    start_from(agent.initial_state, network, scale)
    learner = DoubleQ(
        network, scale, head, discount=agent.discount, huber_delta=agent.huber_delta, tau=agent.tau,
        target_every=agent.target_every, act_on=agent.act_on, value_bound=_bound(agent, records.max_reward),
    )  # fmt: skip
    bonus = agent._new_bonus(hashing, dimension, head)
    adaptation = agent._new_adaptation(len(seeds), form, head)
    memory = Replay(len(seeds), agent.buffer_size, dimension, head.n_choices, head.n_parts, form.dtype)
    by_dimension = agent.explore_by == "dimension"
    if by_dimension and not head.independent_choices:
        raise ValueError(f"explore_by must be 'action' for {type(head).__name__}, whose choices depend on each other")
    plan = Schedule(agent.batch_size, agent.learning_starts, agent.train_every, agent.n_steps, agent.epsilon,
                    agent.epsilon_steps, by_dimension)  # fmt: skip
    generators = {"explore": explore, "replay": replay}
    return Trainer(seeds, form, head, learner, bonus, adaptation, memory, generators, plan, envs, records)


def _bound(agent: "DeepAgent", largest: float | None) -> float:
    if agent.value_bound is not None:
        return agent.value_bound
    return np.inf if largest is None or agent.discount == 1.0 else largest / (1.0 - agent.discount)
