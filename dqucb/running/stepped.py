"""Training step by step from Python: for Gymnasium envs, and for agents without a compiled loop."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb._kernels.position import DONE
from dqucb.running.request import Request
from dqucb.running.session import Session
from dqucb.running.world import World, generator_of, reopened

if TYPE_CHECKING:
    from dqucb.base import Agent

BLOCK_SECONDS = 0.2  # between two looks at callback, checkpoint and progress


def advance(agent: "Agent", session: Session, request: Request, go_on: Callable[[int], bool]) -> None:
    """Run records until `request.stop_at` is reached or `go_on(done)` says no. Changes agent and session."""
    world = session.env
    if world is None and session.saved_env is not None:
        world = session.env = reopened(request, session.saved_env, agent._fitted)
        session.saved_env = None
        if world.finite is not None:
            session.rng = generator_of(world, request.seed)
        agent._reopened(world)
    if world is None or world.broken:
        why = "was interrupted within an episode" if world is not None else "is loaded, and the env is not part of it"
        raise ValueError(f"the run of this {agent.name} {why}, so that it cannot go on: clone() trains anew")
    record = _episode if session.unit == "episodes" else _share
    began = reported = time.perf_counter()
    world.broken = True
    while session.units_done < request.stop_at:
        record(agent, session, world)
        now = time.perf_counter()
        if now - reported >= BLOCK_SECONDS or session.units_done >= request.stop_at or request.callback is not None:
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
        _reset(world)
    best = np.nan if world.max_return is None else world.max_return
    if world.finite is not None:
        best = world.finite.optimal_values(world.phase)[0][world.observation]
    total = likelihood = gap = 0.0
    over, restart = False, False
    while not over and (world.horizon is None or world.step < world.horizon):
        state = world.observation
        action, reward, p, over = _step(agent, world)
        restart |= alarmed(agent, session, state, action, world.observation, reward, number)
        total, likelihood, gap = total + reward, likelihood + p, gap + world.gap
    agent.end_episode()
    if restart:
        agent.restart()
    session.returns[number], session.gaps[number] = total, gap if world.tells_gap else best - total
    session.likelihood[number], session.lengths[number] = likelihood / world.step, world.step
    session.position[DONE] = number + 1


def _share(agent: "Agent", session: Session, world: World) -> None:
    """One record of a run of steps."""
    number = session.done
    length = int(session.lengths[number])
    total = gap = likelihood = 0.0
    gaps = None
    if world.finite is not None and world.finite.horizon is None:
        gaps = world.finite.optimality_gaps(world.finite.phase_at(int(session.ends[number]) - 1))
    for now in range(int(session.ends[number]) - length, int(session.ends[number])):
        state = world.observation
        action, reward, p, over = _step(agent, world)
        if alarmed(agent, session, state, action, world.observation, reward, now):
            agent.restart()
        total, likelihood = total + reward, likelihood + p
        gap += world.gap if gaps is None else gaps[int(state), int(action)]
        if over:
            agent.end_episode()
            _reset(world)
    session.returns[number], session.gaps[number] = total, gap
    session.likelihood[number] = likelihood / length
    session.position[DONE] = number + 1


def _reset(world: World) -> None:
    world.observation, world.info = world.env.reset()
    world.step = 0


def _step(agent: "Agent", world: World) -> tuple[Any, float, float, bool]:
    """One transition: (action, reward, likelihood, whether the episode is over). Moves the world."""
    state, step = world.observation, world.step if world.discount is None else 0
    action = agent.act(state, step)
    world.observation, reward, terminated, truncated, world.info = world.env.step(action)
    world.step += 1
    learned_from = agent._reward_of(reward, world.info)
    answer = agent.observe(state, action, learned_from, world.observation, step, bool(terminated))
    likelihood = 1.0 if answer is None else float(answer[1])
    return action, float(reward), likelihood, bool(terminated) or bool(truncated)


def alarmed(
    agent: "Agent", session: Session, state: Any, action: Any, next_state: Any, reward: float, now: int
) -> bool:
    """Show one transition to the detector of a run, if it has one; whether the agent should restart.

    An agent with alarms of its own acts on these alone.
    """
    watch = session.watch
    if watch is None or not watch.update(state, action, next_state, reward, now):
        return False
    return watch.restarts and not agent._has_own_alarms
