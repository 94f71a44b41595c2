"""`TabularMDP`: a finite Markov decision problem that does not change, or one phase of a problem that does."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb._kernels.model import Model
from dqucb.problems._rows import SUM_TOLERANCE, rows_of
from dqucb.problems._transitions import Entries, from_arrays, from_table
from dqucb.problems.base import Problem, largest_return, read_only


class TabularMDP(Problem):
    """A finite MDP: transitions P, rewards R, and either a horizon or a discount.

    Parameters
    ----------
    P : array_like, sparse matrix, list of them, or dict
        Transition probabilities. Dense: (S, A, S), or (H, S, A, S) when they depend on the step. Sparse: a CSR-like
        matrix of shape (S*A, S) with row s*A + a, or a list of H such matrices. A table as in Gymnasium's toy-text
        envs, {s: {a: [(probability, next_state, reward, terminated), ...]}}, also holds the rewards and terminal
        states (R and `terminal` stay None; see `from_gymnasium`).
    R : array_like
        Rewards (S,), (S, A) or (S, A, S'), or one of these behind an H axis. A shape that fits both readings is read
        without H.
    horizon, discount : int, float
        Exactly one of them: steps of an episode, or a factor in [0, 1).
    terminal : sequence of int or mask (S,), optional
        States in which an episode ends. Their value is 0, and their rows are ignored.
    initial : int or array_like (S,)
        The first state, or its distribution.
    return_bound : float, optional
        Upper bound on the return of every policy from every state. By default H * r or r / (1 - discount) with
        r = max(1, largest reward), so that rewards within [0, 1] give H and 1 / (1 - discount). From step h on, the
        bound is `value_bounds`[h] = min((H - h) * r, return_bound).
    name : str, optional
        Its name in tables and files.
    grid : sequence of str, optional
        Rows of letters, one per state, for rendering: S start, G goal, H hole, # wall.

    Examples
    --------
    >>> import numpy as np
    >>> from dqucb import TabularMDP
    >>> P = np.array([[[0.9, 0.1], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])  # states, actions, next states
    >>> TabularMDP(P, np.array([[0.0, 0.0], [1.0, 0.0]]), horizon=3, initial=0).optimal_values()[0].tolist()
    [2.0, 3.0]
    """

    def __init__(
        self,
        P: Any,
        R: Any = None,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        terminal: Any = None,
        initial: Any = 0,
        return_bound: float | None = None,
        name: str | None = None,
        grid: Sequence[str] | None = None,
    ) -> None:
        if isinstance(P, Mapping):
            if R is not None or terminal is not None:
                raise ValueError("a table P holds rewards and terminated flags itself: leave out R and terminal")
            entries, mask, added = from_table(P, lambda size: _initial(initial, size))
            if added:
                initial = np.append(_initial(initial, entries.n_states - 1), 0.0)
        else:
            entries = from_arrays(P, R)
            mask = _terminal_mask(terminal, entries.n_states)
        self._set(
            entries, [], mask, name or "custom", horizon=horizon, discount=discount, initial=initial,
            return_bound=return_bound, grid=grid,
        )  # fmt: skip
        self.description = {"problem": "custom", "name": self.name, "sha256": self.digest()}

    @classmethod
    def from_entries(
        cls,
        entries: Entries,
        *,
        description: Mapping[str, Any],
        terminal: Any = None,
        further: Iterable[Entries] = (),
        **settings: Any,
    ) -> "TabularMDP":
        """Build an MDP from sparse entries and a description that identifies the problem; for builders.

        Entries of a large problem may be given in parts: the first rows in `entries`, the later ones in `further`. The
        settings are those of `TabularMDP`.
        """
        self = cls.__new__(cls)
        self._set(entries, further, _terminal_mask(terminal, entries.n_states), description["problem"], **settings)
        self.description = dict(description)
        return self

    @classmethod
    def from_gymnasium(
        cls,
        env: Any,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        return_bound: float | None = None,
    ) -> "TabularMDP":
        """The MDP in the `P` table of a Gymnasium env such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4.

        A state that only terminated transitions enter becomes terminal. If some state can be entered both
        ways, every terminated transition leads to one added absorbing terminal state (the last id) instead.
        The env's own time limit is not read: pass it as `horizon`.

        Examples
        --------
        >>> import gymnasium
        >>> from dqucb import from_gymnasium
        >>> from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=100).n_states
        16
        """
        base = getattr(env, "unwrapped", env)
        table, initial = getattr(base, "P", None), getattr(base, "initial_state_distrib", None)
        if not isinstance(table, Mapping) or initial is None:
            raise ValueError(
                f"env must have a transition table P and initial_state_distrib, which {base} lacks: "
                "train on the env itself, or build TabularMDP(P, R, ...)"
            )
        cells = np.asarray(getattr(base, "desc", ()))
        grid = None
        if cells.ndim == 2 and cells.size == len(table) and cells.dtype.kind == "S":
            grid = ["".join(letter.decode() for letter in row) for row in cells]
        spec = getattr(env, "spec", None)
        name = spec.id if spec is not None else type(base).__name__
        self = cls(table, horizon=horizon, discount=discount, initial=initial, return_bound=return_bound, name=name)
        if grid is not None and self.n_states == len(table):
            self._set_grid(grid)
        self.description = {"problem": "gymnasium", "id": name, "sha256": self.digest()}
        return self

    def _set(
        self,
        entries: Entries,
        further: Iterable[Entries],
        terminal: NDArray[np.bool_],
        name: str,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        initial: Any = 0,
        return_bound: float | None = None,
        grid: Sequence[str] | None = None,
    ) -> None:
        if (horizon is None) == (discount is None):
            both = "both" if horizon is not None else "neither"
            raise ValueError(
                f"give exactly one of horizon and discount, got {both}: horizon=H for episodes of H steps, "
                "discount=0.9 (say) for a problem without end"
            )
        if horizon is not None:
            horizon = check.integer("horizon", horizon)
            if entries.steps not in (1, horizon):
                raise ValueError(
                    f"horizon={horizon}, but P or R has {entries.steps} steps: make them equal{_transposed(entries)}"
                )
        elif entries.steps > 1:
            raise ValueError(
                f"a discounted problem has no steps: P must be (S,A,S) and R without an H axis{_transposed(entries)}"
            )
        else:
            discount = check.real("discount", discount, 0.0)
            if discount >= 1.0:
                raise ValueError(f"discount must be >= 0 and < 1, got {discount!r}: without one, pass horizon=H")
        self.name, self.phases, self.change_at = name, (self,), ()
        self.n_states, self.n_actions = entries.n_states, entries.n_actions
        self.horizon, self.discount = horizon, discount
        self._solutions = {}
        rows = rows_of(chain([entries], further), terminal)
        start = _initial(initial, self.n_states)
        certain = np.flatnonzero(start == 1.0)
        model = Model(
            **rows._asdict(),
            terminal=terminal,
            initial_state=np.array([certain[0] if certain.size else -1], dtype=np.int64),
            initial_cumulative=_cumulative_start(start)[None, :],
            n_states=self.n_states,
            n_actions=self.n_actions,
            step_stride=self.n_states * self.n_actions if entries.steps > 1 else 0,
            phase_stride=rows.row_start.size - 1,
        )
        self.model = read_only(model)
        if terminal[start > 0.0].any():
            first = int(np.flatnonzero(terminal & (start > 0.0))[0])
            raise ValueError(f"initial must not be a terminal state, got state {first}, which is in terminal")
        self.reward_scale = max(1.0, float(rows.reward.max()))
        bound = self.reward_scale * largest_return(horizon, discount)
        if return_bound is not None:
            bound = min(bound, check.positive("return_bound", return_bound))
        self.return_bound = bound
        self._set_grid(grid)

    def _set_grid(self, grid: Sequence[str] | None) -> None:
        self.grid = None if grid is None else tuple(grid)
        if self.grid is not None:
            widths = {len(line) for line in self.grid}
            if len(widths) != 1 or len(self.grid) * max(widths) != self.n_states:
                raise ValueError(f"grid must be equally long rows of {self.n_states} letters in all, got {grid!r}")

    def __repr__(self) -> str:
        start = int(self.model.initial_state[0])
        where = f"start {start}" if start >= 0 else "random start"
        return f"TabularMDP({self.name!r}, {self._size()}, {self.model.successor.size} transitions, {where})"


def _transposed(entries: Entries) -> str:
    """A hint where the number of steps is that of the actions: then R was probably given the wrong way round."""
    if entries.steps != entries.n_actions or entries.n_actions == entries.n_states:
        return ""
    shape = f"({entries.n_actions}, {entries.n_states})"
    return f" (an R of shape {shape} is read as one row for each step: for rewards of states and actions pass its .T)"


def _initial(initial: Any, n_states: int) -> NDArray[np.float64]:
    """The distribution of the first state, from a distribution or a state id."""
    if np.ndim(initial) == 0:
        distribution = np.zeros(n_states)
        distribution[check.state_id("initial", initial, n_states)] = 1.0
        return distribution
    distribution = check.vector("initial", initial, n_states)
    if distribution.min() < 0.0 or abs(distribution.sum() - 1.0) > SUM_TOLERANCE:
        raise ValueError(
            "initial must be a state id or a distribution: numbers >= 0 that sum to one, got the sum "
            f"{distribution.sum():.10g} and the smallest {distribution.min():g}"
        )
    return distribution / distribution.sum()


def _cumulative_start(distribution: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative start probabilities: 1.0 from the last possible state on, so that no later state is drawn."""
    cumulative = np.minimum(np.cumsum(distribution), 1.0)
    cumulative[np.flatnonzero(distribution)[-1] :] = 1.0
    return cumulative


def _terminal_mask(terminal: Any, n_states: int) -> NDArray[np.bool_]:
    if terminal is None:
        return np.zeros(n_states, dtype=np.bool_)
    given = np.asarray(terminal)
    if given.dtype == np.bool_:
        if given.shape != (n_states,):
            raise ValueError(f"terminal as a mask must have shape ({n_states},), got {given.shape}")
        return given.copy()
    mask = np.zeros(n_states, dtype=np.bool_)
    for state in np.atleast_1d(given).tolist():
        mask[check.state_id("each of terminal", state, n_states)] = True
    return mask
