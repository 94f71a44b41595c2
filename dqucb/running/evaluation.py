"""Evaluation of a policy in envs of its own, so that training is not disturbed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

if TYPE_CHECKING:
    import gymnasium

    from dqucb.base import Agent

    Env = gymnasium.Env[Any, Any]

MAX_STEPS = 100_000  # of an episode that nothing else ends

Policy = Callable[[list[Any], int], Any]  # (observations, step) -> an action for each


def evaluate(agent: "Agent", problem: Any, episodes: int, seed: int) -> NDArray[np.float64]:
    """Returns of `episodes` episodes under `agent.predict`, one after the other in one env."""
    env = maker(agent, problem)()
    return played(
        lambda rows, step: [agent.predict(row, step=step) for row in rows],
        lambda: env, episodes, seed, agent._horizon or MAX_STEPS,
    )  # fmt: skip


def maker(agent: "Agent", problem: Any) -> "Callable[[], Env]":
    """A function that makes envs in the form that an agent takes; of the user's own env always the same."""
    import gymnasium

    from dqucb.envs.making import make_env

    if isinstance(problem, gymnasium.Env):
        own = agent._fitted(problem)
        return lambda: own
    return lambda: agent._fitted(make_env(problem))


def played(policy: Policy, make: Callable[[], "Env"], episodes: int, seed: int, most: int) -> NDArray[np.float64]:
    """The undiscounted return of each of `episodes` episodes of at most `most` steps.

    Episode k begins with the k-th seed that comes of `seed`, whatever the policy. Envs that `make` makes anew are
    stepped together; the same env again is used for one episode after the other.
    """
    episodes = _validate.integer("episodes", episodes)
    seeds = np.random.SeedSequence(_validate.integer("seed", seed, 0)).generate_state(episodes).tolist()
    envs = [make() for _ in range(max(2, episodes))]
    if envs[0] is envs[1]:  # the user's own env, which stays open
        return np.concatenate([_play(policy, envs[:1], [seed], most) for seed in seeds])
    result = _play(policy, envs[:episodes], seeds, most)
    for env in envs:
        env.close()
    return result


def _play(policy: Policy, envs: "Sequence[Env]", seeds: Sequence[int], most: int) -> NDArray[np.float64]:
    """One episode in each env, all stepped together."""
    observations = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    returns, going_on, step = np.zeros(len(envs)), np.ones(len(envs), np.bool_), 0
    while going_on.any() and step < most:
        # Rows of finished episodes are passed too: a batch of one size has one arithmetic.
        actions = policy(observations, step)
        for k in np.flatnonzero(going_on).tolist():
            observations[k], reward, terminated, truncated, _ = envs[k].step(actions[k])
            returns[k] += float(reward)
            going_on[k] = not (terminated or truncated)
        step += 1
    return returns


def evaluation_returns(
    act: Callable[[NDArray[np.float32]], Any], make: Callable[[], "Env"], *, episodes: int = 20, seed: int = 0
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
    shape = np.shape(make().action_space.sample())

    def policy(observations: list[Any], step: int) -> Any:
        rows = np.array([np.ravel(observation) for observation in observations], np.float32)
        return np.asarray(act(rows)).reshape(len(rows), *shape)

    return played(policy, make, episodes, seed, MAX_STEPS)


def random_policy(space: "gymnasium.Space[Any]", seed: int = 0) -> Callable[[NDArray[np.float32]], Any]:
    """Uniformly random actions of a space, for `evaluation_returns`.

    Examples
    --------
    >>> from gymnasium.spaces import Discrete
    >>> random_policy(Discrete(1))([[0.0], [0.0]]).tolist()
    [0, 0]
    """
    space.seed(seed)
    return lambda rows: np.array([space.sample() for _ in rows])
