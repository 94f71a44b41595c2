"""The base of the deep agents: parameters, training of many seeds in lockstep, prediction and files.

Networks are created when training starts (`new_trainer` in trainer.py), so that importing an agent is fast.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.base import Facts
from dqucb.deep.own_network import OwnNetwork, refuses_old_names
from dqucb.deep.stepped import SteppedAgent
from dqucb.deep.threads import one_thread
from dqucb.run import Run
from dqucb.running import engine, lockstep
from dqucb.running.env_stack import Lockstep, lockstep_of
from dqucb.running.evaluation import evaluation_returns, maker
from dqucb.running.files import below, prefixed
from dqucb.running.observations import Observations
from dqucb.running.request import Request
from dqucb.running.session import Session, named

if TYPE_CHECKING:
    from dqucb.deep.adaptation import NoAdaptation
    from dqucb.deep.bonus import NoBonus
    from dqucb.deep.head import Head
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import DeepProgress


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
        Where a torch network runs: "cpu", "cuda", "mps", or "auto", the fastest available one. The default network
        runs on the CPU unless another device is given.
    optimizer : callable, optional
        `optimizer(parameters)` returns a `torch.optim.Optimizer`; by default Adam with `learning_rate`.
    compile_network : bool
        Whether a torch network goes through `torch.compile`.
    initial_state : mapping, optional
        The `state_dict` from which the networks of all seeds start: of the network, or of `to_torch()`, which includes
        the input scale.
    discount : float
        Of future rewards.
    learning_rate : float
        Of Adam.
    batch_size, buffer_size : int
        Transitions per update, and in the replay buffer.
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
        The error above which the Huber loss is linear. Small errors are fitted by their mean, errors far above it by
        their median, and the median of a return ignores rare failures.
    max_grad_norm : float
        Norm to which the gradient of each seed is clipped.
    act_on : str
        The network that chooses greedy actions: "online", or "target", its running mean, which changes more slowly.
    value_bound : float, "observed" or None
        Upper bound on bootstrapped values, V = min(bound, max Q). None: max_reward / (1 - discount) if the env states
        its largest reward, else no bound. "observed": the same, with the largest reward that a seed has received so far
        where the env states none, and at least 0, the value of an end.
    epsilon, epsilon_steps : float, int
        The probability of a random action falls linearly from 1 to `epsilon` in `epsilon_steps` steps after
        `learning_starts`. With `epsilon_steps=0` it is `epsilon` from the first step on. The defaults are the same for
        all agents, so that they differ only in the bonus.
    explore_by : str
        What is random: the whole "action", or each "dimension" independently with the same probability, so that most of
        an action with many dimensions stays greedy (Seyde 2023). With one dimension both have the same distribution.
    freeze_after : int
        Steps after which the running mean and standard deviation of observations are fixed.

    Notes
    -----
    Observations are a Box, or a Dict, Tuple, MultiBinary or MultiDiscrete space, which is flattened; images (uint8)
    need a `network`. Actions are Discrete or MultiDiscrete. All seeds of `train_seeds` are trained in lockstep; the
    results of a seed do not depend on the others (with torch, up to rounding). The compiled networks use one thread,
    because small networks gain nothing from more. Torch uses the number set by `torch.set_num_threads`.
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
    value_bound: float | str | None = None
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
        if isinstance(self.value_bound, str):
            _validate.one_of("value_bound", self.value_bound, ["observed"])
        elif self.value_bound is not None:
            self.value_bound = _validate.real("value_bound", self.value_bound)
        _validate.one_of("explore_by", self.explore_by, ["action", "dimension"])
        _validate.one_of("act_on", self.act_on, ["online", "target"])
        self._trainer = self._envs = self._saved = None
        self._policy: Policy | None = None
        self._packed_policy: Any = None  # from a file, until its network is known
        self._policy_step = -1  # the trainer's step from which the policy was copied

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> "NoBonus":
        from dqucb.deep.bonus import NoBonus

        return NoBonus(len(generators), head.n_choices)

    def _new_adaptation(self, n: int, observations: Observations, head: "Head") -> "NoAdaptation":
        from dqucb.deep.adaptation import NoAdaptation

        return NoAdaptation()

    # ---- training -------------------------------------------------------------------------------------

    def describe(self, problem: Any, *, unit: str | None = None, change_at: Iterable[int] | int | None = None,
                 max_return: float | None = None) -> Facts:  # fmt: skip
        """Return what is known of an env before training; see `Agent.describe`.

        Examples
        --------
        >>> from dqucb.deep import DQN
        >>> DQN().describe("cartpole").change_at
        (400,)
        """
        from dqucb.deep.spaces import head_of
        from dqucb.envs.making import make_env
        from dqucb.running.env import describe_problem

        env = make_env(problem)
        Observations(env.observation_space)
        head_of(env)
        facts = describe_problem(problem, unit, change_at, max_return)
        return facts._replace(resumable=lockstep_of(problem, env, [0], self._fitted).checkpointable)

    @contextmanager
    def _surroundings(self) -> Iterator[Callable[[], bool]]:
        with one_thread(), lockstep.deferred_interrupt() as interrupted:
            yield interrupted

    def _new_sessions(self, request: Request, facts: Facts) -> list[Session]:
        if request.regret != "realized":
            raise ValueError(f"regret must be 'realized' for a deep agent, got {request.regret!r}")
        for name in ("horizon", "discount"):
            if getattr(request, name) is not None:
                raise ValueError(f"{name} is for tabular agents, got {getattr(request, name)!r}")
        from dqucb.envs.making import make_env, own_number

        env = make_env(request.problem)
        envs = lockstep_of(request.problem, env, request.seeds, self._fitted)
        best = own_number(env, "max_return") if request.max_return is None else request.max_return
        sessions = lockstep.new_sessions(
            request.seeds, named(request, facts, self.parameters()), max_return=best,
            has_gaps=envs.gaps is not None, max_reward=own_number(env, "max_reward"),
        )  # fmt: skip
        self._trainer = self._saved = None
        self._open(sessions, env, envs)
        return list(sessions)

    def _open(self, sessions: list[lockstep.LockstepSession], env: Any, envs: Lockstep) -> None:
        """Create the networks of these sessions; reset their envs, or restore both from a loaded run."""
        from dqucb.deep import checkpoint
        from dqucb.deep.spaces import head_of
        from dqucb.deep.trainer import new_trainer

        trainer = new_trainer(self, sessions, Observations(env.observation_space), head_of(env))
        if self._saved is not None:
            checkpoint.restore(trainer, envs, self._saved)
        if not trainer.begun:
            lockstep.begin(trainer, envs)
            trainer.begun = True
        self._trainer, self._envs, self._saved, self._policy_step = trainer, envs, None, -1

    def _advance(self, request: Request, go_on: Callable[[int], bool]) -> None:
        from dqucb.envs.making import make_env

        sessions = self._learned()
        if self._trainer is None:
            if self._saved is None:
                raise ValueError(
                    f"the run of this {self.name} is loaded, and its env could not be saved, so that it cannot be "
                    "resumed; train a clone() instead"
                )
            env = make_env(request.problem)
            self._open(sessions, env, lockstep_of(request.problem, env, request.seeds, self._fitted))
        assert self._trainer is not None
        assert self._envs is not None
        lockstep.advance(self, self._trainer, self._envs, sessions, request, go_on)

    def _own_alarms(self, i: int) -> NDArray[np.int64] | None:
        own = self._learned()[i].own_alarms
        return None if own is None else np.array(own, np.int64)

    def _versions(self) -> dict[str, str]:
        import scipy

        return {"scipy": scipy.__version__}

    def _fitted(self, env: Any) -> Any:
        from dqucb.envs.numbering import flattened

        return flattened(env)

    def _progress(self, done: int) -> "DeepProgress":
        assert self._trainer is not None
        return self._trainer.progress(self, done)

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: ArrayLike, *, step: int = 0, trained_seed: int | None = None,
                deterministic: bool = True) -> Any:  # fmt: skip
        """Return the greedy action at an observation, or the actions at rows of observations.

        Parameters
        ----------
        observation : array
            One observation, or rows of them.
        step : int
            Ignored: deep agents do not depend on the step of an episode.
        trained_seed : int, optional
            The seed whose network is used; by default the first.
        deterministic : bool
            False: each action is a random one with probability `epsilon`, as in training.
        """
        with one_thread():
            policy = self._greedy()
            if _validate.flag("deterministic", deterministic):
                return policy.predict(observation, trained_seed)
            return policy.predict(observation, trained_seed, self.epsilon)

    def evaluate(self, problem: Any, episodes: int = 20, *, seed: int = 0,
                 trained_seed: int | None = None) -> NDArray[np.float64]:  # fmt: skip
        """Return the returns of episodes of the greedy policy in separate envs, without learning.

        Parameters
        ----------
        problem : gymnasium.Env, str or callable
            As in `train`.
        episodes : int
            How many.
        seed : int
            Episode k is reset with the k-th seed generated from it, whatever the policy.
        trained_seed : int, optional
            The seed whose network is used; by default the first.
        """
        policy = self._greedy()
        with one_thread():
            return evaluation_returns(
                lambda rows: policy.predict(rows, trained_seed),
                maker(self, problem),
                episodes=episodes,
                seed=seed,
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

    def extend(self, more: int, *, callback: Callable[[Any], object] | None = None,
               progress: bool = False) -> list[Run]:  # fmt: skip
        """Continue a finished run; returns the runs of all seeds, with the records of before.

        Each env begins a new episode. The networks, replay, counters and generators go on from where they were.

        Parameters
        ----------
        more : int
            Episodes or steps, in the unit of the run. Several seeds need a run of steps: after a given number of
            episodes they do not end together.
        callback, progress : callable, bool
            As in `train`. A recorder that has the records of before keeps them.

        Examples
        --------
        >>> from dqucb.deep import DQN
        >>> agent = DQN(hidden=(8,), learning_starts=20)
        >>> _ = agent.train("cartpole", steps=100)
        >>> [run.steps for run in agent.extend(50)]
        [150]
        """
        more, sessions = _validate.integer("more", more), self._learned()
        if self._trainer is None or self._envs is None or not all(session.is_finished for session in sessions):
            raise ValueError(f"extend needs a finished run that this {self.name} trained itself, got none")
        first = sessions[0]
        if len(sessions) > 1 and first.unit != "steps":
            raise ValueError(f"more is for one seed, or a run of steps: got {len(sessions)} seeds and {first.unit}")
        given = {first.unit: first.length + more, "callback": callback, "progress": progress}
        request = Request.checked(first.given, [session.seed for session in sessions], given)
        with self._in_use(), self._surroundings() as interrupted:
            for session in sessions:
                session.length = request.length
            self._trainer.resume()
            lockstep.begin(self._trainer, self._envs)
            with engine.supervised(self, request) as go_on:
                self._advance(request, lambda done: go_on(done) and not interrupted())
            found = engine.runs(self, callback)
        if interrupted():
            raise KeyboardInterrupt
        return found

    # ---- files ----------------------------------------------------------------------------------------

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        sessions = self._learned()
        from dqucb.deep import checkpoint

        policy, arrays = self._greedy().packed()
        played, curves = lockstep.packed(sessions)
        settings: dict[str, Any] = {"policy": policy, "records": played}
        arrays = prefixed("policy.", arrays) | prefixed("records.", curves)
        trainer, saved = self._trainer, self._saved
        finished = all(session.is_finished for session in sessions)
        if trainer is not None and not finished and (self._envs is None or self._envs.checkpointable):
            saved = checkpoint.packed(trainer, self._envs)
        if saved is not None:
            settings["trainer"] = saved[0]
            arrays |= prefixed("trainer.", saved[1])
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        from dqucb.deep.factories import UnavailableError
        from dqucb.deep.policy import Policy

        self._packed_policy = settings["policy"], below("policy.", arrays)
        with suppress(UnavailableError):  # `load` may still set the network, which a file holds by name only
            self._policy = Policy.unpacked(self, *self._packed_policy)
        self._sessions = list(lockstep.unpacked(settings["records"], below("records.", arrays)))
        if "trainer" in settings:
            self._saved = settings["trainer"], below("trainer.", arrays)

    def _save_checkpoint(self, path: str | PathLike[str]) -> Path:
        return self._write(path, compress=False)  # compressing a replay buffer takes too long
