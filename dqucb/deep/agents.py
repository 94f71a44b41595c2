"""`DQN`, `DQNUCB`, `DeepDQUCB` and `RandomPolicy`: one agent with different bonuses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.profiles import KERNELS
from dqucb.base import AGENTS
from dqucb.deep.adaptation import ModelAdaptation, NoAdaptation
from dqucb.deep.base import DeepAgent
from dqucb.deep.bonus import CountBonus, DensityBonus, NoBonus
from dqucb.deep.own_network import refuses_old_names
from dqucb.density import DENSITIES, TransitionDensity
from dqucb.density.base import checked_bandwidth
from dqucb.drift.continuous import LEARNING_BURN_IN, ContinuousDriftDetector

if TYPE_CHECKING:
    from dqucb.deep.head import Head
    from dqucb.running.observations import Observations

REMEMBERED = 1_000  # transitions since a change that the current dynamics are fitted to
# Parameters of deep agents for runs of about a thousand days; the defaults are for many thousands of steps.
DAILY: dict[str, Any] = {
    "hidden": (32, 32),
    "discount": 0.9,
    "n_steps": 1,
    "batch_size": 16,
    "train_every": 1,
    "learning_starts": 30,
    "epsilon": 0.005,
    "epsilon_steps": 50,
    "tau": 0.05,
    "huber_delta": 1.0,
    "max_grad_norm": 1e9,  # no clipping: errors are hundreds of patients
    "act_on": "online",
    "buffer_size": 2_000,
    "freeze_after": 200,
}
# The same where Q starts from known dynamics (`HospitalAllocationEnv(known=True)`): no random actions, smaller steps.
DAILY_KNOWN: dict[str, Any] = DAILY | {
    "discount": 0.7,
    "learning_rate": 1e-4,
    "learning_starts": 16,
    "epsilon": 0.0,
    "epsilon_steps": 0,
}


@AGENTS.register("dqn")
@refuses_old_names
@dataclass(kw_only=True, eq=False, repr=False)
class DQN(DeepAgent):
    """Double Q-learning with epsilon-greedy exploration and no bonus.

    Parameters
    ----------
    **parameters
        As in `DeepAgent`.

    Examples
    --------
    >>> from dqucb.deep import DQN
    >>> agent = DQN(hidden=(16,), learning_starts=50)
    >>> runs = agent.train_seeds("cartpole", seeds=[0, 1], episodes=4)
    >>> [len(run) for run in runs], agent.predict([0.0, 0.0, 0.1, 0.0], trained_seed=1) in (0, 1)
    ([4, 4], True)
    """


@AGENTS.register("dqn-ucb")
@refuses_old_names
@dataclass(kw_only=True, eq=False, repr=False)
class DQNUCB(DeepAgent):
    """The bonus bonus_scale / sqrt(n) on the reward, n the visits of the state's SimHash cell with that action.

    Parameters
    ----------
    bonus_scale : float
        The factor of the bonus.
    hash_bits : int
        Bits of the SimHash of a state.
    table_bits : int
        log2 of the number of counters of each seed, which bounds the memory.
    **parameters
        As in `DeepAgent`.

    Examples
    --------
    >>> from dqucb.deep import DQNUCB
    >>> DQNUCB(hidden=(16,), bonus_scale=0.3).train("cartpole", steps=60).steps
    60
    """

    bonus_scale: float = 0.1
    hash_bits: int = 32
    table_bits: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bonus_scale = _validate.real("bonus_scale", self.bonus_scale, 0.0)
        self.hash_bits = _validate.integer("hash_bits", self.hash_bits, 1, 64)
        self.table_bits = _validate.integer("table_bits", self.table_bits, 1, 30)

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> NoBonus:
        return CountBonus(generators, dimension, head.n_choices, scale=self.bonus_scale, bits=self.hash_bits,
                          table_bits=self.table_bits)  # fmt: skip


@AGENTS.register("deep-dqucb")
@refuses_old_names
@dataclass(kw_only=True, eq=False, repr=False)
class DeepDQUCB(DQNUCB):
    """The bonus of `DQNUCB` divided by the likelihood of the transition under the last `window` ones.

    Parameters
    ----------
    variant : str
        "paper": the bonus only, as published. "adaptive": each seed also has a drift detector; after its alarm a delay
        of actions is undone, or old transitions are replaced by simulated ones of the current dynamics, or forgotten
        (adaptation.py). Images need "paper".
    burn_in : int
        Steps before the first possible alarm of the adaptive variant, and again after each alarm. It should cover the
        time in which the agent learns fast, because a detector may mistake learning for a change of the environment.
    window, kernel : int, str
        Of the sliding density over (s, a, s'), one per seed.
    bandwidth : float, optional
        In units of each coordinate's standard deviation; by default that of the head, if it has one, else Scott's rule.
    likelihood_floor : float
        Lower bound on the divisor of the bonus. `Run.likelihood` is not bounded.
    density_on : str
        The variable besides (s, a): "change", s' - s in units of its own standard deviation, or "next_state", s' in
        units of the states' standard deviation. Both carry the same information; on CartPole the likelihood falls from
        0.97 to 0.41 at the shift with the first (standard deviation between episodes 0.02), and from 0.49 to 0.40
        (0.06) with the second.
    density : str, mapping or TransitionDensity
        A density of vectors: its registered name, a mapping with its "name" and parameters, or an object, of which each
        seed gets an empty copy. `window`, `kernel` and `bandwidth` are its defaults.
    value_bound : float, "observed" or None
        As in `DeepAgent`. Optimism is clipped to what rewards allow, as in the tabular algorithm, also where the env
        does not state its largest reward.
    **parameters
        As in `DQNUCB` and `DeepAgent`.

    Examples
    --------
    >>> from dqucb.deep import DeepDQUCB
    >>> run = DeepDQUCB(hidden=(16,), window=50).train("cartpole", episodes=5)
    >>> bool((run.likelihood < 1).any())
    True
    """

    variant: str = "adaptive"
    burn_in: int = LEARNING_BURN_IN
    window: int = 100
    kernel: str = "gaussian"
    bandwidth: float | None = None
    likelihood_floor: float = 0.1
    density_on: str = "change"
    density: Any = "kde"
    value_bound: float | str | None = "observed"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.one_of("variant", self.variant, ["adaptive", "paper"])
        self.burn_in = _validate.integer("burn_in", self.burn_in, 100)
        self.window = _validate.integer("window", self.window)
        _validate.one_of("kernel", self.kernel, KERNELS)
        self.bandwidth = None if self.bandwidth is None else checked_bandwidth(self.bandwidth)
        self.likelihood_floor = _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0, open_left=True)
        _validate.one_of("density_on", self.density_on, ["next_state", "change"])
        _check_density(self.density)

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: "Head") -> NoBonus:
        bandwidth = self.bandwidth
        if bandwidth is None and self.density_on == "change":
            bandwidth = head.change_bandwidth
        return DensityBonus(generators, dimension, head.n_choices, head.action_dim, scale=self.bonus_scale,
                            bits=self.hash_bits, table_bits=self.table_bits, window=self.window, kernel=self.kernel,
                            bandwidth=bandwidth, floor=self.likelihood_floor, on=self.density_on,
                            freeze_after=self.freeze_after, density=self.density)  # fmt: skip

    def _new_adaptation(self, n: int, observations: "Observations", head: "Head") -> NoAdaptation:
        if self.variant == "paper":
            return NoAdaptation()
        own = head.adaptation(n)
        if own is not None:
            return own
        if observations.is_image:
            raise ValueError(
                f"variant must be 'paper' for images of shape {observations.space.shape}, got {self.variant!r}: the "
                "adaptive one fits a regression of s' - s on s"
            )
        detector = ContinuousDriftDetector(burn_in=self.burn_in)
        return ModelAdaptation(n, observations.dimension, head, REMEMBERED, detector)


def _check_density(density: Any) -> None:
    """Raise a ValueError for an unknown density; its sizes are known only when training starts."""
    if isinstance(density, Mapping):
        density = density.get("name")
    if isinstance(density, str):
        name = _validate.known("density", density, DENSITIES)
        if DENSITIES.facts(name).get("states", "vectors") != "vectors":
            raise ValueError(f"density must be one of vectors, got {density!r}, which is for finite problems")
    if not isinstance(density, str | TransitionDensity):
        raise ValueError(f"density must be a registered name or a transition density, got {density!r}")


@AGENTS.register("random-policy")
@refuses_old_names
@dataclass(kw_only=True, eq=False, repr=False)
class RandomPolicy(DeepAgent):
    """Uniformly random actions and no learning, as a baseline.

    Parameters
    ----------
    **parameters
        As in `DeepAgent`.

    Examples
    --------
    >>> from dqucb.deep import RandomPolicy
    >>> bool(RandomPolicy().train("cartpole", episodes=20).returns.mean() < 50)
    True
    """

    epsilon: float = 1.0
    epsilon_steps: int = 0
    learning_starts: int = 1 << 62
    buffer_size: int = 1
