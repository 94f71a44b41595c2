"""The compiled loop of every agent without a horizon: a block of records of agent and problem per call."""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.draws import generator
from dqucb._kernels.learners import rules
from dqucb._kernels.learners.policy import policy_of
from dqucb._kernels.model import draw, draw_initial, row_of
from dqucb._kernels.planning import gauss_seidel
from dqucb._kernels.position import DONE, NOWHERE, STATE


@kernel
def run_steps(model, learner, phase, lengths, gap_of, draws, position, rewards, gaps, likelihoods):
    """Run `lengths[i]` steps into record i, for all records of one phase; return how many records were run.

    Stops early, before a record, when the learner needs more memory. `gap_of[s, a]` is the regret of a step: V*(s) -
    Q*(s, a) of the phase. Fills the sums of rewards and gaps and the mean likelihood of each record, and updates
    `position`.
    """
    rng = generator(draws)
    informed = rules.with_model(learner, model, phase)
    state = int(position[STATE])
    for record in range(lengths.shape[0]):
        if not rules.has_room(learner, lengths[record]):
            return record
        total = 0.0
        gap = 0.0
        likelihood = 0.0
        for _ in range(lengths[record]):
            if state == NOWHERE:
                state = int(draw_initial(model, phase, rng))
            action = rules.act(learner, 0, state, rng)
            next_state, reward = draw(model, row_of(model, phase, 0, state, action), rng.random())
            terminated = model.terminal[np.uint64(next_state)]
            transition = rules.Transition(0, state, action, reward, next_state, terminated)
            likelihood += rules.learn(informed, transition, rng)[1]
            total += reward
            gap += gap_of[np.uint64(state), np.uint64(action)]
            state = NOWHERE if terminated else next_state
        rewards[record] = total
        gaps[record] = gap
        likelihoods[record] = likelihood / lengths[record]
        position[STATE] = state
        position[DONE] += 1
    return lengths.shape[0]


@kernel
def find_state(model, phase, draws, position):
    """The current state of the run, drawn if it is at the start of an episode. Updates `position`."""
    if position[STATE] == NOWHERE:
        position[STATE] = draw_initial(model, phase, generator(draws))
    return position[STATE]


@kernel
def learner_values(model, learner, phase, discount, tolerance, max_sweeps, values):
    """Fill `values` (S,) with V^pi of the learner's current policy by `planning.gauss_seidel`; return its bound."""
    return gauss_seidel(model, phase, policy_of(learner), discount, tolerance, max_sweeps, values)
