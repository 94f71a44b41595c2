"""PlanningDQUCB: the density of a pair is the model that it plans in and the detector that tells it to forget.

A plan (`optimistic_plan`) is made after an episode in which the visits of some pair have grown by half since the last
one. Some outcomes outdate a plan: the first one of a pair, one that gives an alarm, and one after which an earlier
model is adopted again. Then the rest of the episode is planned within a budget (`plan_budget`), as soon as the old plan
would take a pair that is known, so that one episode visits many new pairs. In a problem with a discount all plans are
made at once, and in parts (`planning_discounted`). When bets against the densities of a pair, or of all pairs together,
win (`change_test`), every pair forgets its outcomes, and earlier models are compared with what follows (`worlds`).
Probes visit what the policy has left (`probing`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting, two_samples
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, rules
from dqucb._kernels.learners.planning import (
    change_test,
    exploration,
    optimistic_plan,
    outcome_steps,
    plan_budget,
    probing,
)
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning import worlds as library
from dqucb._kernels.learners.planning.outcomes import ALL, AUTO, DIFFERENT
from dqucb._kernels.learners.planning.probing import Probing

FIRST_BOLD = 32  # episodes after an alarm; a power of two, as all later ones are


class PlanningLearner(NamedTuple):
    """The density of each pair, and the plan made in it."""

    outcomes: densities.Outcomes
    test: change_test.ChangeTest
    worlds: library.Worlds
    plan: optimistic_plan.Plan
    alarms: alarms.AlarmLog
    visits: NDArray[np.int64]  # (1 or H, S, A) all of them, whatever was forgotten since
    due: NDArray[np.bool_]  # (1,) whether a plan is
    probing: Probing | None


@kernel
def has_room(learner, pushes):
    """Whether as many alarms fit."""
    return alarms.has_room(learner.alarms, pushes)


@kernel
def act(learner, step, state, rng):
    """The action of the last plan, or one that is worth a look: once per state and episode."""
    plan, s = learner.plan, np.uint64(state)
    probe = probing.action_in(learner.probing, s)
    if probe != probing.NO_ACTION:
        return probe
    h = np.uint64(max(step, plan.first[0]))
    is_explored = plan.explored_at[s] == learner.alarms.now[0]
    return int(plan.policy[h, s] if is_explored else plan.looked_at[h, s])


@kernel
def greedy(learner, step, state, first):
    """The action of the last plan, which leaves no ties open."""
    return int(learner.plan.policy[np.uint64(max(step, learner.plan.first[0])), np.uint64(state)])


@kernel
def learn(learner, seen, rng):
    """Count an outcome, and plan the rest of the episode if the plan is outdated; returns (0, its likelihood)."""
    plan, s = learner.plan, np.uint64(seen.state)
    h = np.uint64(max(seen.step, plan.first[0]))
    if plan.looked_at[h, s] != plan.policy[h, s]:
        plan.explored_at[s] = learner.alarms.now[0]
    n_alarms = learner.alarms.used[0]
    p, is_outdated, is_new, is_first = count_and_test(learner, seen)
    probing.observe(learner.probing, learner.outcomes, seen, p, learner.alarms.used[0] > n_alarms)
    exploration.meet(plan, seen.next_state, is_new, seen.terminated)
    if is_outdated:
        plan_budget.replenish(plan)
    elif is_first:
        is_outdated = not (
            plan_budget.is_large(plan) and plan_budget.take_new_action(plan, learner.outcomes, np.uint64(0), s)
        )
    if is_outdated:
        plan.is_outdated[0] = True
    plan.budget[0] += plan_budget.WORK_PER_STEP
    step = seen.step + 1
    if plan.is_outdated[0] and not seen.terminated and step < plan.policy.shape[0]:
        row = np.uint64(densities.row_of(learner.outcomes, step))
        action = np.uint64(act(learner, step, seen.next_state, rng))
        if learner.outcomes.sizes[row, np.uint64(seen.next_state), action, ALL] > 0:  # any plan would take a new pair
            if plan_budget.is_affordable(plan):
                optimistic_plan.make(plan, learner.outcomes, step)
            else:
                optimistic_plan.back_up_state(plan, learner.outcomes, step, seen.next_state)
    return 0.0, p


@kernel
def count_and_test(learner, seen):
    """Count the outcome, test its pair, forget if it has changed.

    Returns (likelihood, whether the model is another one now, whether a pair that was known had a new outcome, whether
    this is the first outcome of a pair). Where pairs are modelled by step the first outcome of one says nothing of
    later steps, and does not count as such.
    """
    outcomes, worlds = learner.outcomes, learner.worlds
    state, action = np.uint64(seen.state), np.uint64(seen.action)
    learner.visits[np.uint64(min(seen.step, learner.visits.shape[0] - 1)), state, action] += 1
    row = np.uint64(densities.row_of(outcomes, seen.step))
    place, is_another = densities.locate(outcomes, row, seen)
    if is_another:
        library.forget_outcome(worlds, state, action, place)
    is_outdated = False
    is_first = False
    if worlds.counts.shape[0] > 0 and row == np.uint64(0):
        returned = library.search(worlds, outcomes, state, action, place)
        if returned != library.NONE:
            library.adopt(worlds, returned, outcomes, learner.plan.novelty)
            change_test.restart(learner.test)
            is_outdated = True
    sizes = outcomes.sizes[row, state, action]
    different = sizes[DIFFERENT]
    p = densities.count(outcomes, row, seen, place)
    n = sizes[ALL]
    is_new = n > 1 and sizes[DIFFERENT] > different
    if is_new:
        learner.plan.novelty[optimistic_plan.magnitude(n - 1)] += 1.0
    result = 0
    if densities.joins_bag(outcomes, row, seen, place, is_new):
        result = change_test.bet(learner.test, outcomes, row, state, action, place)
    if result != 0:
        forget(learner, change_test.kept_visits(learner.test) if result != betting.PAIR_ALARM else 0)
        is_outdated = True
    else:
        if outcomes.form == AUTO and not outcomes.by_step[0]:
            watch_steps(learner, seen, place)
        is_first = n == 1 and densities.shares_steps(outcomes)
    if is_outdated or is_first or n >= learner.plan.due_at[row, state, action]:
        learner.due[0] = True
    return p, is_outdated, is_new, is_first


@kernel
def watch_steps(learner, seen, place):
    """Count an outcome for its step too, and model steps apart from now on if the pair says that they differ.

    One pair refutes that steps are alike. Others were perhaps seen early in episodes only, and a shared density would
    go on to speak for their later steps, which would then never be tried. Where a pair has changed this is not asked:
    outcomes from before and after it look like steps that differ, as soon as the policy visits other steps than it did.
    """
    outcomes = learner.outcomes
    state, action = np.uint64(seen.state), np.uint64(seen.action)
    outcomes.counts[np.uint64(seen.step + 1), state, action, np.uint64(place)] += 1
    is_time = two_samples.is_power_of_two(outcomes.sizes[0, state, action, ALL])
    if is_time and outcome_steps.differ(outcomes, state, action):
        outcome_steps.split(outcomes)
        learner.due[0] = True


@kernel
def forget(learner, kept):
    """Something has changed, and so may all pairs have. Changes densities and worlds."""
    alarms.ring(learner.alarms)
    if not learner.outcomes.by_step[0]:
        library.leave(learner.worlds, learner.outcomes, learner.plan.novelty, learner.alarms.used[0])
    densities.forget(learner.outcomes, kept)
    change_test.restart(learner.test)
    learner.plan.novelty[:] = 0.0


@kernel
def finish_episode(learner, rng):
    """Plan if the density has changed enough; boldly when the episodes since the last alarm have doubled.

    A bold plan differs from others only as long as there are states that were never met.
    """
    learner.alarms.now[0] += 1
    since = learner.alarms.now[0] - alarms.last(learner.alarms)
    plan = learner.plan
    is_bold = since >= FIRST_BOLD and two_samples.is_power_of_two(since) and plan.n_met[0] < plan.met.shape[0]
    is_affordable = plan_budget.is_affordable(plan)
    plan.is_bold[0] = is_bold and is_affordable
    if (is_bold or learner.due[0]) and is_affordable:
        optimistic_plan.make(plan, learner.outcomes, 0)
        learner.due[0] = is_bold  # after a bold plan an ordinary one is due
    probing.finish_episode(learner.probing, learner.outcomes)


rules.register(PlanningLearner, has_room=has_room, act=act, greedy=greedy, learn=learn, finish_episode=finish_episode)
