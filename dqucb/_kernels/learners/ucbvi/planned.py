"""Shared by learners that count outcomes and plan lazily: a model of all steps or one per step, and the plan in it.

    Q_h(s, a) = min(v_h, R^ + b + P^ V_{h+1}),  V_h(s) = max_a Q_h(s, a)
The counts are those of `shared_model.py`. With a model per step (`stride` = S), state s at step h is row h S + s of the
model; with one model for all steps (`stride` = 0) it is row s. Two more columns of V are no states: S is the end of the
episode, with value 0, and S + 1 stands for the successor of unobserved outcomes, with the value of one state, which a
rule may draw. The type of `rule` decides what b is: a bonus, or the share of unobserved outcomes, drawn from a
posterior.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import rules, shared_model, tables


class Plan(NamedTuple):
    """The model and the last plan."""

    model: shared_model.SharedModel  # of rows times S states
    V: tables.Floats  # (H + 1, S + 2)
    policy: NDArray[np.int32]  # (H, S)
    shares: tables.Floats  # (rows S, A, width + 1) of the outcomes at the last plan, and of unobserved ones
    rewards: tables.Floats  # (rows S, A) mean, at the last plan
    bounds: tables.Floats  # (H + 1,) v_h
    stride: int  # S with a model per step, else 0


class Posterior(NamedTuple):
    """The rule of posterior sampling: shares are drawn."""

    scale: float  # of the posterior's width; 1 is Bayes' rule
    prior: float  # visits that an unobserved outcome counts for
    reward: float  # the largest


@kernel
def row_of(plan, step, state):
    """The row of the model to which a state belongs."""
    return step * plan.stride + state


@kernel
def act(learner, step, state, rng):
    """The action of the last plan."""
    return int(learner.plan.policy[np.uint64(step), np.uint64(state)])


@kernel
def greedy(learner, step, state, first):
    """The same; ties went to the lowest action."""
    return int(learner.plan.policy[step, state])


@kernel
def count(plan, seen, visits):
    """Count a transition in the model and in `visits`. Returns (row, place); place -1 if there is no room for it."""
    n_states = plan.policy.shape[1]
    row = row_of(plan, seen.step, seen.state)
    after = n_states if seen.terminated else seen.next_state
    placed = rules.Transition(seen.step, row, seen.action, seen.reward, after, False)
    place = shared_model.place_of(plan.model, placed)
    if place >= 0:
        shared_model.count(plan.model, placed, place)
    visits[row // n_states, seen.state, seen.action] += 1
    return row, place


@kernel
def bonus_of_visit(bonus, plan, row, seen):
    """The bonus of a pair after its count."""
    n = max(1.0, plan.model.visits[row, seen.action])
    return tables.bonus_of(bonus, n, plan.bounds[seen.step])


@kernel
def forget(plan):
    """Empty the model; a plan is due."""
    model = plan.model
    model.counts[:] = 0.0
    model.known[:] = np.int32(0)
    model.distinct[:] = np.int32(0)
    model.visits[:] = 0.0
    model.planned[:] = 0.0
    model.due[0] = True
    plan.shares[:] = 0.0


# ---- rules ------------------------------------------------------------------------------------------------


@kernel
def optimistic_q(rule, plan, h, row, action):
    """R^ + b_n + P^ V_{h+1}; v_h for a pair that has not been tried."""
    v_h = plan.bounds[h]
    n = plan.model.planned[row, action]
    if n == 0.0:
        return v_h
    after = shared_model.expected_value(plan.model, plan.shares[row, action], row, action, plan.V[h + np.uint64(1)])
    return formulas.capped_value(plan.rewards[row, action] + tables.bonus_of(rule, n, v_h) + after, v_h)


@kernel
def sampled_q(rule, plan, h, row, action):
    """The same in a model drawn from the posterior, without a bonus."""
    share = plan.shares[row, action]
    values = plan.V[h + np.uint64(1)]
    after = shared_model.expected_value(plan.model, share, row, action, values)
    unobserved = share[share.shape[0] - 1] * values[values.shape[0] - 1]
    return formulas.capped_value(plan.rewards[row, action] + after + unobserved, plan.bounds[h])


@kernel
def mean_shares(rule, plan, rng):
    """Shares and rewards as counted; returns any state, which no outcome leads to."""
    shared_model.shares(plan.model, plan.shares, plan.rewards)
    return 0


@kernel
def drawn_shares(rule, plan, rng):
    """Shares from the Dirichlet posterior: independent gamma draws over their sum. Returns the drawn successor.

    One state, drawn with the model. The mean of all states would leave no chance that an unobserved outcome leads to a
    good one, and 4 of 16 runs on a random MDP then kept a bad policy for good.
    """
    model = plan.model
    narrow = 1.0 / (rule.scale * rule.scale)
    last = plan.shares.shape[2] - 1
    for row in range(plan.shares.shape[0]):
        for action in range(plan.shares.shape[1]):
            share = plan.shares[row, action]
            known = model.known[row, action]
            total = 0.0
            for place in range(known):
                share[place] = rng.standard_gamma(model.counts[row, action, place] * narrow)
                total += share[place]
            share[last] = rng.standard_gamma(rule.prior * narrow)
            total += share[last]
            if total == 0.0:  # all underflowed: nothing is known
                share[last] = 1.0
                total = 1.0
            share[last] /= total
            reward = share[last] * rule.reward * rng.random()
            for place in range(known):
                share[place] /= total
                reward += share[place] * model.rewards[row, action, place]
            plan.rewards[row, action] = reward
    return int(rng.random() * plan.policy.shape[1])


_RULES = {tables.BonusSettings: (optimistic_q, mean_shares), Posterior: (sampled_q, drawn_shares)}
q_of = by_type(lambda kind: _RULES[kind][0], "(rule, plan, h, row, action): the action value of the last plan.")
estimate = by_type(
    lambda kind: _RULES[kind][1], "(rule, plan, rng): fill shares and rewards; returns the state of column S + 1 of V."
)


# ---- planning ---------------------------------------------------------------------------------------------


@kernel
def plan_if_due(rule, plan, rng):
    """Replan if the counts have grown enough since the last plan."""
    if plan.model.due[0]:
        make(rule, plan, rng)


@kernel
def make(rule, plan, rng):
    """Backward induction. Where values have converged and v_h is constant, the earlier steps have the same values."""
    shared_model.note_plan(plan.model)
    elsewhere = estimate(rule, plan, rng)
    horizon, n_states = plan.policy.shape
    for back in range(horizon):
        h = np.uint64(horizon - 1 - back)
        values, after = plan.V[h], plan.V[h + np.uint64(1)]
        converged = plan.stride == 0 and back > 0 and plan.bounds[h] == plan.bounds[h + np.uint64(1)]
        for state in range(n_states):
            row = np.uint64(row_of(plan, horizon - 1 - back, state))
            best = 0
            best_q = q_of(rule, plan, h, row, np.uint64(0))
            for action in range(1, plan.rewards.shape[1]):
                q = q_of(rule, plan, h, row, np.uint64(action))
                if q > best_q:
                    best = action
                    best_q = q
            plan.policy[h, state] = best
            values[state] = best_q
            converged = converged and best_q == after[state]
        values[n_states + 1] = values[elsewhere]
        if converged:
            for earlier in range(horizon - 1 - back):
                for state in range(n_states):
                    plan.V[earlier, state] = values[state]
                    plan.policy[earlier, state] = plan.policy[h, state]
                plan.V[earlier, n_states + 1] = values[n_states + 1]
            return


@kernel
def q_table(rule, plan, q):
    """Fill q[h, s, a] with the action values of the last plan."""
    for h in range(q.shape[0]):
        for state in range(q.shape[1]):
            for action in range(q.shape[2]):
                row = np.uint64(row_of(plan, h, state))
                q[h, state, action] = q_of(rule, plan, np.uint64(h), row, np.uint64(action))
