"""QUCB with a change detector for every pair; an alarm resets the pair, or everything.

A pair counts its outcomes (s', r). An outcome seen c times in n visits, among m different ones, has
likelihood p = (c + 1) / (n + m + 1); one never seen has 1 / (n + m + 1), so that all outcomes and "a new one" sum to 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import alarms, rules, tables

PAGE_HINKLEY, CUSUM = 0, 1
DETECTORS = ("page-hinkley", "cusum")  # position = code above


class Outcomes(NamedTuple):
    """The outcomes (s', r) of each pair in order of first occurrence. Rows are those of `tables.row_of`."""

    next_states: NDArray[np.int32]  # (rows, S, A, width)
    rewards: tables.Floats  # (rows, S, A, width)
    times: NDArray[np.int32]  # (rows, S, A, width) how often; 0 ends the list


class DetectingQ(NamedTuple):
    """Tables and settings of one learner."""

    q: tables.QTables | tables.SharedTables | tables.AutoTables
    bonus: tables.BonusSettings
    counts: NDArray[np.int32]  # (rows, S, A) since the pair was forgotten
    outcomes: Outcomes
    mean: tables.Floats  # (rows, S, A) mean likelihood since then
    evidence: tables.Floats  # (rows, S, A) of a change since then
    alarms: alarms.AlarmLog
    sure: tables.Integers  # (1,) alarms in this episode
    detector: int
    threshold: float
    forget_pair: bool  # reset only the pair with the alarm; else everything, at the end of the episode


@kernel
def has_room(learner, pushes):
    """Each step may raise an alarm."""
    return alarms.has_room(learner.alarms, pushes)


@kernel
def learn(learner, transition, rng):
    """Update the detector, then learn; a pair with an alarm restarts with this transition."""
    row = tables.visit(learner.q, transition)
    here = (row, transition.state, transition.action)
    p, different = outcome_likelihood(learner, here, transition)
    if detects_change(learner, here, p, different):
        alarms.ring(learner.alarms)
        learner.sure[0] += 1
        if learner.forget_pair:
            forget(learner, here, transition.step)
    remember(learner.outcomes, here, transition)
    learner.counts[here] += 1
    return tables.learn_as(learner.q, learner.bonus, transition, learner.counts[here]), p


@kernel
def place_of(outcomes, here, transition):
    """The position of the outcome in the list of the pair, or the end of the list."""
    place = 0
    while (
        place < outcomes.times.shape[3]
        and outcomes.times[here][place] > 0
        and (
            outcomes.next_states[here][place] != transition.next_state
            or outcomes.rewards[here][place] != transition.reward
        )
    ):
        place += 1
    return place


@kernel
def outcome_likelihood(learner, here, transition):
    """(p of the outcome, number of different outcomes so far) before the outcome is counted."""
    times = learner.outcomes.times[here]
    place = place_of(learner.outcomes, here, transition)
    width = times.shape[0]
    count = times[place] if place < width else 0
    different = place
    while different < width and times[different] > 0:
        different += 1
    return formulas.outcome_likelihood(count, learner.counts[here], different), different


@kernel
def detects_change(learner, here, p, different):
    """Update the detector of the pair; whether its evidence exceeds the threshold."""
    mean = formulas.running_mean(learner.mean[here], p, learner.counts[here] + 1)
    learner.mean[here] = mean
    if learner.detector == CUSUM:
        evidence = formulas.cusum(learner.evidence[here], p, different)
    else:
        evidence = formulas.page_hinkley(learner.evidence[here], p, mean)
    learner.evidence[here] = evidence
    return evidence > learner.threshold


@kernel
def remember(outcomes, here, transition):
    """Count the outcome. A full list (of continuous rewards) replaces its last entry."""
    place = place_of(outcomes, here, transition)
    if place == outcomes.times.shape[3]:
        place -= 1
        outcomes.times[here][place] = 0
    outcomes.next_states[here][place] = transition.next_state
    outcomes.rewards[here][place] = transition.reward
    outcomes.times[here][place] += 1


@kernel
def forget(learner, here, step):
    """Reset the pair; the current transition is its first visit, with likelihood 1."""
    q = learner.q
    _, state, action = here
    first, last = tables.steps_of(q, step, state, action)
    for h in range(first, last):
        tables.put(q, q.Q, h, state, action, q.bounds[h])
    tables.refresh(q, first, last, np.uint64(state))
    learner.counts[here] = 0
    learner.outcomes.times[here][:] = 0
    learner.mean[here] = 1.0
    learner.evidence[here] = 0.0


@kernel
def finish_episode(learner, rng):
    """Reset everything if there was an alarm in this episode and the learner resets all at once."""
    if learner.sure[0] > 0 and not learner.forget_pair:
        tables.forget_all(learner.q)
        learner.counts[:] = 0
        learner.outcomes.times[:] = np.int32(0)
        learner.mean[:] = 0.0
        learner.evidence[:] = 0.0
    learner.sure[0] = 0
    learner.alarms.now[0] += 1


rules.register(DetectingQ, has_room=has_room, learn=learn, finish_episode=finish_episode)
