"""`check_agent` and `check_problem`: whether an agent or a problem satisfies the contract of this package.

They raise an AssertionError or ValueError that says what is wrong, and return nothing. `check_density` is in
`dqucb.density`.
"""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dqucb._validate import demand
from dqucb.base import Agent
from dqucb.problems import Problem, ShiftingMDP, TabularMDP
from dqucb.run import CURVES, Run

__all__ = ["check_agent", "check_problem"]


def check_agent(agent: Agent, problem: Any = None, **length: Any) -> None:
    """Check that an agent satisfies the contract; raise an error if not.

    Parameters
    ----------
    agent : Agent
        The agent; it is cloned and not changed.
    problem : optional
        The problem to train on; by default a small problem with a horizon that changes once.
    **length : int
        `episodes=` or `steps=` for that problem.

    Examples
    --------
    >>> from dqucb import QUCB, check_agent
    >>> check_agent(QUCB(bonus_scale=0.1))
    """
    if problem is None:
        problem, length = small_problem(), {"episodes": 40}
    if not isinstance(agent, Agent):
        raise ValueError(f"agent must be a dqucb.Agent, got {agent!r}")
    _check_parameters(agent)
    whole = _train(agent, problem, 1, length)
    _check_run(agent, whole, length)
    demand(_same(whole, _train(agent, problem, 1, length)), "the same seed must give the same run")
    _check_stop(agent, problem, length, whole)
    _check_callback(agent, problem, length)
    _check_files(agent, problem, length, whole)
    _check_predict(agent, problem, length)


def small_problem(**ends: Any) -> ShiftingMDP:
    """Five states, three actions, two phases and a terminal state: enough to reach every branch of an agent."""
    rng = np.random.default_rng(7)
    ends = ends or {"horizon": 6}
    P = rng.dirichlet(np.full(5, 0.4), size=(2, 5, 3))
    R = rng.random((2, 5, 3))
    phases = [TabularMDP(P[i], R[i], terminal=[4], initial=0, **ends) for i in range(2)]
    return ShiftingMDP(phases, [15])


def _train(agent: Agent, problem: Any, seed: int, length: dict[str, Any], **options: Any) -> Run:
    return agent.clone().train(problem, seed=seed, **length, **options)


def _same(one: Run, other: Run) -> bool:
    names = (*CURVES, "alarms")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


def _refused(words: str, call: Callable[[], object]) -> bool:
    """Whether a call raises an error; the error must contain these words."""
    try:
        call()
    except ValueError as error:
        if words not in str(error):
            raise AssertionError(f"the error must say {words!r}, got: {error}") from error
        return True
    return False


def _check_parameters(agent: Agent) -> None:
    given = agent.get_params()
    twin = agent.clone()
    demand(type(twin) is type(agent), f"clone() must give a {agent.name}, got {twin!r}")
    demand(twin is not agent, "clone() must give another object")
    kept = twin.parameters()
    demand(kept == agent.parameters(), f"clone() must keep the parameters {given}, got {kept}")
    demand(repr(twin) == repr(agent), f"clone() must print alike, got {twin!r} for {agent!r}")
    for name, value in twin.get_params().items():
        demand(twin.set_params(**{name: value}) is twin, "set_params must return the agent itself")
    unknown = _refused("no_such_parameter", lambda: twin.clone(no_such_parameter=1))
    demand(unknown, "clone() must refuse a parameter that does not exist")
    copied = copy.deepcopy(agent)
    demand(copied.parameters() == agent.parameters(), "copy.deepcopy must keep the parameters")


def _check_run(agent: Agent, run: Run, length: dict[str, Any]) -> None:
    unit, number = next(iter(length.items()))
    demand(run.unit == unit, f"run.unit must be {unit!r}, got {run.unit!r}")
    demand(int(run.ends[-1]) == number, f"the run must have {number} {unit}, got {run.ends[-1]}")
    demand(run.agent == agent.name, f"run.agent must be {agent.name!r}, got {run.agent!r}")
    demand(np.isfinite(run.returns).all(), "returns must be finite")
    demand((run.likelihood >= 0).all(), "likelihoods must not be negative")
    demand((run.lengths >= 1).all(), "records must have at least one step")
    demand(_same(run, Run.from_bytes(run.to_bytes())), "a run must survive its file")


def _check_stop(agent: Agent, problem: Any, length: dict[str, Any], whole: Run) -> None:
    unit, number = next(iter(length.items()))
    stopped = agent.clone()
    part = stopped.train(problem, seed=1, stop_at=max(1, number // 3), **length)
    demand(int(part.ends[-1]) < number, "stop_at must stop before the end")
    demand(_refused("seed", lambda: stopped.train(problem, seed=2, **length)), "an unfinished run must not be replaced")
    demand(_same(stopped.train(problem, seed=1, **length), whole), f"a stopped run must go on bit for bit ({unit})")


def _check_callback(agent: Agent, problem: Any, length: dict[str, Any]) -> None:
    seen: list[Any] = []

    def stop(moment: Any) -> bool:
        seen.append((moment.done, moment.length, moment.unit, len(moment.runs()[0])))
        return False

    _train(agent, problem, 1, length, callback=stop)
    demand(len(seen) == 1, f"a callback that returns False must stop the run, it was called {len(seen)} times")


def _check_files(agent: Agent, problem: Any, length: dict[str, Any], whole: Run) -> None:
    """Resuming a saved agent is bit-identical, or refused."""
    _, number = next(iter(length.items()))
    stopped = agent.clone()
    stopped.train(problem, seed=1, stop_at=max(1, number // 3), **length)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        if _refused("cannot be saved", lambda: stopped.save(path)):
            return
        loaded = type(agent).load(path)
    demand(loaded.parameters() == agent.parameters(), "a file must keep the parameters")
    runs: list[Run] = []
    if _refused("cannot be resumed", lambda: runs.append(loaded.train(problem, seed=1, **length))):
        demand(not agent.describe(problem).resumable, "a run that describe() calls resumable must go on from a file")
    else:
        demand(_same(runs[0], whole), "a loaded agent must go on bit for bit: does state() hold all that it learned?")


def _check_predict(agent: Agent, problem: Any, length: dict[str, Any]) -> None:
    trained = agent.clone()
    trained.train(problem, seed=1, **length)
    returns = trained.evaluate(problem.phases[0] if isinstance(problem, Problem) else problem, episodes=2)
    demand(returns.shape == (2,), f"evaluate must give one return per episode, got shape {returns.shape}")
    demand(np.isfinite(returns).all(), "evaluation returns must be finite")


def check_problem(problem: Problem) -> None:
    """Check that a finite problem is valid; raise an error if not.

    Examples
    --------
    >>> from dqucb import check_problem, frozen_lake
    >>> check_problem(frozen_lake())
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a TabularMDP or a ShiftingMDP, got {problem!r}")
    demand((problem.horizon is None) != (problem.discount is None), "a problem has a horizon or a discount")
    demand(len(problem.change_at) == problem.n_phases - 1, "there must be one change point between two phases")
    demand("problem" in problem.description, "description must hold the name under 'problem'")
    model = problem.model.written_out()
    rows = len(model.row_start) - 1
    demand(rows == problem.n_phases * model.phase_stride, "the model must hold all phases")
    starts = model.row_start[:-1]
    demand((np.diff(model.row_start) > 0).all(), "every pair must have a successor")
    sums = np.add.reduceat(model.probability, starts)
    demand(np.allclose(sums, 1.0), f"probabilities of each pair must sum to 1, got {sums.min()} to {sums.max()}")
    demand(((model.successor >= 0) & (model.successor < problem.n_states)).all(), "successors must be states")
    for phase in range(problem.n_phases):
        values = problem.optimal_values(phase)
        demand(np.isfinite(values).all(), f"optimal values of phase {phase} must be finite")
        begins = problem.phase_at([0, *problem.change_at][phase]) == phase
        demand(begins, f"phase {phase} must begin at its change point")
    problem.check_run((0, *problem.change_at)[-1] + 1)
