"""The environments of several seeds behind one interface, whether they come vectorised or one by one."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb.envs.making import bare, make_env, savable
from dqucb.running.world import tells_gap

Env = gymnasium.Env[Any, Any]
Answers = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]


class Lockstep(Protocol):
    """What the loop asks of the environments of n seeds. `dqucb.envs.CartPoleVector` is one."""

    @property
    def gaps(self) -> NDArray[np.float64] | None:
        """The regret of the last step of each seed that took it, where the environment knows it; else None.

        Known from `reset` on, or never: a run by steps then has a record for each step.
        """

    @property
    def reward_parts(self) -> NDArray[np.float64] | None:
        """The rewards of the last step in parts, (rows, n_parts), for a head with several; else None."""

    @property
    def checkpointable(self) -> bool:
        """Whether `state` can be taken, so that a run can be saved in the middle."""

    def reset(self, i: int) -> NDArray[np.float32]:
        """Begin the next episode of seed i."""

    def step(self, actions: NDArray[Any], rows: NDArray[np.int64]) -> Answers:
        """One step of each seed in `rows`: observations, rewards, terminated, truncated."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint: arrays, numbers and JSON values by name."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly from `state()`."""


class EnvStack:
    """Any Gymnasium envs, one per seed, stepped in turn.

    For checkpoints an env offers `checkpoint_state()`, a dict of arrays and JSON values, and `restore_state(state)`.
    """

    def __init__(self, envs: Sequence[Env], seeds: Sequence[int], fitted: Callable[[Any], Any] = lambda env: env):
        self._plain, self.envs, self.seeds = list(envs), [fitted(env) for env in envs], list(seeds)
        self._begun = [False] * len(self.envs)
        # What an env says in `info` besides: "gap", and the reward in parts ("rewards").
        self.gaps = np.zeros(len(self.envs)) if tells_gap(envs[0]) else None
        self.reward_parts: NDArray[np.float64] | None = None

    def reset(self, i: int) -> NDArray[np.float32]:
        observation, _ = self.envs[i].reset(seed=None if self._begun[i] else self.seeds[i])
        self._begun[i] = True
        return np.asarray(observation, np.float32).ravel()

    def step(self, actions: NDArray[Any], rows: NDArray[np.int64]) -> Answers:
        results = [self.envs[i].step(action) for i, action in zip(rows, actions, strict=True)]
        if self.gaps is not None:
            self.gaps = np.array([result[4]["gap"] for result in results])
        if "rewards" in results[0][4]:
            self.reward_parts = np.array([result[4]["rewards"] for result in results])
        return (
            np.array([np.asarray(result[0], np.float32).ravel() for result in results]),
            np.array([result[1] for result in results], np.float64),
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
    """The environments of all seeds; `first` is one of them, and `fitted` gives them the form that an agent takes."""
    # A wrapper of the user's own must stay in force, so only a bare env is replaced by its vectorised form.
    vectorised: Callable[[Sequence[int]], Lockstep] | None = getattr(bare(first), "lockstep", None)
    if vectorised is not None and not isinstance(bare(first), gymnasium.Wrapper):
        return vectorised(seeds)
    if isinstance(problem, gymnasium.Env) and len(seeds) > 1:
        raise ValueError(f"problem must be an id or a function that makes a new env for several seeds, got {problem}")
    return EnvStack([first, *(make_env(problem) for _ in seeds[1:])], seeds, fitted)
