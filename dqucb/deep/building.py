"""From an agent's parameters and an env to the learner of a run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqucb.deep.double_q import DoubleQ
from dqucb.deep.head import Head
from dqucb.deep.heads import BranchingHead, DiscreteHead
from dqucb.deep.replay import Replay
from dqucb.deep.trainer import Schedule, Trainer
from dqucb.running.lockstep import LockstepSession

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent


def trainer_of(agent: "DeepAgent", sessions: Sequence[LockstepSession], dimension: int, head: Head) -> Trainer:
    """Networks, bonus, replay and generators of all seeds."""
    seeds = [session.seed for session in sessions]
    streams = [[np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)] for seed in seeds]
    weights, explore, replay, hashing = (list(column) for column in zip(*streams, strict=True))
    learner = DoubleQ(
        weights, dimension, head, hidden=agent.hidden, discount=agent.discount, learning_rate=agent.learning_rate,
        largest_error=agent.largest_error, largest_gradient=agent.largest_gradient, target_rate=agent.target_rate,
        target_every=agent.target_every,
        act_on=agent.act_on, value_bound=_bound(agent, sessions[0].max_reward), freeze_after=agent.freeze_after,
    )  # fmt: skip
    bonus = agent._new_bonus(hashing, dimension, head)
    adapting = agent._new_adapting(len(seeds), dimension, head)
    memory = Replay(len(seeds), agent.capacity, dimension, head.n_choices, head.n_parts)
    by_dimension = agent.explore_by == "dimension"
    if by_dimension and not isinstance(head, DiscreteHead | BranchingHead):
        raise ValueError(f"explore_by must be 'action' for {type(head).__name__}, whose choices depend on each other")
    plan = Schedule(agent.batch, agent.learning_starts, agent.train_every, agent.n_steps, agent.epsilon,
                    agent.epsilon_steps, by_dimension)  # fmt: skip
    generators = {"explore": explore, "replay": replay}
    if adapting.gives_alarms:
        for session in sessions:
            session.own_alarms = session.own_alarms or []
    return Trainer(dimension, head, learner, bonus, adapting, memory, generators, plan, sessions)


def _bound(agent: "DeepAgent", largest: float | None) -> float:
    if agent.value_bound is not None:
        return agent.value_bound
    return np.inf if largest is None or agent.discount == 1.0 else largest / (1.0 - agent.discount)
