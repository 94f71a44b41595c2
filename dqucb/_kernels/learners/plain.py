"""The verbs of learners that act greedily on tables of final size and need no likelihood; others take some."""

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import tables


@kernel
def has_room(learner, pushes):
    """All tables have their final size."""
    return True


@kernel
def act(learner, step, state, rng):
    """argmax_a Q_h(s, a), the lowest action on ties."""
    return tables.act(learner.q, step, state)


@kernel
def greedy(learner, step, state, first):
    """argmax_a Q_h(s, a)."""
    return tables.greedy(learner.q, step, state, first)


@kernel
def exploration(learner):
    """Never at random."""
    return 0.0


@kernel
def facing(learner, model, phase):
    """Nothing is looked up in the true model."""
    return learner


@kernel
def update(learner, seen, p):
    """No likelihood divides this learner's bonus."""
    return 0.0


@kernel
def finish_episode(learner, rng):
    """Nothing waits for the end of an episode."""


@kernel
def explore(epsilon, n_actions, rng):
    """(whether to act at random, a uniformly random action, from which ties are broken too)."""
    explores = rng.random() < epsilon
    return explores, int(rng.random() * n_actions)


VERBS = {
    "has_room": has_room,
    "act": act,
    "greedy": greedy,
    "exploration": exploration,
    "facing": facing,
    "update": update,
    "finish_episode": finish_episode,
}
