"""Policies that place patients without a network, and the one loop that runs them.

References: proportional to free beds, greedy by free beds, the clairvoyant daily optimum, and random. Bandits, after
Zuo and Joe-Wong (2021): an arm is a pair (hospital, amount), its index is the mean of its rewards plus an optimistic
bonus, and the oracle picks the amounts whose indices sum to most. All play the same days; the result is a `Run` with
one record for each day.

    from dqucb.agents.allocation import GreedyByFreeBeds, run_policy
    run_policy(GreedyByFreeBeds(), synthetic_hospitals()).phase_regret()
"""

import time
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.allocation import allocate, allocate_by_room
from dqucb.problems.hospital import (
    HospitalState,
    HospitalSystem,
    Outcome,
    Simulation,
    by_largest_remainders,
    clairvoyant_allocation,
    clairvoyant_rewards,
    described,
)
from dqucb.run import Run, versions


@dataclass(kw_only=True)
class AllocationPolicy:
    """What the loop asks of a policy. It sees the mornings and the outcomes, not beta nor tomorrow."""

    def start(self, system: HospitalSystem, rng: np.random.Generator) -> None:
        """Forget everything; of `system` only the hospitals and the largest number of arrivals may be used."""
        self._capacity, self._rng = system.capacity, rng

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        """Today's allocation."""
        raise NotImplementedError

    def observe(self, outcome: Outcome) -> None:
        """What it led to."""

    @property
    def name(self) -> str:
        """The name in tables and plots."""
        return type(self).__name__

    def _free(self, state: HospitalState) -> NDArray[np.float64]:
        return np.maximum(0.0, self._capacity - state.covid - state.non_covid)


class RandomAllocation(AllocationPolicy):
    """Each patient to a hospital at random."""

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        k = len(self._capacity)
        return self._rng.multinomial(state.patients, np.full(k, 1 / k))


class ProportionalToFreeBeds(AllocationPolicy):
    """In proportion to the beds that are free this morning."""

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        return by_largest_remainders(self._free(state), state.patients)


class GreedyByFreeBeds(AllocationPolicy):
    """Each patient to the hospital with most free beds this morning, counting those just placed."""

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        amounts = np.zeros(len(self._capacity), np.int64)
        allocate_by_room(state.covid + state.non_covid, self._capacity, state.patients, False, amounts)
        return amounts


class ClairvoyantDaily(AllocationPolicy):
    """The least overflow of each day, knowing beta and tomorrow's other patients: what regret is counted against."""

    def start(self, system: HospitalSystem, rng: np.random.Generator) -> None:
        super().start(system, rng)
        self._system, self._day = system, 0

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        return clairvoyant_allocation(self._system, self._day, state)

    def observe(self, outcome: Outcome) -> None:
        self._day += 1


@dataclass(kw_only=True)
class CUCBRA(AllocationPolicy):
    """CUCB_RA: semi-bandit feedback, each arm (hospital, amount) is credited its own hospital's overflow.

    index = mean + bonus_scale * sqrt(3 ln t / (2 T)), T the plays of the arm; `unplayed`, a large finite number, before
    the first. Rewards are minus the overflow in units of the largest number of arrivals, and at least -1.
    """

    bonus_scale: float = 1.0
    unplayed: float = 10.0

    def __post_init__(self) -> None:
        self.bonus_scale = _validate.real("bonus_scale", self.bonus_scale, 0.0)
        self.unplayed = _validate.real("unplayed", self.unplayed, 0.0)

    def start(self, system: HospitalSystem, rng: np.random.Generator) -> None:
        super().start(system, rng)
        shape = (len(system.names), int(system.arrivals.max()) + 1)
        self._means, self._plays, self._days = np.zeros(shape), np.zeros(shape, np.int64), 0
        self._unit = float(max(1, system.arrivals.max()))
        self._rows = np.arange(shape[0])

    def allocate(self, state: HospitalState) -> NDArray[np.int64]:
        self._days += 1
        bonus = self.bonus_scale * np.sqrt(1.5 * np.log(self._days) / np.maximum(1, self._plays))
        # A random order of the hospitals breaks ties among unplayed arms differently for each seed.
        order = self._rng.permutation(len(self._rows))
        index = np.where(self._plays > 0, np.minimum(self._means + bonus, self.unplayed), self.unplayed)
        amounts = np.empty(len(order), np.int64)
        amounts[order] = allocate(np.ascontiguousarray(index[order, : state.patients + 1]), state.patients)
        return amounts

    def _credit(self, overflow: NDArray[np.float64]) -> NDArray[np.float64]:
        """The reward of the arm that was played in each hospital."""
        return -overflow

    def observe(self, outcome: Outcome) -> None:
        place = (self._rows, outcome.admitted)
        reward = np.maximum(-1.0, self._credit(outcome.overflow) / self._unit)
        self._plays[place] += 1
        self._means[place] += (reward - self._means[place]) / self._plays[place]


@dataclass(kw_only=True)
class UCBRA(CUCBRA):
    """UCB_RA: the same with bandit feedback only: every arm that was played is credited the mean over all hospitals.

    The paper names this baseline and does not define it; the cited work has semi-bandit feedback only.
    """

    def _credit(self, overflow: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(overflow), -overflow.mean())


POLICIES: dict[str, type[AllocationPolicy]] = {
    kind.__name__: kind
    for kind in (CUCBRA, UCBRA, RandomAllocation, ProportionalToFreeBeds, GreedyByFreeBeds, ClairvoyantDaily)
}


def run_policy(
    policy: AllocationPolicy, system: HospitalSystem, *, seed: int = 0, best: NDArray[np.float64] | None = None
) -> Run:
    """All days with one policy; regret of a day is the clairvoyant's reward on its own path minus the policy's on its.

    The clairvoyant is optimal for each day, not for all days together, so regret can be negative. `best` are its
    rewards (`clairvoyant_rewards(system)`), if they are known already.
    """
    began = time.perf_counter()
    policy.start(system, np.random.default_rng(_validate.integer("seed", seed, 0)))
    simulation = Simulation(system)
    rewards = np.zeros(system.days)
    while not simulation.over:
        outcome = simulation.step(policy.allocate(simulation.state))
        rewards[simulation.day - 1] = outcome.reward
        policy.observe(outcome)
    return Run(
        returns=rewards,
        gaps=(clairvoyant_rewards(system) if best is None else best) - rewards,
        likelihood=np.ones(system.days),
        lengths=np.ones(system.days, np.int64),
        ends=np.arange(1, system.days + 1),
        seconds=time.perf_counter() - began,
        seed=seed,
        agent=policy.name,
        parameters=asdict(policy),
        problem={"problem": "HospitalAllocation", **described(system)},
        unit="steps",
        change_at=() if not system.change_day else (system.change_day,),
        regret_form="realized",
        versions=versions(),
    )
