"""`ShiftingMDP`: a sequence of finite MDPs of the same size."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dqucb import _validate as check
from dqucb._kernels.model import Model
from dqucb.problems.base import Problem, read_only
from dqucb.problems.mdp import TabularMDP

_OF_OUTCOMES = ("probability", "cumulative", "reward")


class ShiftingMDP(Problem):
    """A finite MDP that changes: phase i + 1 begins at index change_at[i].

    The index counts episodes when the phases have a horizon, time steps when they have a discount. Phases
    must agree in the numbers of states and actions, horizon or discount, and terminal states; transitions,
    rewards and the start may differ.

    Parameters
    ----------
    phases : sequence of TabularMDP
        The phases in their order.
    change_at : iterable of int
        The first index of each phase but the first, increasing.
    name : str, optional
        Name of the problem in tables and messages.
    description : dict, optional
        JSON values that identify the problem; those of the phases by default.

    Examples
    --------
    >>> import numpy as np
    >>> from dqucb import ShiftingMDP, TabularMDP
    >>> phases = [TabularMDP(np.ones((1, 2, 1)), np.array([reward]), horizon=1) for reward in ([1.0, 0.0], [0.0, 1.0])]
    >>> problem = ShiftingMDP(phases, change_at=[100])
    >>> problem.phase_at(99), problem.phase_at(100)
    (0, 1)
    """

    def __init__(
        self,
        phases: Iterable[TabularMDP],
        change_at: Iterable[int],
        *,
        name: str | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        self.phases = tuple(phases)
        self.change_at = check.increasing("change_at", change_at)
        if not self.phases or not all(isinstance(phase, TabularMDP) for phase in self.phases):
            raise ValueError(f"phases must be one or more TabularMDP, got {list(self.phases)!r}")
        if len(self.change_at) != len(self.phases) - 1:
            raise ValueError(
                f"change_at must have one index fewer than there are phases: {len(self.phases)} phases need "
                f"{len(self.phases) - 1}, got {len(self.change_at)}"
            )
        first = self.phases[0]
        for number, phase in enumerate(self.phases):
            for what in ("n_states", "n_actions", "horizon", "discount"):
                if getattr(phase, what) != getattr(first, what):
                    raise ValueError(
                        f"all phases must have the same {what}: {getattr(first, what)} in phase 0, "
                        f"{getattr(phase, what)} in phase {number}"
                    )
            if not np.array_equal(phase.model.terminal, first.model.terminal):
                raise ValueError(f"all phases must have the same terminal states, phase {number} differs")
        self.n_states, self.n_actions = first.n_states, first.n_actions
        self.horizon, self.discount = first.horizon, first.discount
        self.return_bound = max(phase.return_bound for phase in self.phases)
        self.grid = first.grid
        self.name = name or first.name
        self._solutions = {}
        self.description = dict(description) if description is not None else {
            "problem": "shifting",
            "phases": [phase.description for phase in self.phases],
            "change_at": list(self.change_at),
        }  # fmt: skip

    @cached_property
    def model(self) -> Model:  # type: ignore[override]
        """The models of all phases, concatenated; expanded by step if any phase depends on the step."""
        models = [phase.model for phase in self.phases]
        if any(model.step_stride for model in models):
            models = [_by_step(model, self.horizon or 1) for model in models]
        joined: dict[str, Any] = {
            field: np.concatenate([getattr(model, field) for model in models])
            for field in ("successor", *_OF_OUTCOMES, "initial_state", "initial_cumulative")
        }
        entries = np.cumsum([0] + [model.successor.size for model in models])
        sizes = np.cumsum([0] + [model.reward.size for model in models])
        starts = [model.row_start[:-1] + before for model, before in zip(models, entries[:-1], strict=True)]
        outcome_starts = [model.outcome_start + before for model, before in zip(models, sizes[:-1], strict=True)]
        row_start, outcome_start = np.concatenate([*starts, entries[-1:]]), np.concatenate(outcome_starts)
        return read_only(models[0]._replace(row_start=row_start, outcome_start=outcome_start, **joined))

    def __repr__(self) -> str:
        phases = f"{self.n_phases} phases, change_at={self.change_at}"
        return f"ShiftingMDP({self.name!r}, {self._size()}, {phases})"


def _by_step(model: Model, horizon: int) -> Model:
    """The same model with its rows repeated for every step."""
    if model.step_stride:
        return model
    size = model.successor.size
    starts = (np.arange(horizon)[:, None] * size + model.row_start[:-1]).ravel()
    return model._replace(
        row_start=np.append(starts, horizon * size),
        outcome_start=np.tile(model.outcome_start, horizon),
        successor=np.tile(model.successor, horizon),
        step_stride=model.phase_stride,
        phase_stride=model.phase_stride * horizon,
    )
