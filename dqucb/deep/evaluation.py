"""Evaluation of a policy in environments of its own, so that training is not disturbed."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.deep.observations import Observations

Act = Callable[[NDArray[Any]], Any]


def evaluation_returns(
    act: Act, make: Callable[[], gymnasium.Env[Any, Any]], *, episodes: int = 20, seed: int = 0
) -> NDArray[np.float64]:
    """The undiscounted return of each of `episodes` episodes, all stepped together.

    Parameters
    ----------
    act : callable
        The actions at rows of observations, one row per episode. (A trained agent has `evaluate`.)
    make : callable
        Makes a new env; its episodes must end. One that returns the same env again is stepped one episode at a time.
    episodes : int
        How many.
    seed : int
        Episode k is begun with the k-th seed that comes of it, whatever the policy.

    Examples
    --------
    >>> import gymnasium
    >>> make = lambda: gymnasium.make("CartPole-v1")
    >>> len(evaluation_returns(random_policy(make().action_space), make, episodes=3))
    3
    """
    episodes = _validate.integer("episodes", episodes)
    seeds = np.random.SeedSequence(_validate.integer("seed", seed, 0)).generate_state(episodes).tolist()
    envs = [make() for _ in range(episodes)]
    if len({id(env) for env in envs}) < episodes:  # the user's own env, which stays open
        return np.concatenate([_play(act, [env], [seed]) for env, seed in zip(envs, seeds, strict=True)])
    returns = _play(act, envs, seeds)
    for env in envs:
        env.close()
    return returns


def _play(act: Act, envs: Sequence[gymnasium.Env[Any, Any]], seeds: Sequence[int]) -> NDArray[np.float64]:
    """One episode in each env, all stepped together."""
    form = Observations(envs[0].observation_space)
    observations = np.array([form.row(env.reset(seed=seed)[0]) for env, seed in zip(envs, seeds, strict=True)])
    returns, going_on = np.zeros(len(envs)), np.ones(len(envs), np.bool_)
    shape = np.shape(envs[0].action_space.sample())
    while going_on.any():
        # Rows of finished episodes are passed too: a batch of one size has one arithmetic.
        actions = np.asarray(act(observations)).reshape(len(envs), *shape)
        for k in np.flatnonzero(going_on).tolist():
            observation, reward, terminated, truncated, _ = envs[k].step(actions[k])
            observations[k] = form.row(observation)
            returns[k] += float(reward)
            going_on[k] = not (terminated or truncated)
    return returns


def random_policy(space: gymnasium.Space[Any], seed: int = 0) -> Act:
    """Uniformly random actions of a space, for `evaluation_returns`.

    Examples
    --------
    >>> from gymnasium.spaces import Discrete
    >>> random_policy(Discrete(1))([[0.0], [0.0]]).tolist()
    [0, 0]
    """
    space.seed(seed)
    return lambda rows: np.array([space.sample() for _ in rows])
