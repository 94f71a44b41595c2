"""`from_ns_gym`: use the envs of the package ns-gym with our agents and detectors."""

from collections.abc import Callable
from typing import Any

import gymnasium

from dqucb import _validate

_CLOCKS = ("steps", "episodes", "each episode")


class NSGymEnv(gymnasium.Env[Any, Any]):
    """An env of ns-gym whose observation is the state only.

    Parameters
    ----------
    make, clock
        As in `from_ns_gym`.

    Examples
    --------
    >>> from dqucb.envs import NSGymEnv
    >>> NSGymEnv(lambda: None)
    Traceback (most recent call last):
    ValueError: make must return a wrapper of ns-gym, with a clock t and tunable_params, got None
    """

    env: Any
    steps: int
    episode: int
    is_first_step: bool

    def __init__(self, make: Callable[[], Any], clock: str = "steps") -> None:
        if not callable(make):
            raise ValueError(f"make must be a function that returns a new env, got {make!r}")
        self.make, self.clock = make, _validate.one_of("clock", clock, _CLOCKS)
        self._begin()
        self.observation_space = self.env.observation_space["state"]
        self.action_space = self.env.action_space
        self.spec = self.env.spec

    def _begin(self) -> None:
        env = self.make()
        if not (hasattr(env, "t") and hasattr(env, "tunable_params")):
            raise ValueError(f"make must return a wrapper of ns-gym, with a clock t and tunable_params, got {env!r}")
        if self.clock != "each episode":
            env.persistent_params = True
        if self.clock == "episodes":
            for update in env.tunable_params.values():
                # ns-gym calls this at every step; an episode is counted at its first step.
                update.scheduler = lambda t, is_due=update.scheduler: self.is_first_step and is_due(t)
        self.env, self.steps, self.episode, self.is_first_step = env, 0, -1, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; with a seed, begin a run in a new env."""
        super().reset(seed=seed)
        if seed is not None and self.steps:
            self._begin()
        observation, info = self.env.reset(seed=seed, options=options)
        self.is_first_step = True
        return observation["state"], info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; the notifications of ns-gym stay in `info`."""
        self.episode += self.is_first_step
        if self.clock != "each episode":
            self.env.t = self.steps if self.clock == "steps" else self.episode
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self.is_first_step = False
        return observation["state"], float(getattr(reward, "reward", reward)), terminated, truncated, info

    def close(self) -> None:
        """Close the env of ns-gym."""
        self.env.close()

    def __repr__(self) -> str:
        return f"NSGymEnv({self.env!r}, clock={self.clock!r})"


def from_ns_gym(make: Callable[[], Any], clock: str = "steps") -> NSGymEnv:
    """Convert an env of ns-gym to a plain Gymnasium env, for training, comparisons and drift detection.

    Parameters
    ----------
    make : callable
        Returns a new wrapper of ns-gym, such as `NSFrozenLakeWrapper`. It is called once a run, because the update
        functions of ns-gym are used up as they fire.
    clock : {"steps", "episodes", "each episode"}
        What the schedulers of ns-gym count. "steps" and "episodes" count those of the whole run, and changes persist.
        "each episode" counts the steps of each episode, as ns-gym does: every episode starts in the unchanged env.
        Use "episodes" to compare agents: with "steps", an agent with shorter episodes meets the change in a later
        episode, or not at all.

    Notes
    -----
    Some envs of ns-gym, its Bridge among them, draw from NumPy's global generator, which the seed of an env does not
    affect: call `numpy.random.seed` before each run to make it reproducible.

    Examples
    --------
    >>> from dqucb.envs import from_ns_gym
    >>> def make():  # doctest: +SKIP
    ...     lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=50)
    ...     update = DistributionStepWiseUpdate(DiscreteScheduler({20_000}), [[1 / 3, 1 / 3, 1 / 3]])
    ...     return NSFrozenLakeWrapper(lake, {"P": update}, initial_prob_dist=[1, 0, 0])
    >>> PlanningDQUCB().train(lambda: from_ns_gym(make), episodes=3_000, seed=0)  # doctest: +SKIP
    """
    return NSGymEnv(make, clock)
