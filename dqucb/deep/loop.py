"""The one training loop of the deep agents: all seeds step together, each with its own generators.

A seed's draws come from children of its own SeedSequence (weights, exploration, replay, hashing), and those of its
environment from the seed itself. A seed that has played its episodes is set aside with its networks as they are;
its rows go on being computed, unread, because taking them out would cost more than it saves.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dqucb.deep.bonus import NoBonus
from dqucb.deep.head import Head, HeadWithChange
from dqucb.deep.learner import QLearner
from dqucb.deep.lockstep import Lockstep
from dqucb.deep.replay import Replay
from dqucb.deep.scaling import RunningScale


class Schedule(NamedTuple):
    """When to explore and when to learn, in steps of a seed."""

    batch: int
    learning_starts: int
    train_every: int
    n_steps: int
    epsilon: float
    epsilon_steps: int

    def epsilon_at(self, step: int) -> float:
        """1 before learning starts, then falling linearly to `epsilon` in `epsilon_steps` steps."""
        if step < self.learning_starts:
            return 1.0
        if self.epsilon_steps == 0:
            return self.epsilon
        return max(self.epsilon, 1.0 - (step - self.learning_starts) / self.epsilon_steps)


class Moment(NamedTuple):
    """What a callback sees after each step; arrays hold one row for each seed of the run."""

    step: int
    rows: NDArray[np.int64]  # the seeds still running: rows of others mean nothing
    episodes: NDArray[np.int64]
    observations: NDArray[np.float32]
    slots: NDArray[np.int64]
    q: NDArray[np.float64]  # of the action taken, before it was learned from
    bonus: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_observations: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    trainer: "Trainer"


class Trainer:
    """The state of a run of n seeds, and what moves it on. `length` counts episodes or steps of each seed."""

    def __init__(self, seeds: list[int], envs: Lockstep, head: Head, learner: QLearner, bonus: NoBonus, replay: Replay,
                 generators: dict[str, list[np.random.Generator]], schedule: Schedule, length: int, unit: str,
                 ) -> None:  # fmt: skip
        self.seeds, self.envs, self.head, self.learner, self.bonus = seeds, envs, head, learner, bonus
        self.replay, self.generators, self.schedule = replay, generators, schedule
        self.length, self.unit = length, unit
        n = len(seeds)
        self.step, self.seconds, self.begun = 0, 0.0, False
        self.running = np.ones(n, np.bool_)
        self.observations = np.zeros((n, envs.observation_dim), np.float32)
        self.slots = np.zeros((n, head.n_slots), np.int64)
        self.episodes = np.zeros(n, np.int64)
        # Per seed: return, likelihood sum, length and regret of the record under way; and the finished ones.
        self.current = np.zeros((n, 4))
        self.records: list[list[tuple[float, float, float, float]]] = [[] for _ in seeds]
        self.policy = self.learner.acting.copy()  # the networks of seeds that are done
        self.policy_scale = RunningScale(n, envs.observation_dim, 0)

    @property
    def done(self) -> bool:
        """Whether every seed has played all its episodes or steps."""
        return not self.running.any()

    @property
    def progress(self) -> int:
        """Episodes that every seed has played, or steps."""
        return self.step if self.unit == "steps" else int(self.episodes.min())

    def begin(self) -> None:
        """Reset all environments, once."""
        if not self.begun:
            for i in range(len(self.seeds)):
                self.observations[i] = self.envs.reset(i)
            self._check_finite("observation", self.observations)
            self.begun = True

    def advance(self, callback: Any = None) -> bool:
        """One step of every running seed; False if the callback asked to stop."""
        rows = np.flatnonzero(self.running)
        observations = self.observations.copy()
        q = self.learner.q(observations[:, None])
        self._choose(q, rows)
        following, rewards = observations.copy(), np.zeros(len(self.seeds))
        terminated, truncated = np.zeros(len(self.seeds), np.bool_), np.zeros(len(self.seeds), np.bool_)
        answers = self.envs.step(self.head.actions(self.slots[rows]), rows)
        following[rows], rewards[rows], terminated[rows], truncated[rows] = answers
        self._check_finite("reward", rewards)
        self._check_finite("observation", following)

        scale = self.learner.scale
        scale.update(observations)
        coordinates = self.head.coordinates(self.slots)
        head = self.head
        change = head.change(observations, self.slots, following) if isinstance(head, HeadWithChange) else None
        cells, likelihood = self.bonus.observe(rows, scale(observations), scale(following), self.slots, coordinates,
                                               change)  # fmt: skip
        ended = terminated | truncated
        kept = rewards
        if self.learner.in_parts:
            kept = np.zeros(self.slots.shape)
            kept[rows] = self.envs.reward_parts
        self.replay.add(observations, self.slots, kept, following, terminated, ended, cells, likelihood)
        self.step += 1
        self._learn()
        self.observations = following.copy()  # resets overwrite it; a callback may keep what it was shown
        gaps = np.zeros(len(rows)) if self.envs.gaps is None else self.envs.gaps
        self.current[rows] += np.stack([rewards[rows], likelihood[rows], np.ones(len(rows)), gaps], 1)
        go_on = True
        if callback is not None:
            go_on = callback(self._moment(rows, observations, q, cells, likelihood, rewards, following,
                                          terminated, truncated)) is not False  # fmt: skip
        self._close(rows, ended)
        return go_on

    def _choose(self, q: Any, rows: NDArray[np.int64]) -> None:
        """Epsilon-greedy slots for all running seeds; every step draws as many numbers, whatever is chosen."""
        epsilon = self.schedule.epsilon_at(self.step)
        self.slots = self.head.best(q, self.observations[:, None])[:, 0].cpu().numpy().copy()
        if epsilon > 0.0:
            for i in rows:
                uniforms = self.generators["explore"][i].random(1 + self.head.n_slots)
                if uniforms[0] < epsilon:
                    self.slots[i] = self.head.random(uniforms[1:], self.observations[i])

    def _learn(self) -> None:
        plan = self.schedule
        if self.step >= plan.learning_starts and self.step % plan.train_every == 0:
            batch = self.replay.sample(self.generators["replay"], plan.batch, plan.n_steps)
            cells, likelihood = batch.cells, batch.likelihood
            if self.learner.in_parts:  # a bonus for each slot, which average to that of the action
                cells, likelihood = cells[..., None], likelihood[..., None]
            self.learner.update(batch, self.bonus.at(cells, likelihood))

    def _close(self, rows: NDArray[np.int64], ended: NDArray[np.bool_]) -> None:
        """Write down the episodes that ended, or each step whose regret is known, and begin the next episodes."""
        last_step = self.unit == "steps" and self.step >= self.length
        closed = rows if last_step else rows[ended[rows]]
        for i in rows if self.unit == "steps" and self.envs.gaps is not None else closed:
            total, likelihood, length, gap = self.current[i]
            self.records[i].append((total, likelihood / length, length, gap))
            self.current[i] = 0.0
        for i in closed:
            self.episodes[i] += 1
            if last_step or (self.unit == "episodes" and self.episodes[i] >= self.length):
                self._set_aside(i)
            else:
                self.observations[i] = self.envs.reset(int(i))
                if not np.isfinite(self.observations[i]).all():
                    self._check_finite("observation", self.observations)

    def _set_aside(self, i: int) -> None:
        self.running[i] = False
        self.policy.flat[i] = self.learner.acting.flat[i]
        self.policy_scale.mean[i] = self.learner.scale.mean[i]
        self.policy_scale.spread[i] = self.learner.scale.spread[i]

    def settled(self) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """(weights, mean, spread) per seed, as they were when the seed was done, or as they are now."""
        now = self.running[:, None]
        return (
            np.where(now, self.learner.acting.flat.cpu().numpy(), self.policy.flat.cpu().numpy()),
            np.where(now, self.learner.scale.mean, self.policy_scale.mean),
            np.where(now, self.learner.scale.spread, self.policy_scale.spread),
        )

    def _moment(self, rows: NDArray[np.int64], observations: NDArray[np.float32], q: Any, cells: NDArray[np.int64],
                likelihood: NDArray[np.float64], rewards: NDArray[np.float64], following: NDArray[np.float32],
                terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> Moment:  # fmt: skip
        values = self.head.value(q, torch.from_numpy(self.slots)[:, None].to(q.device))[:, 0].cpu().numpy()
        bonus = np.ones(len(self.seeds)) * np.ravel(self.bonus.at(cells[:, None], likelihood[:, None]))
        return Moment(self.step, rows, self.episodes.copy(), observations, self.slots, values.astype(np.float64), bonus,
                      likelihood, rewards, following, terminated, truncated, self)  # fmt: skip

    def greedy_values(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """max Q of the acting networks at raw observations, one per seed."""
        q = self.learner.q(observations[:, None])
        return self.head.value(q, self.head.best(q, observations[:, None]))[:, 0].cpu().numpy().astype(np.float64)

    def _check_finite(self, what: str, values: NDArray[np.floating]) -> None:
        if np.isfinite(values).all():
            return
        i = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ValueError(
            f"{what} must be finite, got {values[i].tolist()} (seed {self.seeds[i]}, episode {self.episodes[i]}, "
            f"step {int(self.current[i, 2])} of the episode)"
        )
