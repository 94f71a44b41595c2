"""Default functions of learners: greedy actions on tables of fixed size, without a likelihood."""

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import tables


@kernel
def has_room(learner, pushes):
    """Always true: all tables have a fixed size."""
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
    """No random actions."""
    return 0.0


@kernel
def with_model(learner, model, phase):
    """The learner itself: the true model is used by oracle agents only."""
    return learner


@kernel
def update(learner, transition, p):
    """The bonus of this learner does not use a likelihood."""
    return 0.0


@kernel
def finish_episode(learner, rng):
    """Nothing to do at the end of an episode."""


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
    "with_model": with_model,
    "update": update,
    "finish_episode": finish_episode,
}
