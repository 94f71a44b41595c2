"""Plans within a budget: what is backed up where a whole plan would take more time than it is worth.

A whole plan sums over all outcomes of all pairs at every step. In a problem with thousands of states nearly every step
of the beginning finds something new, and a plan after each would take far longer than all else. So a whole plan is made
only within a budget: FIRST_WORK outcomes may be summed after the start and after each alarm, and WORK_PER_STEP more
with each step. A problem is large if a plan for each of its pairs would exceed FIRST_WORK; only there,
- the first outcome of a pair does not outdate the plan while its state has an action that was never taken: the value of
  the state is still its bound. The policy moves on to that action, and the whole plan waits for the end of the episode;
- where the budget is exhausted, the state that was reached is backed up before the agent acts there (real-time dynamic
  programming), which keeps the order of the regret (Efroni et al. 2019, "Tight regret bounds for model-based
  reinforcement learning with greedy policies").
"""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning.outcomes import ALL

FIRST_WORK = 100_000_000  # some tenths of a second
WORK_PER_STEP = 256  # less than one microsecond
PAIR_WORK = 2  # what follows the sums of a pair, in outcomes


@kernel
def is_affordable(plan):
    """Whether the budget allows a whole plan; the last one may exceed it."""
    return plan.budget[0] > 0


@kernel
def is_large(plan):
    """Whether a plan for each pair would exceed the budget."""
    n_steps, n_states, n_actions = plan.Q.shape
    pairs = float(n_states * n_actions)
    return pairs * pairs * n_steps * (1 + PAIR_WORK) > FIRST_WORK


@kernel
def charge(plan, n_steps):
    """Take the work of a plan over so many steps from the budget."""
    plan.budget[0] -= n_steps * (plan.work.ends[-1] + PAIR_WORK * plan.work.ends.shape[0])


@kernel
def replenish(plan):
    """After an alarm, or when an earlier model returned, everything is planned again."""
    plan.budget[0] = max(plan.budget[0], FIRST_WORK)


@kernel
def take_new_action(plan, outcomes, row, state):
    """Whether the state has an action that was never taken; if so, the policy takes it at all steps."""
    for action in range(outcomes.sizes.shape[2]):
        if outcomes.sizes[row, state, np.uint64(action), ALL] == 0:
            plan.policy[plan.first[0] :, state] = action
            plan.looked_at[plan.first[0] :, state] = action
            return True
    return False
