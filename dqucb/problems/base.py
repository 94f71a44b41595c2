"""`Problem`: the common interface of problems with one phase and with several; agents use nothing else."""

import functools
import hashlib
import html
import json
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _html
from dqucb import _validate as check
from dqucb._kernels.model import Model
from dqucb._registry import Registry
from dqucb.problems import planning


class Problem:
    """A sequence of phases, each a finite MDP of the same size, and the indices at which they change.

    An index counts episodes when the problem has a horizon, and time steps when it has a discount.

    Examples
    --------
    >>> from dqucb import frozen_lake
    >>> problem = frozen_lake()
    >>> isinstance(problem, Problem), problem.n_phases, problem.n_states
    (True, 3, 16)
    """

    name: str
    phases: tuple[Any, ...]  # of TabularMDP; a problem with one phase is its own phase
    change_at: tuple[int, ...]
    n_states: int
    n_actions: int
    horizon: int | None
    discount: float | None
    return_bound: float
    model: Model
    description: dict[str, Any]  # JSON; for a builder its name under "problem", and its arguments
    grid: tuple[str, ...] | None
    _solutions: dict[tuple[Any, ...], planning.Solution]
    _digested: tuple[Any, Model, str] | None = None

    @property
    def n_phases(self) -> int:
        """The number of phases, one more than the number of changes."""
        return len(self.phases)

    @property
    def unit(self) -> str:
        """What the length of a run and its change points count: "episodes", or "steps" with a discount."""
        return unit_of(self.horizon)

    @property
    def coordinates(self) -> NDArray[np.int64] | None:
        """(S, 2) row and column of each state in `grid`, where there is one."""
        if self.grid is None:
            return None
        return np.stack(np.divmod(np.arange(self.n_states), len(self.grid[0])), axis=1)

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"states": self.n_states, "actions": self.n_actions}
        facts |= {"discount": self.discount} if self.horizon is None else {"horizon": self.horizon}
        changes = ", ".join(f"{index:,}" for index in self.change_at)
        facts |= {"phases": self.n_phases, "changes at": changes or "never", "best return": self.return_bound}
        grid = "" if self.grid is None else f"<pre>{html.escape(chr(10).join(self.grid))}</pre>"
        return _html.card(self.name, facts, grid)

    def phase_at(self, index: int) -> int:
        """The active phase in episode (or at step) `index`; change_at[0] is the first index of phase 1."""
        return bisect_right(self.change_at, index)

    @property
    def value_bounds(self) -> NDArray[np.float64]:
        """v_h, which no return from step h exceeds: (H + 1,), with 0 at H; of shape (1,) with a discount."""
        if self.horizon is None:
            return np.array([self.return_bound])
        per_step = max(phase.reward_scale for phase in self.phases)
        bounds = per_step * np.arange(self.horizon, -1, -1, dtype=np.float64)
        return np.minimum(bounds, self.return_bound)

    def optimal_values(self, phase: int = 0) -> NDArray[np.float64]:
        """V* of a phase, computed once: (H + 1, S) with a horizon, (S,) with a discount."""
        return self._solution(phase).values.copy()

    def optimal_q(self, phase: int = 0) -> NDArray[np.float64]:
        """Q* of a phase, computed once: (H, S, A) with a horizon, (S, A) with a discount."""
        return self._solution(phase).q_values.copy()

    def optimality_gaps(self, phase: int = 0) -> NDArray[np.float64]:
        """V* - Q* of a phase: (H, S, A) with a horizon, (S, A) with a discount."""
        solution = self._solution(phase)
        return solution.values[: len(solution.q_values), ..., None] - solution.q_values

    def check_run(self, length: int) -> None:
        """Raise a ValueError if a change lies beyond a run of `length` episodes (or steps)."""
        unit = self.unit
        length = check.integer(unit, length)
        if self.change_at and self.change_at[-1] >= length:
            late = [index for index in self.change_at if index >= length]
            raise ValueError(
                f"change_at={late[0]} lies at or beyond the end of a run of {unit}={length}: "
                f"use more than {self.change_at[-1]} {unit}, or move or drop the change point"
            )

    def _solution(self, phase: int) -> planning.Solution:
        phase = check.integer("phase", phase, 0, self.n_phases - 1)
        key = (phase, self.horizon, self.discount, self.return_bound)
        if key not in self._solutions:
            solution = planning.solve(self, phase)
            highest = float(solution.values.max())
            if highest > self.return_bound * (1.0 + 1e-9):
                raise ValueError(
                    f"return_bound={self.return_bound:g} is below the optimal value {highest:g} of phase "
                    f"{phase}: it must bound the return of every policy from every state"
                )
            self._solutions[key] = solution
        return self._solutions[key]

    @property
    def identity(self) -> dict[str, Any]:
        """JSON that names this problem and no other: its description, and a digest of the model if that says more.

        It says more unless a builder of this package makes the same model from the description.
        """
        digest = self.digest()
        if self.description.get("sha256") == digest or _rebuilt(json.dumps(self.description)) == digest:
            return self.description
        return {**self.description, "sha256": digest}

    def digest(self) -> str:
        """SHA-256 over everything that can change a run."""
        whole = (self.horizon, self.discount, self.return_bound, *([self.change_at] if self.n_phases > 1 else []))
        model = self.model
        if self._digested is None or self._digested[0] != whole or self._digested[1] is not model:
            digest = hashlib.sha256(repr(whole).encode())
            for name, field in model.written_out()._asdict().items():
                if name != "outcome_start":  # which rows share a distribution changes no run
                    array = np.asarray(field)
                    digest.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
            self._digested = whole, model, digest.hexdigest()  # the arrays of a model are read-only
        return self._digested[2]

    def _fingerprint_(self) -> str:
        return self.digest()

    def _size(self) -> str:
        end = f"horizon={self.horizon}" if self.horizon is not None else f"discount={self.discount:g}"
        return f"{self.n_states} states, {self.n_actions} actions, {end}"


def unit_of(horizon: int | None) -> str:
    """What the length of a run counts: "episodes" with a horizon, "steps" without."""
    return "steps" if horizon is None else "episodes"


def largest_return(horizon: int | None, discount: float | None) -> float:
    """The largest return of rewards in [0, 1]: H, or 1 / (1 - discount)."""
    return float(horizon) if horizon is not None else 1.0 / (1.0 - (discount or 0.0))


def read_only(model: Model) -> Model:
    """Make the arrays of a model read-only and return it; kernels rely on arrays that were checked once."""
    for field in model:
        if isinstance(field, np.ndarray):
            field.setflags(write=False)
    return model


@functools.lru_cache(maxsize=64)
def _rebuilt(description: str) -> str | None:
    """The digest of the problem that a builder of this package makes from a description; None if there is none."""
    given = json.loads(description)
    name = given.pop("problem", None)
    if name not in PROBLEMS or not PROBLEMS[name].__module__.startswith("dqucb."):
        return None
    try:
        return PROBLEMS[name](**given).digest()
    except (TypeError, ValueError):
        return None


PROBLEMS: Registry[Callable[..., Problem]] = Registry(
    "problem", ("dqucb.problems",)
)  # fact: the usual length of a run, `episodes` or `steps`
