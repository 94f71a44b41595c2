"""The learners' verbs one call at a time, for loops that live in Python."""

from dqucb._kernels._jit import kernel
from dqucb._kernels.draws import generator
from dqucb._kernels.learners import rules


@kernel
def act(learner, step, state, draws):
    """The action that the learner takes."""
    return rules.act(learner, step, state, generator(draws))


@kernel
def learn(learner, seen, draws):
    """Take in one transition; returns (bonus, likelihood)."""
    return rules.learn(learner, seen, generator(draws))


@kernel
def learn_facing(learner, model, phase, seen, draws):
    """The same for a learner that looks at the true model and the phase in force."""
    return rules.learn(rules.facing(learner, model, phase), seen, generator(draws))


@kernel
def update(learner, seen, p):
    """Take in one transition whose likelihood the caller knows; returns the bonus."""
    return rules.update(learner, seen, p)


@kernel
def finish_episode(learner, draws):
    """Whatever waits for the end of an episode."""
    rules.finish_episode(learner, generator(draws))


@kernel
def has_room(learner, pushes):
    """Whether the learner takes this many transitions without new memory."""
    return rules.has_room(learner, pushes)


@kernel
def greedy(learner, step, state):
    """The action that the learner believes best, the lowest on ties."""
    return rules.greedy(learner, step, state, 0)


@kernel
def greedy_table(learner, policy):
    """Fill policy[h, s] with the action that the learner believes best."""
    for step in range(policy.shape[0]):
        for state in range(policy.shape[1]):
            policy[step, state] = rules.greedy(learner, step, state, 0)
