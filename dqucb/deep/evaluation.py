"""Evaluation of a policy in environments of its own, so that training is not disturbed."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

Act = Callable[[NDArray[np.float32]], Any]


def evaluation_returns(
    act: Act, make: Callable[[], gymnasium.Env[Any, Any]], *, episodes: int = 20, seed: int = 0
) -> NDArray[np.float64]:
    """The undiscounted return of each of `episodes` episodes, all stepped together.

    Parameters
    ----------
    act : the actions at rows of observations, one row per episode; for a trained agent
        `lambda rows: agent.predict(rows, seed=...)`, which is its greedy policy.
    make : makes a new env; its episodes must end.
    seed : episode k is begun with the k-th seed that comes of it, whatever the policy.
    """
    episodes = _validate.integer("episodes", episodes)
    seeds = np.random.SeedSequence(_validate.integer("seed", seed, 0)).generate_state(episodes)
    envs = [make() for _ in range(episodes)]
    observations = np.array(
        [np.ravel(env.reset(seed=int(s))[0]) for env, s in zip(envs, seeds, strict=True)], np.float32
    )
    returns, going_on = np.zeros(episodes), np.ones(episodes, np.bool_)
    shape = np.shape(envs[0].action_space.sample())
    while going_on.any():
        # Rows of finished episodes are passed too: a batch of one size has one arithmetic.
        actions = np.asarray(act(observations)).reshape(episodes, *shape)
        for k in np.flatnonzero(going_on):
            observation, reward, terminated, truncated, _ = envs[k].step(actions[k])
            observations[k] = np.ravel(observation)
            returns[k] += float(reward)
            going_on[k] = not (terminated or truncated)
    for env in envs:
        env.close()
    return returns


def random_policy(space: gymnasium.Space[Any], seed: int = 0) -> Act:
    """Uniformly random actions of a space, for `evaluation_returns`."""
    space.seed(seed)
    return lambda rows: np.array([space.sample() for _ in rows])
