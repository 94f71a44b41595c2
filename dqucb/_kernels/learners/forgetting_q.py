"""QUCB with counts that forget: only the visits of the last episodes, or all of them at a discount.

Bonus and learning rate follow the forgetful count (Garivier and Moulines 2011 for bandits), so that neither vanishes.
"""

from typing import Any, NamedTuple

from dqucb._kernels import formulas
from dqucb._kernels._jit import kernel
from dqucb._kernels.learners import plain, rules
from dqucb._kernels.learners.episodic_q import learn_as


class WindowedQ(NamedTuple):
    """Tables of a learner that counts the visits of its last episodes."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A) all
    counts: Any  # int32 (H, S, A) in the window
    pairs: Any  # int32 (W, H) the pair s A + a of each step of each episode held
    lengths: Any  # int32 (W,) steps of each episode held
    clock: Any  # int64 (1,) episodes done
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    rate_horizon: float
    iota: float


@kernel
def learn_windowed(learner, seen, rng):
    """QUCB's update with the count of the window, this visit included."""
    step, state, action = seen.step, seen.state, seen.action
    place = learner.clock[0] % learner.lengths.shape[0]
    learner.pairs[place, step] = state * learner.Q.shape[2] + action
    learner.lengths[place] = step + 1
    learner.visits[step, state, action] += 1
    learner.counts[step, state, action] += 1
    return learn_as(learner, seen, learner.counts[step, state, action]), 1.0


@kernel
def next_episode(learner, rng):
    """The oldest episode leaves the window when it makes room for the next one."""
    learner.clock[0] += 1
    place = learner.clock[0] % learner.lengths.shape[0]
    n_actions = learner.Q.shape[2]
    for step in range(learner.lengths[place]):
        pair = learner.pairs[place, step]
        learner.counts[step, pair // n_actions, pair % n_actions] -= 1
    learner.lengths[place] = 0


class FadingQ(NamedTuple):
    """Tables of a learner whose counts shrink by a factor in every episode."""

    Q: Any  # float64 (H, S, A)
    V: Any  # float64 (H + 1, S)
    visits: Any  # int32 (H, S, A) all
    counts: Any  # float64 (H, S, A) discounted, as of the last visit
    last: Any  # int64 (H, S, A) episode of the last visit
    clock: Any  # int64 (1,) episodes done
    bounds: Any  # float64 (H + 1,) v_h
    form: int
    scale: float
    horizon: float
    rate_horizon: float
    iota: float
    memory: float  # the factor


@kernel
def learn_fading(learner, seen, rng):
    """QUCB's update with the discounted count, this visit included."""
    step, state, action = seen.step, seen.state, seen.action
    age = learner.clock[0] - learner.last[step, state, action]
    t = formulas.discounted_count(learner.counts[step, state, action], learner.memory, age)
    learner.counts[step, state, action] = t
    learner.last[step, state, action] = learner.clock[0]
    learner.visits[step, state, action] += 1
    return learn_as(learner, seen, t), 1.0


@kernel
def tick(learner, rng):
    """One episode more."""
    learner.clock[0] += 1


rules.register(WindowedQ, **{**plain.VERBS, "learn": learn_windowed, "finish_episode": next_episode})
rules.register(FadingQ, **{**plain.VERBS, "learn": learn_fading, "finish_episode": tick})
