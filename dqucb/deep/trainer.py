"""The learner of all seeds of a deep agent: one step of the algorithm for all of them, each with its own generators.

`choose` and `learn` are the two halves of a step. They are called by the loop of `dqucb.running.lockstep`, and by the
methods `act` and `observe` of an agent in a user-written loop. The generators of a seed (weights, exploration, replay,
hashing) are children of its own SeedSequence; its env is reset with the seed itself. The networks of a seed that has
reached its length are frozen. Its rows are still computed but not used, because removing them would cost more than it
saves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb.base import Progress
from dqucb.deep.adaptation import NoAdaptation
from dqucb.deep.bonus import NoBonus
from dqucb.deep.double_q import DoubleQ
from dqucb.deep.factories import new_network, start_from
from dqucb.deep.head import Head
from dqucb.deep.replay import Replay
from dqucb.deep.scaling import RunningScale
from dqucb.running import engine
from dqucb.running.lockstep import LockstepSession
from dqucb.running.observations import Observations

if TYPE_CHECKING:
    from dqucb.deep.base import DeepAgent


class Schedule(NamedTuple):
    """When to explore and when to update, in steps of a seed."""

    batch_size: int
    learning_starts: int
    train_every: int
    n_steps: int
    epsilon: float
    epsilon_steps: int
    by_dimension: bool = False  # whether each dimension of an action is random independently
    observed_bound: bool = False  # whether values are bounded by the largest reward so far

    def epsilon_at(self, step: int) -> float:
        """Return the probability of a random action: see `DeepAgent`."""
        if self.epsilon_steps == 0:
            return self.epsilon
        if step < self.learning_starts:
            return 1.0
        return max(self.epsilon, 1.0 - (step - self.learning_starts) / self.epsilon_steps)


class Transition(NamedTuple):
    """The last step of every seed, one row each."""

    rows: NDArray[np.int64]  # the seeds that have not finished; other rows are undefined
    episodes: NDArray[np.int64]  # the number of the current episode of each seed
    observations: NDArray[Any]
    choices: NDArray[np.int64]
    q: NDArray[np.float32]  # (seeds, 1, outputs), before the update
    cells: NDArray[np.int64]
    likelihood: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_observations: NDArray[Any]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True)
class DeepProgress(Progress):
    """The argument of a callback of a deep agent, which is called after each step; arrays have one row per seed.

    Parameters
    ----------
    agent, done, length, unit, runs
        As in `Progress`.
    step : int
        Steps so far.
    rows : array of int
        The seeds that have not finished; other rows of the arrays are undefined.
    episodes : array of int
        The number of the current episode of each seed.
    observations, choices, rewards, next_observations, terminated, truncated : array
        The last transition; `choices` are the action's indices among the outputs of the network.
    q : array
        Of the action taken, before the update.
    bonus, likelihood : array
        Of the transition.
    loss, gradient_norm, td_error : array
        Of the last update: the Huber loss, the norm before clipping, and the mean of |Q(s, a) - target|; NaN before the
        first update.
    trainer : Trainer
        The learner of all seeds.
    """

    step: int
    rows: NDArray[np.int64]
    episodes: NDArray[np.int64]
    observations: NDArray[Any]
    choices: NDArray[np.int64]
    q: NDArray[np.float64]
    bonus: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    rewards: NDArray[np.float64]
    next_observations: NDArray[Any]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    loss: NDArray[np.float32]
    gradient_norm: NDArray[np.float32]
    td_error: NDArray[np.float32]
    trainer: "Trainer"


class Trainer:
    """The learner of n seeds in lockstep."""

    last: Transition

    def __init__(self, form: Observations, head: Head, learner: DoubleQ, bonus: NoBonus,
                 adaptation: NoAdaptation, replay: Replay, generators: dict[str, list[np.random.Generator]],
                 schedule: Schedule, sessions: Sequence[LockstepSession]) -> None:  # fmt: skip
        self.head, self.learner, self.bonus = head, learner, bonus
        self.adaptation, self.replay, self.generators = adaptation, replay, generators
        self.schedule, self.sessions, self.form = schedule, sessions, form
        n = len(sessions)
        self.step, self.begun = 0, False
        self.running = np.ones(n, np.bool_)
        self.observations = np.zeros((n, form.dimension), form.dtype)
        self.choices = np.zeros((n, head.n_choices), np.int64)
        self.policy = self.learner.acting.copy()  # the frozen networks of finished seeds
        self.policy_scale = RunningScale(n, form.dimension, 0)
        self.q = np.zeros((n, 1, head.n_outputs), np.float32)  # at the last call of `choose`
        self.largest_reward = np.full(n, -np.inf)  # that each seed has received

    @property
    def seeds(self) -> list[int]:
        """The seed of each row."""
        return [session.seed for session in self.sessions]

    # ---- one step of the algorithm ----------------------------------------------------------------------

    def choose(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return epsilon-greedy actions of the seeds in `rows` at the current observations.

        Every step draws the same number of random numbers, whatever the actions.
        """
        states = self.adaptation.acting_states(self)[:, None]
        self.q = q = self.learner.q(states)
        self.choices = self.head.best(q, states)[:, 0]
        epsilon = self.schedule.epsilon_at(self.step)
        if epsilon > 0.0:
            for i in rows:
                self._explore(i, epsilon)
        return self.head.actions(self.choices[rows])

    def _explore(self, i: int, epsilon: float) -> None:
        """Replace the action of seed i, or each of its dimensions, by a random one with probability epsilon."""
        n = self.head.n_choices
        coins = n if self.schedule.by_dimension else 1
        uniforms = self.generators["explore"][i].random(coins + n)
        chosen = uniforms[:coins] < epsilon
        if chosen.any():
            random = self.head.random(uniforms[coins:], self.observations[i])
            self.choices[i] = np.where(chosen, random, self.choices[i])

    def learn(self, rows: NDArray[np.int64], rewards: NDArray[np.float64], reward_parts: NDArray[np.float64] | None,
              next_observations: NDArray[Any], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_],
              ) -> NDArray[np.float64]:  # fmt: skip
        """Store the transition from the current observations, also as `last`, and update the networks if due.

        Parameters
        ----------
        rows : array of int
            The seeds that have not finished.
        rewards : array
            (seeds,).
        reward_parts : array or None
            The rewards in parts, (len(rows), n_parts), for a head with several parts.
        next_observations, terminated, truncated : array
            One row per seed.

        Returns
        -------
        array
            The likelihood of each transition, (seeds,), under the density before it.
        """
        self.check_finite("reward", rewards)
        self.check_finite("observation", next_observations)
        ended = terminated | truncated
        observations, head, scale, plan = self.observations, self.head, self.learner.scale, self.schedule
        scale.update(observations)
        acted = self.adaptation.acted(self)
        change = head.change(observations, acted, next_observations)
        cells, likelihood = self.bonus.observe(
            rows, scale(observations), scale(next_observations), acted, head.coordinates(acted), change
        )
        kept = rewards
        if head.n_parts > 1:
            kept = np.zeros((len(rewards), head.n_parts))
            kept[rows] = reward_parts
        self.replay.add(observations, acted, kept, next_observations, terminated, ended, cells, likelihood)
        self.step += 1
        self.largest_reward[rows] = np.maximum(self.largest_reward[rows], rewards[rows])
        for i in self.adaptation.observe(rows, self):
            session = self.sessions[i]
            assert session.own_alarms is not None
            session.own_alarms.append(self.step if session.unit == "steps" else session.episodes)
        if self.step >= plan.learning_starts and self.step % plan.train_every == 0:
            batch = self.replay.sample(self.generators["replay"], plan.batch_size, plan.n_steps)
            in_parts = (..., None) if head.n_parts > 1 else ...  # one bonus per choice; they sum to the mean
            bonus = self.bonus.at(batch.cells[in_parts], batch.likelihood[in_parts])
            self.learner.update(batch, bonus / head.n_parts, self.value_bounds())
        episodes = np.array([session.episodes for session in self.sessions])
        self.last = Transition(rows, episodes, observations, self.choices, self.q, cells, likelihood, rewards,
                               next_observations, terminated, truncated)  # fmt: skip
        return likelihood

    def value_bounds(self) -> NDArray[np.float64] | None:
        """Return upper bounds on values from the largest rewards so far, one per seed; None if they are not used.

        At least 0, the value of an end.
        """
        if not self.schedule.observed_bound:
            return None
        return np.maximum(self.largest_reward, 0.0) / (1.0 - self.learner.discount)

    def restart(self, i: int, changed_at: int) -> None:
        """Discard the transitions of seed i before the change, but keep at least `learning_starts`."""
        self.replay.kept[i] = max(self.step - changed_at, self.schedule.learning_starts)

    def resume(self) -> None:
        """Let finished seeds continue, each in a new episode."""
        self.running[:] = True
        self.replay.end_chain()

    def set_aside(self, i: int) -> None:
        """Freeze the networks of seed i."""
        self.running[i] = False
        self.policy.load_weights(self.learner.acting.weights, i)
        self.policy_scale.mean[i] = self.learner.scale.mean[i]
        self.policy_scale.deviation[i] = self.learner.scale.deviation[i]

    def settled(self) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return (weights, mean, deviation) per seed: the frozen ones of finished seeds, else the current ones."""
        now = self.running[:, None]
        return (
            np.where(now, self.learner.acting.weights, self.policy.weights),
            np.where(now, self.learner.scale.mean, self.policy_scale.mean),
            np.where(now, self.learner.scale.deviation, self.policy_scale.deviation),
        )

    def progress(self, agent: "DeepAgent", done: int) -> DeepProgress:
        """Return the argument of callbacks after the last step."""
        last, first = self.last, self.sessions[0]
        values = self.head.values(last.q, last.choices[:, None])[:, 0].sum(1)
        bonus = self.bonus.at(last.cells[:, None], last.likelihood[:, None])
        return DeepProgress(
            agent, done, first.length, first.unit, lambda: engine.runs(agent), self.step, last.rows, last.episodes,
            last.observations, last.choices, values.astype(np.float64), np.ones(len(self.sessions)) * np.ravel(bonus),
            last.likelihood, last.rewards, last.next_observations, last.terminated, last.truncated, self.learner.loss,
            self.learner.gradient_norm, self.learner.td_error, self,
        )  # fmt: skip

    def greedy_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Return max Q of the acting networks at raw observations, one per seed."""
        q = self.learner.q(observations[:, None])
        return self.head.values(q, self.head.best(q, observations[:, None]))[:, 0].sum(1).astype(np.float64)

    def check_finite(self, what: str, values: NDArray[np.floating]) -> None:
        """Raise a ValueError that names the seed, episode and step unless all values are finite in 32 bits."""
        finite = np.abs(values) <= np.finfo(np.float32).max
        if finite.all():
            return
        i = int(np.argwhere(~finite)[0][0])
        session = self.sessions[i]
        raise ValueError(
            f"{what} must be finite in 32 bits, got {values[i].tolist()} (seed {session.seed}, episode "
            f"{session.episodes}, step {int(session.current[2])} of the episode)"
        )


def new_trainer(agent: "DeepAgent", sessions: Sequence[LockstepSession], form: Observations, head: Head) -> Trainer:
    """Create the networks, bonus, replay buffer and generators of all seeds."""
    seeds = [session.seed for session in sessions]
    streams = [[np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)] for seed in seeds]
    weights, explore, replay, hashing = (list(column) for column in zip(*streams, strict=True))
    scale, dimension = RunningScale(len(seeds), form.dimension, agent.freeze_after), form.dimension
    network = new_network(agent, weights, form, head)
    start_from(agent.initial_state, network, scale)
    bound = _bound(agent, sessions[0].max_reward)
    learner = DoubleQ(
        network, scale, head, discount=agent.discount, huber_delta=agent.huber_delta, tau=agent.tau,
        target_every=agent.target_every, act_on=agent.act_on, value_bound=bound,
    )  # fmt: skip
    bonus = agent._new_bonus(hashing, dimension, head)
    adaptation = agent._new_adaptation(len(seeds), form, head)
    memory = Replay(len(seeds), agent.buffer_size, dimension, head.n_choices, head.n_parts, form.dtype)
    by_dimension = agent.explore_by == "dimension"
    if by_dimension and not head.independent_choices:
        raise ValueError(f"explore_by must be 'action' for {type(head).__name__}, whose choices depend on each other")
    observed = agent.value_bound == "observed" and bound == np.inf and agent.discount < 1.0 and head.n_parts == 1
    plan = Schedule(agent.batch_size, agent.learning_starts, agent.train_every, agent.n_steps, agent.epsilon,
                    agent.epsilon_steps, by_dimension, observed)  # fmt: skip
    generators = {"explore": explore, "replay": replay}
    if adaptation.gives_alarms:
        for session in sessions:
            session.own_alarms = session.own_alarms or []
    return Trainer(form, head, learner, bonus, adaptation, memory, generators, plan, sessions)


def _bound(agent: "DeepAgent", largest: float | None) -> float:
    if agent.value_bound is not None and not isinstance(agent.value_bound, str):
        return agent.value_bound
    return np.inf if largest is None or agent.discount == 1.0 else largest / (1.0 - agent.discount)
