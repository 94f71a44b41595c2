"""NS-NAC (Jali, Pathak, Sharma, Qu and Joshi 2025): a natural actor-critic for the average reward, with restarts.

At every step, with the constant step sizes alpha, beta and gamma,
    eta <- eta + gamma (r - eta),
    Q(s, a) <- Q(s, a) + alpha (r - eta + Q(s', a') - Q(s, a)),
    pi(a | s) <- pi(a | s) exp(beta Q(s, a)) / normalisation, for all pairs.
After a fixed number of steps everything restarts. The logarithm of pi is a sum of Q over time; a pair's part of it is
added when its Q changes, so that a step takes time of the order of A.
"""

import math
from typing import NamedTuple

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import policy, rules, tables
from dqucb._kernels.planning import backup, register_policy

TIME, ROW, STATE, ACTION = 0, 1, 2, 3
REWARD, MEAN = 0, 1


class NaturalActorCritic(NamedTuple):
    """Critic, actor and the last transition, which is learned from when the next action is known."""

    Q: tables.Floats  # (rows, S, A)
    sums: tables.Floats  # (rows, S, A) beta times the sum of Q, up to `since`
    since: tables.Integers  # (rows, S, A)
    visits: tables.Integers  # (rows, S, A)
    last: tables.Integers  # (4,) steps since the restart; row, state and action of the last transition, row -1 for none
    values: tables.Floats  # (2,) its reward, and eta
    critic_rate: float  # alpha, and gamma
    actor_rate: float  # beta
    limit: float  # of |Q|
    low: float  # the lowest reward
    span: float  # the highest minus the lowest: rewards are scaled to [0, 1]
    segment: int  # steps between restarts
    by_step: bool  # whether there are rows for each step


@kernel
def row_of(learner, step):
    """The row of a step."""
    return step if learner.by_step else 0


@kernel
def preference(learner, row, state, action):
    """ln pi(a | s) up to a constant of the state."""
    elapsed = learner.last[TIME] - learner.since[row, state, action]
    return learner.sums[row, state, action] + learner.actor_rate * learner.Q[row, state, action] * elapsed


@kernel
def greedy(learner, step, state, first):
    """The most likely action; on ties the first one from `first` on."""
    row = row_of(learner, step)
    n_actions = learner.Q.shape[2]
    best = first
    for offset in range(1, n_actions):
        action = (first + offset) % n_actions
        if preference(learner, row, state, action) > preference(learner, row, state, best):
            best = action
    return best


@kernel
def weight(learner, row, state, action, top):
    """pi(a | s) times the normalisation."""
    return math.exp(preference(learner, row, state, action) - top)


@kernel
def normalisation(learner, row, state):
    """(the largest preference, the sum of weights relative to it)."""
    top = preference(learner, row, state, greedy(learner, row, state, 0))
    total = 0.0
    for action in range(learner.Q.shape[2]):
        total += weight(learner, row, state, action, top)
    return top, total


@kernel
def act(learner, step, state, rng):
    """An action drawn from the policy."""
    row = row_of(learner, step)
    top, total = normalisation(learner, row, state)
    left = rng.random() * total
    for action in range(learner.Q.shape[2] - 1):
        left -= weight(learner, row, state, action, top)
        if left < 0.0:
            return action
    return learner.Q.shape[2] - 1


@kernel
def learn(learner, seen, rng):
    """Learn from the last transition, whose next state and action are those of this one; restart if it is due."""
    row = row_of(learner, seen.step)
    last = learner.last
    if last[TIME] == learner.segment:
        restart(learner)
    if last[ROW] >= 0:
        mean, reward = learner.values[MEAN], learner.values[REWARD]
        here = (last[ROW], last[STATE], last[ACTION])
        q = learner.Q[here]
        error = reward - mean + learner.Q[row, seen.state, seen.action] - q
        last[TIME] += 1
        learner.sums[here] = preference(learner, last[ROW], last[STATE], last[ACTION])
        learner.since[here] = last[TIME]
        learner.Q[here] = min(learner.limit, max(-learner.limit, q + learner.critic_rate * error))
        learner.values[MEAN] = formulas.blend(mean, reward, learner.critic_rate)
    last[ROW], last[STATE], last[ACTION] = row, seen.state, seen.action
    learner.values[REWARD] = (seen.reward - learner.low) / learner.span
    learner.visits[row, seen.state, seen.action] += 1
    return 0.0, 1.0


@kernel
def restart(learner):
    """Forget all but the visits."""
    learner.Q[:] = 0.0
    learner.sums[:] = 0.0
    learner.since[:] = 0
    learner.values[:] = 0.0
    learner.last[TIME] = 0
    learner.last[ROW] = -1


class SoftmaxPolicy(NamedTuple):
    """The policy, for its exact value."""

    learner: NaturalActorCritic


@kernel
def softmax_policy(learner):
    """The current policy."""
    return SoftmaxPolicy(learner)


@kernel
def softmax_value(policy, model, row, step, state, discount, next_values):
    """The backup of a state under the policy."""
    learner = policy.learner
    here = row_of(learner, step)
    top, total = normalisation(learner, here, state)
    value = 0.0
    for action in range(model.n_actions):
        value += weight(learner, here, state, action, top) / total * backup(model, row + action, discount, next_values)
    return value


rules.register(NaturalActorCritic, act=act, greedy=greedy, learn=learn)
policy.POLICIES[NaturalActorCritic] = softmax_policy
register_policy(SoftmaxPolicy, softmax_value)
