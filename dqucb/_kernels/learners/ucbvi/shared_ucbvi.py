"""UCBVI with one model for all steps (rlberry's `stage_dependent=False`), planned lazily.

Q_h(s, a) = min(v_h, R^ + b_n + P^ V_{h+1}), V_h = max_a Q_h, with R^, P^ and n over all steps. It plans after an
episode, and only when the count of a pair has grown by a tenth since the last plan; the policy is that of the last
plan. A pair whose outcomes depend on the step (`step_test.py`) has a model per step from then on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import rules, shared_model, step_test, tables
from dqucb._kernels.rows import best_action


class SharedUcbvi(NamedTuple):
    """The estimated model and the last plan."""

    data: shared_model.SharedModel | step_test.StepTest
    Q: tables.Floats  # (H, S, A)
    V: tables.Floats  # (H + 1, S + 1); the last state is the end of the episode
    policy: NDArray[np.int32]  # (H, S)
    visits: NDArray[np.int64]  # (S, A); (H, S, A) where steps may be split
    shares: tables.Floats  # (S, A, width) of the outcomes, at the last plan
    rewards: tables.Floats  # (S, A) mean, at the last plan
    bounds: tables.Floats  # (H + 1,) v_h
    bonus: tables.BonusSettings


@kernel
def model_itself(data):
    return data


@kernel
def model_of_test(data):
    return data.model


@kernel
def count_shared(data, seen, visits):
    place = shared_model.place_of(data, seen)
    if place >= 0:
        shared_model.count(data, seen, place)
    visits[seen.state, seen.action] += 1
    return data.visits[seen.state, seen.action]


@kernel
def count_tested(data, seen, visits):
    was_split = data.split[seen.state, seen.action]
    step_test.observe(data, seen)
    visits[seen.step, seen.state, seen.action] += 1
    if data.split[seen.state, seen.action]:
        if not was_split:
            data.model.due[0] = True
        return float(data.step_visits[seen.state, seen.action, seen.step])
    return data.model.visits[seen.state, seen.action]


@kernel
def q_shared(data, learner, h, state, action):
    """The optimistic Q of a pair with one model for all steps."""
    v_h = learner.bounds[h]
    model = model_of(data)
    n = model.planned[state, action]
    if n == 0.0:
        return v_h
    after = shared_model.expected_value(
        model, learner.shares[state, action], state, action, learner.V[h + np.uint64(1)]
    )
    q = learner.rewards[state, action] + tables.bonus_of(learner.bonus, n, v_h) + after
    return formulas.capped_value(q, v_h)


@kernel
def q_tested(data, learner, h, state, action):
    """As `q_shared`, or in the model of the step where the pair is split."""
    if not data.split[state, action]:
        return q_shared(data, learner, h, state, action)
    v_h = learner.bounds[h]
    n = float(data.step_visits[state, action, h])
    if n == 0.0:
        return v_h
    total = 0.0
    values = learner.V[h + np.uint64(1)]
    model = data.model
    for place in range(model.known[state, action]):
        after = values[model.next_states[state, action, place]]
        total += data.step_counts[state, action, h, place] * (model.rewards[state, action, place] + after)
    return formulas.capped_value(tables.bonus_of(learner.bonus, n, v_h) + total / n, v_h)


@kernel
def nothing_is_split(data):
    return True


@kernel
def none_is_split(data):
    for state in range(data.split.shape[0]):
        for action in range(data.split.shape[1]):
            if data.split[state, action]:
                return False
    return True


def _by_data(shared, tested, summary):
    return by_type(lambda kind: tested if kind is step_test.StepTest else shared, summary)


model_of = _by_data(model_itself, model_of_test, "(data): the model of all steps.")
take_in = _by_data(count_shared, count_tested, "(data, seen, visits): count a transition; returns the pair's count.")
optimistic_q = _by_data(q_shared, q_tested, "(data, learner, h, state, action): the optimistic Q.")
all_alike = _by_data(nothing_is_split, none_is_split, "(data): whether no pair is split.")


@kernel
def act(learner, step, state, rng):
    """The policy of the last plan."""
    return int(learner.policy[np.uint64(step), np.uint64(state)])


@kernel
def greedy(learner, step, state, first):
    """The policy of the last plan; ties go to the lowest action."""
    return int(learner.policy[step, state])


@kernel
def learn(learner, seen, rng):
    """Count the transition; values are updated after the episode."""
    n = take_in(learner.data, seen, learner.visits)
    return tables.bonus_of(learner.bonus, n, learner.bounds[seen.step]), 1.0


@kernel
def finish_episode(learner, rng):
    """Plan, if it is due."""
    model = model_of(learner.data)
    if model.due[0]:
        shared_model.note_plan(model)
        shared_model.shares(model, learner.shares, learner.rewards)
        plan(learner)


@kernel
def plan(learner):
    """Backward induction. Where values have converged and v_h is constant, the earlier steps have the same values."""
    horizon, n_states = learner.policy.shape
    n_actions = learner.rewards.shape[1]
    alike = all_alike(learner.data)
    for back in range(horizon):
        h = np.uint64(horizon - 1 - back)
        values = learner.V[h]
        after = learner.V[h + np.uint64(1)]
        converged = alike and back > 0 and learner.bounds[h] == learner.bounds[h + np.uint64(1)]
        for state in range(n_states):
            for action in range(n_actions):
                learner.Q[h, state, action] = optimistic_q(
                    learner.data, learner, h, np.uint64(state), np.uint64(action)
                )
            best = best_action(learner.Q[h, state])
            best_q = learner.Q[h, state, best]
            learner.policy[h, state] = best
            values[state] = best_q
            converged = converged and best_q == after[state]
        if converged:
            for earlier in range(horizon - 1 - back):
                for state in range(n_states):
                    learner.V[earlier, state] = values[state]
                    learner.policy[earlier, state] = learner.policy[h, state]
                    for action in range(n_actions):
                        learner.Q[earlier, state, action] = learner.Q[h, state, action]
            return


rules.register(SharedUcbvi, act=act, greedy=greedy, learn=learn, finish_episode=finish_episode)
