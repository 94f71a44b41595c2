"""QUCB with a change detector for every pair, which forgets the pair, or everything, when the detector is sure.

A pair remembers the outcomes (s', r) that it has had. An outcome seen c times in n visits, among m different ones, has
likelihood p = (c + 1) / (n + m + 1); one never seen has 1 / (n + m + 1), so that all outcomes and "a new one" sum to 1.
"""

from typing import Any, NamedTuple

import numpy as np

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.learners.episodic_q import forget_all, learn_as
from dqucb._kernels.rows import largest

PAGE_HINKLEY, CUSUM = 0, 1
DETECTORS = ("page-hinkley", "cusum")  # position = code above


class DetectingQ(NamedTuple):
    """Tables and settings of one learner."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A) all
    counts: Any  # int32 (H, S, A) since the pair was forgotten
    next_states: Any  # int32 (H, S, A, width) of the outcomes, in order of first sight
    rewards: Any  # float64 (H, S, A, width) of the outcomes
    times: Any  # int32 (H, S, A, width) how often; 0 ends the list
    mean: Any  # float64 (H, S, A) mean likelihood since then
    evidence: Any  # float64 (H, S, A) of a change since then
    alarms: Any  # int64 (2,) alarms in this episode, and in all
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    rate_horizon: float
    iota: float
    detector: int
    threshold: float
    forget_pair: bool  # only the pair whose detector is sure; else everything, at the end of the episode


@kernel
def learn(learner, seen, rng):
    """The detector looks first; a pair that changed is learned anew from this transition on."""
    step, state, action = seen.step, seen.state, seen.action
    p, different = outcome_likelihood(learner, seen)
    if sure_of_change(learner, step, state, action, p, different):
        learner.alarms[0] += 1
        learner.alarms[1] += 1
        if learner.forget_pair:
            forget(learner, step, state, action)
    remember(learner, seen)
    learner.visits[step, state, action] += 1
    learner.counts[step, state, action] += 1
    return learn_as(learner, seen, learner.counts[step, state, action]), p


@kernel
def place_of(learner, seen):
    """Where the outcome stands in the pair's list, or the end of the list."""
    place = 0
    here = (seen.step, seen.state, seen.action)
    while (
        place < learner.times.shape[3]
        and learner.times[here][place] > 0
        and (learner.next_states[here][place] != seen.next_state or learner.rewards[here][place] != seen.reward)
    ):
        place += 1
    return place


@kernel
def outcome_likelihood(learner, seen):
    """(p of the outcome, number of different outcomes so far) before the outcome is taken in."""
    here = (seen.step, seen.state, seen.action)
    place = place_of(learner, seen)
    width = learner.times.shape[3]
    count = learner.times[here][place] if place < width else 0
    different = place
    while different < width and learner.times[here][different] > 0:
        different += 1
    return formulas.outcome_likelihood(count, learner.counts[here], different), different


@kernel
def sure_of_change(learner, step, state, action, p, different):
    """Feed the pair's detector; whether its evidence is above the threshold."""
    n = learner.counts[step, state, action]
    mean = formulas.running_mean(learner.mean[step, state, action], p, n + 1)
    learner.mean[step, state, action] = mean
    if learner.detector == CUSUM:
        evidence = formulas.cusum(learner.evidence[step, state, action], p, different)
    else:
        evidence = formulas.page_hinkley(learner.evidence[step, state, action], p, mean)
    learner.evidence[step, state, action] = evidence
    return evidence > learner.threshold


@kernel
def remember(learner, seen):
    """Count the outcome. A list that is full (a reward that is never the same) forgets its last one."""
    here = (seen.step, seen.state, seen.action)
    place = place_of(learner, seen)
    if place == learner.times.shape[3]:
        place -= 1
        learner.times[here][place] = 0
    learner.next_states[here][place] = seen.next_state
    learner.rewards[here][place] = seen.reward
    learner.times[here][place] += 1


@kernel
def forget(learner, step, state, action):
    """The pair is as new, and has its first visit now, the likelihood of which is 1 whatever comes."""
    learner.Q[step, state, action] = learner.bounds[step]
    learner.V[step, state] = formulas.capped_value(largest(learner.Q[step, state]), learner.bounds[step])
    learner.counts[step, state, action] = 0
    learner.times[step, state, action, :] = 0
    learner.mean[step, state, action] = 1.0
    learner.evidence[step, state, action] = 0.0


@kernel
def finish_episode(learner, rng):
    """Forget everything if some detector was sure in this episode and the learner forgets all at once."""
    if learner.alarms[0] > 0 and not learner.forget_pair:
        forget_all(learner)
        learner.counts[:] = 0
        learner.times[:] = np.int32(0)
        learner.mean[:] = 0.0
        learner.evidence[:] = 0.0
    learner.alarms[0] = 0


rules.register(DetectingQ, **{**plain.VERBS, "learn": learn, "finish_episode": finish_episode})
