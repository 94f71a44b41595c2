"""The policy of a learner, including exploration and tie-breaking, for exact evaluation in the true model."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import rules
from dqucb._kernels.planning import backup, register_policy


class LearnerPolicy(NamedTuple):
    """The policy of a learner, which acts at random with probability epsilon."""

    learner: Any
    epsilon: float


@kernel
def _epsilon_policy(learner):
    return LearnerPolicy(learner, rules.exploration(learner))


POLICIES: dict[type, Callable[..., Any]] = {}  # of learners whose policy is another one
policy_of = by_type(lambda kind: POLICIES.get(kind, _epsilon_policy), "(learner): the current policy.")


@kernel
def _value(policy, model, row, step, state, discount, next_values):
    """Without exploration ties go to the lowest action; with it, to the first one from a uniformly random action on."""
    if policy.epsilon == 0.0:
        return backup(model, row + rules.greedy(policy.learner, step, state, 0), discount, next_values)
    total = 0.0
    for action in range(model.n_actions):
        best = rules.greedy(policy.learner, step, state, action)
        total += (1.0 - policy.epsilon) * backup(model, row + best, discount, next_values)
        total += policy.epsilon * backup(model, row + action, discount, next_values)
    return total / model.n_actions


register_policy(LearnerPolicy, _value)
