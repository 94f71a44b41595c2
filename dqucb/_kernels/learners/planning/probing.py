"""Probes: episodes spent where the policy no longer goes, so that a change there can be found at all.

A greedy agent never learns that a prize has appeared, or a shortcut opened, off its path. Probes pay for that knowledge
from a budget that is a share of the return: each episode adds `share` times the usual return to an account, and a probe
may begin when the account holds the usual return of an episode, the most that it can cost where rewards are not
negative. What it did cost is taken off afterwards.

A place is stale if it was not visited for half of the longest time that any known place was not, and for at least
1 / share episodes. Places are states in one probe, because one visit of a state can tell that its rewards have changed,
and pairs in the next, because transitions change by pair. A probe leads to the nearest stale place, and from there to
the next one: with gamma = 1 - 1 / S,
    W(s) = max_a [1 if (s, a) is stale else gamma sum p^ W(y)].
If it sees an outcome that is new to its pair, it turns to this pair alone and returns to it, whatever the account
holds, as long as outcomes that were never seen before follow: one of them is not yet an alarm.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel, rare_kernel
from dqucb._kernels.learners.planning import outcomes as densities
from dqucb._kernels.learners.planning.outcomes import ALL

NEVER = -1  # the last visit of a place that has none
NO_ACTION = -1  # of the policy in a state from which no stale place can be reached
CREDIT, USUAL, RETURN = 0, 1, 2  # places in `account`
MODE, LAST_MODE, STALE_BEFORE, EPISODES, PAIR, FOLLOWED, MISSED = 0, 1, 2, 3, 4, 5, 6  # places in `status`
NO_PROBE, BY_STATE, BY_PAIR, FOLLOW = 0, 1, 2, 3  # modes
AVERAGED = 100  # episodes over which the usual return is a mean
MOST_MISSED = 3  # visits without a new outcome, after which a pair is not followed any more
MOST_FOLLOWED = 64  # visits of a pair that is followed
PRECISION = 1e-3  # of W


class Probing(NamedTuple):
    """When each place was last visited, the account, and the policy of the probe under way."""

    last_visit: NDArray[np.int64]  # (S, A + 1) number of the episode; the last column is of the state
    policy: NDArray[np.int32]  # (S,)
    values: NDArray[np.float64]  # (S + 1,) W; 0 for the end of an episode
    account: NDArray[np.float64]  # (3,) of returns: credit, the usual one, that of this episode
    status: NDArray[np.int64]  # (7,)
    share: float


def new_probing(n_states: int, n_actions: int, share: float) -> Probing:
    """Nothing was visited yet."""
    return Probing(
        last_visit=np.full((n_states, n_actions + 1), NEVER),
        policy=np.full(n_states, NO_ACTION, np.int32),
        values=np.zeros(n_states + 1),
        account=np.zeros(3),
        status=np.zeros(7, np.int64),
        share=share,
    )


@kernel
def is_stale(probing, state, place):
    """Whether a pair, or the state itself (the place after its actions), is to be visited."""
    if probing.status[MODE] == FOLLOW:
        return state * np.uint64(probing.last_visit.shape[1]) + place == np.uint64(probing.status[PAIR])
    return NEVER < probing.last_visit[state, place] < probing.status[STALE_BEFORE]


@kernel
def action_in(probing, state):
    """The action of the probe under way in a state; NO_ACTION if there is no probe or nothing to find from here.

    `probing is None`, without probes, is decided when a kernel is compiled, here and below.
    """
    if probing is None:
        return NO_ACTION
    if probing.status[MODE] == NO_PROBE:
        return NO_ACTION
    if probing.status[MODE] != BY_STATE:
        for action in range(probing.last_visit.shape[1] - 1):
            if is_stale(probing, state, np.uint64(action)):
                return action
    return int(probing.policy[state])


@kernel
def observe(probing, outcomes, seen, p, is_alarm):
    """Note a visit, its reward and the likelihood of its outcome. Changes `probing`."""
    if probing is None:
        return
    s, a = np.uint64(seen.state), np.uint64(seen.action)
    status, last_visit = probing.status, probing.last_visit
    whole = np.uint64(last_visit.shape[1] - 1)
    mode = status[MODE]
    was_stale = mode != NO_PROBE and is_stale(probing, s, whole if mode == BY_STATE else a)
    last_visit[s, a] = status[EPISODES]
    last_visit[s, whole] = status[EPISODES]
    probing.account[RETURN] += seen.reward
    if is_alarm:  # everything is explored again
        status[MODE] = NO_PROBE
    elif mode == FOLLOW and was_stale:
        before = p * (outcomes.sizes[0, s, a, ALL] - 1)  # visits that had this outcome
        status[MISSED] = 0 if before < status[FOLLOWED] + 0.5 else status[MISSED] + 1
        status[FOLLOWED] += 1
        if status[MISSED] >= MOST_MISSED or status[FOLLOWED] >= MOST_FOLLOWED:
            status[MODE] = status[LAST_MODE]
            aim(probing, outcomes)
    elif (mode == BY_STATE or mode == BY_PAIR) and p == 0.0:
        status[MODE], status[LAST_MODE] = FOLLOW, mode
        status[PAIR] = s * np.uint64(last_visit.shape[1]) + a
        status[FOLLOWED] = 1
        status[MISSED] = 0
        aim(probing, outcomes)
    elif was_stale:
        aim(probing, outcomes)


@kernel
def finish_episode(probing, outcomes):
    """Settle the account, and decide whether the next episode is a probe. Changes `probing`."""
    if probing is None:
        return
    account, status = probing.account, probing.status
    status[EPISODES] += 1
    if status[MODE] == NO_PROBE:
        account[USUAL] += (account[RETURN] - account[USUAL]) / min(status[EPISODES], AVERAGED)
    else:
        account[CREDIT] -= max(0.0, account[USUAL] - account[RETURN])
    account[RETURN] = 0.0
    price = abs(account[USUAL])
    account[CREDIT] = min(account[CREDIT] + probing.share * price, price)
    if status[MODE] == FOLLOW:
        status[MISSED] += 1  # the pair may be out of reach
        if status[MISSED] < MOST_MISSED and aim(probing, outcomes):
            return
    status[MODE] = NO_PROBE
    if price > 0.0 and account[CREDIT] >= price:
        mode = BY_PAIR if status[LAST_MODE] == BY_STATE else BY_STATE
        status[LAST_MODE] = mode
        status[STALE_BEFORE] = limit_of(probing, mode)
        status[MODE] = mode
        if not aim(probing, outcomes):
            status[MODE] = NO_PROBE


@kernel
def limit_of(probing, mode):
    """The episode since which a place must not have been visited to be stale."""
    now = probing.status[EPISODES]
    whole = probing.last_visit.shape[1] - 1
    first, end = (whole, whole + 1) if mode == BY_STATE else (0, whole)
    oldest = now
    for state in range(probing.last_visit.shape[0]):
        for place in range(first, end):
            last = probing.last_visit[np.uint64(state), np.uint64(place)]
            if last != NEVER:
                oldest = min(oldest, last)
    return min(now - (now - oldest) // 2, now - int(1.0 / probing.share))


@rare_kernel
def aim(probing, outcomes):
    """Make the policy that leads to the nearest stale place; whether there is one."""
    if not densities.shares_steps(outcomes):
        return False
    n_states, n_actions = probing.policy.shape[0], probing.last_visit.shape[1] - 1
    gamma = 1.0 - 1.0 / max(2, n_states)
    by_state = probing.status[MODE] == BY_STATE
    values = probing.values
    values[:] = 0.0
    change = 1.0
    found = False
    sweeps = 0
    while change > PRECISION and sweeps < 2 * n_states:
        change = 0.0
        sweeps += 1
        for state in range(n_states):
            s = np.uint64(state)
            best = NO_ACTION
            top = 0.0
            for action in range(n_actions):
                a = np.uint64(action)
                value = 1.0 if not by_state and is_stale(probing, s, a) else gamma * next_value(outcomes, s, a, values)
                if value > top:
                    top = value
                    best = action
            if by_state and is_stale(probing, s, np.uint64(n_actions)):
                top = 1.0
            found = found or top == 1.0
            change = max(change, abs(top - values[s]))
            values[s] = top
            probing.policy[s] = best
    return found


@kernel
def next_value(outcomes, state, action, values):
    """The mean value of the next state of a pair, where staying counts as nothing; 0 if it is not known."""
    n = outcomes.sizes[0, state, action, ALL]
    total = 0.0
    for place in range(outcomes.known[0, state, action] if n > 0 else 0):
        i = np.uint64(place)
        y = np.uint64(outcomes.next_states[0, state, action, i])
        if y != state:
            total += outcomes.counts[0, state, action, i] * values[y]
    return total / max(n, 1)
