"""Walks through finite decision processes, for the streams of the detector benchmark."""

from dqucb._kernels._jit import kernel

LEARNING_RATE, DISCOUNT, LEAST_EXPLORATION, EXPLORING = 0.1, 0.95, 0.05, 10_000.0  # of the policy that learns


@kernel
def best_action(values, state):
    """The action with the largest value, the first of several."""
    best = 0
    for action in range(1, values.shape[1]):
        if values[state, action] > values[state, best]:
            best = action
    return best


@kernel
def place_in(cumulative, row, u):
    """The first place of a row of cumulative probabilities that is not below u, the last one at most."""
    place = 0
    while place < cumulative.shape[1] - 1 and cumulative[row, place] < u:
        place += 1
    return place


@kernel
def walk(successors, cumulative, policy, values, is_end, rewarded, chosen, draws, state, first, out, rewards):
    """Fill the columns of `out` (state, action, next state) and `rewards`; returns the state after the last of them.

    Parameters
    ----------
    successors, cumulative : (pairs, branches)
        Next states and their cumulative probabilities; pair = state * n_actions + action.
    policy : (n_states, n_actions)
        Cumulative probabilities of actions; without rows the policy is Q-learning with the table `values`, which is
        changed, and an exploration that falls.
    is_end : (n_states,)
        After these states the walk begins again at 0.
    rewarded : (pairs,)
        Probability of a reward of 1.
    chosen, draws : (steps,), (steps, 2)
        Uniform numbers for actions, and for next states and rewards.
    state, first : int
        Where the walk begins, and the number of its first step.
    out, rewards : (3, steps), (steps,)
        What is filled.
    """
    n_actions = values.shape[1]
    for t in range(draws.shape[0]):
        u = chosen[t]
        explore = max(LEAST_EXPLORATION, 1.0 - (first + t) / EXPLORING)
        if policy.shape[0] > 0:
            action = place_in(policy, state, u)
        elif u < explore:
            action = min(int(u / explore * n_actions), n_actions - 1)
        else:
            action = best_action(values, state)
        pair = state * n_actions + action
        branch = place_in(cumulative, pair, draws[t, 0])
        next_state = successors[pair, branch]
        reward = 1.0 if draws[t, 1] < rewarded[pair] else 0.0
        out[0, t] = state
        out[1, t] = action
        out[2, t] = next_state
        rewards[t] = reward
        if policy.shape[0] == 0:
            target = reward + DISCOUNT * values[next_state, best_action(values, next_state)]
            values[state, action] += LEARNING_RATE * (target - values[state, action])
        state = 0 if is_end[next_state] else next_state
    return state
