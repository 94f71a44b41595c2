"""Self-tuning DQUCB: one or more learners of different bonus scales share a density; a bandit chooses who acts.

The density of a pair is not only asked for a likelihood: its mean is the target. For learner l with scale c_l,
which is a constant over sqrt(H),
    Q_h(s, a) = min(v_h, r^ + sum_y p^(y) V_{h+1}(y) + c_l / (p sqrt(t))),  V_h(s) = max_a Q_h(s, a),
with p^ and r^ the outcomes and mean reward that the pair remembers, t its visits (those it still remembers, after a
change) and p the likelihood of its last outcome over the likelihood to be expected, sum_y p^(y)^2. Q is refreshed after
the episode, backwards along its path and in a few other states per step, which go round all of them.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.window_pools import count_of, next_state_of, pack

SURPRISED_FROM = 10  # a pair that remembers fewer outcomes cannot be surprised
EPISODE_CAP, EPISODE_DRIFT = 5.0, 1.0  # of the CUSUM, in standard deviations
EPISODE_NOISE = 0.05  # variance of an episode in which nothing is unsure
NEAR = 0.25  # a reward is near its mean within this share of the largest reward


class Clock(NamedTuple):
    """Where the learner is; each (1,)."""

    length: NDArray[np.int64]  # steps of this episode
    episodes: NDArray[np.int64]  # done
    arm: NDArray[np.int64]  # the learner that acts
    alarms: NDArray[np.int64]  # so far


class Watch(NamedTuple):
    """Sums over this episode, and discounted over all since the last change; each (1,)."""

    earned: NDArray[np.float64]  # return of this episode
    surprise: NDArray[np.float64]  # in this episode
    variance: NDArray[np.float64]  # of the surprise
    evidence: NDArray[np.float64]  # of a change
    weight: NDArray[np.float64]  # of all episodes
    total: NDArray[np.float64]  # of their returns
    squares: NDArray[np.float64]  # of their returns


class Bandit(NamedTuple):
    """Discounted sums of each learner, (L,)."""

    pulls: NDArray[np.float64]
    earned: NDArray[np.float64]


class SelfTuningQ(NamedTuple):
    """Tables of L learners, the density and the bandit that they share, and the settings."""

    Q: NDArray[np.float64]  # (H, S, A, L)
    V: NDArray[np.float64]  # (H + 1, S, L)
    visits: NDArray[np.int32]  # (H, S, A) all
    counts: NDArray[np.int32]  # (H, S, A) t
    held: NDArray[np.int32]  # (H, S, A) outcomes remembered
    outcomes: NDArray[np.int64]  # (H, S, A, width) outcome in the high half, how often in the low half; 0 ends the list
    reward: NDArray[np.float64]  # (H, S, A) mean of those remembered
    unsure: NDArray[np.float64]  # (H, S, A) 1 / (p sqrt(t)), which c_l multiplies
    path: NDArray[np.int32]  # (H,) states of this episode
    clock: Clock
    watch: Watch
    bandit: Bandit
    scales: NDArray[np.float64]  # (L,) c_l
    bounds: NDArray[np.float64]  # (H + 1,) v_h
    memory: int  # outcomes of a pair
    floor: float
    forgetting: float
    exploration: float
    threshold: float
    recall: int  # outcomes that a pair remembers after a change, at most
    others: int  # states refreshed in turn, per step of an episode


@kernel
def act(learner, step, state, rng):
    """argmax_a Q_h(s, a) of the learner whose turn it is."""
    return greedy(learner, step, state, 0)


@kernel
def greedy(learner, step, state, first):
    """The same, ties going to the first action from `first` on."""
    values = learner.Q[np.uint64(step), np.uint64(state)]
    arm = np.uint64(learner.clock.arm[0])
    best = first
    for offset in range(1, values.shape[0]):
        action = first + offset
        if action >= values.shape[0]:
            action -= values.shape[0]
        if values[np.uint64(action), arm] > values[np.uint64(best), arm]:
            best = action
    return best


@kernel
def learn(learner, seen, rng):
    """Let the density of the pair take in the outcome. Values follow after the episode."""
    step, state, action = np.uint64(seen.step), np.uint64(seen.state), np.uint64(seen.action)
    p = remember(learner, seen)
    t = learner.counts[step, state, action] + 1
    learner.counts[step, state, action] = t
    learner.visits[step, state, action] += 1
    unsure = 1.0 / (p * math.sqrt(t))
    learner.unsure[step, state, action] = unsure
    if seen.terminated:  # a terminal state is worth nothing
        learner.V[step + np.uint64(1), np.uint64(seen.next_state)] = 0.0
    learner.path[step] = seen.state
    learner.clock.length[0] = seen.step + 1
    learner.watch.earned[0] += seen.reward
    return learner.scales[learner.clock.arm[0]] * unsure, p


@kernel
def remember(learner, seen):
    """Add the outcome to its pair; returns its likelihood before that. Adds to the episode's surprise."""
    step, state, action = np.uint64(seen.step), np.uint64(seen.state), np.uint64(seen.action)
    words = learner.outcomes[step, state, action]
    n = learner.held[step, state, action]
    mean = learner.reward[step, state, action]
    outcome = seen.next_state
    # The reward is part of the outcome: is it near its mean or not?
    if abs(seen.reward - mean) > NEAR * learner.bounds[learner.bounds.shape[0] - 2] and n > 0:
        outcome += learner.V.shape[1]
    width = words.shape[0]
    place = width
    count = 0.0
    squares = 0.0
    cubes = 0.0
    end = 0
    while end < width and words[np.uint64(end)] > 0:
        times = float(count_of(words[np.uint64(end)]))
        if next_state_of(words[np.uint64(end)]) == outcome:
            place = end
            count = times
        squares += times * times
        cubes += times * times * times
        end += 1
    p = 1.0
    if n > 0:
        p = count / n
        expected = squares / (n * n)
        if n >= SURPRISED_FROM:
            unbiased = (squares - n) / (n * (n - 1.0))
            learner.watch.surprise[0] += unbiased - p
            learner.watch.variance[0] += max(0.0, cubes / (n * n * n) - expected * expected) + unbiased / n
        p = max(learner.floor, min(1.0, p / expected))
    if place == width:
        place = min(end, width - 1)
        if end == width:  # no room: the last outcome is forgotten
            n -= count_of(words[np.uint64(place)])
        words[np.uint64(place)] = pack(outcome)
    words[np.uint64(place)] += 1
    learner.reward[step, state, action] = formulas.running_mean(mean, seen.reward, n + 1)
    learner.held[step, state, action] = n + 1
    if n + 1 >= learner.memory:
        learner.held[step, state, action] = halve(words)
    return p


@kernel
def halve(words):
    """Halve how often each outcome was seen, so that old ones fade; returns how many are left."""
    left = 0
    kept = 0
    for place in range(words.shape[0]):
        word = words[place]
        words[place] = 0
        times = count_of(word) >> 1
        if times > 0:
            words[kept] = pack(next_state_of(word)) + times
            kept += 1
            left += times
    return left


@kernel
def refresh(learner, step, state):
    """Q and V of all learners in one state; a state in which nothing was tried keeps its value."""
    h, s = np.uint64(step), np.uint64(state)
    held = learner.held[h, s]
    tried = 0
    for action in range(held.shape[0]):
        tried += held[np.uint64(action)] > 0
    if tried > 0:
        for i in range(learner.V.shape[2]):
            refresh_one(learner, h, s, np.uint64(i))


@kernel
def refresh_one(learner, h, s, i):
    """The same for learner i."""
    after = learner.V[h + np.uint64(1)]
    n_states = np.uint64(after.shape[0])
    c = learner.scales[i]
    v_h = learner.bounds[h]
    best = -np.inf
    for action in range(learner.Q.shape[2]):
        a = np.uint64(action)
        q = v_h
        n = learner.held[h, s, a]
        if n > 0:
            total = 0.0
            words = learner.outcomes[h, s, a]
            place = 0
            while place < words.shape[0] and words[np.uint64(place)] > 0:
                word = words[np.uint64(place)]
                y = np.uint64(next_state_of(word))
                total += float(count_of(word)) * after[y - n_states if y >= n_states else y, i]
                place += 1
            q = learner.reward[h, s, a] + total / n + c * learner.unsure[h, s, a]
            q = formulas.capped_value(q, v_h)
        learner.Q[h, s, a, i] = q
        best = max(best, q)
    learner.V[h, s, i] = best


@kernel
def finish_episode(learner, rng):
    """Refresh the values backwards, tell the bandit, look for a change, and choose who acts next."""
    clock = learner.clock
    n_states = learner.V.shape[1]
    other = learner.others * (clock.episodes[0] + clock.length[0]) % n_states
    for step in range(clock.length[0] - 1, -1, -1):
        for _ in range(learner.others):
            other = n_states - 1 if other == 0 else other - 1
            if other != learner.path[step]:
                refresh(learner, step, other)
        refresh(learner, step, learner.path[step])
    clock.episodes[0] += 1
    clock.length[0] = 0
    reckon(learner)
    if changed(learner):
        clock.alarms[0] += 1
        doubt(learner)
    clock.arm[0] = chosen(learner)


@kernel
def reckon(learner):
    """The bandit earns the return of the episode and forgets a little of the others."""
    watch = learner.watch
    earned = watch.earned[0]
    for i in range(learner.bandit.pulls.shape[0]):
        learner.bandit.pulls[i] *= learner.forgetting
        learner.bandit.earned[i] *= learner.forgetting
    learner.bandit.pulls[learner.clock.arm[0]] += 1.0
    learner.bandit.earned[learner.clock.arm[0]] += earned
    watch.weight[0] = learner.forgetting * watch.weight[0] + 1.0
    watch.total[0] = learner.forgetting * watch.total[0] + earned
    watch.squares[0] = learner.forgetting * watch.squares[0] + earned * earned
    watch.earned[0] = 0.0


@kernel
def changed(learner):
    """CUSUM of the episodes' surprise, in standard deviations."""
    watch = learner.watch
    watch.evidence[0] = formulas.surprise_cusum(
        watch.evidence[0], watch.surprise[0], watch.variance[0] + EPISODE_NOISE, EPISODE_CAP, EPISODE_DRIFT
    )
    watch.surprise[0] = 0.0
    watch.variance[0] = 0.0
    return watch.evidence[0] > learner.threshold


@kernel
def doubt(learner):
    """After a change the bandit starts anew, and no pair remembers or counts more than `recall` outcomes."""
    for total in learner.watch:
        total[0] = 0.0
    for totals in learner.bandit:
        totals[:] = 0.0
    horizon, n_states, n_actions = learner.held.shape
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                n = learner.held[h, s, a]
                if n > 0:
                    while n > learner.recall:
                        n = halve(learner.outcomes[h, s, a])
                    learner.held[h, s, a] = n
                    learner.counts[h, s, a] = n
                    learner.unsure[h, s, a] = 1.0 / math.sqrt(max(1, n))
                    if n == 0:  # many outcomes, each seen once
                        learner.Q[h, s, a] = learner.bounds[h]
                        learner.V[h, s] = learner.bounds[h]


@kernel
def chosen(learner):
    """Discounted UCB over the learners; one that has not acted lately comes first."""
    watch = learner.watch
    mean = watch.total[0] / max(watch.weight[0], 1e-9)
    spread = math.sqrt(max(0.0, watch.squares[0] / max(watch.weight[0], 1e-9) - mean * mean))
    spread = max(spread, 1e-6 * learner.bounds[0])  # while all returns are equal, learners take turns
    pulls = learner.bandit.pulls
    width = learner.exploration * spread
    best = 0
    best_index = -np.inf
    for i in range(pulls.shape[0]):
        if pulls[i] < 1e-3:
            return i
        index = formulas.discounted_ucb(learner.bandit.earned[i], pulls[i], watch.weight[0], width)
        if index > best_index:
            best = i
            best_index = index
    return best


rules.register(
    SelfTuningQ,
    **{**plain.VERBS, "act": act, "greedy": greedy, "learn": learn, "finish_episode": finish_episode},
)
