"""The compiled loop: whole blocks of episodes or steps of a tabular agent on a finite problem.

Blocks end where a phase ends, so that a kernel always sees one stationary problem. They are short enough for progress
bars, Ctrl-C and checkpoints. Results do not depend on how a run is divided into blocks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import episodes as episode_kernels
from dqucb._kernels import steps as step_kernels
from dqucb._kernels.draws import draws_of
from dqucb._kernels.model import most_successors
from dqucb.problems.base import Problem
from dqucb.problems.planning import tolerance_and_sweeps
from dqucb.run import REGRETS
from dqucb.running.request import Request
from dqucb.running.session import Facts, Session, empty_curves, named

BLOCK_SECONDS = 0.2
FIRST_BLOCK = 64


class Sizes(NamedTuple):
    """The sizes and bounds of a problem, from which an agent allocates its tables."""

    n_states: int
    n_actions: int
    horizon: int | None
    discount: float | None
    bounds: NDArray[np.float64]  # v_h, (H + 1,), or (1,) with a discount
    length: int  # episodes or steps
    max_successors: int  # of one (h, s, a)
    max_shared_successors: int  # of one (s, a) over all steps
    n_phases: int
    low: float = 0.0  # lower bound on rewards; at most 0
    high: float | None = None  # upper bound on rewards; None in files of earlier versions
    return_bound: float | None = None  # given to `start` for a user-written loop

    @property
    def highest_reward(self) -> float:
        """The largest reward that the bounds allow."""
        if self.high is not None:
            return self.high
        if self.horizon is not None:
            return float(self.bounds[-2])
        return float(self.bounds[0]) * (1.0 - (self.discount or 0.0))

    def comparable(self) -> dict[str, Any]:
        """The sizes that two runs must share; the others only determine the widths of tables and reward bounds."""
        unequal = dict.fromkeys(("max_successors", "max_shared_successors", "low", "high", "return_bound"))
        return {**self._asdict(), "bounds": self.bounds.tolist(), **unequal}


def sizes_of(problem: Problem, length: int) -> Sizes:
    """Return the sizes of a problem for a run of `length` episodes or steps."""
    seen_from = np.empty(problem.n_states, np.int64)
    return Sizes(
        problem.n_states,
        problem.n_actions,
        problem.horizon,
        problem.discount,
        problem.value_bounds,
        length,
        int(most_successors(problem.model, problem.model.phase_stride, seen_from)),
        int(most_successors(problem.model, problem.n_states * problem.n_actions, seen_from)),
        problem.n_phases,
        min(0.0, float(problem.model.reward.min())),
        max(phase.reward_scale for phase in problem.phases),
    )


@dataclass(kw_only=True)
class Training(Session):
    """The session of a tabular agent; with the agent's parameters, this is all that a checkpoint holds."""

    sizes: Sizes
    learner: Any

    @cached_property
    def draws(self) -> Any:
        """The generator `rng` in the form that kernels take."""
        return draws_of(self.rng)

    def __getstate__(self) -> dict[str, Any]:
        # `draws` refers to the generator by its address; a copy has another generator.
        return {name: value for name, value in vars(self).items() if name != "draws"}


def new_training(
    learner: Any,
    sizes: Sizes,
    rng: np.random.Generator,
    request: Request,
    facts: Facts | None = None,
    parameters: dict[str, Any] | None = None,
) -> Training:
    """Return a new session; without `facts` that of a user-written loop, which has no records."""
    own_loop = facts is None
    facts = facts or Facts({"problem": "stepped"}, request.unit, (), False, True)
    return Training(
        **named(request, facts, parameters or {}),
        seed=request.seed,
        rng=rng,
        sizes=sizes,
        learner=learner,
        own_loop=own_loop,
        **empty_curves(request.length, request.unit, facts.change_at, 0 if own_loop else request.records),
    )


def advance(
    training: Training,
    problem: Problem,
    grow: Callable[[Any, int], Any],
    stop_at: int,
    go_on: Callable[[int], bool],
) -> None:
    """Run block by block until `stop_at` episodes or steps are done, or `go_on` returns False. Changes `training`.

    A discounted run stops at the end of the record that contains `stop_at`.

    Parameters
    ----------
    training : Training
        The run.
    problem : Problem
        The finite problem.
    grow : callable
        (learner, transitions) -> the learner with tables that can hold this many more transitions.
    stop_at : int
        Episodes or steps.
    go_on : callable
        Called with the number of episodes or steps done after each block.
    """
    run_block = _episode_block if problem.horizon is not None else _step_block
    # Exact regret of a discounted run evaluates the policy at the start of each record, so a block is one record.
    one_by_one = problem.horizon is None and training.regret_form == "expected"
    size = 1 if one_by_one else FIRST_BLOCK
    if training.units_done < stop_at:
        # An empty block compiles or loads the kernel, so that this time is not counted in the seconds of the run.
        run_block(training, problem, problem.phase_at(training.units_done), slice(training.done, training.done))
    while training.units_done < stop_at:
        phase = problem.phase_at(training.units_done)
        phase_end = [*problem.change_at, training.length][phase]
        last = int(np.searchsorted(training.ends, min(phase_end, stop_at))) + 1
        wanted = slice(training.done, min(training.done + size, last))
        began = time.perf_counter()
        ran = run_block(training, problem, phase, wanted)
        elapsed = time.perf_counter() - began
        training.seconds += elapsed
        if ran < wanted.stop - wanted.start:
            training.learner = grow(training.learner, _pushes(problem, training, training.done))
        elif elapsed < BLOCK_SECONDS / 2 and not one_by_one:
            size *= 2
        elif elapsed > 2 * BLOCK_SECONDS:
            size = max(1, size // 2)
        if not go_on(training.units_done):
            return


def _pushes(problem: Problem, training: Training, record: int) -> int:
    """Return an upper bound on the transitions of the next record."""
    if problem.horizon is not None:
        return problem.horizon
    return int(training.ends[record] - (training.ends[record - 1] if record else 0))


def _episode_block(training: Training, problem: Problem, phase: int, wanted: slice) -> int:
    return episode_kernels.run_episodes(
        problem.model,
        training.learner,
        phase,
        problem.horizon,
        problem.optimal_values(phase)[0],
        REGRETS.index(training.regret_form),
        problem.optimality_gaps(phase) if training.regret_form == "pseudo" else np.zeros((1, 1, 1)),
        training.draws,
        np.zeros((2, problem.n_states)),
        training.position,
        training.returns[wanted],
        training.gaps[wanted],
        training.likelihood[wanted],
        training.lengths[wanted],
    )


def _step_block(training: Training, problem: Problem, phase: int, wanted: slice) -> int:
    exact = training.regret_form == "expected"
    return step_kernels.run_steps(
        problem.model,
        training.learner,
        phase,
        training.lengths[wanted],
        _policy_gap(training, problem, phase) if exact else problem.optimality_gaps(phase),
        training.draws,
        training.position,
        training.returns[wanted],
        training.gaps[wanted],
        training.likelihood[wanted],
    )


def _policy_gap(training: Training, problem: Problem, phase: int) -> NDArray[np.float64]:
    """V*(s_t) - V^{pi_t}(s_t), exactly, at the start of a record, repeated for all pairs, (S, A)."""
    state = step_kernels.find_state(problem.model, phase, training.draws, training.position)
    values = np.zeros(problem.n_states)
    step_kernels.learner_values(
        problem.model, training.learner, phase, problem.discount, *tolerance_and_sweeps(problem), values
    )
    gap = problem.optimal_values(phase)[state] - values[state]
    return np.full((problem.n_states, problem.n_actions), gap)
