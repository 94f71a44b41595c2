"""Create the empty tables of the learners in `_kernels`, read values from them, and check them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels.learners.q.discounted_q import DiscountedQ
from dqucb._kernels.learners.q.episodic_q import EpisodicQ
from dqucb._kernels.learners.q.likelihood import AnyWindows
from dqucb._kernels.learners.shared_model import SharedModel, new_model, problem_with
from dqucb._kernels.learners.step_test import StepTest, new_test
from dqucb._kernels.learners.tables import AutoTables, BonusSettings, QTables, SharedTables
from dqucb.agents import checkpoint
from dqucb.running.compiled import Sizes

COUNTS = ("visits", "counts", "times", "sizes", "recent", "stage", "step_counts", "step_visits")  # names of tables
AnyTables = QTables | SharedTables | AutoTables


def q_tables(
    sizes: Sizes, *, rate_horizon: float | None = None, optimistic: bool = True, stage_dependent: bool | str = True
) -> AnyTables:
    """Q and V initialised at the bound on the return, or at zero, in the form given by `stage_dependent`."""
    H, S, A = sizes.horizon or 1, sizes.n_states, sizes.n_actions
    V = np.empty((H + 1, S))
    V[:] = float(optimistic) * sizes.bounds[:, None]
    Q = np.empty((H, S, A))
    Q[:] = float(optimistic) * sizes.bounds[:H, None, None]
    rate_horizon = float(rate_horizon or H)
    if stage_dependent is True:
        return QTables(Q, V, np.zeros((H, S, A), count_type(sizes)), sizes.bounds, rate_horizon)
    Q, V = np.ascontiguousarray(Q.transpose(1, 2, 0)), np.ascontiguousarray(V.T)
    if stage_dependent is False:
        return SharedTables(Q, V, np.zeros((1, S, A), np.int64), sizes.bounds, rate_horizon)
    return AutoTables(Q, V, np.zeros((H + 1, S, A), np.int64), sizes.bounds, rate_horizon, step_test(sizes))


def step_test(sizes: Sizes) -> StepTest:
    """A test for dependence on the step, for every pair, with about one false alarm expected per run."""
    H = sizes.horizon or 1
    return new_test(shared_model(sizes), H, math.log(max(2, sizes.length * H)), count_type(sizes))


def count_type(sizes: Sizes) -> type[np.signedinteger[Any]]:
    """The type of counts that no run of this length can overflow; 32 bits where they suffice."""
    return np.int32 if sizes.length * (sizes.horizon or 1) <= np.iinfo(np.int32).max else np.int64


def count_room(learner: Any) -> tuple[int, int]:
    """How often the most counted of a learner's pairs can still be counted, and how often it was."""
    room, most = int(np.iinfo(np.int64).max), 0
    for name, table in checkpoint.leaves("learner", learner):
        counts = isinstance(table, np.ndarray) and table.dtype.kind == "i" and name.rpartition(".")[2] in COUNTS
        if counts and table.size and (left := int(np.iinfo(table.dtype).max) - int(table.max())) < room:
            room, most = left, int(table.max())
    return room, most


def shared_model(sizes: Sizes) -> SharedModel:
    """An empty model of pairs, shared by all steps."""
    return new_model(sizes.n_states, sizes.n_actions, sizes.max_shared_successors)


def bonus_settings(sizes: Sizes, bonus: str = "root", scale: float = 0.0, delta: float = 0.05) -> BonusSettings:
    """Form and scale of a bonus for a problem with a horizon."""
    H = float(sizes.horizon or 1)
    return BonusSettings(
        form=formulas.BONUS_FORMS.index(bonus),
        scale=float(scale),
        horizon=H,
        iota=formulas.confidence_log(float(sizes.n_states), sizes.n_actions, sizes.length, sizes.horizon, delta),
    )


def like_counts(q: AnyTables, dtype: Any) -> NDArray[Any]:
    """A table of zeros with one entry per counted pair."""
    return np.zeros(q.visits.shape, dtype)


def q_learner(
    sizes: Sizes,
    *,
    bonus: str = "root",
    scale: float = 0.0,
    delta: float = 0.05,
    rate_horizon: float | None = None,
    fixed_rate: float = 0.0,
    epsilon: float = 0.0,
    optimistic: bool = True,
    monotone: bool = True,
    act_on_qhat: bool = True,
    windows: AnyWindows = None,
    floor: float = 0.0,
    stage_dependent: bool | str = True,
) -> EpisodicQ | DiscountedQ:
    """A new learner, episodic or discounted, for the agents of the Q-learning family."""
    if sizes.horizon is not None:
        return EpisodicQ(
            q=q_tables(sizes, rate_horizon=rate_horizon, optimistic=optimistic, stage_dependent=stage_dependent),
            bonus=bonus_settings(sizes, bonus, scale, delta),
            windows=windows,
            floor=floor,
            fixed_rate=fixed_rate,
            epsilon=epsilon,
        )
    gamma = float(sizes.discount or 0.0)
    H_effective = formulas.effective_horizon(gamma)
    Q = np.full((sizes.n_states, sizes.n_actions), float(optimistic) * sizes.bounds[0])
    return DiscountedQ(
        Q=Q,
        Qhat=Q.copy(),
        visits=np.zeros(Q.shape, np.int64),
        windows=windows,
        floor=floor,
        gamma=gamma,
        scale=float(scale),
        horizon=H_effective,
        rate_horizon=float(rate_horizon or H_effective),
        fixed_rate=fixed_rate,
        length=float(sizes.length),
        epsilon=epsilon,
        monotone=monotone,
        act_on_qhat=act_on_qhat,
    )


def q_of(learner: Any) -> NDArray[np.float64]:
    """The action values that a learner acts on, (H, S, A) or (S, A)."""
    if hasattr(learner, "Qhat"):
        return learner.Qhat.copy()
    q = getattr(learner, "q", learner)
    return np.ascontiguousarray(q.Q.transpose(2, 0, 1)) if isinstance(q, SharedTables | AutoTables) else q.Q.copy()


def visits_of(learner: Any) -> NDArray[np.integer[Any]]:
    """Visits of each pair: (H, S, A), or (S, A) where steps are shared or there are none."""
    q = getattr(learner, "q", learner)
    if isinstance(q, SharedTables):
        return q.visits[0].copy()
    return (q.visits[1:] if isinstance(q, AutoTables) else q.visits).copy()


def check_visits(learner: Any) -> None:
    """Raise a ValueError for invalid counts."""
    q = getattr(learner, "q", learner)
    checkpoint.check_range("visits", q.visits, 0)
    if isinstance(q, AutoTables):
        check_test(q.test)
        if (q.visits[0] > q.visits[1:].sum(axis=0)).any():
            raise ValueError("visits of all steps must be those of the steps together")


def check_model(model: SharedModel) -> None:
    """Raise a ValueError for a model with inconsistent tables."""
    wrong = problem_with(model)
    if wrong is not None:
        raise ValueError(wrong)


def check_test(test: StepTest) -> None:
    """Raise a ValueError for a test with inconsistent tables."""
    check_model(test.model)
    checkpoint.check_range("step_counts", test.step_counts, 0)
    counts, visits = test.step_counts.sum(axis=2), test.step_counts.sum(axis=3)
    if not (np.array_equal(counts, test.model.counts) and np.array_equal(visits, test.step_visits)):
        raise ValueError("counts and visits of all steps must be those of the steps together")
