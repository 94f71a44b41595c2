"""UCB-B (Jin et al. 2018, Algorithm 2): QUCB whose bonus follows the variance of the next state's value."""

from typing import Any, NamedTuple

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.learners.episodic_q import move


class BernsteinQ(NamedTuple):
    """Tables and settings of one learner."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A)
    mean: Any  # float64 (H, S, A) of the V_{h+1}(s') seen
    squares: Any  # float64 (H, S, A) the sum of their squared distances from the mean
    beta: Any  # float64 (H, S, A) the confidence width after the last visit
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    rate_horizon: float
    iota: float


@kernel
def learn(learner, seen, rng):
    """Algorithm 2, lines 6 to 13."""
    step, state, action = seen.step, seen.state, seen.action
    t = learner.visits[step, state, action] + 1
    learner.visits[step, state, action] = t
    value = 0.0
    if not seen.terminated:
        value = learner.V[step + 1, seen.next_state]
    old_mean = learner.mean[step, state, action]
    mean = formulas.running_mean(old_mean, value, t)
    squares = learner.squares[step, state, action] + (value - old_mean) * (value - mean)
    learner.mean[step, state, action] = mean
    learner.squares[step, state, action] = squares
    _, n_states, n_actions = learner.Q.shape
    beta = formulas.bernstein_width(
        learner.form, learner.scale, t, squares / t, learner.bounds[step], learner.bounds[0], learner.horizon,
        learner.iota, n_states * n_actions,
    )  # fmt: skip
    alpha = formulas.learning_rate(t, learner.rate_horizon)
    bonus = formulas.width_to_bonus(beta, learner.beta[step, state, action], alpha)
    learner.beta[step, state, action] = beta
    move(learner, seen, bonus, alpha)
    return bonus, 1.0


rules.register(BernsteinQ, **{**plain.VERBS, "learn": learn})
