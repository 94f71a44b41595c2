"""UCBVI (Azar, Osband, Munos 2017): optimism by value iteration in the estimated model.

Running means R^ and P^ per (h, s, a), Q_h = min(v_h, R^ + b + P^ V_{h+1}), V_h = max_a Q_h, either for all states after
each episode (full planning) or for the visited state only (real-time dynamic programming).

Successors are stored as a short list of the observed ones; S represents the end of the episode, with value 0, so that a
state may be entered both with and without ending it. Q is not stored: it is needed only in the current state, where it
is computed from V. A state with an untried action has the value v_h, whatever else is known of it, so that planning
skips it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import rules, tables


class Noise(NamedTuple):
    """A Gaussian error on every entry of P^, for studies."""

    deviation: float
    spread_next: tables.Floats  # (H,) Euclidean norm of V_{h+1}


class UcbviLearner(NamedTuple):
    """The estimated model and the values planned in it."""

    V: tables.Floats  # (H + 1, S)
    visits: NDArray[np.int32]  # (H, S, A)
    reward: tables.Floats  # (H, S, A) mean reward
    successors: NDArray[np.int32]  # (H, S, A, width) observed states in order of first occurrence; S is the end
    counts: NDArray[np.int32]  # (H, S, A, width) how often; 0 ends the list
    untried: NDArray[np.int32]  # (H, S) actions not yet taken
    mean_next: tables.Floats  # (H,) mean of V_{h+1} over all states: P^ of an untried pair is uniform
    latest: tables.Integers  # (1,) the last step visited since planning, or -1
    bounds: tables.Floats  # (H + 1,) v_h
    bonus: tables.BonusSettings
    noise: Noise | None
    full_planning: bool
    cap_q: bool  # no Q above v_h, as in the paper; without it only V is capped


@kernel
def optimistic_q(learner, step, state, action):
    """R^ + b + P^ V_{h+1} at (h, s, a), capped at v_h if the learner does so."""
    v_h = learner.bounds[step]
    t = learner.visits[step, state, action]
    if t == 0:
        return v_h if learner.cap_q else v_h + learner.mean_next[step]
    total = 0.0
    place = 0
    width = learner.counts.shape[3]
    end = learner.V.shape[1]
    while place < width and learner.counts[step, state, action, place] > 0:
        after = learner.successors[step, state, action, place]
        if after < end:
            total += learner.counts[step, state, action, place] * learner.V[step + 1, after]
        place += 1
    bonus = tables.bonus_of(learner.bonus, t, v_h)
    q = learner.reward[step, state, action] + bonus + total / t
    return formulas.capped_value(q, v_h) if learner.cap_q else q


@kernel
def q_table(learner, q):
    """Fill q[h, s, a] with the optimistic Q of every pair."""
    for step in range(q.shape[0]):
        for state in range(q.shape[1]):
            for action in range(q.shape[2]):
                q[step, state, action] = optimistic_q(learner, step, state, action)


@kernel
def greedy(learner, step, state, first):
    """argmax_a of the optimistic Q."""
    n_actions = learner.visits.shape[2]
    best = first
    best_q = optimistic_q(learner, step, state, first)
    for offset in range(1, n_actions):
        action = first + offset
        if action >= n_actions:
            action -= n_actions
        q = optimistic_q(learner, step, state, action)
        if q > best_q:
            best = action
            best_q = q
    return best


# ---- with and without noise: `noise is None` is decided when a kernel is compiled -------------------------


@kernel
def choose(noise, learner, step, state, rng):
    """The greedy action in the model, with its error if there is noise."""
    if noise is None:
        return greedy(learner, step, state, 0)
    best = 0
    best_q = -np.inf
    for action in range(learner.visits.shape[2]):
        q = with_error(noise, optimistic_q(learner, step, state, action), step, rng)
        if q > best_q:
            best = action
            best_q = q
    return best


@kernel
def with_error(noise, q, step, rng):
    """Q with independent N(0, deviation) errors on all entries of P^.

    sum_y eta_y V(y) is normal with standard deviation deviation |V|, so that one draw replaces S.
    """
    if noise is None:
        return q
    return q + noise.deviation * noise.spread_next[step] * rng.standard_normal()


@kernel
def update_norm(noise, V, step):
    """Update the norm of V_h, which is that of the next values of the step before."""
    if noise is not None and step > 0:
        squares = 0.0
        for other in range(V.shape[1]):
            squares += V[step, other] * V[step, other]
        noise.spread_next[step - 1] = math.sqrt(squares)


@kernel
def tracks_values(noise, learner):
    """Whether the mean or the norm of V_h is used: for untried pairs above v_h, or to scale the error."""
    return noise is not None or not learner.cap_q


@kernel
def last_to_plan(noise, learner):
    """The step at which backward induction begins: later values depend on nothing learned since the last plan.

    With noise all steps, since each plan has its own draws.
    """
    if noise is None:
        return min(learner.untried.shape[0] - 1, learner.latest[0] + 1)
    return learner.untried.shape[0] - 1


@kernel
def act(learner, step, state, rng):
    """Greedy in the model, with an error on its transition estimate if there is noise."""
    return choose(learner.noise, learner, step, state, rng)


@kernel
def learn(learner, seen, rng):
    """Count the transition; with real-time planning also back up the visited state."""
    step, state, action = seen.step, seen.state, seen.action
    t = learner.visits[step, state, action] + 1
    learner.visits[step, state, action] = t
    learner.latest[0] = max(learner.latest[0], step)
    if t == 1:
        if tracks_values(learner.noise, learner):
            note_end(learner, step, state, False)
        learner.untried[step, state] -= 1
    learner.reward[step, state, action] = formulas.running_mean(learner.reward[step, state, action], seen.reward, t)
    next_state = learner.V.shape[1] if seen.terminated else seen.next_state
    place = 0
    # The table is as wide as the largest number of successors; the first test keeps unexpected transitions inside it.
    while (
        place < learner.counts.shape[3] - 1
        and learner.counts[step, state, action, place] > 0
        and learner.successors[step, state, action, place] != next_state
    ):
        place += 1
    learner.successors[step, state, action, place] = next_state
    learner.counts[step, state, action, place] += 1
    if tracks_values(learner.noise, learner):
        note_end(learner, step + 1, seen.next_state, seen.terminated)
    if not learner.full_planning:
        value = min(learner.V[step, state], backed_up(learner, step, state, rng))
        set_value(learner, step, state, value)
    return tables.bonus_of(learner.bonus, t, learner.bounds[step]), 1.0


@kernel
def note_end(learner, step, state, terminated):
    """Set a state that was only entered at the end of episodes to 0 in the mean and the norm of V_h.

    A state that is entered otherwise, or acted in, keeps its own value.
    """
    if step == learner.untried.shape[0] or learner.untried[step, state] < learner.visits.shape[2]:
        return
    value = 0.0 if terminated else learner.bounds[step]
    if learner.V[step, state] != value:
        set_value(learner, step, state, value)


@kernel
def backed_up(learner, step, state, rng):
    """min(v_h, max_a Q_h(s, a)) in the model."""
    if learner.untried[step, state] > 0:
        return learner.bounds[step]
    best = -np.inf
    for action in range(learner.visits.shape[2]):
        best = max(best, with_error(learner.noise, optimistic_q(learner, step, state, action), step, rng))
    return formulas.capped_value(best, learner.bounds[step])


@kernel
def set_value(learner, step, state, value):
    """Set V_h(s), and update the mean of its row, and its norm where that is used."""
    if step > 0:
        learner.mean_next[step - 1] += (value - learner.V[step, state]) / learner.V.shape[1]
    learner.V[step, state] = value
    update_norm(learner.noise, learner.V, step)


@kernel
def finish_episode(learner, rng):
    """Backward induction over all states whose actions have all been tried."""
    if not learner.full_planning:
        return
    n_states = learner.untried.shape[1]
    last = last_to_plan(learner.noise, learner)
    learner.latest[0] = -1
    for step in range(last, -1, -1):
        total = 0.0
        for state in range(n_states):
            if learner.untried[step, state] == 0:
                learner.V[step, state] = backed_up(learner, step, state, rng)
            total += learner.V[step, state]
        if step > 0:
            learner.mean_next[step - 1] = total / n_states
        update_norm(learner.noise, learner.V, step)


rules.register(UcbviLearner, act=act, greedy=greedy, learn=learn, finish_episode=finish_episode)
