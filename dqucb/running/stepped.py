"""Training step by step from Python: for Gymnasium envs, and for agents without a compiled loop."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dqucb import _validate
from dqucb._kernels.position import DONE
from dqucb.running.env import OpenEnv, reopen_env
from dqucb.running.request import Request
from dqucb.running.session import Session

if TYPE_CHECKING:
    from dqucb.base import Agent

BLOCK_SECONDS = 0.2  # interval between calls of `go_on`: progress bar and checkpoint


def advance(agent: "Agent", session: Session, request: Request, go_on: Callable[[int], bool]) -> None:
    """Run records until `request.stop_at` is reached or `go_on(done)` returns False. Changes agent and session."""
    opened = session.env
    if opened is None and session.saved_env is not None:
        opened = session.env = reopen_env(request, session.saved_env, agent._fitted)
        session.saved_env = None
        if opened.finite is not None:
            # Agent and env share one generator, and the agent already holds it.
            session.rng.bit_generator.state = opened.env.unwrapped.np_random.bit_generator.state
            opened.env.unwrapped.np_random = session.rng
        if session.saved_place is not None:
            (opened.step, opened.observation), session.saved_place = session.saved_place, None
        agent._reopened(opened)
    if opened is None or opened.broken:
        why = "was interrupted within an episode" if opened is not None else "is loaded, and the env is not part of it"
        raise ValueError(f"the run of this {agent.name} {why}, so that it cannot be resumed; train a clone() instead")
    record = _episode if session.unit == "episodes" else _share
    began = reported = time.perf_counter()
    opened.broken = True
    while session.units_done < request.stop_at:
        record(agent, session, opened)
        now = time.perf_counter()
        if now - reported >= BLOCK_SECONDS or session.units_done >= request.stop_at or request.callback is not None:
            session.seconds += now - began
            began = reported = now
            opened.broken = False  # between two records a checkpoint may be written
            if not go_on(session.units_done):
                break
            opened.broken = True
    opened.broken = False


def _episode(agent: "Agent", session: Session, opened: OpenEnv) -> None:
    number = session.done
    if number:
        _reset(opened)
    best = np.nan if opened.max_return is None else opened.max_return
    if opened.finite is not None:
        best = opened.finite.optimal_values(opened.phase)[0][opened.observation]
    total = likelihood = gap = 0.0
    over, restart = False, False
    while not over and (opened.horizon is None or opened.step < opened.horizon):
        state = opened.observation
        action, reward, p, over = _step(agent, opened)
        restart |= alarmed(agent, session, state, action, opened.observation, reward, number)
        total, likelihood, gap = total + reward, likelihood + p, gap + opened.gap
    agent.end_episode()
    if restart:
        agent.restart()
    session.returns[number], session.gaps[number] = total, gap if opened.has_gaps else best - total
    session.likelihood[number], session.lengths[number] = likelihood / opened.step, opened.step
    session.position[DONE] = number + 1


def _share(agent: "Agent", session: Session, opened: OpenEnv) -> None:
    """Run one record of a run that is counted in steps."""
    number = session.done
    length = int(session.lengths[number])
    total = gap = likelihood = 0.0
    gaps = None
    if opened.finite is not None and opened.finite.horizon is None:
        gaps = opened.finite.optimality_gaps(opened.finite.phase_at(int(session.ends[number]) - 1))
    for now in range(int(session.ends[number]) - length, int(session.ends[number])):
        state = opened.observation
        action, reward, p, over = _step(agent, opened)
        if alarmed(agent, session, state, action, opened.observation, reward, now):
            agent.restart()
        total, likelihood = total + reward, likelihood + p
        gap += opened.gap if gaps is None else gaps[int(state), int(action)]
        if over:
            agent.end_episode()
            _reset(opened)
    session.returns[number], session.gaps[number] = total, gap
    session.likelihood[number] = likelihood / length
    session.position[DONE] = number + 1


def _reset(opened: OpenEnv) -> None:
    opened.observation, opened.info = opened.env.reset()
    opened.step = 0


def _step(agent: "Agent", opened: OpenEnv) -> tuple[Any, float, float, bool]:
    """Take one step and let the agent learn from it; return action, reward, likelihood and whether it ended."""
    state, step = opened.observation, opened.step if opened.discount is None else 0
    action = agent.act(state, step)
    opened.observation, paid, terminated, truncated, opened.info = opened.env.step(action)
    opened.step += 1
    reward = _validate.env_reward(paid)
    learned_from = agent._reward_of(reward, opened.info)
    answer = agent.observe(state, action, learned_from, opened.observation, step, bool(terminated))
    likelihood = 1.0 if answer is None else float(answer[1])
    return action, reward, likelihood, bool(terminated) or bool(truncated)


def alarmed(
    agent: "Agent", session: Session, state: Any, action: Any, next_state: Any, reward: float, now: int
) -> bool:
    """Pass one transition to the detector of a run, if it has one; return whether the agent should restart.

    An agent that detects changes itself reacts to its own alarms only.
    """
    detector = session.detector
    if detector is None or not detector.update(state, action, next_state, reward, now):
        return False
    return detector.restarts and not agent._has_own_alarms
