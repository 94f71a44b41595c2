"""Evaluation of a fixed policy in separate envs, without effect on training."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate

if TYPE_CHECKING:
    import gymnasium

    from dqucb.base import Agent

    Env = gymnasium.Env[Any, Any]

MAX_STEPS = 100_000  # limit on episodes without another end

Policy = Callable[[list[Any], int], Any]  # (observations, step) -> an action for each


def evaluate(agent: "Agent", problem: Any, episodes: int, seed: int) -> NDArray[np.float64]:
    """Return the undiscounted returns of `episodes` episodes under `agent.predict`."""
    env = maker(agent, problem)()
    return played(
        lambda rows, step: [agent.predict(row, step=step) for row in rows],
        lambda: env, episodes, seed, agent._horizon or MAX_STEPS,
    )  # fmt: skip


def maker(agent: "Agent", problem: Any) -> "Callable[[], Env]":
    """Return a factory of envs, wrapped as the agent needs them; a given env object is returned every time."""
    import gymnasium

    from dqucb.envs.making import make_env

    if isinstance(problem, gymnasium.Env):
        own = agent._fitted(problem)
        return lambda: own
    return lambda: agent._fitted(make_env(problem))


def played(policy: Policy, make: Callable[[], "Env"], episodes: int, seed: int, most: int) -> NDArray[np.float64]:
    """Return the undiscounted return of each episode.

    Parameters
    ----------
    policy : callable
        (observations, step) -> an action for each observation.
    make : callable
        Returns an env. New envs are stepped together; if it returns the same object every time, episodes are run one
        after the other.
    episodes : int
        How many.
    seed : int
        Episode k is reset with the k-th seed generated from it, whatever the policy.
    most : int
        Limit on the steps of an episode.
    """
    episodes = _validate.integer("episodes", episodes)
    seeds = np.random.SeedSequence(_validate.integer("seed", seed, 0)).generate_state(episodes).tolist()
    envs = [make() for _ in range(max(2, episodes))]
    if envs[0] is envs[1]:  # an env object of the user, which is not closed
        return np.concatenate([_play(policy, envs[:1], [seed], most) for seed in seeds])
    result = _play(policy, envs[:episodes], seeds, most)
    for env in envs:
        env.close()
    return result


def _play(policy: Policy, envs: "Sequence[Env]", seeds: Sequence[int], most: int) -> NDArray[np.float64]:
    """Run one episode in each env, all stepped together."""
    observations = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    returns, going_on, step = np.zeros(len(envs)), np.ones(len(envs), np.bool_), 0
    while going_on.any() and step < most:
        # Finished episodes stay in the batch: its size must not change the rounding of matrix products.
        actions = policy(observations, step)
        for k in np.flatnonzero(going_on).tolist():
            observations[k], reward, terminated, truncated, _ = envs[k].step(actions[k])
            returns[k] += float(reward)
            going_on[k] = not (terminated or truncated)
        step += 1
    return returns


def evaluation_returns(
    act: Callable[[NDArray[Any]], Any], make: Callable[[], "Env"], *, episodes: int = 20, seed: int = 0
) -> NDArray[np.float64]:
    """Return the undiscounted return of each of `episodes` episodes, all stepped together.

    Parameters
    ----------
    act : callable
        Maps rows of observations, one row per episode, to actions. (A trained agent has `evaluate`.)
    make : callable
        Returns a new env. If it returns the same env every time, episodes are run one after the other.
    episodes : int
        How many.
    seed : int
        Episode k is reset with the k-th seed generated from it, whatever the policy.

    Examples
    --------
    >>> import gymnasium
    >>> make = lambda: gymnasium.make("CartPole-v1")
    >>> len(evaluation_returns(random_policy(make().action_space), make, episodes=3))
    3
    """
    from dqucb.running.observations import Observations

    env = make()
    shape, form = np.shape(env.action_space.sample()), Observations(env.observation_space)

    def policy(observations: list[Any], step: int) -> Any:
        rows = np.array([form.row(observation) for observation in observations])
        return np.asarray(act(rows)).reshape(len(rows), *shape)

    return played(policy, make, episodes, seed, MAX_STEPS)


def random_policy(space: "gymnasium.Space[Any]", seed: int = 0) -> Callable[[NDArray[np.float32]], Any]:
    """Return a policy of uniformly random actions, for `evaluation_returns`.

    Parameters
    ----------
    space : gymnasium.Space
        The action space, which is seeded.
    seed : int
        Its seed.

    Examples
    --------
    >>> from gymnasium.spaces import Discrete
    >>> random_policy(Discrete(1))([[0.0], [0.0]]).tolist()
    [0, 0]
    """
    space.seed(seed)
    return lambda rows: np.array([space.sample() for _ in rows])
