"""The Bellman backup under a learner's policy, including exploration and tie-breaking."""

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules
from dqucb._kernels.planning import backup


@kernel
def policy_backup(model, learner, epsilon, row, step, state, discount, next_values):
    """The backup of one state under the learner's policy; `row` is that of the state's action 0.

    Without exploration ties go to the lowest action; with it, to the first one from a uniformly random action on.
    """
    if epsilon == 0.0:
        return backup(model, row + rules.greedy(learner, step, state, 0), discount, next_values)
    total = 0.0
    for action in range(model.n_actions):
        best = rules.greedy(learner, step, state, action)
        total += (1.0 - epsilon) * backup(model, row + best, discount, next_values)
        total += epsilon * backup(model, row + action, discount, next_values)
    return total / model.n_actions
