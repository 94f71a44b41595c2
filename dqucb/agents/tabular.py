"""`TabularAgent`: compiled training, stepping from Python and files; a subclass defines its tables."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import stepping, window_pools
from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.rules import Transition
from dqucb.agents import checkpoint, sizing, tables
from dqucb.base import Agent
from dqucb.problems.base import Problem, largest_return, unit_of
from dqucb.running import compiled, stepped
from dqucb.running.compiled import Sizes, Training, new_training, sizes_of
from dqucb.running.env import OpenEnv, generator_of, open_env
from dqucb.running.request import Request
from dqucb.running.session import Facts, Session

STEP_RESERVE = 4_096  # transitions per allocation of a stepped agent
_COMPILED = ("act", "observe", "end_episode")  # methods that the compiled loop replaces


@dataclass(kw_only=True, eq=False, repr=False)
class TabularAgent(Agent):
    """An agent for finite states and actions.

    Examples
    --------
    >>> from dqucb import AGENTS, TabularAgent
    >>> issubclass(AGENTS["qucb"], TabularAgent), issubclass(AGENTS["dqn"], TabularAgent)
    (True, False)
    """

    def __post_init__(self) -> None:
        self._check_parameters()
        self._reserved = 0
        self._room = 0  # visits within which no counter can overflow
        self._range_grew = False

    @abstractmethod
    def _new_learner(self, sizes: Sizes) -> Any:
        """New tables for a problem of these sizes."""

    def _fresh_learner(self, sizes: Sizes) -> Any:
        """New tables, or a ValueError with their size if they do not fit in memory."""
        sizing.checked_size(self.name, self._tables_like(sizes), sizes)
        return self._new_learner(sizes)

    def _tables_like(self, sizes: Sizes) -> Callable[[Sizes], Any]:
        """A factory for smaller tables of the form that `_new_learner` chooses at these sizes."""
        return self._new_learner

    def _learner_for(self, sizes: Sizes, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Empty tables with the form of those stored in a file."""
        return self._new_learner(sizes)

    def _check_tables(self, learner: Any) -> None:
        """Raise a ValueError if tables from a file are invalid for the kernels."""
        tables.check_visits(learner)
        if hasattr(learner, "alarms"):
            checkpoint.check_alarms(learner.alarms)

    def _grown(self, learner: Any, pushes: int) -> Any:
        """The learner with memory for `pushes` more transitions."""
        grown = {}
        if getattr(learner, "windows", None) is not None:
            grown["windows"] = window_pools.enlarged(learner.windows, 2 * pushes)
        if hasattr(learner, "alarms"):
            grown["alarms"] = alarms.enlarged(learner.alarms, 2 * pushes)
        return learner._replace(**grown)

    # ---- training -------------------------------------------------------------------------------------

    @property
    def _is_compiled(self) -> bool:
        """Whether the compiled loop is valid for this class; a subclass that overrides steps is stepped from Python."""
        return all(getattr(type(self), name) is getattr(TabularAgent, name) for name in _COMPILED)

    @property
    def _remembers_all(self) -> bool:
        """Whether a file holds all that was learned: a subclass that overrides steps may add to the tables."""
        return self._is_compiled or self._has_state

    def describe(self, problem: Any, **options: Any) -> Facts:
        """As `Agent.describe`; a subclass that overrides steps needs `state` to be saved before the end of a run."""
        facts = super().describe(problem, **options)
        return facts._replace(resumable=facts.resumable and self._remembers_all)

    def _runs_compiled(self, request: Request) -> bool:
        return isinstance(request.problem, Problem) and self._is_compiled and request.detector is None

    def _new_sessions(self, request: Request, facts: Facts) -> list[Session]:
        self._forget()
        opened = None if self._runs_compiled(request) else open_env(request, self._fitted)
        if opened is None:
            for name in ("horizon", "discount", "max_return"):
                if getattr(request, name) is not None:
                    raise ValueError(f"{name} is only for Gymnasium envs: this problem states its own")
            request.problem.check_run(request.length)
            sizes, rng = sizes_of(request.problem, request.length), np.random.default_rng(request.seed)
        else:
            sizes, rng = _sizes_in(opened, request), generator_of(opened, request.seed)
        training = new_training(self._fresh_learner(sizes), sizes, rng, request, facts, self.parameters())
        training.env = opened
        return [training]

    def _advance(self, request: Request, go_on: Callable[[int], bool]) -> None:
        training = self._started()
        self._room = 0
        if training.env is None and training.saved_env is None and self._runs_compiled(request):
            self._check_room(training, (request.stop_at - training.units_done) * (request.problem.horizon or 1))
            compiled.advance(training, request.problem, self._grown, request.stop_at, go_on)
        else:
            stepped.advance(self, training, request, go_on)

    def _fitted(self, env: Any) -> Any:
        from dqucb.envs.numbering import numbered

        return numbered(env)

    def _difference(self, request: Request) -> str | None:
        if isinstance(request.problem, Problem):
            held, asked = self._started().sizes.comparable(), sizes_of(request.problem, request.length).comparable()
            for name, value in held.items():
                if value != asked[name]:
                    return f"its {name} is {value!r}, not {asked[name]!r}"
        return None

    def _forget(self) -> None:
        """Discard the state of an earlier run."""
        self._reserved, self._room, self._range_grew = 0, 0, False

    # ---- one step at a time ---------------------------------------------------------------------------

    def start(
        self,
        n_states: int,
        n_actions: int,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        seed: int = 0,
        length: int = 1_000_000,
        return_bound: float | None = None,
    ) -> "TabularAgent":
        """Create empty tables for your own training loop.

        Parameters
        ----------
        n_states, n_actions : int
            The sizes of the problem.
        horizon, discount : int, float
            Exactly one of them.
        length : int
            Number of episodes, or steps with a discount, that the loop will have.
        return_bound : float, optional
            Upper bound on the return; H or 1 / (1 - discount) by default.
        seed : int
            Seed of the random actions.

        Examples
        --------
        >>> from dqucb import QUCB
        >>> agent = QUCB().start(n_states=4, n_actions=2, horizon=10)
        >>> action = agent.act(0, step=0)
        >>> bonus, likelihood = agent.observe(0, action, reward=1.0, next_state=3, step=0, terminated=True)
        >>> agent.end_episode()
        """
        n_states = _validate.integer("n_states", n_states)
        n_actions = _validate.integer("n_actions", n_actions)
        if (horizon is None) == (discount is None):
            raise ValueError(
                f"give exactly one of horizon and discount, got horizon={horizon!r}, discount={discount!r}"
            )
        length = _validate.integer("length", length)
        sizes = _sizes(n_states, n_actions, horizon, discount, length, return_bound)
        lengths: dict[str, Any] = {unit_of(horizon): length}
        request = Request.checked(None, [_validate.integer("seed", seed, 0)], lengths)
        self._forget()
        self._sessions = [new_training(self._fresh_learner(sizes), sizes, np.random.default_rng(request.seed), request)]
        self._is_loaded = False
        return self

    def act(self, state: int, step: int = 0) -> int:
        """The action to take in a state at `step` of the episode."""
        training = self._started()
        self._check_place(state, step)
        with self._in_use():
            return int(stepping.act(training.learner, self._row(step), int(state), training.draws))

    def observe(
        self, state: int, action: int, reward: float, next_state: int, step: int = 0, terminated: bool = False
    ) -> tuple[float, float]:
        """Learn from one transition; return its bonus and its likelihood."""
        training = self._started()
        self._check_place(state, step)
        _validate.state_id("action", action, training.sizes.n_actions)
        _validate.state_id("next_state", next_state, training.sizes.n_states)
        reward = _validate.reward("reward", reward)
        if not training.sizes.low <= reward <= training.sizes.highest_reward:
            self._allow_for(reward)
        seen = Transition(self._row(step), int(state), int(action), reward, int(next_state), bool(terminated))
        with self._in_use():
            if self._reserved == 0:
                self._reserve(training)
            self._reserved -= 1
            return self._learned(training, seen)

    def _allow_for(self, reward: float) -> None:
        """Raise the bounds on values to include a reward, warn once, and restart: old values were capped."""
        training = self._started()
        sizes = training.sizes
        if training.env is not None and training.env.finite is not None:
            stated = f"[{sizes.low:g}, {sizes.highest_reward:g}]"
            raise ValueError(f"reward must be in {stated}, as the problem states, got {reward!r}")
        if sizes.return_bound is not None and reward > sizes.return_bound:
            raise ValueError(f"reward must be at most return_bound={sizes.return_bound:g}, got {reward!r}")
        training.sizes = with_rewards(sizes, reward)
        is_above = reward > sizes.highest_reward
        if not is_above and not any(name.endswith(".low") for name, _ in checkpoint.leaves("", training.learner)):
            return
        if not self._range_grew:
            limit = f"above {sizes.highest_reward:g}" if is_above else f"below {sizes.low:g}"
            warnings.warn(
                f"{self.name} met the reward {reward:g}, {limit}, which its bounds on values did not allow for: they "
                "are raised and it restarts learning, now and at each larger one. A TabularMDP states its rewards; "
                "for an env give max_return, an upper bound on the return of an episode",
                stacklevel=3,
            )
        self._range_grew = True
        self.restart()

    def _reserve(self, training: Training) -> None:
        """Allocate memory for the next transitions; a ValueError if a counter could overflow."""
        if self._room < STEP_RESERVE:
            self._room = self._check_room(training, STEP_RESERVE)
        self._room -= STEP_RESERVE
        training.learner = self._grown(training.learner, STEP_RESERVE)
        self._reserved = STEP_RESERVE

    def _check_room(self, training: Training, pushes: int) -> int:
        """How many transitions no count can overflow within; a ValueError if they are fewer than `pushes`."""
        room, most = tables.count_room(training.learner)
        if room < pushes:
            raise ValueError(f"a pair has {most:,} visits, about the most that this {self.name} counts: start again")
        return room

    def _learned(self, training: Training, seen: Transition) -> tuple[float, float]:
        bonus, p = stepping.learn(training.learner, seen, training.draws)
        return float(bonus), float(p)

    def end_episode(self) -> None:
        """End the episode; some agents plan at this point."""
        training = self._started()
        with self._in_use():
            stepping.finish_episode(training.learner, training.draws)

    def restart(self) -> None:
        """Restart with empty tables; earlier alarms are kept."""
        training = self._started()
        with self._in_use():
            kept = {"alarms": training.learner.alarms} if self._has_own_alarms else {}
            training.learner = self._new_learner(training.sizes)._replace(**kept)
            self._reserved = 0

    def _check_place(self, state: int, step: int) -> None:
        sizes = self._started().sizes
        _validate.state_id("state", state, sizes.n_states)
        if sizes.horizon is not None:
            _validate.state_id("step", step, sizes.horizon)

    def _row(self, step: int) -> int:
        """The index of the step in the tables: 0 in a problem with a discount."""
        return int(step) if self._started().sizes.horizon is not None else 0

    # ---- what was learned -----------------------------------------------------------------------------

    def predict(self, observation: int, *, step: int = 0) -> int:
        """The greedy action in a state at `step` of the episode."""
        training = self._started()
        self._check_place(observation, step)
        return int(stepping.greedy(training.learner, self._row(step), int(observation)))

    @property
    def alarms_(self) -> NDArray[np.int64]:
        """The episode, or step, of each alarm, in order: the agent's own, or those of `train(detector=...)`."""
        log = getattr(self._started().learner, "alarms", None)
        return self.detector_alarms_ if log is None else log.times[: log.used[0]].copy()

    def _own_alarms(self, i: int) -> NDArray[np.int64] | None:
        return self.alarms_ if hasattr(self._started().learner, "alarms") else None

    @property
    def q_(self) -> NDArray[np.float64]:
        """The learned action values, (H, S, A) or (S, A)."""
        return tables.q_of(self._started().learner)

    @property
    def visits_(self) -> NDArray[np.integer[Any]]:
        """How often each pair was taken, (H, S, A); (S, A) with a discount, or with `stage_dependent=False`."""
        return tables.visits_of(self._started().learner)

    def greedy_policy(self) -> NDArray[np.int64]:
        """The greedy actions, (H, S) or (S,)."""
        training = self._started()
        policy = np.zeros((training.sizes.horizon or 1, training.sizes.n_states), np.int64)
        stepping.greedy_table(training.learner, policy)
        return policy[0] if training.sizes.horizon is None else policy

    @property
    def _horizon(self) -> int | None:
        return self._started().sizes.horizon

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        training = self._started()
        settings, arrays = checkpoint.packed(training)
        settings["world"] = training.saved_env
        if training.env is not None and self._remembers_all:
            settings["world"] = training.env.state()
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        held = sum(array.nbytes for array in arrays.values())

        def declared(sizes: Sizes) -> Any:
            sizing.check_declared(self._tables_like(sizes), sizes, held)
            return self._learner_for(sizes, arrays)

        training = checkpoint.unpacked(settings, arrays, declared, self._check_tables)
        training.saved_env = settings["world"]
        self._sessions = [training]

    def _started(self) -> Training:
        session = super()._started()
        assert isinstance(session, Training)
        return session


def _sizes(
    n_states: int,
    n_actions: int,
    horizon: int | None,
    discount: float | None,
    length: int,
    return_bound: float | None = None,
) -> Sizes:
    """The sizes of a problem of which no more is known: rewards are in [0, 1] until others are observed."""
    if horizon is not None:
        horizon = _validate.integer("horizon", horizon)
        _validate.fits(f"a table of {horizon:,} steps", 8 * horizon)
        bounds = np.arange(horizon, -1, -1, dtype=np.float64)
    else:
        discount = _validate.real("discount", discount, 0.0, 1.0 - 1e-12)
        bounds = np.array([largest_return(None, discount)])
    if return_bound is not None:
        return_bound = _validate.positive("return_bound", return_bound)
        bounds = np.minimum(bounds, return_bound)
    return Sizes(
        n_states, n_actions, horizon, discount, bounds, length, n_states, n_states, 1,
        high=1.0, return_bound=return_bound,
    )  # fmt: skip


def _sizes_in(opened: OpenEnv, request: Request) -> Sizes:
    """The sizes of the problem that an env is, as far as they are known."""
    if (opened.horizon is None) == (opened.discount is None):
        raise ValueError(
            "a Gymnasium env takes one of horizon= and discount=, "
            f"got horizon={opened.horizon!r}, discount={opened.discount!r}"
        )
    unit = unit_of(opened.horizon)
    if request.unit != unit:
        raise ValueError(f"this run takes {unit}=, got {request.unit}={request.length}")
    if opened.finite is not None:
        return sizes_of(opened.finite, request.length)
    spaces: Any = opened.env
    n_states, n_actions = int(spaces.observation_space.n), int(spaces.action_space.n)
    sizes = _sizes(n_states, n_actions, opened.horizon, opened.discount, request.length)
    if opened.max_return is not None and opened.max_return > sizes.bounds[0]:  # so rewards are above 1
        bounds = np.where(sizes.bounds > 0.0, opened.max_return, 0.0)
        sizes = sizes._replace(bounds=bounds, high=opened.max_return)
    return sizes


def with_rewards(sizes: Sizes, reward: float) -> Sizes:
    """The same sizes with a range of rewards that includes this one.

    The range grows to the next power of two, so that slowly growing rewards raise it only a few times.
    """
    grown = math.copysign(2.0 ** math.ceil(math.log2(abs(reward))), reward)
    if reward < sizes.low:
        return sizes._replace(low=grown)
    steps = np.array([1.0 / (1.0 - (sizes.discount or 0.0))])
    if sizes.horizon is not None:
        steps = np.arange(sizes.horizon, -1.0, -1.0)
    bounds = grown * steps
    if sizes.return_bound is not None:
        bounds = np.minimum(bounds, sizes.return_bound)
    return sizes._replace(bounds=bounds, high=grown)
