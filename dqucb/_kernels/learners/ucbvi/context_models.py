"""RL-CD (da Silva, Basso, Bazzan and Engel 2006): partial models of the environment, one of which is active.

After each step every model m is rated by how well it predicted the transition, E_m <- E_m + rho (e_m - E_m). The model
with the largest E_m becomes the active one, or a new model if all are below the minimum quality. Only the active model
learns, and the policy is the best one in it. Its estimates are means of the first M outcomes of a pair, and from then
on forget with rate 1 / (M + 1).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel, rare_kernel
from dqucb._kernels.learners import alarms, rules, tables
from dqucb._kernels.learners.q.episodic_q import exploration
from dqucb._kernels.rows import best_action_from, largest

ACTIVE, IN_USE, SWITCHED = 0, 1, 2


class ContextModels(NamedTuple):
    """The models, models first, and the plan in the active one. Next state S is the end of the episode."""

    next_states: NDArray[np.int32]  # (models, rows S, A, width)
    shares: tables.Floats  # (models, rows S, A, width) T^ of the next states in the list
    known: NDArray[np.int32]  # (models, rows S, A) next states in the list
    rewards: tables.Floats  # (models, rows S, A) R^
    times: tables.Integers  # (models, rows S, A) N, at most M
    quality: tables.Floats  # (models,) E
    clock: tables.Integers  # (3,) the active model, models in use, whether it changed in this episode
    Q: tables.Floats  # (H, S, A) in the active model
    V: tables.Floats  # (H + 1, S + 2); the end, and the mean of all states
    visits: tables.Integers  # (rows, S, A) all of them
    alarms: alarms.AlarmLog
    memory: int  # M
    rate: float  # rho
    reward_weight: float  # Omega
    least: float  # E below which a model is not used
    low: float  # the lowest reward
    high: float  # the highest
    epsilon: float
    stride: int  # S with a model per step, else 0


@kernel
def act(learner, step, state, rng):
    """Epsilon-greedy in the active model, ties at random."""
    explores, action = rules.explore(learner.epsilon, learner.Q.shape[2], rng)
    return action if explores else best_action_from(learner.Q[step, state], action)


@kernel
def greedy(learner, step, state, first):
    """The best action in the active model."""
    return best_action_from(learner.Q[step, state], first)


@kernel
def place_of(learner, model, row, action, after):
    """The place of a next state in the list of a model; the end of the list if it is new."""
    known = learner.known[model, row, action]
    for place in range(known):
        if learner.next_states[model, row, action, place] == after:
            return place
    return known


@kernel
def instantaneous_quality(learner, model, row, action, reward, after):
    """e_m of a transition; 0 for a pair that the model has not met."""
    n = learner.times[model, row, action]
    if n == 0:
        return 0.0
    seen = place_of(learner, model, row, action, after)
    miss = 0.0 if seen < learner.known[model, row, action] else 1.0
    for place in range(learner.known[model, row, action]):
        error = (1.0 if place == seen else 0.0) - learner.shares[model, row, action, place]
        miss += error * error
    error = (reward - learner.rewards[model, row, action]) / (learner.high - learner.low)
    return formulas.context_quality(n / learner.memory, learner.reward_weight, miss, error * error)


@kernel
def selected(learner):
    """The model with the largest quality; a new one if that is too low."""
    in_use = learner.clock[IN_USE]
    best = worst = 0
    for model in range(1, in_use):
        if learner.quality[model] > learner.quality[best]:
            best = model
        if learner.quality[model] < learner.quality[worst]:
            worst = model
    if learner.quality[best] >= learner.least:
        return best
    new = in_use
    if in_use == learner.quality.shape[0]:
        new = worst
    else:
        learner.clock[IN_USE] += 1
    learner.quality[new] = 0.0
    learner.known[new] = np.int32(0)
    learner.rewards[new] = 0.0
    learner.times[new] = 0
    return new


@kernel
def update_model(learner, model, row, action, reward, after):
    """T^ <- T^ + (1{next state} - T^) / (N + 1), R^ <- R^ + (r - R^) / (N + 1), N <- min(N + 1, M)."""
    shares = learner.shares[model, row, action]
    seen = place_of(learner, model, row, action, after)
    if seen == shares.shape[0]:
        return
    n = learner.times[model, row, action]
    if seen == learner.known[model, row, action]:
        learner.next_states[model, row, action, seen] = after
        learner.known[model, row, action] += 1
        shares[seen] = 0.0
    for place in range(learner.known[model, row, action]):
        shares[place] = formulas.running_mean(shares[place], 1.0 if place == seen else 0.0, n + 1.0)
    learner.rewards[model, row, action] = formulas.running_mean(learner.rewards[model, row, action], reward, n + 1.0)
    learner.times[model, row, action] = min(n + 1, learner.memory)


@rare_kernel
def make_plan(learner):
    """Backward induction in the active model, in which a new pair leads anywhere and pays nothing."""
    model = learner.clock[ACTIVE]
    horizon, n_states, n_actions = learner.Q.shape
    for back in range(horizon):
        h = horizon - 1 - back
        after = learner.V[h + 1]
        mean = 0.0
        for state in range(n_states):
            row = h * learner.stride + state
            for action in range(n_actions):
                q = after[n_states + 1]
                if learner.times[model, row, action] > 0:
                    q = learner.rewards[model, row, action]
                    for place in range(learner.known[model, row, action]):
                        share = learner.shares[model, row, action, place]
                        q += share * after[learner.next_states[model, row, action, place]]
                learner.Q[h, state, action] = q
            learner.V[h, state] = largest(learner.Q[h, state])
            mean += learner.V[h, state]
        learner.V[h, n_states + 1] = mean / n_states


@kernel
def learn(learner, seen, rng):
    """Rate all models, select the active one and let it learn; a model that becomes active is planned in at once."""
    n_states = learner.Q.shape[1]
    row = seen.step * learner.stride + seen.state
    after = n_states if seen.terminated else seen.next_state
    for model in range(learner.clock[IN_USE]):
        e = instantaneous_quality(learner, model, row, seen.action, seen.reward, after)
        learner.quality[model] = formulas.blend(learner.quality[model], e, learner.rate)
    active = selected(learner)
    update_model(learner, active, row, seen.action, seen.reward, after)
    learner.visits[row // n_states, seen.state, seen.action] += 1
    if active != learner.clock[ACTIVE]:
        learner.clock[ACTIVE] = active
        learner.clock[SWITCHED] = 1
        make_plan(learner)
    return 0.0, 1.0


@kernel
def finish_episode(learner, rng):
    """Plan with what was learned; record a change of the active model."""
    if learner.clock[SWITCHED] == 1:
        alarms.ring(learner.alarms)
        learner.clock[SWITCHED] = 0
    learner.alarms.now[0] += 1
    make_plan(learner)


rules.register(
    ContextModels, has_room=alarms.has_room_for_one, act=act, greedy=greedy, exploration=exploration, learn=learn,
    finish_episode=finish_episode,
)  # fmt: skip
