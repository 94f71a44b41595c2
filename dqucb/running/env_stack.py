"""The envs of several seeds behind one interface, whether they are vectorised or separate."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.envs.making import bare, make_env, savable
from dqucb.running.env import has_gaps
from dqucb.running.observations import Observations

Env = gymnasium.Env[Any, Any]
Answers = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]


class Lockstep(Protocol):
    """The interface of the envs of n seeds to the training loop; `dqucb.envs.CartPoleVector` implements it."""

    @property
    def gaps(self) -> NDArray[np.float64] | None:
        """The regret of the last step, one for each seed that was stepped; None if the env does not report it.

        It is None from the first reset on or never. If it is not, a run counted in steps has one record per step.
        """

    @property
    def reward_parts(self) -> NDArray[np.float64] | None:
        """The rewards of the last step split into parts, (rows, n_parts), for heads with several parts; else None."""

    @property
    def checkpointable(self) -> bool:
        """Whether the envs can be saved, so that an unfinished run can be resumed from a file."""

    def reset(self, i: int) -> NDArray[Any]:
        """Start the next episode of seed i and return its first observation."""

    def step(self, actions: NDArray[Any], rows: NDArray[np.int64]) -> Answers:
        """Step the envs of the seeds in `rows`; return observations, rewards, terminated and truncated."""

    def state(self) -> dict[str, Any]:
        """Return arrays and JSON values by name, for a checkpoint."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the envs from `state()`, bit-identically."""


class EnvStack:
    """Gymnasium envs, one per seed, stepped one after the other.

    Envs can be checkpointed if they have `checkpoint_state()`, which returns a dict of arrays and JSON values, and
    `restore_state(state)`.

    Parameters
    ----------
    envs : sequence of gymnasium.Env
        One per seed.
    seeds : sequence of int
        For the first reset of each env.
    fitted : callable
        Wraps an env as the agent needs it.
    """

    def __init__(self, envs: Sequence[Env], seeds: Sequence[int], fitted: Callable[[Any], Any] = lambda env: env):
        self._plain, self.envs, self.seeds = list(envs), [fitted(env) for env in envs], list(seeds)
        self.form = Observations(self.envs[0].observation_space)
        self._begun = [False] * len(self.envs)
        # Optional entries of `info`: "gap", the regret, and "rewards", the reward in parts.
        self.gaps = np.zeros(len(self.envs)) if has_gaps(envs[0]) else None
        self.reward_parts: NDArray[np.float64] | None = None

    def reset(self, i: int) -> NDArray[Any]:
        observation, _ = self.envs[i].reset(seed=None if self._begun[i] else self.seeds[i])
        self._begun[i] = True
        return self.form.row(observation)

    def step(self, actions: NDArray[Any], rows: NDArray[np.int64]) -> Answers:
        results = [self.envs[i].step(action) for i, action in zip(rows, actions, strict=True)]
        if self.gaps is not None:
            self.gaps = np.array([result[4]["gap"] for result in results])
        if "rewards" in results[0][4]:
            self.reward_parts = np.array([result[4]["rewards"] for result in results])
        return (
            np.array([self.form.row(result[0]) for result in results]),
            np.array([_validate.env_reward(result[1]) for result in results]),
            np.array([result[2] for result in results], np.bool_),
            np.array([result[3] for result in results], np.bool_),
        )

    @property
    def checkpointable(self) -> bool:
        return all(savable(env) for env in self._plain)

    def state(self) -> dict[str, Any]:
        return {
            f"{i}.{name}": value
            for i, env in enumerate(self.envs)
            for name, value in env.get_wrapper_attr("checkpoint_state")().items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        for i, env in enumerate(self.envs):
            if not self._begun[i]:
                self.reset(i)
            own = {name.removeprefix(f"{i}."): value for name, value in state.items() if name.startswith(f"{i}.")}
            env.get_wrapper_attr("restore_state")(own)


def lockstep_of(problem: Any, first: Env, seeds: Sequence[int], fitted: Callable[[Any], Any]) -> Lockstep:
    """Return the envs of all seeds; `first` is that of the first seed, and `fitted` wraps them for the agent."""
    # A user's wrapper must stay active, so only an env without wrappers is replaced by its vectorised form.
    vectorised: Callable[[Sequence[int]], Lockstep] | None = getattr(bare(first), "lockstep", None)
    if vectorised is not None and not isinstance(bare(first), gymnasium.Wrapper):
        return vectorised(seeds)
    if isinstance(problem, gymnasium.Env) and len(seeds) > 1:
        raise ValueError(f"problem must be an id or a function that makes a new env for several seeds, got {problem}")
    return EnvStack([first, *(make_env(problem) for _ in seeds[1:])], seeds, fitted)
