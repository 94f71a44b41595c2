"""What all deep agents share: parameters, training of many seeds in lockstep, prediction and files.

Networks are built when training begins (building.py), so that parameters load fast.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate, loops
from dqucb.base import Facts
from dqucb.deep.evaluation import evaluation_returns
from dqucb.deep.own_network import OwnNetwork, refuses_old_names
from dqucb.deep.records import Records
from dqucb.deep.running import SavedRun, deferred_interrupt, one_thread
from dqucb.deep.stepped import SteppedAgent
from dqucb.run import Run
from dqucb.session import Callback, Request, callback_results, restore_callback, watching

if TYPE_CHECKING:
    from dqucb.deep.adaptation import NoAdaptation
    from dqucb.deep.bonus import NoBonus
    from dqucb.deep.head import Head
    from dqucb.deep.observations import Observations
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import DeepMoment, Trainer

LOOK_EVERY = 200  # steps between two looks at the clock and the progress bar


@refuses_old_names
@dataclass(kw_only=True, eq=False, repr=False)
class DeepAgent(OwnNetwork, SteppedAgent):
    """Double Q-learning with a target network, Huber loss, clipped gradients and replay.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers of the default network.
    network : callable or str, optional
        `network(observation_space, n_outputs)` returns a `torch.nn.Module`; a str is a name in `NETWORKS`. By default
        a fully connected network of `hidden` in compiled kernels, without torch.
    device : str
        Where a torch network runs: "cpu", "cuda", "mps", or "auto", the best that is there. The default network runs on
        the CPU unless another device is named.
    optimizer : callable, optional
        `optimizer(parameters)` returns a `torch.optim.Optimizer`; by default Adam with `learning_rate`.
    compile_network : bool
        Whether a torch network goes through `torch.compile`.
    initial_state : mapping, optional
        The `state_dict` that the networks of all seeds start from: of the network, or of `to_torch()`, which holds the
        input scale too.
    discount, learning_rate : float
        Of Q-learning and of Adam.
    batch_size, buffer_size : int
        Transitions in an update, and in the replay buffer.
    learning_starts : int
        Steps of random actions before the first update.
    train_every : int
        Steps between updates.
    n_steps : int
        Rewards that are summed before the bootstrapped value (n-step returns without off-policy correction; Hessel
        2018).
    tau, target_every : float, int
        Polyak update of the target network: target + tau * (online - target), every `target_every` updates.
    huber_delta : float
        Error from which on the Huber loss is linear. Errors below it are fitted by their mean, errors far above it by
        their median, and the median of a return ignores rare failures.
    max_grad_norm : float
        Norm to which the gradient of each seed is clipped.
    act_on : str
        Network whose greedy actions are taken: "online", or "target", its running mean, which changes less from step
        to step.
    value_bound : float, optional
        Upper bound of bootstrapped values, V = min(bound, max Q). By default max_reward / (1 - discount) where the env
        states its largest reward, else no bound.
    epsilon, epsilon_steps : float, int
        The share of random actions falls from 1 to `epsilon` in this many steps after `learning_starts`. All agents
        have the same defaults, so that they differ in the bonus alone. With `epsilon_steps` = 0 the share is `epsilon`
        from the first step on; with 0 and 0 an agent explores by its bonus only.
    explore_by : str
        What is random: the whole "action", or each "dimension" independently with the same probability, so that most of
        an action with many dimensions stays greedy (Seyde 2023). With one dimension both are the same but for the
        numbers drawn.
    freeze_after : int
        Steps after which the running mean and standard deviation of the observations stay fixed.

    Notes
    -----
    Observations are a Box, or a Dict, Tuple, MultiBinary or MultiDiscrete space, which is flattened; images (uint8)
    need a `network`. Actions are Discrete or MultiDiscrete. All seeds of `train_seeds` learn together; what a seed
    learns does not depend on the others (with torch, up to rounding). The compiled networks use one thread: small
    networks gain nothing from more. Torch uses as many as `torch.set_num_threads` says.
    """

    in_lockstep: ClassVar[bool] = True

    hidden: tuple[int, ...] = (64, 64)
    network: Any = None
    device: str = "auto"
    optimizer: Any = None
    compile_network: bool = False
    initial_state: Any = None
    discount: float = 0.99
    learning_rate: float = 1e-3
    batch_size: int = 64
    buffer_size: int = 50_000
    learning_starts: int = 200
    train_every: int = 1
    n_steps: int = 3
    tau: float = 0.01
    target_every: int = 1
    huber_delta: float = 10.0
    max_grad_norm: float = 10.0
    act_on: str = "target"
    value_bound: float | None = None
    epsilon: float = 0.01
    epsilon_steps: int = 800
    explore_by: str = "action"
    freeze_after: int = 1_000

    def __post_init__(self) -> None:
        widths = tuple(_validate.integer("each of hidden", width) for width in self.hidden)
        if widths != self.hidden:  # scikit-learn's clone compares parameters by identity
            self.hidden = widths
        for name in ("batch_size", "buffer_size", "train_every", "n_steps", "target_every"):
            setattr(self, name, _validate.integer(name, getattr(self, name)))
        for name in ("learning_starts", "epsilon_steps", "freeze_after"):
            setattr(self, name, _validate.integer(name, getattr(self, name), 0))
        self.discount = _validate.real("discount", self.discount, 0.0, 1.0)
        self.learning_rate = _validate.positive("learning_rate", self.learning_rate)
        self.tau = _validate.real("tau", self.tau, 0.0, 1.0, open_left=True)
        self.huber_delta = _validate.positive("huber_delta", self.huber_delta)
        self.max_grad_norm = _validate.positive("max_grad_norm", self.max_grad_norm)
        self.compile_network = _validate.flag("compile_network", self.compile_network)
        self._check_network()
        self.epsilon = _validate.real("epsilon", self.epsilon, 0.0, 1.0)
        if self.value_bound is not None:
            self.value_bound = _validate.real("value_bound", self.value_bound)
        _validate.one_of("explore_by", self.explore_by, ["action", "dimension"])
        _validate.one_of("act_on", self.act_on, ["online", "target"])
        self._records = self._trainer = self._saved = None
        self._policy: Policy | None = None
        self._packed_policy: Any = None  # of a file whose network is not known yet
        self._policy_step = -1  # of the trainer, when the policy was taken from it

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> "NoBonus":
        from dqucb.deep.bonus import NoBonus

        return NoBonus(len(generators), head.n_choices)

    def _new_adaptation(self, n: int, observations: "Observations", head: "Head") -> "NoAdaptation":
        from dqucb.deep.adaptation import NoAdaptation

        return NoAdaptation()

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
        from dqucb.deep.building import new_trainer

        path, held = request.checkpoint, self._records
        if path is not None and path.exists():
            self._take_over(type(self).load(path))
            self._check_same_run(request, f"checkpoint {path} is of another run")
            restore_callback(request.callback, self._saved_callback)
            self._resume_watch(request, self._learned().is_finished)
            if self._learned().is_finished:
                self._is_loaded = False
                return None
        elif held is None or (held.is_finished and not self._is_loaded):
            self._trainer = self._saved = self._records = None
            self._run_watch = loops.new_watch(request)
        else:
            self._check_same_run(request, f"this {self.name} holds another run (clone() trains anew)")
            self._resume_watch(request, held.is_finished)
            if held.is_finished:
                raise ValueError(
                    f"this {self.name} was loaded with a finished run of {held.length} {held.unit}, which cannot "
                    "become longer: clone() trains anew"
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
        self._trainer.watch = self._run_watch
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
        records = self._learned()
        none = np.zeros(0, np.int64)
        alarms = [none if self._run_watch is None else self._run_watch.alarms(i) for i in range(len(records.seeds))]
        return [records.run(self, i, callback_results(callback, i), alarms[i]) for i in range(len(records.seeds))]

    def _moment(self, done: int) -> "DeepMoment":
        assert self._trainer is not None
        return self._trainer.moment(self, done)

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
        if self._policy is None:
            from dqucb.deep.policy import Policy

            self._policy = Policy.unpacked(self, *self._packed_policy)
        return self._policy

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
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        from dqucb.deep import checkpoint
        from dqucb.deep.factories import UnavailableError
        from dqucb.deep.policy import Policy

        self._packed_policy = settings["policy"], checkpoint.below("policy.", arrays)
        with suppress(UnavailableError):  # until `load` has set what the file does not hold
            self._policy = Policy.unpacked(self, *self._packed_policy)
        self._records = Records.unpacked(settings["records"], checkpoint.below("records.", arrays))
        if "trainer" in settings:
            self._saved = SavedRun(settings["trainer"], checkpoint.below("trainer.", arrays))

    def _save_checkpoint(self, path: str | PathLike[str]) -> Path:
        return self._write(path, compress=False)  # a replay buffer is many megabytes
