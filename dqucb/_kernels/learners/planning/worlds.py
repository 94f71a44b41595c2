"""Worlds that were left and may return: what each pair did in them, and how well each explains what happens now.

At an alarm the counts of the world that ends are put away. Until the new one has settled, every world j put away
predicts what is seen, and so do the counts since the alarm and the world just left, all with add-one smoothing:
    now_j  = sum ln(p_j / p_now),  left_j = sum ln(p_j / p_left).
A world with both above `ADOPT` is back: its counts join those since the alarm. It must explain what the world just left
cannot, so that a world of which only a part has changed is not taken for an old one that is equal elsewhere. A world
that was wrong gives an alarm soon and is out of question until some world has settled.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning.optimistic_plan import SIZES
from dqucb._kernels.learners.planning.outcomes import ALL, DIFFERENT, RECENT

N_WORLDS = 4
ADOPT = 4.0  # nats
SETTLING = 10  # visits of each pair on average, after which a world has settled
NONE = -1


class Worlds(NamedTuple):
    """Counts of worlds that were left, at the places of the lists of now."""

    counts: NDArray[np.int64]  # (worlds, S, A, width)
    novelty: NDArray[np.float64]  # (worlds, SIZES), as in the plan
    now: NDArray[np.float64]  # (worlds,) evidence against what was seen since the alarm
    left: NDArray[np.float64]  # (worlds,) against the world just left
    refuted: NDArray[np.bool_]  # (worlds,) since a world has settled
    left_at: NDArray[np.int64]  # (worlds,) the number of the alarm at which a world was put away; 0: never
    current: NDArray[np.int64]  # (1,) the world of now, or NONE
    before: NDArray[np.int64]  # (1,) the world just left, or NONE
    since: NDArray[np.int64]  # (1,) visits since the last alarm, or since a world came back
    searching: NDArray[np.bool_]  # (1,) whether worlds predict


def new_worlds(n_worlds: int, n_states: int, n_actions: int, width: int) -> Worlds:
    """No world was left yet."""
    return Worlds(
        counts=np.zeros((n_worlds, n_states, n_actions, width), np.int64),
        novelty=np.zeros((n_worlds, SIZES)),
        now=np.zeros(n_worlds),
        left=np.zeros(n_worlds),
        refuted=np.zeros(n_worlds, np.bool_),
        left_at=np.zeros(n_worlds, np.int64),
        current=np.full(1, NONE),
        before=np.full(1, NONE),
        since=np.zeros(1, np.int64),
        searching=np.zeros(1, np.bool_),
    )


@kernel
def has_settled(worlds):
    """Whether enough was seen since the last alarm."""
    _, n_states, n_actions, _ = worlds.counts.shape
    return worlds.since[0] >= SETTLING * n_states * n_actions


@kernel
def leave(worlds, outcomes, novelty, alarm):
    """Put the world away that ends with an alarm of this number, if it had settled, and begin to search."""
    if worlds.counts.shape[0] == 0:
        return
    if has_settled(worlds):
        worlds.refuted[:] = False
        if worlds.current[0] == NONE:
            worlds.current[0] = oldest(worlds)
        world = worlds.current[0]
        put_away(worlds, world, outcomes, novelty)
    if worlds.current[0] != NONE:
        world = worlds.current[0]
        worlds.left_at[world] = alarm
        worlds.refuted[world] = True
        worlds.before[0] = world
    worlds.current[0] = NONE
    worlds.since[0] = 0
    worlds.now[:] = 0.0
    worlds.left[:] = 0.0
    worlds.searching[0] = True


@kernel
def put_away(worlds, world, outcomes, novelty):
    """Copy the counts of now to the place of a world, but for windows, some of which are after the change."""
    _, n_states, n_actions, width = outcomes.counts.shape
    for state in range(n_states):
        for action in range(n_actions):
            sizes = outcomes.sizes[0, state, action]
            without = 1 if 2 * sizes[RECENT] <= sizes[ALL] else 0
            for i in range(width):
                c = outcomes.counts[0, state, action, i] - without * outcomes.recent[0, state, action, i]
                worlds.counts[world, state, action, i] = c
    for size in range(len(novelty)):
        worlds.novelty[world, size] = novelty[size]


@kernel
def oldest(worlds):
    """The place of the world that was left longest ago, or of none."""
    place = 0
    for world in range(1, worlds.counts.shape[0]):
        if worlds.left_at[world] < worlds.left_at[place]:
            place = world
    return place


@kernel
def forget_outcome(worlds, state, action, place):
    """The place in the list of a pair belongs to another outcome now."""
    for world in range(worlds.counts.shape[0]):
        worlds.counts[world, state, action, place] = 0


@kernel
def likelihood(worlds, world, outcomes, state, action, place):
    """Of an outcome in a world put away, if what was seen since the alarm was seen in it too."""
    c, n = outcomes.counts[0, state, action, place], outcomes.sizes[0, state, action, ALL]
    if world != NONE:
        c += worlds.counts[world, state, action, place]
        for i in range(worlds.counts.shape[3]):
            n += worlds.counts[world, state, action, i]
    return formulas.outcome_likelihood(c, n, outcomes.known[0, state, action])


@kernel
def search(worlds, outcomes, state, action, place):
    """Let worlds predict an outcome before it is counted; returns the world that is back, or NONE. Changes evidence."""
    worlds.since[0] += 1
    if not worlds.searching[0]:
        return NONE
    if has_settled(worlds):
        worlds.searching[0] = False
        return NONE
    p_now = likelihood(worlds, NONE, outcomes, state, action, place)
    p_left = likelihood(worlds, worlds.before[0], outcomes, state, action, place)
    for world in range(worlds.counts.shape[0]):
        if worlds.left_at[world] > 0 and not worlds.refuted[world]:
            p = likelihood(worlds, world, outcomes, state, action, place)
            worlds.now[world] += math.log(p / p_now)
            worlds.left[world] += math.log(p / p_left)
            if min(worlds.now[world], worlds.left[world]) > ADOPT:
                return world
    return NONE


@kernel
def adopt(worlds, world, outcomes, novelty):
    """A world is back: its counts join those since the alarm, and windows begin anew. Changes all three."""
    for state in range(outcomes.counts.shape[1]):
        for action in range(outcomes.counts.shape[2]):
            sizes = outcomes.sizes[0, state, action]
            for i in range(outcomes.counts.shape[3]):
                c = worlds.counts[world, state, action, i]
                if c > 0 and outcomes.counts[0, state, action, i] == 0:
                    sizes[DIFFERENT] += 1
                outcomes.counts[0, state, action, i] += c
                sizes[ALL] += c
            densities.fill_bag(outcomes, 0, state, action)
    for size in range(len(novelty)):
        novelty[size] += worlds.novelty[world, size]
    worlds.current[0] = world
    worlds.since[0] = 0
    worlds.searching[0] = False
