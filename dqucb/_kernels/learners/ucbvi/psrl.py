"""Posterior sampling (Osband, Russo and Van Roy 2013): in each episode the best policy of a model drawn at random.

The posterior of a pair is a Dirichlet distribution over its outcomes (next state, reward) and one unobserved outcome,
which leads to one state, drawn with the model, and has a uniformly random reward. Counts may decay after each episode.
"""

from typing import NamedTuple

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables
from dqucb._kernels.learners.ucbvi import planned


class PsrlLearner(NamedTuple):
    """The counts, and the plan in the model drawn last."""

    plan: planned.Plan
    visits: tables.Integers  # (rows, S, A) all of them
    posterior: planned.Posterior
    memory: float  # factor on all counts after an episode


@kernel
def learn(learner, seen, rng):
    """Count the transition."""
    planned.count(learner.plan, seen, learner.visits)
    return 0.0, 1.0


@kernel
def finish_episode(learner, rng):
    """Decay the counts, draw a model and plan in it."""
    if learner.memory < 1.0:
        fade(learner.plan.model, learner.memory)
    planned.make(learner.posterior, learner.plan, rng)


@kernel
def fade(model, memory):
    """Multiply all counts; `visits` are their sums. Changes the model."""
    for row in range(model.visits.shape[0]):
        for action in range(model.visits.shape[1]):
            total = 0.0
            for place in range(model.known[row, action]):
                model.counts[row, action, place] *= memory
                total += model.counts[row, action, place]
            model.visits[row, action] = total


rules.register(PsrlLearner, act=planned.act, greedy=planned.greedy, learn=learn, finish_episode=finish_episode)
