"""A loop of one's own over an env: `start`, `act`, `observe` and `end_episode` of the deep agents."""

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.base import Agent
from dqucb.deep.threads import one_thread
from dqucb.running import lockstep
from dqucb.running.env_stack import Lockstep
from dqucb.running.session import Packed

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import Trainer


class SteppedAgent(Agent):
    """What a deep agent holds of a run, and how it learns one transition at a time."""

    _trainer: "Trainer | None"
    _envs: Lockstep | None
    _saved: Packed | None  # the rest of a loaded run, until an env is there
    _policy_step: int

    def _greedy(self) -> "Policy":
        raise NotImplementedError

    def _learned(self) -> list[lockstep.LockstepSession]:
        self._started()
        return cast("list[lockstep.LockstepSession]", self._sessions)

    def start(self, problem: Any, *, seed: int = 0) -> Self:
        """Prepare for a loop of one's own over this env, which is not stepped here; what was learned is forgotten.

        Examples
        --------
        >>> import gymnasium
        >>> from dqucb.deep import DQN
        >>> env = gymnasium.make("CartPole-v1")
        >>> agent = DQN(hidden=(16,), learning_starts=20).start(env, seed=1)
        >>> state, _ = env.reset(seed=1)
        >>> for _ in range(40):
        ...     action = agent.act(state)
        ...     following, reward, terminated, truncated, _ = env.step(action)
        ...     _ = agent.observe(state, action, reward, following, terminated=terminated)
        ...     state = following
        ...     if terminated or truncated:
        ...         agent.end_episode()
        ...         state, _ = env.reset()
        """
        from dqucb.deep.building import trainer_of
        from dqucb.deep.spaces import head_of, observation_dim
        from dqucb.envs.making import env_identity, make_env, own_number

        env = make_env(problem)
        named = {"problem": env_identity(problem, env)[0], "unit": lockstep.OWN_LOOP, "length": 1 << 62,
                 "change_at": (), "regret_form": "realized"}  # fmt: skip
        seeds = [_validate.integer("seed", seed, 0)]
        sessions = lockstep.new_sessions(seeds, named, max_reward=own_number(env, "max_reward"))
        dimension = observation_dim(self._fitted(env))
        self._trainer = trainer_of(cast("DeepAgent", self), sessions, dimension, head_of(env))
        self._sessions = list(sessions)
        self._envs, self._policy_step, self._saved, self._is_loaded = None, -1, None, False
        return self

    def act(self, observation: ArrayLike, step: int = 0) -> Any:
        """The action to take at an observation: random at times, as in training."""
        trainer = self._stepped()
        with one_thread():
            trainer.observations = self._row("observation", observation)
            return trainer.choose(np.zeros(1, np.int64))[0]

    def observe(self, state: ArrayLike, action: Any, reward: float, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> tuple[float, float]:  # fmt: skip
        """Learn from one transition, by the same updates as in `train`; returns its bonus and likelihood.

        `reward` is one number per hospital where rewards come in parts (`info["rewards"]`).
        """
        trainer, row = self._stepped(), np.zeros(1, np.int64)
        with one_thread():
            trainer.observations = self._row("state", state)
            trainer.choices = trainer.head.choices_of(np.asarray(action)[None])
            parts = np.asarray(reward, np.float64)[None]
            ended = np.array([terminated], np.bool_)
            likelihood = trainer.learn(row, parts.reshape(1, -1).sum(1), parts, self._row("next_state", next_state),
                                       ended, np.zeros(1, np.bool_))  # fmt: skip
            bonus = np.ravel(trainer.bonus.at(trainer.last.cells[:, None], likelihood[:, None]))
        return float(bonus[0]), float(likelihood[0])

    def end_episode(self) -> None:
        """Say that the episode is over: by its end, or by a time limit."""
        trainer = self._stepped()
        trainer.replay.end_chain()
        self._learned()[0].episodes += 1

    def _stepped(self) -> "Trainer":
        """The trainer of a loop of one's own, after a file too."""
        if self._trainer is None and self._saved is not None and self._learned()[0].own_loop:
            from dqucb.deep import checkpoint
            from dqucb.deep.building import trainer_of

            policy = self._greedy()
            trainer = trainer_of(cast("DeepAgent", self), self._learned(), policy.mean.shape[1], policy.head)
            checkpoint.restore(trainer, None, self._saved)
            self._trainer, self._saved, self._is_loaded = trainer, None, False
        if self._trainer is None or self._envs is not None:
            raise ValueError(f"{self.name} is not in a loop of one's own: call start first")
        return self._trainer

    def _row(self, name: str, observation: ArrayLike) -> NDArray[np.float32]:
        assert self._trainer is not None
        row = _validate.finite_array(name, np.ravel(np.asarray(observation)), 1, np.float32)
        if row.size != self._trainer.observations.shape[1]:
            raise ValueError(f"{name} must have {self._trainer.observations.shape[1]} numbers, got {row.size}")
        return row[None].copy()
