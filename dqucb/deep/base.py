"""What all deep agents share: parameters, training of many seeds in lockstep, prediction and files.

This module loads without torch; networks are built when training begins (building.py).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _storage, _validate
from dqucb.base import Agent, Facts
from dqucb.deep.evaluation import evaluation_returns
from dqucb.deep.records import Records
from dqucb.deep.running import SavedRun, callback_state, deferred_interrupt, one_thread, torch_or_advice
from dqucb.run import Run
from dqucb.session import Callback, Request, watching

if TYPE_CHECKING:
    from dqucb.deep.bonus import NoBonus
    from dqucb.deep.head import Head
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import DeepMoment, Trainer

LOOK_EVERY = 200  # steps between two looks at the clock and the progress bar


@dataclass(kw_only=True, eq=False, repr=False)
class DeepAgent(Agent):
    """Double Q-learning with a target network, Huber loss, clipped gradients and replay.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers.
    discount, learning_rate, batch, capacity : float, float, int, int
        Of Q-learning, Adam and the replay buffer.
    learning_starts : int
        Steps of random actions before the first update.
    train_every : int
        Steps between updates.
    n_steps : int
        Rewards that are summed before a value stands for the rest (not corrected for the policy; Hessel 2018).
    target_rate, target_every : float, int
        Every so many updates the target moves by this share towards the online network.
    largest_gradient : float
        The norm to which the gradient of each seed is clipped.
    act_on : str
        Whose greedy actions are taken, "online" or "target", a running mean of the former that flickers less.
    value_bound : float, optional
        The largest value of a state, at which bootstrapped values are cut (V = min(bound, max Q)). By default
        max_reward / (1 - discount) where the env states its largest reward, else no bound.
    epsilon, epsilon_steps : float, int
        Random actions fall from all to the share `epsilon` in so many steps after `learning_starts`. All agents have
        the same defaults, so that they differ in the bonus alone; with 0 and 0 an agent explores by its bonus only,
        and on CartPole three of ten seeds then learned late.
    freeze_after : int
        Steps after which the running mean and spread of the observations stay as they are.
    device : str
        "cpu", "cuda", or "auto" for a GPU if there is one.

    Notes
    -----
    The observations of an env are a Box of numbers, its actions Discrete or MultiDiscrete. All seeds of `train_seeds`
    learn together in one stack of networks; what a seed learns does not depend on the others. On the CPU a run uses one
    torch thread: small networks gain nothing from more, and the bits stay the same.
    """

    in_lockstep: ClassVar[bool] = True

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
        widths = tuple(_validate.integer("each of hidden", width) for width in self.hidden)
        if widths != self.hidden:  # scikit-learn's clone compares parameters by identity
            self.hidden = widths
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
        self._records: Records | None = None
        self._trainer: Trainer | None = None
        self._policy: Policy | None = None
        self._policy_step = -1  # of the trainer, when the policy was taken from it
        self._saved: SavedRun | None = None  # the rest of a loaded run, until `train` gives it an env
        self._saved_callback: tuple[dict[str, Any], dict[str, NDArray[Any]]] = {}, {}
        self._callback: Callback | None = None

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> "NoBonus":
        from dqucb.deep.bonus import NoBonus

        return NoBonus(len(generators), head.n_choices)

    # ---- training -------------------------------------------------------------------------------------

    def describe(self, problem: Any, *, unit: str | None = None, change_at: Iterable[int] | int | None = None,
                 max_return: float | None = None) -> Facts:  # fmt: skip
        """What is known of an env before training: its description, change points, whether regret is known.

        Examples
        --------
        >>> from dqucb.deep import DQN
        >>> DQN().describe("cartpole").change_at
        (400,)
        """
        with torch_or_advice():
            from dqucb.deep.building import facts_of
        return facts_of(problem, unit, change_at, max_return)

    def _train(self, request: Request) -> list[Run]:
        if request.regret != "realized":
            raise ValueError(f"regret must be 'realized' for a deep agent, got {request.regret!r}")
        for name in ("horizon", "discount"):
            if getattr(request, name) is not None:
                raise ValueError(f"{name} is for tabular agents, got {getattr(request, name)!r}")
        with one_thread(), deferred_interrupt() as interrupted:
            trainer = self._trainer_for(request)
            if trainer is None:  # the checkpoint holds all of the run
                return self._runs(request.callback)
            self._callback = request.callback
            records, began = trainer.records, time.perf_counter()

            def clocked(done: int) -> int:
                nonlocal began
                now = time.perf_counter()
                records.seconds, began = records.seconds + now - began, now
                return done

            watch = watching(request, self.name, records.done, self._save_checkpoint, self._moment)
            with watch as go_on:
                while not trainer.done and (request.stop_at == records.length or records.done < request.stop_at):
                    trainer.advance()
                    looks = request.callback is not None or trainer.step % LOOK_EVERY == 0
                    if (looks and not go_on(clocked(records.done))) or interrupted():
                        break
                clocked(records.done)
            self._callback = None
        if interrupted():
            raise KeyboardInterrupt
        return self._runs(request.callback)

    def _trainer_for(self, request: Request) -> "Trainer | None":
        """The run to go on with: the checkpoint's (None: it is finished), the one that is held here, or a new one."""
        with torch_or_advice():
            from dqucb.deep.building import new_trainer
        path, held = request.checkpoint, self._records
        if path is not None and path.exists():
            self._take_over(type(self).load(path))
            self._check_same_run(request, f"checkpoint {path} is of another run")
            if hasattr(request.callback, "restore"):
                request.callback.restore(self._saved_callback[0] | self._saved_callback[1])
            if self._learned().is_finished:
                self._is_loaded = False
                return None
        elif held is None or (held.is_finished and not self._is_loaded):
            self._trainer = self._saved = self._records = None
        else:
            self._check_same_run(request, f"this {self.name} holds another run (clone() trains anew)")
            if held.is_finished:
                raise ValueError(
                    f"this {self.name} was loaded with a finished run of {held.length} {held.unit}, and a run cannot "
                    "be made longer afterwards: clone() trains anew"
                )
        self._is_loaded = False
        if self._trainer is None:
            trainer = new_trainer(self, request, self._records)
            if request.checkpoint is not None and trainer.envs is not None and not trainer.envs.checkpointable:
                raise ValueError(
                    f"checkpoint must be None for {trainer.records.problem['problem']}: an env cannot be saved unless "
                    "it has checkpoint_state() and restore_state(state)"
                )
            if self._saved is not None:
                self._saved.restore(trainer)
            elif self._records is not None:
                raise ValueError(
                    f"the run of this {self.name} is loaded, and its env could not be saved, so that it cannot go on: "
                    "clone() trains anew"
                )
            trainer.begin()
            self._trainer, self._records, self._saved, self._policy_step = trainer, trainer.records, None, -1
        return self._trainer

    def _check_same_run(self, request: Request, what: str) -> None:
        facts = self.describe(
            request.problem, unit=request.unit, change_at=request.change_at, max_return=request.max_return
        )
        asked = {"problem": facts.problem, "unit": request.unit, "length": request.length, "seeds": list(request.seeds)}
        for name, held in self._learned().identity().items():
            if held != asked[name]:
                raise ValueError(f"{what}: its {name} is {held!r}, not {asked[name]!r}")

    def _runs(self, callback: Callback | None = None) -> list[Run]:
        """The curves so far, one per seed."""
        import torch

        results: Callable[[int], dict[str, NDArray[Any]]] = getattr(callback, "results", lambda i: {})
        records = self._learned()
        return [records.run(self, i, results(i), torch.__version__) for i in range(len(records.seeds))]

    def _moment(self, done: int) -> "DeepMoment":
        assert self._trainer is not None
        return self._trainer.moment(self, done)

    # ---- one step at a time ---------------------------------------------------------------------------

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
        with torch_or_advice():
            from dqucb.deep.building import new_stepped_trainer
        self._trainer = new_stepped_trainer(self, problem, _validate.integer("seed", seed, 0))
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
            trainer = trainer_of(self, self._learned(), policy.mean.shape[1], policy.head, None)
            self._saved.restore(trainer)
            self._trainer, self._saved, self._is_loaded = trainer, None, False
        if self._trainer is None or self._trainer.envs is not None:
            raise ValueError(f"{self.name} is not in a loop of one's own: call start first")
        return self._trainer

    def _row(self, name: str, observation: ArrayLike) -> NDArray[np.float32]:
        assert self._trainer is not None
        row = _validate.finite_array(name, np.ravel(np.asarray(observation)), 1, np.float32)
        if row.size != self._trainer.observations.shape[1]:
            raise ValueError(f"{name} must have {self._trainer.observations.shape[1]} numbers, got {row.size}")
        return row[None].copy()

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: ArrayLike, *, step: int = 0, trained_seed: int | None = None) -> Any:
        """The greedy action at an observation, or the actions at rows of them.

        Parameters
        ----------
        observation : array
            One observation, or rows of them.
        step : int
            Not used: these agents do not count the steps of an episode.
        trained_seed : int, optional
            Whose networks act; by default those of the first seed.
        """
        with one_thread():
            return self._greedy().predict(observation, trained_seed)

    def evaluate(self, problem: Any, episodes: int = 20, *, seed: int = 0,
                 trained_seed: int | None = None) -> NDArray[np.float64]:  # fmt: skip
        """Returns of episodes of the greedy policy, in envs of their own; nothing is learned from them.

        Episode k begins with the k-th seed that comes of `seed`, whatever the policy.
        """
        from dqucb.envs.making import make_env

        policy = self._greedy()
        with one_thread():
            return evaluation_returns(
                lambda rows: policy.predict(rows, trained_seed), lambda: make_env(problem), episodes=episodes, seed=seed
            )

    def _greedy(self) -> "Policy":
        self._learned()
        if self._trainer is not None and self._policy_step != self._trainer.step:
            from dqucb.deep.policy import Policy

            self._policy, self._policy_step = Policy.of(self._trainer), self._trainer.step
        assert self._policy is not None
        return self._policy

    def _learned(self) -> Records:
        if self._records is None:
            raise ValueError(f"{self.name} has learned nothing yet: call train or start first")
        return self._records

    # ---- files ----------------------------------------------------------------------------------------

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        records = self._learned()
        from dqucb.deep import checkpoint

        policy, arrays = self._greedy().packed()
        played, curves = records.packed()
        settings: dict[str, Any] = {"policy": policy, "records": played}
        arrays = checkpoint.prefixed("policy.", arrays) | checkpoint.prefixed("records.", curves)
        trainer, saved = self._trainer, self._saved
        if trainer is not None and not records.is_finished and (trainer.envs is None or trainer.envs.checkpointable):
            saved = SavedRun(*checkpoint.packed(trainer))
        if saved is not None:
            settings["trainer"] = saved.settings
            arrays |= checkpoint.prefixed("trainer.", saved.arrays)
        settings["callback"], more = callback_state(self._callback)
        arrays |= checkpoint.prefixed("callback.", more)
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        with torch_or_advice():
            from dqucb.deep import checkpoint
            from dqucb.deep.policy import Policy
        self._policy = Policy.unpacked(settings["policy"], checkpoint.below("policy.", arrays))
        self._records = Records.unpacked(settings["records"], checkpoint.below("records.", arrays))
        self._saved_callback = settings["callback"], checkpoint.below("callback.", arrays)
        if "trainer" in settings:
            self._saved = SavedRun(settings["trainer"], checkpoint.below("trainer.", arrays))

    def _save_checkpoint(self, path: str | PathLike[str]) -> Path:
        settings, arrays = self._packed()
        settings["agent"] = {"name": self.name, "parameters": self.parameters()}
        return _storage.save(path, "Agent", settings, compress=False, **arrays)  # a replay buffer is many megabytes
