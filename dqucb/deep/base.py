"""What all deep agents share: settings, training of many seeds, and a face like that of Stable-Baselines3."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from dqucb import _validate
from dqucb._storage import SavedFileError
from dqucb.deep import checkpoint as checkpoints
from dqucb.deep import storage
from dqucb.deep.bonus import NoBonus
from dqucb.deep.head import Head, HeadInParts
from dqucb.deep.learner import QLearner
from dqucb.deep.lockstep import Described, Lockstep, Made, lockstep_of
from dqucb.deep.loop import Moment, Schedule, Trainer
from dqucb.deep.policy import Policy
from dqucb.deep.replay import Replay
from dqucb.run import Run, versions
from dqucb.session import progress_bar

Callback = Callable[[Moment], object]


@dataclass(kw_only=True, eq=False)
class DeepAgent:
    """Double Q-learning with a target network, Huber loss, clipped gradients and replay.

    Parameters
    ----------
    hidden : widths of the hidden layers.
    discount, learning_rate, batch, capacity : of Q-learning, Adam and the replay buffer.
    learning_starts : steps of random actions before the first update.
    train_every : steps between updates.
    n_steps : rewards that are summed before a value stands for the rest (not corrected for the policy; Hessel 2018).
    target_rate, target_every : every so many updates the target moves by this share towards the online network.
    act_on : whose greedy actions are taken, "online" or "target", a running mean of the former that flickers less.
    value_bound : the largest value of a state, at which bootstrapped values are cut (V = min(bound, max Q)).
        None: max_reward / (1 - discount) where the env states its largest reward, else no bound.
    largest_gradient : the norm to which the gradient of each seed is clipped.
    epsilon, epsilon_steps : random actions fall from all to the share `epsilon` in so many steps after
        `learning_starts`. All agents have the same defaults, so that they differ in the bonus alone; with 0 and 0 an
        agent explores by its bonus only, and on CartPole three of ten seeds then learned late.
    freeze_after : steps after which the running mean and spread of the observations stay as they are.
    device : "cpu", "cuda", or "auto" for a GPU if there is one.

    On the CPU a run uses one torch thread: small networks gain nothing from more, and the bits stay the same.
    """

    hidden: tuple[int, ...] = (64, 64)
    discount: float = 0.98
    learning_rate: float = 1e-3
    batch: int = 64
    capacity: int = 50_000
    learning_starts: int = 1_000
    train_every: int = 2
    n_steps: int = 3
    target_rate: float = 0.01
    target_every: int = 1
    largest_gradient: float = 10.0
    act_on: str = "target"
    value_bound: float | None = None
    epsilon: float = 0.01
    epsilon_steps: int = 2_000
    freeze_after: int = 1_000
    device: str = "cpu"

    def __post_init__(self) -> None:
        self.hidden = tuple(_validate.integer("each of hidden", width) for width in self.hidden)
        for name in ("batch", "capacity", "train_every", "n_steps", "target_every"):
            setattr(self, name, _validate.integer(name, getattr(self, name)))
        for name in ("learning_starts", "epsilon_steps", "freeze_after"):
            setattr(self, name, _validate.integer(name, getattr(self, name), 0))
        self.discount = _validate.real("discount", self.discount, 0.0, 1.0)
        self.learning_rate = _validate.positive("learning_rate", self.learning_rate)
        self.target_rate = _validate.real("target_rate", self.target_rate, 0.0, 1.0, open_left=True)
        self.largest_gradient = _validate.positive("largest_gradient", self.largest_gradient)
        self.epsilon = _validate.real("epsilon", self.epsilon, 0.0, 1.0)
        if self.value_bound is not None:
            self.value_bound = _validate.real("value_bound", self.value_bound)
        _validate.one_of("act_on", self.act_on, ["online", "target"])
        _validate.one_of("device", self.device, ["cpu", "cuda", "auto"])
        self._policy: Policy | None = None

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: Head) -> NoBonus:
        return NoBonus(len(generators), head.n_slots)

    # ---- training -------------------------------------------------------------------------------------

    def learn(
        self,
        env: Made,
        *,
        episodes: int | None = None,
        steps: int | None = None,
        seeds: int | Iterable[int] = 0,
        env_options: dict[str, Any] | None = None,
        max_return: float | None = None,
        progress: bool = False,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 20_000,
        stop_at: int | None = None,
    ) -> list[Run]:
        """Learn from scratch, all seeds in lockstep, and return the curves of each.

        Parameters
        ----------
        env : a Gymnasium id, or a function that makes a new env; Box observations, Discrete actions.
        episodes, steps : how long each seed learns; give one.
        seeds : one seed, or several. What a seed learns does not depend on the others.
        env_options : keywords for the env.
        max_return : the best return of an episode, for the regret, where the env does not state it.
        callback : called with a `Moment` after each step; stops the run by returning False.
        checkpoint : a file written every `checkpoint_every` steps and at the end. If it is there when the run
            begins, the run goes on from it, bit for bit, as if it had never stopped.
        stop_at : stop after this many steps; go on later from the checkpoint.
        """
        if (episodes is None) == (steps is None):
            raise ValueError(f"give exactly one of episodes and steps, got episodes={episodes!r}, steps={steps!r}")
        unit, length = ("episodes", episodes) if steps is None else ("steps", steps)
        length = _validate.integer(unit, length)
        checkpoint_every = _validate.integer("checkpoint_every", checkpoint_every)
        last = np.inf if stop_at is None else _validate.integer("stop_at", stop_at)
        chosen = _checked_seeds(seeds)
        with _one_thread():
            trainer, problem = self._new_trainer(env, env_options or {}, max_return, chosen, length, unit)
            told = {"agent": self.name, "parameters": self.parameters(), "problem": problem, "seeds": chosen,
                    "length": length, "unit": unit}  # fmt: skip
            if checkpoint is not None and Path(checkpoint).exists():
                checkpoints.read(trainer, checkpoint, told)
            trainer.begin()
            if checkpoint is not None:
                trainer.envs.state()  # an env that cannot be saved must say so before hours of training
            with progress_bar(self.name, length, trainer.progress, progress) as report:
                began, go_on = time.perf_counter(), True
                while go_on and not trainer.done and trainer.step < last:
                    go_on = trainer.advance(callback)
                    if trainer.step % 200 == 0:
                        report(trainer.progress)
                    if checkpoint is not None and trainer.step % checkpoint_every == 0:
                        began = _clocked(trainer, began)
                        checkpoints.write(trainer, checkpoint, told)
                _clocked(trainer, began)
                report(trainer.progress)
            if checkpoint is not None:
                checkpoints.write(trainer, checkpoint, told)
        self._policy = Policy.of(trainer)
        return [self._run(trainer, i, problem) for i in range(len(chosen))]

    def train(self, problem: Made, *, episodes: int | None = None, steps: int | None = None, seed: int = 0,
              progress: bool = False, env_options: dict[str, Any] | None = None) -> Run:  # fmt: skip
        """`learn` for one seed, with the signature of the tabular agents."""
        return self.learn(
            problem, episodes=episodes, steps=steps, seeds=seed, progress=progress, env_options=env_options
        )[0]

    def describe(
        self, env: Made, env_options: dict[str, Any] | None = None, max_return: float | None = None
    ) -> Described:
        """What `learn` would know of this env."""
        envs, _, problem = lockstep_of(env, [0], env_options or {}, max_return)
        known = envs.max_return is not None or envs.gaps is not None
        return Described(problem, envs.change_at, envs.change_steps, known, envs.checkpointable)

    def _new_trainer(self, env: Made, options: dict[str, Any], max_return: float | None, seeds: list[int], length: int,
                     unit: str) -> tuple[Trainer, dict[str, Any]]:  # fmt: skip
        envs, head, problem = lockstep_of(env, seeds, options, max_return)
        streams = [[np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)] for seed in seeds]
        weights, explore, replay, hashing = (list(column) for column in zip(*streams, strict=True))
        cuda = self.device == "cuda" or (self.device == "auto" and torch.cuda.is_available())
        learner = QLearner(
            weights, envs.observation_dim, head, hidden=self.hidden, discount=self.discount,
            learning_rate=self.learning_rate, largest_gradient=self.largest_gradient, target_rate=self.target_rate,
            target_every=self.target_every, act_on=self.act_on, value_bound=self._bound(envs),
            freeze_after=self.freeze_after, device="cuda" if cuda else "cpu",
        )  # fmt: skip
        bonus = self._new_bonus(hashing, envs.observation_dim, head)
        memory = Replay(len(seeds), self.capacity, envs.observation_dim, head.n_slots, isinstance(head, HeadInParts))
        plan = Schedule(
            self.batch, self.learning_starts, self.train_every, self.n_steps, self.epsilon, self.epsilon_steps
        )
        generators = {"explore": explore, "replay": replay}
        return Trainer(seeds, envs, head, learner, bonus, memory, generators, plan, length, unit), problem

    def _bound(self, envs: Lockstep) -> float:
        largest = getattr(envs, "max_reward", None)
        if self.value_bound is not None:
            return self.value_bound
        return np.inf if largest is None or self.discount == 1.0 else largest / (1.0 - self.discount)

    def _run(self, trainer: Trainer, i: int, problem: dict[str, Any]) -> Run:
        records = np.array(trainer.records[i], np.float64).reshape(-1, 4)
        lengths = records[:, 2].astype(np.int64)
        by_episode = trainer.unit == "episodes"
        best = trainer.envs.max_return
        if trainer.envs.gaps is not None:
            gaps = records[:, 3].copy()
        else:
            gaps = np.full(len(records), np.nan) if best is None else best - records[:, 0]
        return Run(
            returns=records[:, 0].copy(),
            gaps=gaps,
            likelihood=records[:, 1].copy(),
            lengths=lengths,
            ends=np.arange(1, len(records) + 1) if by_episode else np.cumsum(lengths),
            seconds=trainer.seconds / len(trainer.seeds),
            seed=trainer.seeds[i],
            agent=self.name,
            parameters=self.parameters(),
            problem=problem,
            unit=trainer.unit,
            change_at=trainer.envs.change_at if by_episode else trainer.envs.change_steps,
            regret_form="realized",
            versions={**versions(), "torch": torch.__version__},
        )

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: ArrayLike, *, seed: int | None = None) -> Any:
        """The greedy action at an observation, or the actions at rows of them, of one trained seed (the first)."""
        with _one_thread():
            return self._learned().predict(observation, seed)

    @property
    def name(self) -> str:
        """The name in tables, plots and commands."""
        return type(self).__name__

    def parameters(self) -> dict[str, Any]:
        """The settings as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write settings and networks (safetensors and JSON); `learn(checkpoint=...)` keeps unfinished runs."""
        settings, arrays = self._learned().packed()
        settings |= {"agent": self.name, "parameters": self.parameters()}
        return storage.save_file(path, "DeepAgent", settings, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "DeepAgent":
        """Read an agent that `save` wrote, ready to `predict`; anything else is a `SavedFileError`."""
        settings, arrays = storage.load_file(path, "DeepAgent")
        from dqucb.deep.agents import DEEP_AGENTS

        try:
            agent = DEEP_AGENTS[settings["agent"]](**settings["parameters"])
            agent._policy = Policy.unpacked(settings, arrays)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise SavedFileError(f"{os.fspath(path)}: not a complete agent ({error})") from error
        if not isinstance(agent, cls):
            raise SavedFileError(f"{os.fspath(path)}: holds a {agent.name}, expected a {cls.__name__}")
        return agent

    def _learned(self) -> Policy:
        if self._policy is None:
            raise ValueError(f"{self.name} has learned nothing yet: call learn first")
        return self._policy


def _checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    chosen = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    chosen = [_validate.integer("each of seeds", seed, 0) for seed in chosen]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be different integers, at least one, got {chosen}")
    return chosen


def _clocked(trainer: Trainer, began: float) -> float:
    """Add the time since `began` to the run's; now."""
    now = time.perf_counter()
    trainer.seconds += now - began
    return now


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
