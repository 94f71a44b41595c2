"""Agents without a network for `dqucb/HospitalAllocation-v0`.

References: proportional to free beds, greedy by free beds, the clairvoyant daily optimum, and random. Bandits, after
Zuo and Joe-Wong (2021): an arm is a pair (hospital, amount), its index is the mean of its rewards plus an optimistic
bonus, and the oracle maximises the sum of the indices. A run has one record for each day, and its regret is the
clairvoyant's reward on its own path minus the agent's on its path; the clairvoyant is optimal for each day but not over
all days, so that regret can be negative.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _storage, _validate
from dqucb._kernels.allocation import allocate, allocate_by_room
from dqucb._parameters import Within
from dqucb.base import AGENTS, Agent, Facts
from dqucb.envs.making import Env, make_env
from dqucb.hospital.simulation import HospitalState, by_largest_remainders, clairvoyant_allocation
from dqucb.hospital.system import HospitalSystem
from dqucb.running.env import OpenEnv, open_env
from dqucb.running.request import Request
from dqucb.running.session import Session, empty_curves, named

_CURVES = ("returns", "gaps", "position")


@dataclass(kw_only=True, eq=False, repr=False)
class AllocationAgent(Agent):
    """Base of the allocation agents. They observe each morning and its outcome, but not beta or the next day."""

    def __post_init__(self) -> None:
        self._check_parameters()
        self._capacity = np.zeros(0)  # no hospitals known yet
        self._largest = 0
        self._system: HospitalSystem | None = None
        self._morning = np.zeros(0, np.float32)  # of a loaded run, until it continues

    # ---- what an agent decides --------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Reset what was learned; the beds of each hospital and the largest number of arrivals are known."""

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        """Today's allocation."""
        raise NotImplementedError(f"{self.name} must define _allocate(state, day, explore)")

    def _tables(self) -> dict[str, NDArray[Any]]:
        """What was learned, as arrays that change in place."""
        return {}

    # ---- training ---------------------------------------------------------------------------------------

    def describe(self, problem: Any, *, unit: str | None = None, change_at: Iterable[int] | int | None = None,
                 max_return: float | None = None) -> Facts:  # fmt: skip
        """What is known of a hospital env before training."""
        _system_of(make_env(problem))
        return super().describe(problem, unit=unit or "steps", change_at=change_at, max_return=max_return)

    def _new_sessions(self, request: Request, facts: Facts) -> list[Session]:
        if request.unit != "steps":
            raise ValueError(f"{self.name} takes steps=, which are days, got episodes={request.length}")
        opened = open_env(request, self._fitted)
        self._begin(opened.env, request.seed)
        return [self._session(named(request, facts, self.parameters()), request.seed, opened)]

    def _session(self, run: dict[str, Any], seed: int, opened: OpenEnv | None) -> Session:
        curves = empty_curves(run["length"], "steps", run["change_at"], run["length"])  # a record for each day
        return Session(**run, seed=seed, rng=self._rng, env=opened, **curves)

    def _reward_of(self, reward: Any, info: dict[str, Any]) -> Any:
        return info["rewards"]  # one per hospital

    def _reopened(self, opened: OpenEnv) -> None:
        self._system = _system_of(opened.env)
        opened.observation, opened.step = self._morning, int(opened.env.get_wrapper_attr("day"))

    # ---- one day at a time ------------------------------------------------------------------------------

    def start(self, problem: Any, *, seed: int = 0) -> Self:
        """Forget everything and prepare for your own loop over this env, which is not stepped here.

        Examples
        --------
        >>> from dqucb.hospital import GreedyByFreeBeds, HospitalAllocationEnv
        >>> env = HospitalAllocationEnv(hospitals=3)
        >>> agent = GreedyByFreeBeds().start(env)
        >>> observation, _ = env.reset(seed=0)
        >>> int(agent.act(observation).sum()) == int(observation[-1])
        True
        """
        self._sessions = []
        self._begin(make_env(problem), _validate.integer("seed", seed, 0))
        return self

    def _begin(self, env: Env, seed: int) -> None:
        self._system = _system_of(env)
        # The env draws only with Poisson arrivals; it and the agent must not draw the same numbers.
        self._rng = np.random.default_rng(seed if env.get_wrapper_attr("arrivals") == "data" else [seed, 1])
        self._capacity, self._largest = self._system.capacity, int(env.get_wrapper_attr("largest"))
        self._prepare()

    def act(self, observation: ArrayLike, step: int = 0) -> NDArray[np.int64]:
        """Today's allocation; `step` is the day."""
        return self._allocate(self._state(observation), step, True)

    def predict(self, observation: ArrayLike, *, step: int = 0) -> NDArray[np.int64]:
        """The greedy allocation; `step` is the day."""
        return self._allocate(self._state(observation), step, False)

    def observe(self, state: ArrayLike, action: ArrayLike, reward: ArrayLike, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> None:  # fmt: skip
        """Learn from one day; bandits take one reward per hospital, `info["rewards"]`."""

    def restart(self) -> None:
        """Forget what was learned."""
        self._prepare()

    def _state(self, observation: ArrayLike) -> HospitalState:
        k = len(self._capacity)
        if not k:
            raise ValueError(f"{self.name} knows no hospitals yet: call train or start first")
        numbers = _validate.vector("observation", observation, 2 * k + 1)
        return HospitalState(numbers[:k], numbers[k : 2 * k], round(float(numbers[-1])))

    # ---- files ------------------------------------------------------------------------------------------

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        session = self._started()
        env = session.saved_env if session.env is None else session.env.state()
        morning = self._morning if session.env is None else session.env.observation
        arrays: dict[str, NDArray[Any]] = {"capacity": self._capacity, "morning": morning}
        arrays |= self._saved_tables(session)
        held = {} if env is None else {name: value for name, value in env.items() if isinstance(value, np.ndarray)}
        arrays |= _storage.prefixed("env.", held)
        settings: dict[str, Any] = {
            "run": {"problem": session.problem, "length": session.length, "seed": session.seed,
                    "change_at": list(session.change_at)},
            "seconds": session.seconds, "rng": session.rng.bit_generator.state, "largest": self._largest,
            "env": None if env is None else {name: value for name, value in env.items() if name not in held},
        }  # fmt: skip
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._capacity = _validate.finite_array("capacity", arrays["capacity"], 1)
        self._largest = _validate.integer("largest", settings["largest"])
        self._rng = np.random.default_rng(0)
        self._rng.bit_generator.state = settings["rng"]
        self._prepare()
        run = dict(settings["run"])
        run |= {"unit": "steps", "regret_form": "realized", "change_at": tuple(run["change_at"])}
        session = self._session(run, run.pop("seed"), None)
        session.seconds = _validate.real("seconds", settings["seconds"], 0.0)
        for name, own in self._saved_tables(session).items():
            own[...] = _validate.like(name, arrays[name], own)
        self._morning = _validate.vector("morning", arrays["morning"], 2 * len(self._capacity) + 1).astype(np.float32)
        if settings["env"] is not None:
            session.saved_env = settings["env"] | _storage.below("env.", arrays)
        self._sessions = [session]

    def _saved_tables(self, session: Session) -> dict[str, NDArray[Any]]:
        curves = {name: getattr(session, name) for name in _CURVES}
        return _storage.prefixed("curve.", curves) | _storage.prefixed("table.", self._tables())


@AGENTS.register("random-allocation")
@dataclass(kw_only=True, eq=False, repr=False)
class RandomAllocation(AllocationAgent):
    """Assigns each patient to a hospital uniformly at random.

    Examples
    --------
    >>> RandomAllocation().train("hospital", steps=20).steps
    20
    """

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        k = len(self._capacity)
        return self._rng.multinomial(state.patients, np.full(k, 1 / k))


@AGENTS.register("proportional-to-free-beds")
@dataclass(kw_only=True, eq=False, repr=False)
class ProportionalToFreeBeds(AllocationAgent):
    """Allocates in proportion to the free beds of the morning.

    Examples
    --------
    >>> ProportionalToFreeBeds().train("hospital", steps=20).steps
    20
    """

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        return by_largest_remainders(np.maximum(0.0, self._capacity - state.covid - state.non_covid), state.patients)


@AGENTS.register("greedy-by-free-beds")
@dataclass(kw_only=True, eq=False, repr=False)
class GreedyByFreeBeds(AllocationAgent):
    """Assigns each patient to the hospital with the most free beds, counting the patients just assigned.

    Examples
    --------
    >>> GreedyByFreeBeds().train("hospital", steps=20).steps
    20
    """

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        amounts = np.zeros(len(self._capacity), np.int64)
        allocate_by_room(state.covid + state.non_covid, self._capacity, state.patients, False, amounts)
        return amounts


@AGENTS.register("clairvoyant-daily")
@dataclass(kw_only=True, eq=False, repr=False)
class ClairvoyantDaily(AllocationAgent):
    """Minimises the overflow of each day, knowing beta and the next day's other patients; the reference for regret.

    Examples
    --------
    >>> float(ClairvoyantDaily().train("hospital", steps=20).regret[-1])
    0.0
    """

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        if self._system is None:
            raise ValueError(f"{self.name} is loaded and does not know what is to come: call train or start first")
        return clairvoyant_allocation(self._system, day, state)


@AGENTS.register("cucb-ra")
@dataclass(kw_only=True, eq=False, repr=False)
class CUCBRA(AllocationAgent):
    """CUCB_RA: semi-bandit feedback; each arm (hospital, amount) is credited with the overflow of its hospital.

    index = mean + bonus_scale * sqrt(3 ln t / (2 T)), T the plays of the arm; `unplayed`, a large finite number, before
    the first. Rewards are minus the overflow in units of the largest number of arrivals, and at least -1.

    Parameters
    ----------
    bonus_scale : float
        Scale of the bonus.
    unplayed : float
        The index of an arm that has not been played.

    Examples
    --------
    >>> CUCBRA(bonus_scale=0.1).train("hospital", steps=20).steps
    20
    """

    bonus_scale: Annotated[float, Within(_validate.real, 0.0)] = 1.0
    unplayed: Annotated[float, Within(_validate.real, 0.0)] = 10.0

    def _prepare(self) -> None:
        shape = (len(self._capacity), self._largest + 1)
        self._means, self._plays, self._days = np.zeros(shape), np.zeros(shape, np.int64), np.zeros(1, np.int64)

    def _tables(self) -> dict[str, NDArray[Any]]:
        return {"means": self._means, "plays": self._plays, "days": self._days}

    def _allocate(self, state: HospitalState, day: int, explore: bool) -> NDArray[np.int64]:
        index, order = self._means, np.arange(len(self._means))
        if explore:
            self._days += 1
            bonus = self.bonus_scale * np.sqrt(1.5 * np.log(self._days[0]) / np.maximum(1, self._plays))
            # A random order of the hospitals breaks ties among unplayed arms differently for each seed.
            order = self._rng.permutation(len(self._means))
            index = np.where(self._plays > 0, np.minimum(self._means + bonus, self.unplayed), self.unplayed)
        amounts = np.empty(len(order), np.int64)
        amounts[order] = allocate(np.ascontiguousarray(index[order, : state.patients + 1]), state.patients)
        return amounts

    def _credit(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The reward of the arm that was played in each hospital."""
        return rewards

    def observe(self, state: ArrayLike, action: ArrayLike, reward: ArrayLike, next_state: ArrayLike, step: int = 0,
                terminated: bool = False) -> None:  # fmt: skip
        rewards = _validate.vector("reward", reward, len(self._capacity))
        arms = (np.arange(len(rewards)), np.asarray(action, np.int64))
        credit = np.maximum(-1.0, self._credit(rewards) / float(max(1, self._largest)))
        self._plays[arms] += 1
        self._means[arms] += (credit - self._means[arms]) / self._plays[arms]


@AGENTS.register("ucb-ra")
@dataclass(kw_only=True, eq=False, repr=False)
class UCBRA(CUCBRA):
    """UCB_RA: CUCB_RA with bandit feedback; every played arm is credited with the mean over all hospitals.

    The paper names this baseline and does not define it; the cited work has semi-bandit feedback only.

    Parameters
    ----------
    bonus_scale, unplayed
        As in `CUCBRA`.

    Examples
    --------
    >>> UCBRA().train("hospital", steps=20).steps
    20
    """

    def _credit(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(rewards), rewards.mean())


def _system_of(env: Env) -> HospitalSystem:
    if not env.has_wrapper_attr("system") or not isinstance(env.get_wrapper_attr("system"), HospitalSystem):
        raise ValueError(f"problem must be a hospital env (dqucb/HospitalAllocation-v0), got {env}")
    system: HospitalSystem = env.get_wrapper_attr("system")
    return system
