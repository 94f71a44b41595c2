"""What all deep agents share: parameters, training of many seeds in lockstep, prediction and files.

Networks are built when training begins (building.py), so that parameters load fast.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate
from dqucb.base import Facts
from dqucb.deep.stepped import SteppedAgent
from dqucb.deep.threads import one_thread
from dqucb.running import lockstep
from dqucb.running.env_stack import Lockstep, lockstep_of
from dqucb.running.evaluation import evaluation_returns, maker
from dqucb.running.request import Request
from dqucb.running.session import Session, named

if TYPE_CHECKING:
    from dqucb.deep.adapting import Unmoved
    from dqucb.deep.bonus import NoBonus
    from dqucb.deep.head import Head
    from dqucb.deep.policy import Policy
    from dqucb.deep.trainer import DeepMoment


@dataclass(kw_only=True, eq=False, repr=False)
class DeepAgent(SteppedAgent):
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
    largest_error : float
        The error of a value from which on the Huber loss grows linearly. Below it means are learned, far above it
        medians, and the median of a return does not see a fall that happens seldom.
    largest_gradient : float
        The norm to which the gradient of each seed is clipped.
    act_on : str
        Whose greedy actions are taken, "online" or "target", a running mean of the former that flickers less.
    value_bound : float, optional
        The largest value of a state, at which bootstrapped values are cut (V = min(bound, max Q)). By default
        max_reward / (1 - discount) where the env states its largest reward, else no bound.
    epsilon, epsilon_steps : float, int
        Random actions fall from all to the share `epsilon` in so many steps after `learning_starts`. All agents have
        the same defaults, so that they differ in the bonus alone. With `epsilon_steps` = 0 the share is `epsilon` from
        the first step on; with 0 and 0 an agent explores by its bonus only.
    explore_by : str
        What is random then: the whole "action", or each "dimension" of it by itself, with the same chance, so that most
        of an action with many dimensions stays as it was (Seyde 2023). With one dimension both are the same but for
        the numbers drawn.
    freeze_after : int
        Steps after which the running mean and spread of the observations stay as they are.

    Notes
    -----
    The observations of an env are a Box of numbers, its actions Discrete or MultiDiscrete. All seeds of `train_seeds`
    learn together in one stack of networks; what a seed learns does not depend on the others. A run uses one thread:
    small networks gain nothing from more, and the bits stay the same.
    """

    in_lockstep: ClassVar[bool] = True

    hidden: tuple[int, ...] = (64, 64)
    discount: float = 0.99
    learning_rate: float = 1e-3
    batch: int = 64
    capacity: int = 50_000
    learning_starts: int = 200
    train_every: int = 1
    n_steps: int = 3
    target_rate: float = 0.01
    target_every: int = 1
    largest_error: float = 10.0
    largest_gradient: float = 10.0
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
        for name in ("batch", "capacity", "train_every", "n_steps", "target_every"):
            setattr(self, name, _validate.integer(name, getattr(self, name)))
        for name in ("learning_starts", "epsilon_steps", "freeze_after"):
            setattr(self, name, _validate.integer(name, getattr(self, name), 0))
        self.discount = _validate.real("discount", self.discount, 0.0, 1.0)
        self.learning_rate = _validate.positive("learning_rate", self.learning_rate)
        self.target_rate = _validate.real("target_rate", self.target_rate, 0.0, 1.0, open_left=True)
        self.largest_error = _validate.positive("largest_error", self.largest_error)
        self.largest_gradient = _validate.positive("largest_gradient", self.largest_gradient)
        self.epsilon = _validate.real("epsilon", self.epsilon, 0.0, 1.0)
        if self.value_bound is not None:
            self.value_bound = _validate.real("value_bound", self.value_bound)
        _validate.one_of("explore_by", self.explore_by, ["action", "dimension"])
        _validate.one_of("act_on", self.act_on, ["online", "target"])
        self._trainer = self._envs = self._saved = None
        self._policy: Policy | None = None
        self._policy_step = -1  # of the trainer, when the policy was taken from it

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> "NoBonus":
        from dqucb.deep.bonus import NoBonus

        return NoBonus(len(generators), head.n_choices)

    def _new_adapting(self, n: int, dimension: int, head: "Head") -> "Unmoved":
        from dqucb.deep.adapting import Unmoved

        return Unmoved()

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
        from dqucb.deep.spaces import head_of, observation_dim
        from dqucb.envs.making import make_env
        from dqucb.running import world

        env = make_env(problem)
        observation_dim(self._fitted(env))
        head_of(env)
        facts = world.describe(problem, unit, change_at, max_return)
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
        """Networks for these sessions, and their envs where the run begins, or where a loaded one stopped."""
        from dqucb.deep import checkpoint
        from dqucb.deep.building import trainer_of
        from dqucb.deep.spaces import head_of, observation_dim

        trainer = trainer_of(self, sessions, observation_dim(self._fitted(env)), head_of(env))
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
                    f"the run of this {self.name} is loaded, and its env could not be saved, so that it cannot go on: "
                    "clone() trains anew"
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
        assert self._policy is not None
        return self._policy

    # ---- files ----------------------------------------------------------------------------------------

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        sessions = self._learned()
        from dqucb.deep import checkpoint

        policy, arrays = self._greedy().packed()
        played, curves = lockstep.packed(sessions)
        settings: dict[str, Any] = {"policy": policy, "records": played}
        arrays = checkpoint.prefixed("policy.", arrays) | checkpoint.prefixed("records.", curves)
        trainer, saved = self._trainer, self._saved
        finished = all(session.is_finished for session in sessions)
        if trainer is not None and not finished and (self._envs is None or self._envs.checkpointable):
            saved = checkpoint.packed(trainer, self._envs)
        if saved is not None:
            settings["trainer"] = saved[0]
            arrays |= checkpoint.prefixed("trainer.", saved[1])
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        from dqucb.deep import checkpoint
        from dqucb.deep.policy import Policy

        self._policy = Policy.unpacked(settings["policy"], checkpoint.below("policy.", arrays))
        self._sessions = list(lockstep.unpacked(settings["records"], checkpoint.below("records.", arrays)))
        if "trainer" in settings:
            self._saved = settings["trainer"], checkpoint.below("trainer.", arrays)

    def _save_checkpoint(self, path: str | PathLike[str]) -> Path:
        return self._write(path, compress=False)  # a replay buffer is many megabytes
