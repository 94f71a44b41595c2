"""`DQN`, `DQNUCB`, `DeepDQUCB` and `RandomPolicy`: one agent with different bonuses."""

from dataclasses import dataclass

import numpy as np

from dqucb import _validate
from dqucb._kernels.profiles import KERNELS
from dqucb.deep.base import DeepAgent
from dqucb.deep.bonus import CountBonus, DensityBonus, NoBonus
from dqucb.deep.head import Head, HeadWithChange
from dqucb.density.base import checked_bandwidth


@dataclass(kw_only=True, eq=False, repr=False)
class DQN(DeepAgent):
    """No bonus: explores by epsilon-greedy actions alone."""


@dataclass(kw_only=True, eq=False, repr=False)
class DQNUCB(DeepAgent):
    """The bonus bonus_scale / sqrt(n) on the reward, n the visits of the state's SimHash cell with that action.

    Parameters
    ----------
    bonus_scale : beta.
    hash_bits, table_bits : the sign pattern's length, and log2 of the counters of each seed (its bound on memory).
    """

    bonus_scale: float = 0.1
    hash_bits: int = 32
    table_bits: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bonus_scale = _validate.real("bonus_scale", self.bonus_scale, 0.0)
        self.hash_bits = _validate.integer("hash_bits", self.hash_bits, 1, 64)
        self.table_bits = _validate.integer("table_bits", self.table_bits, 1, 30)

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: Head) -> NoBonus:
        return CountBonus(generators, dimension, head.n_slots, scale=self.bonus_scale, bits=self.hash_bits,
                          table_bits=self.table_bits)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class DeepDQUCB(DQNUCB):
    """The bonus of `DQNUCB` divided by the likelihood of the transition under the last `window` ones.

    Parameters
    ----------
    window, kernel : of the sliding density over (s', s, a), one per seed.
    bandwidth : in units of each coordinate's spread; None: the head's, if it has one, else Scott's rule.
    likelihood_floor : the smallest number by which the bonus is divided. `Run.likelihood` is not floored.
    density_on : over what besides (s, a): "change", s' - s in units of its own spread, or "next_state", s' in units of
        the states' spread. Both hold the same information; on CartPole the first falls from 0.97 to 0.41 at the shift
        (spread between episodes 0.02), the second from 0.49 to 0.40 (0.06).
    """

    window: int = 100
    kernel: str = "gaussian"
    bandwidth: float | None = None
    likelihood_floor: float = 0.1
    density_on: str = "change"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.window = _validate.integer("window", self.window)
        _validate.one_of("kernel", self.kernel, KERNELS)
        self.bandwidth = None if self.bandwidth is None else checked_bandwidth(self.bandwidth)
        self.likelihood_floor = _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0, open_left=True)
        _validate.one_of("density_on", self.density_on, ["next_state", "change"])

    def _new_bonus(self, generators: list[np.random.Generator], dimension: int, head: Head) -> NoBonus:
        bandwidth = self.bandwidth
        if bandwidth is None and self.density_on == "change" and isinstance(head, HeadWithChange):
            bandwidth = head.bandwidth
        return DensityBonus(generators, dimension, head.n_slots, head.action_dim, scale=self.bonus_scale,
                            bits=self.hash_bits, table_bits=self.table_bits, window=self.window, kernel=self.kernel,
                            bandwidth=bandwidth, floor=self.likelihood_floor, on=self.density_on,
                            freeze_after=self.freeze_after)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class RandomPolicy(DeepAgent):
    """Uniformly random actions, nothing learned: the floor that any agent must beat."""

    epsilon: float = 1.0
    epsilon_steps: int = 0
    learning_starts: int = 1 << 62
    capacity: int = 1


DEEP_AGENTS: dict[str, type[DeepAgent]] = {kind.__name__: kind for kind in (DQN, DQNUCB, DeepDQUCB, RandomPolicy)}
