"""The exploration bonus, which distinguishes the deep agents.

A bonus is added to the reward of each transition in an update. With n the number of visits so far of the transition's
cell (SimHash of the standardised state, and the action) and p the likelihood of the transition when it was observed:

    none     0
    count    scale / sqrt(n)            averaged over the choices of an action that has several
    density  scale / sqrt(n) / max(p, floor)

n is read at the update and not when the transition was observed, so that early optimism fades.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.deep.scaling import RunningScale
from dqucb.deep.simhash import SimHashCounts
from dqucb.density import TransitionDensity, make_density


def scott_bandwidth(window: int, dimension: int) -> float:
    """Return the bandwidth n^(-1/(d+4)) of Scott's rule, in units of each coordinate's standard deviation (1992)."""
    return float(window ** (-1.0 / (dimension + 4)))


class NoBonus:
    """No bonus; every transition has likelihood 1.

    Parameters
    ----------
    n : int
        Seeds.
    n_choices : int
        Choices in an action.
    """

    def __init__(self, n: int, n_choices: int) -> None:
        self._cells = np.zeros((n, n_choices), np.int64)
        self._ones = np.ones(n)

    def observe(
        self,
        rows: NDArray[np.int64],
        states: NDArray[np.float64],
        next_states: NDArray[np.float64],
        choices: NDArray[np.int64],
        coordinates: NDArray[np.float64],
        change: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Process one standardised transition per seed.

        Parameters
        ----------
        rows : array of int
            The seeds that have not finished.
        states, next_states : array
            (seeds, dimension).
        choices : array of int
            Choices of the actions, (seeds, k).
        coordinates : array
            Actions as points for a density, (seeds, action_dim).
        change : array, optional
            Replaces s' - s, if the head defines it.

        Returns
        -------
        cells : array of int
            (seeds, k).
        likelihood : array
            (seeds,), under the window before this transition.
        """
        return self._cells, self._ones

    def cells_of(self, i: int, states: NDArray[np.float64], choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of seed i for standardised states and choices, (rows, ...), without counting them."""
        return np.zeros_like(choices)

    def at(self, cells: NDArray[np.int64], likelihood: NDArray[np.floating],
           i: int | None = None) -> NDArray[np.float64]:  # fmt: skip
        """Return the bonus for cells (seeds, batch, k) and likelihoods (seeds, batch), or for seed i only."""
        return np.zeros(cells.shape[:-1])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays from which `restore` restores the object."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore `state()`, bit-identically."""


class CountBonus(NoBonus):
    """The bonus scale / sqrt(n) with SimHash counts.

    Parameters
    ----------
    generators : sequence of numpy.random.Generator
        One per seed, for its hash.
    dimension, n_choices : int
        Numbers in a state, and choices in an action.
    scale : float
        The factor of the bonus.
    bits, table_bits : int
        As in `SimHashCounts`.
    """

    def __init__(self, generators: Sequence[np.random.Generator], dimension: int, n_choices: int, *,
                 scale: float, bits: int, table_bits: int) -> None:  # fmt: skip
        super().__init__(len(generators), n_choices)
        self.scale = scale
        self.hash = SimHashCounts(generators, dimension, bits, table_bits)

    def observe(self, rows, states, next_states, choices, coordinates, change=None):
        cells = self.hash.cells(states, choices)
        self.hash.add(cells)
        return cells, self._ones

    def cells_of(self, i: int, states: NDArray[np.float64], choices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.hash.cells_of(i, states, choices)

    def at(self, cells: NDArray[np.int64], likelihood: NDArray[np.floating],
           i: int | None = None) -> NDArray[np.float64]:  # fmt: skip
        visits = np.maximum(1, self.hash.of(cells, i))
        return self.scale * (1.0 / np.sqrt(visits)).mean(-1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"counts": self.hash.counts}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.hash.counts[...] = state["counts"]


class DensityBonus(CountBonus):
    """The bonus scale / sqrt(n) / max(p, floor), p the likelihood of the transition under a sliding window per seed.

    Parameters
    ----------
    generators, dimension, n_choices, scale, bits, table_bits
        As in `CountBonus`.
    action_dim : int
        Coordinates of an action in the density.
    window, kernel, bandwidth : int, str, float or None
        Defaults of the density; None: Scott's rule.
    floor : float
        Lower bound on p.
    on : str
        The variable besides (s, a): "next_state", the standardised s', or "change", s' - s in units of its own standard
        deviation over the first `freeze_after` steps: the same information in a metric that shows small noise.
    freeze_after : int
        Steps.
    density : str, mapping or TransitionDensity
        As in `DeepDQUCB`.
    """

    def __init__(self, generators: Sequence[np.random.Generator], dimension: int, n_choices: int, action_dim: int, *,
                 scale: float, bits: int, table_bits: int, window: int, kernel: str, bandwidth: float | None,
                 floor: float, on: str, freeze_after: int,
                 density: str | Mapping[str, Any] | TransitionDensity = "kde") -> None:  # fmt: skip
        super().__init__(generators, dimension, n_choices, scale=scale, bits=bits, table_bits=table_bits)
        self.floor = floor
        self.bandwidth = scott_bandwidth(window, 2 * dimension + action_dim) if bandwidth is None else bandwidth
        defaults = {"window": window, "kernel": kernel, "bandwidth": self.bandwidth}
        self.densities = [
            make_density(density, state_dim=dimension, action_dim=action_dim, defaults=defaults) for _ in generators
        ]
        self.changes = RunningScale(len(generators), dimension, freeze_after) if on == "change" else None

    def observe(self, rows, states, next_states, choices, coordinates, change=None):
        cells, _ = super().observe(rows, states, next_states, choices, coordinates)
        if self.changes is not None and change is not None:
            next_states = change
        elif self.changes is not None:
            change = next_states - states
            self.changes.update(change)
            next_states = change / self.changes.deviation
        likelihood = np.ones(len(states))
        for i in rows:
            density = self.densities[i]
            p = density.likelihood(states[i], coordinates[i], next_states[i])
            likelihood[i] = _validate.real("the likelihood that density gives", p, 0.0)
            density.push(states[i], coordinates[i], next_states[i])
        return cells, likelihood

    def at(self, cells: NDArray[np.int64], likelihood: NDArray[np.floating],
           i: int | None = None) -> NDArray[np.float64]:  # fmt: skip
        return super().at(cells, likelihood, i) / np.maximum(likelihood, self.floor)

    def state(self) -> dict[str, NDArray[Any]]:
        saved = super().state()
        for i, density in enumerate(self.densities):
            saved |= {f"density.{i}.{name}": array for name, array in density.state().items()}
        if self.changes is not None:
            saved |= {f"changes.{name}": array for name, array in self.changes.state().items()}
            saved["changes.count"] = np.array(self.changes.count)
        return saved

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        super().restore(state)
        for i, density in enumerate(self.densities):
            prefix = f"density.{i}."
            density.restore({name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)})
        if self.changes is not None:
            arrays = {name: state[f"changes.{name}"] for name in ("mean", "squares")}
            self.changes.restore(arrays, int(state["changes.count"]))
