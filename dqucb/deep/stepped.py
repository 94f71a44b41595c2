"""A loop of one's own over an env: `start`, `act`, `observe` and `end_episode` of the deep agents."""

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.base import Agent
from dqucb.deep.records import Records
from dqucb.deep.running import SavedRun, one_thread

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import Trainer


class SteppedAgent(Agent):
    """What a deep agent holds of a run, and how it learns one transition at a time."""

    _records: Records | None
    _trainer: "Trainer | None"
    _saved: SavedRun | None  # the rest of a loaded run, until an env is there
    _policy_step: int

    def _greedy(self) -> "Policy":
        raise NotImplementedError

    def _learned(self) -> Records:
        if self._records is None:
            raise ValueError(f"{self.name} has learned nothing yet: call train or start first")
        return self._records

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
        ...     next_state, reward, terminated, truncated, _ = env.step(action)
        ...     _ = agent.observe(state, action, reward, next_state, terminated=terminated)
        ...     state = next_state
        ...     if terminated or truncated:
        ...         agent.end_episode()
        ...         state, _ = env.reset()
        """
        from dqucb.deep.building import new_stepped_trainer

        self._trainer = new_stepped_trainer(cast("DeepAgent", self), problem, _validate.integer("seed", seed, 0))
        self._records, self._policy_step, self._saved, self._is_loaded = self._trainer.records, -1, None, False
        return self

    def act(self, observation: ArrayLike, step: int = 0) -> Any:
        """The action to take at an observation: random at times, as in training."""
        trainer = self._stepped()
        with one_thread():
            trainer.observations = self._row("observation", observation)
            trainer.choose(np.zeros(1, np.int64))
        return trainer.head.actions(trainer.choices)[0]

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
            cells, likelihood = trainer.learn(row, parts.reshape(1, -1).sum(1), parts,
                                              self._row("next_state", next_state), ended, ended)  # fmt: skip
            bonus = np.ravel(trainer.bonus.at(cells[:, None], likelihood[:, None]))
        return float(bonus[0]), float(likelihood[0])

    def end_episode(self) -> None:
        """Say that the episode is over: by its end, or by a time limit."""
        trainer = self._stepped()
        trainer.replay.end_chain()
        trainer.records.episodes += 1

    def _stepped(self) -> "Trainer":
        """The trainer of a loop of one's own, after a file too."""
        if self._trainer is None and self._saved is not None and self._learned().unit == "stepped":
            from dqucb.deep.building import trainer_of

            policy = self._greedy()
            trainer = trainer_of(cast("DeepAgent", self), self._learned(), policy.observations, policy.head, None)
            self._saved.restore(trainer)
            self._trainer, self._saved, self._is_loaded = trainer, None, False
        if self._trainer is None or self._trainer.envs is not None:
            raise ValueError(f"{self.name} is not in a loop of one's own: call start first")
        return self._trainer

    def _row(self, name: str, observation: ArrayLike) -> NDArray[Any]:
        assert self._trainer is not None
        rows, single = self._trainer.form.rows(observation, name)
        if not single:
            raise ValueError(f"{name} must be one observation, got {len(rows)}")
        return rows.copy()
