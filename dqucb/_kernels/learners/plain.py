"""The verbs of learners that act greedily on a table Q of final size and need no likelihood; others take some."""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.rows import best_action, best_action_from


@kernel
def has_room(learner, pushes):
    """All tables have their final size."""
    return True


@kernel
def act(learner, step, state, rng):
    """argmax_a Q_h(s, a), the lowest action on ties."""
    return best_action(learner.Q[np.uint64(step), np.uint64(state)])


@kernel
def greedy(learner, step, state, first):
    """argmax_a Q_h(s, a)."""
    return best_action_from(learner.Q[step, state], first)


@kernel
def exploration(learner):
    """Never at random."""
    return 0.0


@kernel
def update(learner, seen, p):
    """No likelihood divides this learner's bonus."""
    return 0.0


@kernel
def finish_episode(learner, rng):
    """Nothing waits for the end of an episode."""


VERBS = {
    "has_room": has_room,
    "act": act,
    "greedy": greedy,
    "exploration": exploration,
    "update": update,
    "finish_episode": finish_episode,
}
