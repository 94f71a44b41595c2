"""Do the outcomes of a pair depend on the step? A sequential likelihood ratio between one model and one for each step.

An outcome is (next state, whether there was a reward). Before an outcome is counted, two models predict it: the counts
of the pair over all steps, and those of its step alone, both smoothed as in `formulas.outcome_likelihood`. The evidence
is the CUSUM of the logarithm of their quotient, g <- max(0, g + ln(p_step / p_all)): while all steps are alike it rises
above x less than once in e^x visits (Lorden 1971), up to what the common model has still to learn, (k - 1) / 2 ln n.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel


class StepTest(NamedTuple):
    """Outcomes of every pair, of all steps and of each."""

    outcomes: NDArray[np.int64]  # (S, A, width) 2 s' + (r != 0), in order of first sight
    counts: NDArray[np.int64]  # (S, A, width) of all steps; 0 ends the list
    step_counts: NDArray[np.int32]  # (S, A, H, width)
    evidence: NDArray[np.float64]  # (S, A)
    split: NDArray[np.bool_]  # (S, A) whether the steps of the pair differ
    threshold: float


def new_test(horizon: int, n_states: int, n_actions: int, width: int, threshold: float) -> StepTest:
    """A test that has seen nothing; `width` is the number of outcomes that a pair can have."""
    pairs = (n_states, n_actions)
    return StepTest(
        outcomes=np.zeros((*pairs, width), np.int64),
        counts=np.zeros((*pairs, width), np.int64),
        step_counts=np.zeros((*pairs, horizon, width), np.int32),
        evidence=np.zeros(pairs),
        split=np.zeros(pairs, np.bool_),
        threshold=threshold,
    )


@kernel
def observe(test, seen):
    """Let both models predict the outcome, then count it; a pair whose evidence is above the threshold is split."""
    state, action = np.uint64(seen.state), np.uint64(seen.action)
    if test.split[state, action]:
        return
    outcomes = test.outcomes[state, action]
    counts = test.counts[state, action]
    own = test.step_counts[state, action, np.uint64(seen.step)]
    wanted = 2 * seen.next_state + (1 if seen.reward != 0.0 else 0)
    width = counts.shape[0]
    place = width
    end = 0
    total = 0
    own_total = 0
    while end < width and counts[end] > 0:
        if outcomes[end] == wanted:
            place = end
        total += counts[end]
        own_total += own[end]
        end += 1
    known = place < width
    together = formulas.outcome_likelihood(counts[place] if known else 0, total, end)
    alone = formulas.outcome_likelihood(own[place] if known else 0, own_total, end)
    evidence = formulas.ratio_cusum(test.evidence[state, action], alone, together)
    test.evidence[state, action] = evidence
    if evidence > formulas.split_threshold(test.threshold, end, total):
        test.split[state, action] = True
    if not known:
        place = min(end, width - 1)  # more outcomes than the list has places: the last place counts all others
        outcomes[place] = wanted
    counts[place] += 1
    own[place] += 1
