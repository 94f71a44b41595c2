"""Deep agents in a user-written loop: `start`, `act`, `observe` and `end_episode`."""

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.base import Agent
from dqucb.deep.threads import one_thread
from dqucb.running import lockstep
from dqucb.running.env_stack import Lockstep
from dqucb.running.observations import Observations
from dqucb.running.session import Packed

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import Trainer


class SteppedAgent(Agent):
    """The state of a deep agent's run, and its methods for learning one transition at a time."""

    _trainer: "Trainer | None"
    _envs: Lockstep | None
    _saved: Packed | None  # the state of a loaded run, until it is resumed
    _policy_step: int

    def _greedy(self) -> "Policy":
        raise NotImplementedError

    def _learned(self) -> list[lockstep.LockstepSession]:
        self._started()
        return cast("list[lockstep.LockstepSession]", self._sessions)

    def start(self, problem: Any, *, seed: int = 0) -> Self:
        """Prepare for a user-written loop over this env; what was learned before is discarded.

        Parameters
        ----------
        problem : gymnasium.Env, str or callable
            As in `train`; only its spaces are used.
        seed : int
            The random seed.

        Examples
        --------
        >>> import gymnasium
        >>> from dqucb.deep import DQN
        >>> env = gymnasium.make("CartPole-v1")
        >>> agent = DQN(hidden=(16,), learning_starts=20).start(env, seed=1)
        >>> state, _ = env.reset(seed=1)
        >>> for _ in range(40):
        ...     action = agent.act(state)
        ...     next_state, reward, terminated, truncated, _ = env.step(action)
        ...     _ = agent.observe(state, action, reward, next_state, terminated=terminated)
        ...     state = next_state
        ...     if terminated or truncated:
        ...         agent.end_episode()
        ...         state, _ = env.reset()
        """
        from dqucb.deep.spaces import head_of
        from dqucb.deep.trainer import new_trainer
        from dqucb.envs.making import env_identity, make_env, own_number

        env = make_env(problem)
        named = {"problem": env_identity(problem, env)[0], "unit": lockstep.OWN_LOOP, "length": 1 << 62,
                 "change_at": (), "regret_form": "realized"}  # fmt: skip
        seeds = [_validate.integer("seed", seed, 0)]
        sessions = lockstep.new_sessions(seeds, named, max_reward=own_number(env, "max_reward"))
        form = Observations(env.observation_space)
        self._trainer = new_trainer(cast("DeepAgent", self), sessions, form, head_of(env))
        self._sessions = list(sessions)
        self._envs, self._policy_step, self._saved, self._is_loaded = None, -1, None, False
        return self

    def act(self, observation: ArrayLike, step: int = 0) -> Any:
        """Return the action at an observation, with exploration as in training; `step` is ignored."""
        trainer = self._stepped()
        with one_thread():
            trainer.observations = self._row("observation", observation)
            return trainer.choose(np.zeros(1, np.int64))[0]

    def observe(self, state: ArrayLike, action: Any, reward: float, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> tuple[float, float]:  # fmt: skip
        """Learn from one transition with the same updates as in `train`; return its bonus and likelihood.

        Parameters
        ----------
        state, action, next_state
            The transition.
        reward : float or array
            An array for heads with several parts (`info["rewards"]`).
        step : int
            Ignored.
        terminated : bool
            Whether the episode ended in `next_state`, other than by a time limit.
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
        """End the episode, after a terminal state or a time limit."""
        trainer = self._stepped()
        trainer.replay.end_chain()
        self._learned()[0].episodes += 1

    def _stepped(self) -> "Trainer":
        """Return the trainer of a user-written loop, which may be loaded from a file."""
        if self._trainer is None and self._saved is not None and self._learned()[0].own_loop:
            from dqucb.deep import checkpoint
            from dqucb.deep.trainer import new_trainer

            policy = self._greedy()
            trainer = new_trainer(cast("DeepAgent", self), self._learned(), policy.observations, policy.head)
            checkpoint.restore(trainer, None, self._saved)
            self._trainer, self._saved, self._is_loaded = trainer, None, False
        if self._trainer is None or self._envs is not None:
            raise ValueError(f"{self.name} is not in a user-written loop: call start first")
        return self._trainer

    def _row(self, name: str, observation: ArrayLike) -> NDArray[Any]:
        assert self._trainer is not None
        rows, single = self._trainer.form.rows(observation, name)
        if not single:
            raise ValueError(f"{name} must be one observation, got {len(rows)}")
        return rows.copy()
