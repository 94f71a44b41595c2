"""Training on a Gymnasium env: the env is stepped from Python, the equations are those of the fused loops."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.model import DONE
from dqucb.agents.checkpoint import progress_bar
from dqucb.agents.run import Run
from dqucb.agents.training import Training, gap_table, sizes_of
from dqucb.problems.base import Problem

if TYPE_CHECKING:
    from dqucb.agents.base import Agent


def train_on_env(
    agent: "Agent",
    env: Any,
    *,
    episodes: int | None,
    steps: int | None,
    seed: int,
    progress: bool,
    horizon: int | None,
    discount: float | None,
    records: int,
) -> Run:
    """Train `agent` on `env`; envs made from our own problems also give the regret and know their phases."""
    n_states, n_actions = _discrete_size(env, "observation_space"), _discrete_size(env, "action_space")
    problem = getattr(env.unwrapped, "problem", None)
    if isinstance(problem, Problem):
        horizon, discount = (
            _agreed("horizon", horizon, problem.horizon),
            _agreed("discount", discount, problem.discount),
        )
    else:
        problem = None
    if (horizon is None) == (discount is None):
        raise ValueError(
            f"a Gymnasium env takes one of horizon= and discount=, got horizon={horizon!r}, discount={discount!r}"
        )
    name, value, other = ("episodes", episodes, steps) if horizon is not None else ("steps", steps, episodes)
    if value is None or other is not None:
        raise ValueError(f"this run takes {name}=, got episodes={episodes!r}, steps={steps!r}")
    length = _validate.integer(name, value)
    if problem is not None and getattr(env.unwrapped, "count", name) == name:
        problem.check_run(length)
    seed = _validate.integer("seed", seed, 0)
    state, info = env.reset(seed=seed)
    if problem is not None:
        sizes = sizes_of(problem, length)
        rng = env.unwrapped.np_random  # one generator for agent and world, as in the fused loops
        training = agent._begin(sizes, rng, seed, problem.description, problem.change_at, records)
    else:
        agent.start(n_states, n_actions, horizon=horizon, discount=discount, seed=seed, length=length)
        # Not the env's own seed: agent and world must not draw the same numbers.
        rng = np.random.default_rng([seed, 1])
        training = agent._begin(agent._started().sizes, rng, seed, {"problem": _id(env)}, records=records)
    loop = _episodes if horizon is not None else _steps
    with progress_bar(agent.name, length, 0, progress) as report:
        began = time.perf_counter()
        loop(agent, env, problem, training, int(state), info, report)
        training.seconds = time.perf_counter() - began
    return agent._run(training, problem.change_at if problem is not None else ())


def _episodes(
    agent: "Agent", env: Any, problem: Problem | None, training: Training, state: int, info: dict[str, Any], report: Any
) -> None:
    horizon = training.sizes.horizon or 0
    for episode in range(training.length):
        if episode:
            state, info = env.reset()
        best = problem.optimal_values(_phase(problem, info))[0][state] if problem is not None else np.nan
        total = likelihood = 0.0
        step, over = 0, False
        while step < horizon and not over:
            action = agent.act(int(state), step)
            next_state, reward, terminated, truncated, info = env.step(action)
            _show_phase(agent, problem, info)
            likelihood += agent.observe(int(state), action, float(reward), int(next_state), step, terminated)[1]
            total += float(reward)
            state, over = next_state, terminated or truncated
            step += 1
        agent.end_episode()
        training.returns[episode] = total
        training.gaps[episode] = best - total
        training.likelihood[episode] = likelihood / step
        training.lengths[episode] = step
        training.position[DONE] = episode + 1
        report(training.done)


def _steps(
    agent: "Agent", env: Any, problem: Problem | None, training: Training, state: int, info: dict[str, Any], report: Any
) -> None:
    for record, length in enumerate(training.lengths):
        total = gap = likelihood = 0.0
        if problem is not None:
            gaps = gap_table(problem, problem.phase_at(int(training.ends[record]) - 1))
        for _ in range(length):
            action = agent.act(int(state))
            if problem is not None:
                gap += gaps[int(state), action]
            next_state, reward, terminated, truncated, info = env.step(action)
            _show_phase(agent, problem, info)
            likelihood += agent.observe(int(state), action, float(reward), int(next_state), 0, terminated)[1]
            total += float(reward)
            state = next_state
            if terminated or truncated:
                state, info = env.reset()
        training.returns[record] = total
        training.gaps[record] = gap if problem is not None else np.nan
        training.likelihood[record] = likelihood / length
        training.position[DONE] = record + 1
        report(training.units_done)


def _show_phase(agent: "Agent", problem: Problem | None, info: dict[str, Any]) -> None:
    if problem is not None:
        agent._show_phase(problem.model, _phase(problem, info))


def _phase(problem: Problem | None, info: dict[str, Any]) -> int:
    """The phase in force, which only envs of our own problems tell."""
    return int(info["phase"]) if problem is not None else 0


def _discrete_size(env: Any, name: str) -> int:
    space = getattr(env, name, None)
    if space is None:
        raise ValueError(f"problem must be a TabularMDP, a ShiftingMDP or a Gymnasium env, got {env!r}")
    size = getattr(space, "n", None)
    if size is None or np.ndim(size) != 0 or int(getattr(space, "start", 0)) != 0:
        raise ValueError(
            f"{name} must be Discrete and start at 0, got {space}: wrap the env so that it numbers its states, or use "
            "an agent of dqucb.deep"
        )
    return int(size)


def _agreed(name: str, given: Any, stated: Any) -> Any:
    if given is not None and given != stated:
        raise ValueError(f"{name} must be {stated!r}, as the env's own problem states, got {given!r}")
    return stated


def _id(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(env.unwrapped).__name__
