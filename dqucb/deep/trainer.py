"""The learner of many deep agents at once: one step of the algorithm for all seeds, each with its own generators.

`choose` and `learn` are the two halves of a step. The loop of `dqucb.running.lockstep` calls them for a run, and `act`
and `observe` of an agent for a loop of one's own. A seed's draws come from children of its own SeedSequence (weights,
exploration, replay, hashing), and those of its environment from the seed itself. A seed that has played its length is
set aside with its networks as they are; its rows are still computed, unread, because taking them out would cost more
than it saves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb.base import Moment
from dqucb.deep.adapting import Unmoved
from dqucb.deep.bonus import NoBonus
from dqucb.deep.double_q import DoubleQ
from dqucb.deep.head import Head, HeadWithChange
from dqucb.deep.replay import Replay
from dqucb.deep.scaling import RunningScale
from dqucb.running import engine
from dqucb.running.lockstep import LockstepSession

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent


class Schedule(NamedTuple):
    """When to explore and when to learn, in steps of a seed."""

    batch: int
    learning_starts: int
    train_every: int
    n_steps: int
    epsilon: float
    epsilon_steps: int
    by_dimension: bool = False  # whether each dimension of an action is random by itself

    def epsilon_at(self, step: int) -> float:
        """1 before learning starts, then falling linearly to `epsilon` in `epsilon_steps` steps; with 0, `epsilon`."""
        if self.epsilon_steps == 0:
            return self.epsilon
        if step < self.learning_starts:
            return 1.0
        return max(self.epsilon, 1.0 - (step - self.learning_starts) / self.epsilon_steps)


class Transition(NamedTuple):
    """The last step of every seed, one row each."""

    rows: NDArray[np.int64]  # the seeds still running: rows of others mean nothing
    episodes: NDArray[np.int64]  # in which episode of its own each seed was
    observations: NDArray[np.float32]
    choices: NDArray[np.int64]
    q: NDArray[np.float32]  # (seeds, 1, outputs), before it was learned from
    cells: NDArray[np.int64]
    likelihood: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_observations: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True)
class DeepMoment(Moment):
    """What a callback of a deep agent is called with after each step; arrays hold one row for each seed of the run."""

    step: int
    rows: NDArray[np.int64]  # the seeds still running: rows of others mean nothing
    episodes: NDArray[np.int64]
    observations: NDArray[np.float32]
    choices: NDArray[np.int64]
    q: NDArray[np.float64]  # of the action taken, before it was learned from
    bonus: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_observations: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    trainer: "Trainer"


class Trainer:
    """The state of n seeds that learn together, and what moves it on."""

    last: Transition

    def __init__(self, dimension: int, head: Head, learner: DoubleQ, bonus: NoBonus,
                 adapting: Unmoved, replay: Replay, generators: dict[str, list[np.random.Generator]],
                 schedule: Schedule, sessions: Sequence[LockstepSession]) -> None:  # fmt: skip
        self.head, self.learner, self.bonus = head, learner, bonus
        self.adapting, self.replay, self.generators = adapting, replay, generators
        self.schedule, self.sessions = schedule, sessions
        n = len(sessions)
        self.step, self.begun = 0, False
        self.running = np.ones(n, np.bool_)
        self.observations = np.zeros((n, dimension), np.float32)
        self.choices = np.zeros((n, head.n_choices), np.int64)
        self.policy = self.learner.acting.copy()  # the networks of seeds that are done
        self.policy_scale = RunningScale(n, dimension, 0)
        self.q = np.zeros((n, 1, head.n_outputs), np.float32)  # at the last choice

    @property
    def seeds(self) -> list[int]:
        """The seed of each row."""
        return [session.seed for session in self.sessions]

    # ---- one step of the algorithm ----------------------------------------------------------------------

    def choose(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Epsilon-greedy actions of the seeds in `rows` at the present observations.

        Every step draws as many numbers, whatever is chosen.
        """
        self.q = q = self.learner.q(self.observations[:, None])
        self.choices = self.head.best(q, self.observations[:, None])[:, 0]
        epsilon = self.schedule.epsilon_at(self.step)
        if epsilon > 0.0:
            for i in rows:
                self._explore(i, epsilon)
        return self.head.actions(self.choices[rows])

    def _explore(self, i: int, epsilon: float) -> None:
        """Make the action of seed i, or each dimension of it, random with chance epsilon."""
        n = self.head.n_choices
        coins = n if self.schedule.by_dimension else 1
        uniforms = self.generators["explore"][i].random(coins + n)
        chosen = uniforms[:coins] < epsilon
        if chosen.any():
            random = self.head.random(uniforms[coins:], self.observations[i])
            self.choices[i] = np.where(chosen, random, self.choices[i])

    def learn(self, rows: NDArray[np.int64], rewards: NDArray[np.float64], reward_parts: NDArray[np.float64] | None,
              next_observations: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_],
              ) -> NDArray[np.float64]:  # fmt: skip
        """Take in the transition from the present observations, kept as `last`, and make an update if one is due.

        Returns its likelihood, (seeds,), before it was known.
        """
        self.check_finite("reward", rewards)
        self.check_finite("observation", next_observations)
        following, ended = next_observations, terminated | truncated
        observations, head, scale, plan = self.observations, self.head, self.learner.scale, self.schedule
        scale.update(observations)
        change = head.change(observations, self.choices, following) if isinstance(head, HeadWithChange) else None
        cells, likelihood = self.bonus.observe(
            rows, scale(observations), scale(following), self.choices, head.coordinates(self.choices), change
        )
        kept = rewards
        if head.n_parts > 1:
            kept = np.zeros((len(rewards), head.n_parts))
            kept[rows] = reward_parts
        self.replay.add(observations, self.choices, kept, following, terminated, ended, cells, likelihood)
        self.step += 1
        for i in self.adapting.observe(rows, self):
            session = self.sessions[i]
            assert session.own_alarms is not None
            session.own_alarms.append(self.step if session.unit == "steps" else session.episodes)
        if self.step >= plan.learning_starts and self.step % plan.train_every == 0:
            batch = self.replay.sample(self.generators["replay"], plan.batch, plan.n_steps)
            in_parts = (..., None) if head.n_parts > 1 else ...  # a bonus for each choice, which add up to their mean
            bonus = self.bonus.at(batch.cells[in_parts], batch.likelihood[in_parts])
            self.learner.update(batch, bonus / head.n_parts)
        episodes = np.array([session.episodes for session in self.sessions])
        self.last = Transition(rows, episodes, observations, self.choices, self.q, cells, likelihood, rewards,
                               following, terminated, truncated)  # fmt: skip
        return likelihood

    def restart(self, i: int, changed_at: int) -> None:
        """Forget the transitions of seed i before the change; fewer than a learner starts with are too few."""
        self.replay.kept[i] = max(self.step - changed_at, self.schedule.learning_starts)

    def set_aside(self, i: int) -> None:
        """Keep the networks of seed i as they are."""
        self.running[i] = False
        self.policy.flat[i] = self.learner.acting.flat[i]
        self.policy_scale.mean[i] = self.learner.scale.mean[i]
        self.policy_scale.spread[i] = self.learner.scale.spread[i]

    def settled(self) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """(weights, mean, spread) per seed, as they were when the seed was done, or as they are now."""
        now = self.running[:, None]
        return (
            np.where(now, self.learner.acting.flat, self.policy.flat),
            np.where(now, self.learner.scale.mean, self.policy_scale.mean),
            np.where(now, self.learner.scale.spread, self.policy_scale.spread),
        )

    def moment(self, agent: "DeepAgent", done: int) -> DeepMoment:
        """The last step, for a callback."""
        last, first = self.last, self.sessions[0]
        values = self.head.values(last.q, last.choices[:, None])[:, 0].sum(1)
        bonus = self.bonus.at(last.cells[:, None], last.likelihood[:, None])
        return DeepMoment(
            agent, done, first.length, first.unit, lambda: engine.runs(agent), self.step, last.rows, last.episodes,
            last.observations, last.choices, values.astype(np.float64), np.ones(len(self.sessions)) * np.ravel(bonus),
            last.likelihood, last.rewards, last.next_observations, last.terminated, last.truncated, self,
        )  # fmt: skip

    def greedy_values(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """max Q of the acting networks at raw observations, one per seed."""
        q = self.learner.q(observations[:, None])
        return self.head.values(q, self.head.best(q, observations[:, None]))[:, 0].sum(1).astype(np.float64)

    def check_finite(self, what: str, values: NDArray[np.floating]) -> None:
        """Raise a ValueError that names the seed, episode and step unless all values are finite."""
        if np.isfinite(values).all():
            return
        i = int(np.argwhere(~np.isfinite(values))[0][0])
        session = self.sessions[i]
        raise ValueError(
            f"{what} must be finite, got {values[i].tolist()} (seed {session.seed}, episode {session.episodes}, step "
            f"{int(session.current[2])} of the episode)"
        )
