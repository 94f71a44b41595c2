"""Convert dense arrays, CSR matrices and Gymnasium tables to the sparse entries of one phase.

Every form becomes a flat list of entries (row, successor, probability, reward), row = (h * S + s) * A + a,
which `_rows` checks, merges and sorts. Matrices are recognised by their attributes: SciPy is not imported.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check


class Entries(NamedTuple):
    """Transitions in any order, of all rows or of some; `steps` is 1, or the horizon when they depend on the step."""

    row: NDArray[np.int64]
    successor: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    n_states: int
    n_actions: int
    steps: int = 1
    part: range | None = None  # the rows that the entries cover; None means all

    @property
    def rows(self) -> range:
        """The rows that the entries cover."""
        return range(self.steps * self.n_states * self.n_actions) if self.part is None else self.part

    def check(self) -> None:
        """Raise a ValueError if a successor is not a state or a probability is negative."""
        out = np.flatnonzero((self.successor < 0) | (self.successor >= self.n_states))
        if out.size:
            raise ValueError(
                f"{self.where(int(self.row[out[0]]))} leads to state {self.successor[out[0]]}, "
                f"allowed are 0 to {self.n_states - 1}"
            )
        negative = np.flatnonzero(self.probability < 0.0)
        if negative.size:
            first = negative[0]
            raise ValueError(
                f"{self.where(int(self.row[first]))} has the probability {self.probability[first]:g} "
                f"for successor {self.successor[first]}: negative probabilities are not allowed"
            )

    def where(self, row: int) -> str:
        """The row in the user's terms."""
        state, action = divmod(row % (self.n_states * self.n_actions), self.n_actions)
        step = f"h={row // (self.n_states * self.n_actions)}, " if self.steps > 1 else ""
        return f"P[{step}s={state}, a={action}]"


def is_sparse(value: Any) -> bool:
    """Whether `value` looks like a compressed or convertible sparse matrix."""
    return hasattr(value, "tocsr") or all(hasattr(value, name) for name in ("indptr", "indices", "data"))


def from_arrays(P: Any, R: Any) -> Entries:
    """Entries of dense (S,A,S) or (H,S,A,S), of one (S*A,S) matrix, or of a list of such, one per step."""
    if is_sparse(P):
        entries = _from_matrices([P])
    elif isinstance(P, list | tuple) and len(P) and all(is_sparse(matrix) for matrix in P):
        entries = _from_matrices(list(P))
    else:
        entries = _from_dense(P)
    return _with_rewards(entries, R)


def _from_dense(P: Any) -> Entries:
    try:
        array = np.asarray(P, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "P must be an array (S,A,S) or (H,S,A,S), a sparse matrix (S*A,S), a list of such matrices, "
            f"or a table {{s: {{a: [(probability, next, reward, terminated), ...]}}}}, got {type(P).__name__}"
        ) from None
    if array.ndim not in (3, 4) or array.shape[-3] != array.shape[-1] or 0 in array.shape:
        raise ValueError(f"P must have shape (S,A,S) or (H,S,A,S), got {array.shape}")
    array = check.finite_array("P", array, array.ndim)
    n_states, n_actions = array.shape[-1], array.shape[-2]
    flat = array.reshape(-1, n_states)
    row, successor = np.nonzero(flat)
    steps = array.shape[0] if array.ndim == 4 else 1
    return Entries(row, successor, flat[row, successor], np.zeros(row.size), n_states, n_actions, steps)


def _from_matrices(matrices: list[Any]) -> Entries:
    rows: list[NDArray[np.int64]] = []
    successors: list[NDArray[np.int64]] = []
    probabilities: list[NDArray[np.float64]] = []
    shape = tuple(int(n) for n in matrices[0].shape)
    for step, given in enumerate(matrices):
        matrix = given.tocsr() if hasattr(given, "tocsr") else given
        if len(shape) != 2 or min(shape) < 1 or shape[0] % shape[1] or tuple(matrix.shape) != shape:
            raise ValueError(
                f"each sparse P must have the same shape (S*A, S), got {tuple(matrix.shape)} at step {step}"
            )
        offsets = np.asarray(matrix.indptr, dtype=np.int64)
        counts = offsets[1:] - offsets[:-1]
        rows.append(np.repeat(np.arange(shape[0], dtype=np.int64), counts) + step * shape[0])
        successors.append(np.asarray(matrix.indices, dtype=np.int64))
        probabilities.append(check.finite_array("P", matrix.data, 1))
    row, successor, probability = (
        np.concatenate(rows),
        np.concatenate(successors),
        np.concatenate(probabilities),
    )
    n_states, n_actions = shape[1], shape[0] // shape[1]
    return Entries(row, successor, probability, np.zeros(row.size), n_states, n_actions, len(matrices))


def _with_rewards(entries: Entries, R: Any) -> Entries:
    """Rewards (S,), (S,A), (S,A,S), or these behind a step axis; the reading without steps goes first."""
    if R is None:
        raise ValueError("R must be an array (S,), (S,A) or (S,A,S), or one of these with a leading H axis")
    try:
        reward = np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"R must be an array of numbers, got {type(R).__name__}") from None
    reward = check.finite_array("R", reward, reward.ndim)
    S, A = entries.n_states, entries.n_actions
    if reward.shape in ((S,), (S, A), (S, A, S)):
        stepwise = False
    elif reward.ndim > 1 and reward.shape[1:] in ((S,), (S, A), (S, A, S)) and reward.shape[0] > 0:
        stepwise = True
        if entries.steps not in (1, reward.shape[0]):
            raise ValueError(f"P has {entries.steps} steps and R has {reward.shape[0]}: they must agree")
        if entries.steps == 1:
            entries = repeat_steps(entries, reward.shape[0])
    else:
        raise ValueError(
            f"R must have shape ({S},), ({S}, {A}) or ({S}, {A}, {S}), or one of these with a leading H "
            f"axis, got {reward.shape}"
        )
    step, pair = np.divmod(entries.row, S * A)
    state, action = np.divmod(pair, A)
    index = ((step,) if stepwise else ()) + (state, action, entries.successor)
    return entries._replace(reward=reward[index[: reward.ndim]])


def repeat_steps(entries: Entries, steps: int) -> Entries:
    """The same transitions at each of `steps` steps."""
    size = entries.row.size
    offset = np.repeat(np.arange(steps, dtype=np.int64) * entries.n_states * entries.n_actions, size)
    return entries._replace(
        row=np.tile(entries.row, steps) + offset,
        successor=np.tile(entries.successor, steps),
        probability=np.tile(entries.probability, steps),
        reward=np.tile(entries.reward, steps),
        steps=steps,
    )


def from_table(
    table: Mapping[int, Mapping[int, Any]], initial: Callable[[int], NDArray[np.float64]]
) -> tuple[Entries, NDArray[np.bool_], bool]:
    """Entries, terminal states, and whether a state was added, of {s: {a: [(p, s', r, terminated), ...]}}.

    `initial` gives the start distribution for a number of states. A state becomes terminal when a terminated
    transition leads there from a reachable state. If it can also be entered without ending the episode, no set of
    terminal states describes the table: all terminated transitions then lead to one added absorbing state, the last
    id. Unreachable states, which Taxi's table contains, do not count: entering a terminal state from them ends the
    episode as well.
    """
    n_states = len(table)
    n_actions = len(table[0]) if 0 in table else 0
    rows: list[tuple[int, int, float, float, bool]] = []
    for state in range(n_states):
        actions = table.get(state, {})
        if n_actions < 1 or sorted(actions) != list(range(n_actions)):
            raise ValueError(
                f"the table P must hold states 0..S-1 with the same actions 0..A-1 each, got the actions "
                f"{sorted(actions)} at state {state}"
            )
        for action in range(n_actions):
            for probability, successor, reward, terminated in actions[action]:
                here = state * n_actions + action
                place = f"P[{state}][{action}]"
                rows.append(
                    (
                        here,
                        check.integer(f"each successor in {place}", successor, 0),
                        check.real(f"each probability in {place}", probability),
                        check.reward(f"each reward in {place}", reward),
                        bool(terminated),
                    )
                )
    columns: list[NDArray[Any]] = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 5
    row, successor = columns[0].astype(np.int64), columns[1].astype(np.int64)
    ends = columns[4].astype(np.bool_)
    probability = check.finite_array("P", columns[2], 1)
    reward = check.finite_array("the rewards of P", columns[3], 1)
    entries = Entries(row, successor, probability, reward, n_states, n_actions)
    entries.check()
    source = row // n_actions
    possible = probability > 0.0

    occurs = initial(n_states) > 0.0
    while True:
        live = possible & ~ends & occurs[source]
        grown = occurs.copy()
        grown[successor[live]] = True
        if np.array_equal(grown, occurs):
            break
        occurs = grown
    terminal = np.zeros(n_states, dtype=np.bool_)
    # The self-loop of a terminal state is flagged terminated as well, but no episode continues from there.
    terminal[successor[possible & ends & occurs[source]]] = True
    entered = np.zeros(n_states, dtype=np.bool_)
    entered[successor[live]] = True
    if not (terminal & (entered | (initial(n_states) > 0.0))).any():
        return entries, terminal, False
    loop = np.arange(n_states * n_actions, (n_states + 1) * n_actions, dtype=np.int64)
    entries = Entries(
        np.concatenate([row, loop]),
        np.concatenate([np.where(ends, n_states, successor), np.full(n_actions, n_states)]),
        np.concatenate([probability, np.ones(n_actions)]),
        np.concatenate([reward, np.zeros(n_actions)]),
        n_states + 1,
        n_actions,
    )
    return entries, np.arange(n_states + 1) == n_states, True
