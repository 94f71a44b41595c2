"""Training and evaluation step by step, from Python: for Gymnasium envs, and for agents without a compiled loop."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels.position import DONE
from dqucb.problems.base import Problem
from dqucb.session import Facts, Request, Session, empty_curves, watch_identity

if TYPE_CHECKING:
    import gymnasium

    from dqucb.base import Agent
    from dqucb.drift.runs import RunWatch

BLOCK_SECONDS = 0.2  # between two looks at callback, checkpoint and progress
MAX_EVALUATION_STEPS = 100_000  # of an episode that nothing else ends


@dataclass
class World:
    """An env under way, and what is known of it."""

    env: "gymnasium.Env[Any, Any]"
    observation: Any
    info: dict[str, Any]
    finite: Problem | None  # the problem behind an env of ours
    horizon: int | None
    discount: float | None
    max_return: float | None
    tells_gap: bool = False  # whether `info` holds the regret of each step
    broken: bool = False  # interrupted within an episode: it cannot go on

    @property
    def phase(self) -> int:
        """The phase in force, which only envs of our own problems tell."""
        return int(self.info["phase"]) if self.finite is not None else 0

    @property
    def gap(self) -> float:
        """The regret of the last step, NaN where the env does not tell it."""
        return float(self.info["gap"]) if self.tells_gap else np.nan


def open_world(request: Request, fitted: Callable[[Any], Any]) -> World:
    """Make and reset the env of a run; `fitted` gives it the form that the agent takes."""
    from dqucb.envs.making import make_env, own_number, stated_problem

    env = make_env(request.problem)
    finite, stated_best = stated_problem(env), own_number(env, "max_return")
    env = fitted(env)
    if request.regret != "realized":
        raise ValueError(f"regret={request.regret!r} is for finite problems and agents with a compiled loop")
    horizon, discount = request.horizon, request.discount
    if finite is not None:
        horizon, discount = _agreed("horizon", horizon, finite.horizon), _agreed("discount", discount, finite.discount)
        if getattr(env.unwrapped, "unit", request.unit) == request.unit:
            finite.check_run(request.length)
    elif horizon is None and discount is None and request.unit == "episodes" and env.spec is not None:
        horizon = env.spec.max_episode_steps
    if finite is not None and request.unit == "episodes" and horizon is None:
        raise ValueError(f"a discounted problem takes steps=, got episodes={request.length!r}")
    observation, info = env.reset(seed=request.seed)
    best = request.max_return if request.max_return is not None else stated_best
    return World(env, observation, info, finite, horizon, discount, best, _tells_gap(env))


def reopened(request: Request, state: dict[str, Any], fitted: Callable[[Any], Any]) -> World:
    """The world of a run on a finite problem where `checkpoint_state` of its env was taken."""
    world = open_world(request, fitted)
    world.env.unwrapped.restore_state(state)  # type: ignore[attr-defined]
    world.observation = max(0, int(state["state"]))  # -1: the next record begins with a reset
    return world


def describe(problem: Any, unit: str | None, change_at: Iterable[int] | int | None, max_return: float | None) -> Facts:
    """What is known of a problem before training."""
    given = None if change_at is None else _validate.increasing("change_at", change_at)
    if isinstance(problem, Problem):
        own_unit = "steps" if problem.horizon is None else "episodes"
        if unit not in (None, own_unit):
            kind = "a problem with a horizon" if problem.horizon is not None else "a discounted problem"
            raise ValueError(f"{kind} takes {own_unit}=, got {unit}=")
        if given not in (None, problem.change_at):
            raise ValueError(f"change_at must be {problem.change_at}, as the problem states, got {given}")
        return Facts(problem.description, own_unit, problem.change_at, True, False)
    from dqucb.envs.making import change_points, env_description, make_env, own_number, stated_problem

    env = make_env(problem)
    unit = unit or "episodes"
    stated = change_points(env, unit)
    if given is not None and stated and given != stated:
        raise ValueError(f"change_at must be {stated}, as the env states, got {given}")
    if max_return is None:
        max_return = own_number(env, "max_return")
    known = stated_problem(env) is not None or max_return is not None or _tells_gap(env)
    return Facts(env_description(problem, env), unit, given or stated, known, False)


def new_session(agent: "Agent", request: Request) -> Session:
    """A run of an agent that is written in Python, of which nothing is done."""
    world, facts = open_world(request, agent._fitted), agent.describe(
        request.problem, unit=request.unit, change_at=request.change_at, max_return=request.max_return
    )  # fmt: skip
    rng = generator_of(world, request.seed)
    agent.begin(
        world.env.observation_space,
        world.env.action_space,
        horizon=world.horizon,
        discount=world.discount,
        length=request.length,
        rng=rng,
    )
    return Session(
        problem=facts.problem,
        unit=request.unit,
        length=request.length,
        seed=request.seed,
        regret_form=request.regret,
        change_at=facts.change_at,
        rng=rng,
        env=world,
        **empty_curves(request.length, request.unit, facts.change_at, request.records),
    )


def new_watch(request: Request, fitted: Callable[[Any], Any]) -> "RunWatch | None":
    """The detectors of a run that is to be watched, one for each seed."""
    if request.detector is None:
        return None
    from dqucb.drift.runs import RunWatch
    from dqucb.drift.spaces import detector_for
    from dqucb.envs.making import make_env

    env = fitted(make_env(request.problem))
    chosen = request.detector == "auto"
    return RunWatch(
        detector_for(env.observation_space, env.action_space, learning=True) if chosen else request.detector,
        watch_identity(request.detector, request.on_alarm),
        request.on_alarm == "restart",
        env.observation_space,
        env.action_space,
        len(request.seeds),
    )


def look(agent: "Agent", state: Any, action: Any, next_state: Any, reward: float, now: int) -> bool:
    """Show one transition of a run to its detector, if it has one; whether the agent should restart."""
    watch = agent._run_watch
    if watch is None or not watch.update(state, action, next_state, reward, now):
        return False
    return watch.restarts and not agent._has_own_alarms


def generator_of(world: World, seed: int) -> np.random.Generator:
    """The agent's random numbers: with an env of ours one stream for agent and world, as in the compiled loops."""
    if world.finite is not None:
        return world.env.unwrapped.np_random
    return np.random.default_rng([seed, 1])  # not the env's own seed: both must not draw the same numbers


def advance(agent: "Agent", session: Session, stop_at: int, go_on: Callable[[int], bool]) -> None:
    """Run records until `stop_at` episodes or steps are done, or `go_on(done)` says no. Changes agent and session."""
    world = session.env
    if world is None or world.broken:
        why = "was interrupted within an episode" if world is not None else "is loaded, and the env is not part of it"
        raise ValueError(f"the run of this {agent.name} {why}, so that it cannot go on: clone() trains anew")
    record = _episode if session.unit == "episodes" else _stretch
    began = reported = time.perf_counter()
    world.broken = True
    while session.units_done < stop_at:
        record(agent, session, world)
        now = time.perf_counter()
        if now - reported >= BLOCK_SECONDS or session.units_done >= stop_at:
            session.seconds += now - began
            began = reported = now
            world.broken = False  # between two records a checkpoint may be written
            if not go_on(session.units_done):
                break
            world.broken = True
    world.broken = False


def _episode(agent: "Agent", session: Session, world: World) -> None:
    number = session.done
    if number:
        world.observation, world.info = world.env.reset()
    best = np.nan if world.max_return is None else world.max_return
    if world.finite is not None:
        best = world.finite.optimal_values(world.phase)[0][world.observation]
    total = likelihood = gap = 0.0
    step, over, restart = 0, False, False
    while not over and (world.horizon is None or step < world.horizon):
        state = world.observation
        action, reward, p, terminated, truncated = _step(agent, world, step)
        restart |= look(agent, state, action, world.observation, reward, number)
        total, likelihood, gap = total + reward, likelihood + p, gap + world.gap
        step, over = step + 1, terminated or truncated
    agent.end_episode()
    if restart:
        agent.restart()
    session.returns[number], session.gaps[number] = total, gap if world.tells_gap else best - total
    session.likelihood[number], session.lengths[number] = likelihood / step, step
    session.position[DONE] = number + 1


def _stretch(agent: "Agent", session: Session, world: World) -> None:
    """One record of a run of steps."""
    number = session.done
    length = int(session.lengths[number])
    total = gap = likelihood = 0.0
    gaps = None
    if world.finite is not None and world.finite.horizon is None:
        gaps = world.finite.optimality_gaps(world.finite.phase_at(int(session.ends[number]) - 1))
    for now in range(int(session.ends[number]) - length, int(session.ends[number])):
        state = world.observation
        action, reward, p, terminated, truncated = _step(agent, world, 0)
        if look(agent, state, action, world.observation, reward, now):
            agent.restart()
        total, likelihood = total + reward, likelihood + p
        gap += world.gap if gaps is None else gaps[int(state), int(action)]
        if terminated or truncated:
            agent.end_episode()
            world.observation, world.info = world.env.reset()
    session.returns[number], session.gaps[number] = total, gap
    session.likelihood[number] = likelihood / length
    session.position[DONE] = number + 1


def _step(agent: "Agent", world: World, step: int) -> tuple[Any, float, float, bool, bool]:
    """One transition: (action, reward, likelihood, terminated, truncated). Moves the world."""
    state = world.observation
    action = agent.act(state, step)
    world.observation, reward, terminated, truncated, world.info = world.env.step(action)
    answer = agent.observe(state, action, float(reward), world.observation, step, bool(terminated))
    likelihood = 1.0 if answer is None else float(answer[1])
    return action, float(reward), likelihood, bool(terminated), bool(truncated)


def evaluate(agent: "Agent", problem: Any, episodes: int, seed: int) -> NDArray[np.float64]:
    """Returns of `episodes` episodes under `agent.predict`."""
    from dqucb.envs.making import make_env

    episodes = _validate.integer("episodes", episodes)
    seeds = np.random.SeedSequence(_validate.integer("seed", seed, 0)).generate_state(episodes)
    env = agent._fitted(make_env(problem))
    horizon = agent._horizon or MAX_EVALUATION_STEPS
    returns = np.zeros(episodes)
    for episode in range(episodes):
        observation, _ = env.reset(seed=int(seeds[episode]))
        step, over = 0, False
        while not over and step < horizon:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation, step=step))
            returns[episode] += float(reward)
            step, over = step + 1, terminated or truncated
    return returns


def _tells_gap(env: "gymnasium.Env[Any, Any]") -> bool:
    return bool(env.get_wrapper_attr("info_has_gap")) if env.has_wrapper_attr("info_has_gap") else False


def _agreed(name: str, given: Any, stated: Any) -> Any:
    if given is not None and given != stated:
        raise ValueError(f"{name} must be {stated!r}, as the env's own problem states, got {given!r}")
    return stated
