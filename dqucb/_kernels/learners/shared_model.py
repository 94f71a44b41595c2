"""A model of counts shared by all steps: the outcomes of every pair (s, a).

An outcome is (next state, reward); all terminal states are one next state, number S, whose value is zero. A pair keeps
a list of its outcomes in order of first occurrence. Continuous rewards would make it grow without limit, so only
`extra` outcomes may repeat a next state; further ones are added to an outcome with that next state, whose reward is
then their mean. The mean of r + V(s') is exact either way.

Planning costs far more than a step, so it is done lazily: `count` notes when the count of some pair has grown by a
tenth since the last plan.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel

GROWTH = 0.1  # of a pair's count that makes a new plan due


class SharedModel(NamedTuple):
    """Outcomes and counts, now and at the last plan."""

    next_states: NDArray[np.int32]  # (S, A, width); S is the end of the episode
    rewards: NDArray[np.float64]  # (S, A, width)
    counts: NDArray[np.float64]  # (S, A, width)
    known: NDArray[np.int32]  # (S, A) outcomes in the list
    distinct: NDArray[np.int32]  # (S, A) next states in the list
    visits: NDArray[np.float64]  # (S, A) the sum of the counts
    planned: NDArray[np.float64]  # (S, A) visits at the last plan
    due: NDArray[np.bool_]  # (1,) whether to replan
    extra: int  # outcomes that may repeat a next state


def new_model(n_states: int, n_actions: int, max_successors: int, extra: int = 4) -> SharedModel:
    """An empty model, for pairs of at most `max_successors` next states."""
    pairs = (n_states, n_actions)
    lists = (*pairs, max_successors + extra)
    return SharedModel(
        next_states=np.zeros(lists, np.int32),
        rewards=np.zeros(lists),
        counts=np.zeros(lists),
        known=np.zeros(pairs, np.int32),
        distinct=np.zeros(pairs, np.int32),
        visits=np.zeros(pairs),
        planned=np.zeros(pairs),
        due=np.ones(1, np.bool_),
        extra=extra,
    )


def widened(model: SharedModel, max_successors: int) -> SharedModel:
    """The same model with capacity for more next states."""
    more = [(0, 0), (0, 0), (0, max(0, max_successors + model.extra - model.counts.shape[2]))]
    return model._replace(
        next_states=np.pad(model.next_states, more),
        rewards=np.pad(model.rewards, more),
        counts=np.pad(model.counts, more),
    )


def problem_with(model: SharedModel) -> str | None:
    """What is wrong with tables from a file, in words; None if kernels can use them."""
    n_states, _, width = model.counts.shape
    listed = np.arange(width) < model.known[..., None]
    ended = (model.next_states < 0) | (model.next_states > n_states)
    if ((model.known < 0) | (model.known > width)).any() or ended.any():
        return "outcomes must be states of the problem, no more than fit into the lists"
    if ((model.counts < 0) | (~listed & (model.counts != 0))).any():
        return "counts must be positive where an outcome is listed, and zero elsewhere"
    if not np.array_equal(model.counts.sum(axis=2), model.visits) or (model.planned > model.visits).any():
        return "visits must be the sums of counts, and no fewer than were planned with"
    ordered = np.sort(np.where(listed, model.next_states, -1), axis=2)
    distinct = (np.diff(ordered, axis=2, prepend=-1) > 0).sum(axis=2)
    if not np.array_equal(distinct, model.distinct):
        return "distinct must count the next states of each pair"
    return None


@kernel
def next_state_of(model, seen):
    """The next state, S for every terminal one."""
    return model.known.shape[0] if seen.terminated else seen.next_state


@kernel
def place_of(model, seen):
    """The position of the outcome in the list of its pair: an existing one, or the end; -1 if the list is full."""
    state, action = np.uint64(seen.state), np.uint64(seen.action)
    next_state = next_state_of(model, seen)
    known = model.known[state, action]
    same_state = -1
    for place in range(known):
        if model.next_states[state, action, place] == next_state:
            if model.rewards[state, action, place] == seen.reward:
                return place
            same_state = place
    if same_state >= 0 and known - model.distinct[state, action] >= model.extra:
        return same_state
    return known if known < model.counts.shape[2] else -1


@kernel
def count(model, seen, place):
    """Count the outcome at its position (`place_of`); replanning may become due. Changes the model."""
    state, action = np.uint64(seen.state), np.uint64(seen.action)
    if place == model.known[state, action]:
        next_state = next_state_of(model, seen)
        is_new = True
        for other in range(place):
            if model.next_states[state, action, other] == next_state:
                is_new = False
        model.next_states[state, action, place] = next_state
        model.rewards[state, action, place] = seen.reward
        model.known[state, action] += 1
        if is_new:
            model.distinct[state, action] += 1
    times = model.counts[state, action, place] + 1.0
    model.counts[state, action, place] = times
    if model.rewards[state, action, place] != seen.reward:
        model.rewards[state, action, place] = formulas.running_mean(
            model.rewards[state, action, place], seen.reward, times
        )
    visits = model.visits[state, action] + 1.0
    model.visits[state, action] = visits
    planned = model.planned[state, action]
    if visits >= planned + max(1.0, GROWTH * planned):
        model.due[0] = True


@kernel
def note_plan(model):
    """Note that a plan was made from the current counts."""
    model.due[0] = False
    for state in range(model.visits.shape[0]):
        for action in range(model.visits.shape[1]):
            model.planned[state, action] = model.visits[state, action]


@kernel
def shares(model, out, rewards):
    """Fill out[s, a, i] with the share of each outcome and rewards[s, a] with the mean reward; zeros for new pairs."""
    for state in range(out.shape[0]):
        for action in range(out.shape[1]):
            n = model.visits[state, action]
            mean = 0.0
            for place in range(model.known[state, action]):
                share = model.counts[state, action, place] / n
                out[state, action, place] = share
                mean += share * model.rewards[state, action, place]
            rewards[state, action] = mean


@kernel
def expected_value(model, share, state, action, next_values):
    """sum_y P^(y) V(y) of a pair, `share` being its row of `shares`; next_values[S] is zero."""
    total = 0.0
    for place in range(model.known[state, action]):
        total += share[place] * next_values[np.uint64(model.next_states[state, action, place])]
    return total
