"""`dqucb/HospitalAllocation-v0`: allocate arriving COVID-19 patients to hospitals each day with the least overflow.

Observation (y_1..y_K, d_1..d_K, N): COVID-19 patients and others in each hospital this morning, and today's arrivals.
An action is K integers that sum to N, as samples of the action space do. The reward is minus the total overflow of the
next morning; an episode is all days of the data. `info` holds the day, its date, overflow, the
clairvoyant's reward of that day on its own path, and the source of the data; after a reset, a description of it.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate as check
from dqucb.hospital.loading import load_hospitals
from dqucb.hospital.simulation import Simulation, by_largest_remainders, clairvoyant_rewards, described
from dqucb.hospital.synthetic import synthetic_hospitals
from dqucb.hospital.system import CHANGE_AT, HospitalSystem


class AllocationSpace(gymnasium.spaces.MultiDiscrete):
    """K integers in 0..largest whose samples sum to `patients`, which the env sets every morning.

    Parameters
    ----------
    hospitals, largest, patients : int
        K, the upper bound, and the sum of a sample.
    exact : bool
        Whether only vectors with that sum belong to the space.
    """

    def __init__(self, hospitals: int, largest: int, patients: int, exact: bool) -> None:
        self.patients, self.exact = patients, exact
        super().__init__(np.full(hospitals, largest + 1))

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[np.int64]:
        """Assign each patient to a hospital uniformly at random."""
        return self.np_random.multinomial(self.patients, np.full(self.shape[0], 1 / self.shape[0]))

    def contains(self, x: Any) -> bool:
        return super().contains(x) and (not self.exact or int(np.sum(x)) == self.patients)

    def __repr__(self) -> str:
        return f"AllocationSpace({self.shape[0]} hospitals, {self.patients} patients)"


class HospitalAllocationEnv(gymnasium.Env[NDArray[np.float32], NDArray[Any]]):
    """Allocation of patients in synthetic hospitals, in the published data, or in a given system.

    Parameters
    ----------
    system : HospitalSystem, optional
        The hospitals; by default they are built from the next seven arguments.
    hospitals, change_at, beta_after, system_seed : int, sequence of int, str or array, int
        Arguments of `synthetic_hospitals`, or with `data` of `load_hospitals`.
    data, state, state_daily : path, str, path
        The published files.
    arrivals : str
        "data", the same in every run; or "poisson", drawn around them at each seeded reset.
    project : bool
        What to do with K numbers >= 0 that do not sum to N. True: patients are allocated in proportion to them by
        largest remainders (ties to the first hospital; equally if all are zero). False: a ValueError. Allocations that
        sum to N are used as they are, and anything else is an error in both cases.
    known : bool
        Whether deep agents start from the overflow expected under the prior dynamics, and learn the difference.
    render_mode : str, optional
        "ansi" for a line of text.

    Notes
    -----
    `reset(options={"start_day": 100})` starts on a later day, with the COVID-19 patients of the first day.
    Version history: v0, the first.

    Examples
    --------
    >>> env = HospitalAllocationEnv(hospitals=3)
    >>> observation, info = env.reset(seed=0)
    >>> _, reward, _, _, info = env.step([1, 1, 1])  # in equal proportions
    >>> int(info["allocation"].sum()) == int(observation[-1])
    True
    """

    restarts_with_seed = True  # an env object may have several runs
    # Gymnasium declares it as an instance variable.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    unit = "steps"  # what `change_at` counts: days
    info_has_gap = True  # info["gap"]: the regret of the day

    def __init__(
        self,
        system: HospitalSystem | None = None,
        *,
        hospitals: int = 40,
        change_at: Sequence[int] = CHANGE_AT,
        beta_after: str | ArrayLike = "random",
        system_seed: int = 0,
        data: str | None = None,
        state: str = "TX",
        state_daily: str | None = None,
        arrivals: str = "data",
        project: bool = True,
        known: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            check.one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        if system is None and data is None:
            system = synthetic_hospitals(hospitals, change_at=tuple(change_at), beta_after=beta_after, seed=system_seed)
        elif system is None:
            system, _ = load_hospitals(str(data), state=state, hospitals=hospitals, state_daily=state_daily,
                                       change_at=tuple(change_at), beta_after=beta_after, seed=system_seed)  # fmt: skip
        if not isinstance(system, HospitalSystem):
            raise ValueError(f"system must be a HospitalSystem, got {system!r}; a number of them is hospitals=")
        self.system = system
        self.arrivals = check.one_of("arrivals", arrivals, ["data", "poisson"])
        self.project = check.flag("project", project)
        self.known = check.flag("known", known)
        k = len(system.names)
        # Poisson draws may exceed the largest day of the data; more than eight standard deviations do not occur.
        top = int(system.arrivals.max())
        self.largest = top if arrivals == "data" else int(top + 8 * top**0.5 + 10)
        everyone = system.initial.sum() + self.largest * float(system.days)  # upper bound for one hospital
        high = np.concatenate([np.full(k, everyone), system.non_covid.max(0), [self.largest]]) + 1.0
        self.observation_space = gymnasium.spaces.Box(0.0, high.astype(np.float32), dtype=np.float32)
        self._space = AllocationSpace(k, self.largest, int(system.arrivals[0]), exact=not project)
        self.action_space = self._space
        self._data = described(system)
        self._best: dict[int, NDArray[np.float64]] = {}  # the clairvoyant's rewards by start day
        self._simulation: Simulation | None = None
        self._start = 0

    @property
    def change_at(self) -> tuple[int, ...]:
        """The days on which the dynamics change."""
        return self.system.change_at

    @property
    def day(self) -> int:
        """The current day, counted from 0."""
        return 0 if self._simulation is None else self._simulation.day

    @property
    def deep_head(self) -> dict[str, Any]:
        """How deep agents read allocations out of a network: the name of the head, and its settings."""
        settings = {"capacity": self.system.capacity.tolist(), "largest": self.largest, "known": self.known}
        return {"kind": "allocation", "settings": settings}

    def describe(self) -> dict[str, Any]:
        """The data used, as JSON values."""
        return {**self._data, "arrivals": self.arrivals, "project": self.project, "known": self.known}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode on the first day, or on `options["start_day"]`."""
        super().reset(seed=seed)
        chosen = dict(options or {})
        self._start = check.integer("start_day", chosen.pop("start_day", 0), 0, self.system.days - 1)
        if chosen:
            raise ValueError(f"options must hold start_day or nothing, got {sorted(chosen)}")
        drawn = self.system.arrivals
        if self.arrivals == "poisson":
            drawn = np.minimum(self.np_random.poisson(self.system.arrivals), self.largest).astype(np.int64)
            self._best.clear()
        self._simulation = Simulation(self.system, drawn, self._start)
        return self._observed(), {**self._info(), "data": deepcopy(self._data)}

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Allocate today's patients; an invalid allocation is a ValueError."""
        simulation = self._simulation
        if simulation is None or simulation.over:
            raise ResetNeeded("the days are over or have not begun: call reset() first")
        if self.project:
            action = projected(action, simulation.state.patients, len(self.system.names))
        day = simulation.day
        outcome = simulation.step(action)
        best = self._best_rewards()[day]
        info = {
            **self._info(),
            "allocation": outcome.admitted,
            "overflow": outcome.overflow,
            "rewards": -outcome.overflow,
            "discharged": outcome.discharged,
            "best_reward": float(best),
            "gap": float(best) - outcome.reward,
        }
        return self._observed(), outcome.reward, False, simulation.over, info

    def _best_rewards(self) -> NDArray[np.float64]:
        if self._start not in self._best:
            assert self._simulation is not None
            self._best[self._start] = clairvoyant_rewards(self.system, self._simulation.arrivals, self._start)
        return self._best[self._start]

    def _observed(self) -> NDArray[np.float32]:
        assert self._simulation is not None
        state = self._simulation.state
        self._space.patients = state.patients
        return np.concatenate([state.covid, state.non_covid, [state.patients]]).astype(np.float32)

    def _info(self) -> dict[str, Any]:
        assert self._simulation is not None
        day = self._simulation.day
        return {
            "day": day,
            "date": self.system.date_of(day),
            "phase": self.system.phase_at(day),
            "source": self._data.get("source", ""),
        }

    def render(self) -> Any:
        """The morning as a line of text; None without a mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode: make the env with render_mode='ansi'")
            return None
        if self._simulation is None:
            raise ResetNeeded("nothing to show yet: call reset() first")
        state = self._simulation.state
        free = np.maximum(0.0, self.system.capacity - state.covid - state.non_covid).sum()
        return (
            f"{self.system.date_of(self._simulation.day)}  {state.patients} patients arrive  "
            f"{state.covid.sum():.0f} COVID-19 and {state.non_covid.sum():.0f} other patients  {free:.0f} beds free\n"
        )

    def checkpoint_state(self) -> dict[str, Any]:
        """The state needed to resume a run."""
        if self._simulation is None:
            raise ResetNeeded("nothing to save yet: call reset() first")
        return {
            "day": self._simulation.day,
            "start": self._start,
            "covid": self._simulation.covid.copy(),
            "arrivals_drawn": self._simulation.arrivals.copy(),
            "generator": self.np_random.bit_generator.state,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Resume exactly from `checkpoint_state()` of an env with the same settings."""
        self._start = int(state["start"])
        self._simulation = Simulation(self.system, np.array(state["arrivals_drawn"], np.int64), self._start)
        self._simulation.day = int(state["day"])
        self._simulation.covid = np.array(state["covid"], np.float64)
        self._best.clear()
        self.np_random.bit_generator.state = state["generator"]
        self._observed()

    def __repr__(self) -> str:
        return f"HospitalAllocationEnv({self.system!r}, arrivals={self.arrivals!r}, project={self.project})"


def projected(action: ArrayLike, patients: int, hospitals: int) -> NDArray[Any]:
    """The weights themselves if they are an allocation, else whole patients in proportion to them."""
    weights = check.vector("action", action, hospitals)
    if (weights < 0).any():
        raise ValueError(f"action must be {hospitals} numbers >= 0, got {weights.tolist()}")
    if weights.sum() == patients and (weights == np.floor(weights)).all():
        return weights
    return by_largest_remainders(weights, patients)
