"""The compiled loop of every agent with a horizon: a block of episodes of agent and problem per call."""

import numpy as np

from dqucb._kernels._jit import kernel
from dqucb._kernels.draws import generator
from dqucb._kernels.learners import rules
from dqucb._kernels.learners.policy import policy_of
from dqucb._kernels.model import draw, draw_initial, row_of
from dqucb._kernels.planning import policy_values
from dqucb._kernels.position import DONE

REALIZED, EXPECTED, PSEUDO = 0, 1, 2  # forms of regret


@kernel
def run_episodes(
    model, learner, phase, horizon, optimal, form, gap_of, draws, scratch, position, returns, gaps, likelihoods, lengths
):
    """Run and learn one episode per entry of `returns` in one phase; return how many were run.

    Stops early, before an episode, when the learner needs more memory. `optimal` is V*_0 of the phase. The gap of an
    episode is, by `form`: REALIZED, V*_0(s_0) minus its return; EXPECTED, minus the exact expected return of the
    learner's policy in it, for which `scratch` has two rows of S values; PSEUDO, the sum over its steps of `gap_of`
    (H, S, A), which no other form reads. Fills the last four arrays and updates `position`.
    """
    rng = generator(draws)
    informed = rules.with_model(learner, model, phase)
    for episode in range(returns.shape[0]):
        if not rules.has_room(learner, horizon):
            return episode
        state = int(draw_initial(model, phase, rng))
        gap = 0.0 if form == PSEUDO else optimal[state]
        if form == EXPECTED:
            policy_values(model, phase, policy_of(learner), horizon, scratch)
            gap -= scratch[0, state]
        total = 0.0
        likelihood = 0.0
        step = 0
        terminated = False
        while step < horizon and not terminated:
            action = rules.act(learner, step, state, rng)
            if form == PSEUDO:
                gap += gap_of[np.uint64(step), np.uint64(state), np.uint64(action)]
            next_state, reward = draw(model, row_of(model, phase, step, state, action), rng.random())
            terminated = model.terminal[np.uint64(next_state)]
            transition = rules.Transition(step, state, action, reward, next_state, terminated)
            likelihood += rules.learn(informed, transition, rng)[1]
            total += reward
            state = next_state
            step += 1
        rules.finish_episode(learner, rng)
        returns[episode] = total
        gaps[episode] = gap - total if form == REALIZED else gap
        likelihoods[episode] = likelihood / step
        lengths[episode] = step
        position[DONE] += 1
    return returns.shape[0]
