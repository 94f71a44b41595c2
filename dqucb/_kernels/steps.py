"""The one loop of every agent without a horizon: agent and problem together, a block of records per call."""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import discounted_q, rules  # noqa: F401  (registers the rule)
from dqucb._kernels.model import draw_entry, draw_initial, row_of


@kernel
def run_steps(model, learner, phase, lengths, gap_of, rng, position, rewards, gaps, likelihoods):
    """Run `lengths[i]` steps into record i, for all records of one phase; return how many records were run.

    Stops early, before a record, when the learner needs more memory. `gap_of[s, a]` is V*(s) - Q*(s, a) of the
    phase. `position[0]` is the state to go on from. Writes the sums of rewards and gaps and the mean
    likelihood of each record, and the new position.
    """
    state = int(position[0])
    for record in range(lengths.shape[0]):
        if not rules.has_room(learner, lengths[record]):
            return record
        total = 0.0
        gap = 0.0
        likelihood = 0.0
        for _ in range(lengths[record]):
            action = rules.act(learner, 0, state, rng)
            entry = draw_entry(model, row_of(model, phase, 0, state, action), rng.random())
            next_state = int(model.successor[entry])
            reward = model.reward[entry]
            terminated = model.terminal[np.uint64(next_state)]
            seen = rules.Seen(model, phase, 0, state, action, reward, next_state, terminated)
            likelihood += rules.learn(learner, seen, rng)[1]
            total += reward
            gap += gap_of[np.uint64(state), np.uint64(action)]
            state = int(draw_initial(model, phase, rng)) if terminated else next_state
        rewards[record] = total
        gaps[record] = gap
        likelihoods[record] = likelihood / lengths[record]
        position[0] = state
    return lengths.shape[0]
