"""The functions of learners as single calls, for loops in Python."""

from dqucb._kernels._jit import kernel
from dqucb._kernels.draws import generator
from dqucb._kernels.learners import rules


@kernel
def act(learner, step, state, draws):
    """The learner's action."""
    return rules.act(learner, step, state, generator(draws))


@kernel
def learn(learner, transition, draws):
    """Learn from one transition; return (bonus, likelihood)."""
    return rules.learn(learner, transition, generator(draws))


@kernel
def learn_with_model(learner, model, phase, transition, draws):
    """As `learn`, with the true model and the current phase, which only oracle agents use."""
    return rules.learn(rules.with_model(learner, model, phase), transition, generator(draws))


@kernel
def update(learner, transition, p):
    """Learn from one transition with a given likelihood; return the bonus."""
    return rules.update(learner, transition, p)


@kernel
def finish_episode(learner, draws):
    """End an episode."""
    rules.finish_episode(learner, generator(draws))


@kernel
def greedy(learner, step, state):
    """The greedy action, the lowest on ties."""
    return rules.greedy(learner, step, state, 0)


@kernel
def greedy_table(learner, policy):
    """Fill policy[h, s] with the greedy actions."""
    for step in range(policy.shape[0]):
        for state in range(policy.shape[1]):
            policy[step, state] = rules.greedy(learner, step, state, 0)
