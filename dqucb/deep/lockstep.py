"""Environments of many seeds behind one small face, whether they come vectorised or one by one."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb.deep.head import Head
from dqucb.deep.heads import BranchingHead, DiscreteHead, unpacked_head

Made = str | Callable[[], gymnasium.Env[Any, Any]]


class Described(NamedTuple):
    """What is known of an env before anything is trained on it."""

    problem: dict[str, Any]  # of its runs
    change_at: tuple[int, ...]  # episodes
    change_steps: tuple[int, ...]
    regret_known: bool  # from the best return of an episode, or told with each step
    checkpointable: bool


class Lockstep(Protocol):
    """What the loop asks of the environments of n seeds. `dqucb.envs.CartPoleVector` is one."""

    observation_dim: int

    @property
    def max_return(self) -> float | None:
        """The best return of an episode, for regret; None: unknown."""

    @property
    def change_at(self) -> tuple[int, ...]:
        """Episodes at which the environment changes."""

    @property
    def change_steps(self) -> tuple[int, ...]:
        """Steps after which the environment changes."""

    @property
    def gaps(self) -> NDArray[np.float64] | None:
        """The regret of the last step of each seed that took it, where the environment knows it; else None.

        Known from `reset` on, or never: a run by steps then has a record for each step.
        """

    @property
    def reward_parts(self) -> NDArray[np.float64] | None:
        """The rewards of the last step in parts, (rows, n_choices), for a head with `value_parts`; else None."""

    @property
    def checkpointable(self) -> bool:
        """Whether `state` can be taken, so that a run can be interrupted."""

    def settings(self) -> dict[str, Any]:
        """What is told of the problem, as JSON values."""

    def reset(self, i: int) -> NDArray[np.float32]:
        """Begin the next episode of seed i."""

    def step(
        self, actions: NDArray[Any], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """One step of each seed in `rows`."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint: arrays, numbers and JSON values by name."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on exactly from `state()`."""


class EnvStack:
    """Any Gymnasium envs with Box observations, one per seed, stepped in turn.

    For checkpoints an env (or a wrapper) offers `checkpoint_state()`, a dict of arrays and JSON values, and
    `restore_state(state)`.
    """

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]], seeds: Sequence[int], max_return: float | None) -> None:
        space = envs[0].observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(f"env must have Box observations, got {space}; finite ones are for the tabular agents")
        self.envs, self.seeds, self.max_return = list(envs), list(seeds), max_return
        self.observation_dim = int(np.prod(space.shape))
        self._begun = [False] * len(self.envs)
        # What an env tells in `info` besides: "gap", and the reward in parts ("rewards"). It says so beforehand.
        self.gaps = np.zeros(len(self.envs)) if envs[0].has_wrapper_attr("tells_gap") else None
        self.reward_parts: NDArray[np.float64] | None = None

    @property
    def change_at(self) -> tuple[int, ...]:
        env = self.envs[0]
        if env.has_wrapper_attr("change_at"):
            return tuple(env.get_wrapper_attr("change_at"))
        if env.has_wrapper_attr("schedule") and env.get_wrapper_attr("count") == "episodes":
            return tuple(index for index in env.get_wrapper_attr("schedule") if index > 0)
        return ()

    @property
    def change_steps(self) -> tuple[int, ...]:
        env = self.envs[0]
        return tuple(env.get_wrapper_attr("change_steps")) if env.has_wrapper_attr("change_steps") else ()

    def settings(self) -> dict[str, Any]:
        env = self.envs[0]
        return env.get_wrapper_attr("describe")() if env.has_wrapper_attr("describe") else {"env": str(env)}

    def reset(self, i: int) -> NDArray[np.float32]:
        observation, _ = self.envs[i].reset(seed=None if self._begun[i] else self.seeds[i])
        self._begun[i] = True
        return np.asarray(observation, np.float32).ravel()

    def step(self, actions, rows):
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
        return all(env.has_wrapper_attr("checkpoint_state") for env in self.envs)

    def state(self) -> dict[str, Any]:
        if not self.checkpointable:
            raise ValueError(
                f"checkpoint: {self.envs[0]} cannot be saved; give it checkpoint_state() and restore_state(state)"
            )
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


def lockstep_of(
    made: Made, seeds: Sequence[int], options: dict[str, Any], max_return: float | None
) -> tuple[Lockstep, Head, dict[str, Any]]:
    """The environments of all seeds, the head that fits their actions, and what the problem is called."""
    if not isinstance(made, str) and (isinstance(made, gymnasium.Env) or not callable(made)):
        raise ValueError(f"env must be an id or a function that makes a new env, got {made!r}")

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(made, disable_env_checker=True, **options) if isinstance(made, str) else made(**options)

    first = make()
    head = head_of(first)
    name = made if isinstance(made, str) else type(first.unwrapped).__name__
    # A wrapper of the user's own must stay in force, so only a bare env is replaced by its vectorised form.
    bare = first.unwrapped if isinstance(made, str) else first
    if hasattr(bare, "lockstep") and max_return is None:
        envs: Lockstep = bare.lockstep(seeds)
    else:
        envs = EnvStack([first, *(make() for _ in seeds[1:])], seeds, max_return)
    return envs, head, {"problem": os.fspath(name), **envs.settings()}


def head_of(env: gymnasium.Env[Any, Any]) -> Head:
    """The head that an env asks for (`deep_head`, or its name and settings), or one for its (Multi)Discrete actions."""
    if env.has_wrapper_attr("deep_head"):
        head = env.get_wrapper_attr("deep_head")
        return unpacked_head(**head) if isinstance(head, dict) else head
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"env must have Discrete actions, got {space}: wrap it in dqucb.envs.DiscretizedActions")
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        if space.nvec.ndim != 1 or (space.nvec != space.nvec[0]).any() or space.start.any():
            raise ValueError(f"env must have as many choices in each action dimension, from 0 on, got {space}")
        return BranchingHead(len(space.nvec), int(space.nvec[0]))
    if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
        raise ValueError(f"env must have Discrete actions that start at 0, got {space}")
    return DiscreteHead(int(space.n))
