"""PlanningDQUCB without a horizon: the same densities and tests, for states in order of first sight.

States get numbers when they are met, and all tables are over numbers, with room for some more. So memory grows with
what was visited, and a million states that nobody has seen cost four bytes each.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, rules
from dqucb._kernels.learners.planning import discounted_plan, planning_dqucb
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning import worlds as library
from dqucb._kernels.learners.planning.backup_queue import NONE
from dqucb._kernels.learners.planning.change_test import ChangeTest
from dqucb._kernels.learners.planning.discounted_plan import DiscountedPlan
from dqucb._kernels.learners.planning.outcomes import ALL, DIFFERENT

FIRST_STATES = 1_024  # for which there is room from the beginning


class DiscountedPlanner(NamedTuple):
    """As `planning_dqucb.PlanningLearner`, all but `number` over the numbers of states."""

    outcomes: densities.Outcomes
    test: ChangeTest
    worlds: library.Worlds
    plan: DiscountedPlan
    alarms: alarms.AlarmLog
    visits: NDArray[np.int64]  # (1, capacity, A) all of them, whatever was forgotten since
    due: NDArray[np.bool_]  # (1,) whether the plan is not finished
    number: NDArray[np.int32]  # (S,) of a state, or NONE
    n_met: NDArray[np.int64]  # (1,) states with numbers


@kernel
def has_room(learner, pushes):
    """Whether as many alarms, states and edges fit."""
    capacity, n_states = learner.visits.shape[1], learner.number.shape[0]
    return (
        alarms.has_room(learner.alarms, pushes)
        and capacity >= min(learner.n_met[0] + 2 * pushes, n_states)
        and learner.plan.n_edges[0] + pushes <= learner.plan.edges.shape[0]
    )


@kernel
def number_of(learner, state):
    """The number of a state, which it gets now if it is new."""
    number = int(learner.number[np.uint64(state)])
    if number == NONE:
        number = int(learner.n_met[0])
        learner.number[np.uint64(state)] = number
        learner.n_met[0] = number + 1
    return number


@kernel
def act(learner, step, state, rng):
    """The action of the plan, or one that is worth a look; the first one in a state that was never met."""
    number = learner.number[np.uint64(state)]
    if number != NONE and discounted_plan.is_look_due(learner.plan, number, learner.alarms.now[0]):
        return int(learner.plan.looked_at[np.uint64(number)])
    return greedy(learner, step, state, None)


@kernel
def greedy(learner, step, state, first):
    """The action of the plan, which leaves no ties open."""
    number = learner.number[np.uint64(state)]
    return int(learner.plan.policy[np.uint64(number)]) if number != NONE else 0


@kernel
def learn(learner, seen, rng):
    """As with a horizon, and then go on with the plan."""
    plan, outcomes, worlds = learner.plan, learner.outcomes, learner.worlds
    state = number_of(learner, seen.state)
    next_state = 0
    n_met = learner.n_met[0]
    if not seen.terminated:
        next_state = number_of(learner, seen.next_state)
        discounted_plan.add_edge(plan, outcomes, state, seen.action, next_state)
    unfinished, n_alarms = learner.due[0], learner.alarms.used[0]
    learner.due[0] = False
    numbered = rules.Transition(0, state, seen.action, seen.reward, next_state, seen.terminated)
    if discounted_plan.is_look_due(plan, state, learner.alarms.now[0]):
        plan.explored_at[np.uint64(state)] = learner.alarms.now[0]
    p, _, is_new, _ = planning_dqucb.count_and_test(learner, numbered)
    learner.alarms.now[0] += 1
    discounted_plan.count_arrival(plan, is_new, learner.n_met[0] > n_met, learner.n_met[0] == learner.number.shape[0])
    sizes = outcomes.sizes[0, np.uint64(state), np.uint64(seen.action)]
    discounted_plan.count_try(plan, sizes[ALL], sizes[DIFFERENT], is_new)
    has_returned = worlds.counts.shape[0] > 0 and worlds.since[0] == 0
    if has_returned or learner.alarms.used[0] > n_alarms:
        discounted_plan.renew(plan, outcomes, learner.n_met[0])
    elif learner.due[0]:
        discounted_plan.ask(plan, state, learner.n_met[0])
    if learner.due[0] or unfinished:
        is_finished = discounted_plan.make(plan, outcomes, learner.n_met[0])
        learner.due[0] = not is_finished
        plan.made[0 if is_finished else 1] += 1
    return 0.0, p


rules.register(DiscountedPlanner, has_room=has_room, act=act, greedy=greedy, learn=learn)


def enlarged(learner: DiscountedPlanner, pushes: int) -> DiscountedPlanner:
    """The same learner with room for `pushes` more transitions."""
    n_states, capacity = len(learner.number), learner.visits.shape[1]
    needed = min(int(learner.n_met[0]) + 2 * pushes, n_states)
    if needed > capacity:
        learner = with_capacity(learner, min(n_states, max(needed, capacity + capacity // 2)))
    edges, n_edges = learner.plan.edges, int(learner.plan.n_edges[0])
    if n_edges + pushes > len(edges):
        edges = _longer(edges, max(n_edges + pushes, len(edges) + len(edges) // 2), 0)
    return learner._replace(plan=learner.plan._replace(edges=edges), alarms=alarms.enlarged(learner.alarms, pushes))


def with_capacity(learner: DiscountedPlanner, capacity: int) -> DiscountedPlanner:
    """The same learner with room for so many states."""
    outcomes, plan, before = learner.outcomes, learner.plan, learner.visits.shape[1]
    lists: dict[str, Any] = {
        name: _longer(getattr(outcomes, name), capacity, 1)
        for name in ("next_states", "rewards", "counts", "kept", "recent", "known", "sizes", "bets")
    }
    ends = lists["next_states"][:, :before]
    ends[ends == before] = capacity
    fresh = discounted_plan.new_plan(capacity, plan.Q.shape[1], plan.bound, plan.discount, plan.sweeps)
    for name in ("Q", "V", "U", "policy", "looked_at", "explored_at", "variances", "weights", "worths", "newest"):
        getattr(fresh, name)[:before] = getattr(plan, name)[:before]
    for name in ("level", "after", "before"):
        getattr(fresh.queue, name)[:before] = getattr(plan.queue, name)
    return learner._replace(
        outcomes=outcomes._replace(**lists),
        plan=plan._replace(
            Q=fresh.Q,
            V=fresh.V,
            U=fresh.U,
            policy=fresh.policy,
            looked_at=fresh.looked_at,
            explored_at=fresh.explored_at,
            variances=fresh.variances,
            weights=fresh.weights,
            worths=fresh.worths,
            newest=fresh.newest,
            queue=fresh.queue._replace(ends=plan.queue.ends),
            due_at=_longer(plan.due_at, capacity, 1),
        ),
        visits=_longer(learner.visits, capacity, 1),
    )


def _longer(table: NDArray[Any], size: int, axis: int) -> NDArray[Any]:
    """A copy with zeros up to `size` on an axis."""
    shape = list(table.shape)
    shape[axis] = size
    longer = np.zeros(shape, table.dtype)  # pages that are never touched take no memory
    longer[(slice(None),) * axis + (slice(table.shape[axis]),)] = table
    return longer
