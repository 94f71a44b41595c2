"""Do the outcomes of a pair depend on the step? A sequential likelihood ratio between one model and one for each step.

Before an outcome is counted, two models predict it: the counts of the pair over all steps, and those of its step alone,
both smoothed as in `formulas.outcome_likelihood`. The evidence is the CUSUM of the logarithm of their ratio,
g <- max(0, g + ln(p_step / p_all)). If all steps are the same it exceeds x less than once in e^x visits (Lorden 1971),
up to the learning cost of the common model, (k - 1) / 2 ln n with k outcomes.

A change of the problem must not look like a dependence on the step: after a change the counts of a rarely visited step
soon predict better, only because they contain less of the past. Therefore p_all is a mixture of three models of all
steps, one without forgetting and two that remember about 64 and 1,024 visits, weighted by their predictions (Bayes'
rule with a lower bound on each weight, so that the mixture can adapt).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import shared_model

MEMORIES = (1024.0, 64.0)  # visits
LEAST_WEIGHT = 0.01


class StepTest(NamedTuple):
    """Outcomes of every pair, of all steps and of each."""

    model: shared_model.SharedModel  # of all steps
    step_counts: NDArray[np.int32]  # (S, A, H, width) at the places of the model's lists
    step_visits: NDArray[np.int32]  # (S, A, H)
    evidence: NDArray[np.float64]  # (S, A)
    faded: NDArray[np.float64]  # (S, A, 2, width) counts of all steps that fade
    weights: NDArray[np.float64]  # (S, A, 3) of the models that forget nothing, slowly and quickly
    split: NDArray[np.bool_]  # (S, A) whether the steps of the pair differ
    threshold: float


def new_test(model: shared_model.SharedModel, horizon: int, threshold: float, counting: Any = np.int32) -> StepTest:
    """A new test; `counting` is the type of its counts."""
    n_states, n_actions, width = model.counts.shape
    return StepTest(
        model=model,
        step_counts=np.zeros((n_states, n_actions, horizon, width), counting),
        step_visits=np.zeros((n_states, n_actions, horizon), counting),
        evidence=np.zeros((n_states, n_actions)),
        faded=np.zeros((n_states, n_actions, 2, width)),
        weights=np.full((n_states, n_actions, 3), 1.0 / 3.0),
        split=np.zeros((n_states, n_actions), np.bool_),
        threshold=threshold,
    )


def widened(test: StepTest, max_successors: int) -> StepTest:
    """The same test with capacity for more next states."""
    model = shared_model.widened(test.model, max_successors)
    more = [(0, 0)] * 3 + [(0, model.counts.shape[2] - test.step_counts.shape[3])]
    return test._replace(model=model, step_counts=np.pad(test.step_counts, more), faded=np.pad(test.faded, more))


@kernel
def observe(test, seen):
    """Update the evidence with the predictions of both models, then count the outcome; above the threshold, split."""
    state, action, step = np.uint64(seen.state), np.uint64(seen.action), np.uint64(seen.step)
    place = shared_model.place_of(test.model, seen)
    if place < 0:  # more next states than the capacity: only in a user's own loop
        return
    if not test.split[state, action]:
        different = test.model.known[state, action]
        visits = test.model.visits[state, action]
        together = mixture(test, state, action, place)
        alone = formulas.outcome_likelihood(
            test.step_counts[state, action, step, place], test.step_visits[state, action, step], different
        )
        evidence = formulas.ratio_cusum(test.evidence[state, action], alone, together)
        test.evidence[state, action] = evidence
        if evidence > formulas.split_threshold(test.threshold, different, visits):
            test.split[state, action] = True
    shared_model.count(test.model, seen, place)
    test.step_counts[state, action, step, place] += 1
    test.step_visits[state, action, step] += 1


@kernel
def mixture(test, state, action, place):
    """p_all of the outcome at `place`, which is then added to the decaying counts; updates the weights."""
    different = test.model.known[state, action]
    weights = test.weights[state, action]
    p = formulas.outcome_likelihood(
        test.model.counts[state, action, place], test.model.visits[state, action], different
    )
    total = weights[0] * p
    weights[0] *= p
    for i in range(2):
        counts = test.faded[state, action, i]
        held = 0.0
        for other in range(different):
            held += counts[other]
        p = formulas.outcome_likelihood(counts[place], held, different)
        total += weights[i + 1] * p
        weights[i + 1] *= p
        for other in range(different):
            counts[other] *= 1.0 - 1.0 / MEMORIES[i]
        counts[place] += 1.0
    for i in range(3):
        weights[i] = max(LEAST_WEIGHT, weights[i] / total)
    norm = weights[0] + weights[1] + weights[2]
    for i in range(3):
        weights[i] /= norm
    return total
