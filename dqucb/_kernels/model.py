"""A finite decision problem as flat arrays, the form in which every compiled loop receives it.

Transitions are stored by successor (CSR): the entries of `row` are `row_start[row] : row_start[row + 1]`. Their
probabilities and rewards begin at `outcome_start[row]`; rows with the same distribution of outcomes share one copy, of
which a grid with a million states has about twenty. All phases of a shifting problem are concatenated in one `Model`.
The entries of a row are sorted by decreasing probability, so that the scan in `draw` mostly stops at the first one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels._jit import kernel


class Model(NamedTuple):
    """Arrays of all phases: row = phase * phase_stride + step * step_stride + state * n_actions + action."""

    row_start: NDArray[np.int64]  # (rows + 1,)
    outcome_start: NDArray[np.int64]  # (rows,) where the distribution of outcomes of each row begins
    successor: NDArray[np.int32]  # (entries,)
    probability: NDArray[np.float64]  # (outcomes,)
    cumulative: NDArray[np.float64]  # (outcomes,) within the distribution; the last one of each is exactly 1.0
    reward: NDArray[np.float64]  # (outcomes,) reward of that transition
    terminal: NDArray[np.bool_]  # (n_states,)
    initial_state: NDArray[np.int64]  # (phases,), -1 where the start is random
    initial_cumulative: NDArray[np.float64]  # (phases, n_states); the last one of each row is exactly 1.0
    n_states: int
    n_actions: int
    step_stride: int  # 0, or n_states * n_actions when transitions depend on the step
    phase_stride: int  # rows of one phase

    def written_out(self) -> "Model":
        """The same model with one distribution per row, at the offsets of its successors."""
        shift = np.repeat(self.outcome_start - self.row_start[:-1], np.diff(self.row_start))
        entry = np.arange(self.successor.size) + shift
        return self._replace(
            outcome_start=self.row_start[:-1],
            probability=self.probability[entry],
            cumulative=self.cumulative[entry],
            reward=self.reward[entry],
        )


@kernel
def row_of(model: Model, phase: int, step: int, state: int, action: int) -> Any:
    """The CSR row of (phase, step, state, action)."""
    return phase * model.phase_stride + step * model.step_stride + state * model.n_actions + action


@kernel
def draw(model: Model, row: int, uniform: float) -> Any:
    """(next state, reward) drawn from `row` by inversion: the first entry with `uniform < cumulative`.

    A hand-written scan: rows are short, and np.searchsorted takes 1.5 s longer to compile. Indices are unsigned: a
    signed one costs a test for negative values on each access (2 of 10 ns a step), and Numba makes unsigned plus
    signed a float.
    """
    here = np.uint64(row)
    offset = np.uint64(model.outcome_start[here])
    place = np.uint64(0)
    while uniform >= model.cumulative[offset + place]:  # ends: uniform < 1 and the last cumulative is 1
        place += np.uint64(1)
    return int(model.successor[np.uint64(model.row_start[here]) + place]), model.reward[offset + place]


@kernel
def draw_initial(model: Model, phase: int, rng: np.random.Generator) -> Any:
    """The first state of an episode; takes one uniform from `rng`, and only when the start is random."""
    state = model.initial_state[phase]
    if state < 0:
        uniform = rng.random()
        state = 0
        while uniform >= model.initial_cumulative[phase, state]:
            state += 1
    return state


@kernel
def transition_probability(model: Model, row: int, next_state: int) -> Any:
    """P(next_state | row): the sum over its entries, of which there are several if rewards differ."""
    total = 0.0
    offset = model.outcome_start[row] - model.row_start[row]
    for entry in range(model.row_start[row], model.row_start[row + 1]):
        if model.successor[entry] == next_state:
            total += model.probability[offset + entry]
    return total


@kernel
def most_successors(model: Model, rows_apart: int, seen_from: NDArray[np.int64]) -> Any:
    """The most distinct successors that one row has; rows so far apart count as one. Overwrites `seen_from` (S,)."""
    seen_from[:] = -1
    n_rows = model.row_start.shape[0] - 1
    most = 0
    for first in range(rows_apart):
        found = 0
        for row in range(first, n_rows, rows_apart):
            for entry in range(np.uint64(model.row_start[row]), np.uint64(model.row_start[row + 1])):
                successor = np.uint64(model.successor[entry])
                if seen_from[successor] != first:
                    seen_from[successor] = first
                    found += 1
        most = max(most, found)
    return most
