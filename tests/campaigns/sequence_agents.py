"""State machines over the public calls of tabular agents: one step at a time, and runs that are stopped and go on."""

import copy
import functools
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from dqucb import (
    DQUCB,
    UCBVI,
    Agent,
    DetectReset,
    PlanningDQUCB,
    QLearning,
    RestartQUCB,
    SlidingWindowQUCB,
    TabularMDP,
    gridworld,
)
from dqucb.aot import variants
from dqucb.drift import FiniteDriftDetector
from tests.campaigns.sequence_machines import Counted, rewards, small

SIZES = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
FOLDER = Path(tempfile.mkdtemp(prefix="dqucb-sequences-"))
# Beside every form that has kernels of its own: arguments at their edges, and agents that restart all the time.
EDGES: list[Any] = [
    DQUCB(window=1),
    DQUCB(window=3, scope="shared", kernel="linear", bandwidth=2.0),
    DQUCB(window=2, likelihood="density", kernel="tophat", state_features=np.array([[0, 3], [1, 2], [2, 1], [3, 0]])),
    DQUCB(window=4, likelihood_noise=0.1, bonus="theory"),
    DQUCB(density={"name": "counts", "window": 3}),
    UCBVI(planning="real_time"),
    UCBVI(transition_noise=0.05),
    PlanningDQUCB(false_alarms=1.0),
    PlanningDQUCB(false_alarms=1.0, stage_dependent=False),
    SlidingWindowQUCB(window=2),
    RestartQUCB(epochs=3),
    DetectReset(threshold=1.01),
    QLearning(epsilon=0.3),
]
AGENTS_USED = [*(agent for _, agent in variants()), *EDGES]


def _came_back(agent: Any, how: str) -> Any:
    if how == "file":
        return Agent.load(agent.save(FOLDER / "agent"))
    if how == "pickle":
        return pickle.loads(pickle.dumps(agent))
    return getattr(copy, how)(agent)


def _look(agent: Any, n_actions: int) -> None:
    assert np.isfinite(agent.q_).all()
    assert (agent.visits_ >= 0).all()
    assert agent.greedy_policy().max() < n_actions
    assert (np.diff(agent.alarms_) >= 0).all()


def _starts() -> Iterator[tuple[Any, str]]:
    """(agent, "horizon" or "discount") for what can be stepped without a problem."""
    for agent in AGENTS_USED:
        for ends in ({"horizon": 2}, {"discount": 0.5}):
            try:
                agent.clone().start(4, 2, **ends)
            except ValueError:
                continue  # it looks at the true problem, or does not take a discount
            yield agent, next(iter(ends))


class AgentCalls(Counted):
    """A tabular agent that is stepped, saved, copied, in any order and with wrong arguments among them."""

    agent: Any = None

    @initialize(used=st.sampled_from(list(_starts())), sizes=SIZES, length=st.sampled_from([1, 5, 1_000]), seed=small)
    def start(self, used: tuple[Any, str], sizes: tuple[int, int, int], length: int, seed: int) -> None:
        agent, ends = used
        n_states = 4 if getattr(agent, "state_features", None) is not None else sizes[0]
        self.sizes = (n_states, sizes[1], sizes[2])
        given: dict[str, Any] = {"horizon": sizes[2]} if ends == "horizon" else {"discount": 0.2 * sizes[2]}
        self.agent = agent.clone().start(n_states, sizes[1], length=length, seed=seed, **given)

    def _within(self, *numbers: int) -> list[int]:
        return [number % size for number, size in zip(numbers, self.sizes, strict=True)]

    @rule(
        state=small, action=small, step=small, reached=small, reward=rewards, over=st.booleans(),
        times=st.sampled_from([1, 2, 12, 40]),
    )  # fmt: skip
    def observe(self, state: int, action: int, step: int, reached: int, reward: float, over: bool, times: int) -> None:
        self.count()
        s, a, h = self._within(state, action, step)
        for _ in range(times):
            answer = self.agent.observe(s, a, reward, reached % self.sizes[0], h, over)
        assert np.isfinite(answer).all(), answer

    @rule(steps=st.lists(small, min_size=1, max_size=8), reward=rewards)
    def episode(self, steps: list[int], reward: float) -> None:
        """Several, with the agent's own actions."""
        self.count()
        state = 0
        for number in steps * 3:
            step = number % self.sizes[2]
            reached = (state + number) % self.sizes[0]
            self.agent.observe(state, self.agent.act(state, step), reward * (number == 3), reached, step)
            state = reached
            if step == self.sizes[2] - 1:
                self.agent.end_episode()

    @rule(state=small, step=small)
    def act(self, state: int, step: int) -> None:
        self.count()
        s, _, h = self._within(state, 0, step)
        assert 0 <= self.agent.act(s, h) < self.sizes[1]
        assert 0 <= self.agent.predict(s, step=h) < self.sizes[1]

    @rule(times=st.integers(1, 3))
    def end_episode(self, times: int) -> None:
        self.count()
        for _ in range(times):
            self.agent.end_episode()

    @rule()
    def restart(self) -> None:
        self.count()
        self.agent.restart()

    @rule(place=st.sampled_from(range(4)), wrong=st.sampled_from([-1, 99, 2**63, 1.5, "0", None]))
    def wrong_call(self, place: int, wrong: Any) -> None:
        self.count()
        call = [0, 0, 0.0, 0]
        call[place] = wrong if place != 2 else float("nan")
        try:
            self.agent.observe(*call)
        except ValueError:
            return
        raise AssertionError(f"observe{tuple(call)} was taken")

    @rule()
    def look(self) -> None:
        self.count()
        _look(self.agent, self.sizes[1])

    @rule(how=st.sampled_from(["file", "copy", "deepcopy", "pickle"]))
    def come_back(self, how: str) -> None:
        self.count()
        before = self.agent.q_.tobytes()
        if how == "file" and getattr(self.agent, "density", None) is not None:
            how = "copy"
        self.agent = _came_back(self.agent, how)
        assert self.agent.q_.tobytes() == before


def _by_step() -> TabularMDP:
    """Three states, two actions, transitions that differ from step to step, a terminal state, a random start."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(4, 0.4), size=(3, 4, 2))
    return TabularMDP(P, rng.random((4, 2)), horizon=3, terminal=[3], initial=np.array([0.5, 0.25, 0.25, 0.0]))


GRID: dict[str, Any] = {"noise": (0.1, 0.4), "rows": 2, "cols": 2}
PROBLEMS: dict[str, tuple[Any, dict[str, int]]] = {
    "grid": (gridworld(change_at=(7,), horizon=4, **GRID), {"episodes": 24}),
    "by step": (_by_step(), {"episodes": 24}),
    "discount": (gridworld(change_at=(20,), discount=0.6, **GRID), {"steps": 60}),
}
CURVES = ("ends", "returns", "gaps", "likelihood", "lengths", "alarms")


def _digest(run: Any) -> list[bytes]:
    return [np.ascontiguousarray(getattr(run, name)).tobytes() for name in CURVES]


@functools.cache
def _undisturbed(number: int, problem: str, options: tuple[tuple[str, Any], ...]) -> list[bytes] | None:
    """The curves of a run that nobody stops; None if the agent does not take the problem."""
    made, length = PROBLEMS[problem]
    try:
        return _digest(AGENTS_USED[number].clone().train(made, **length, **_given(options)))
    except ValueError:
        return None


def _given(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    given = dict(options)
    if given.pop("watched"):
        given["detector"] = FiniteDriftDetector(n_states=4, n_actions=PROBLEMS["by step"][0].n_actions * 2)
    return given


class SessionCalls(Counted):
    """A run that is stopped, saved, copied, looked at and finished: with the bits of one that nobody stopped."""

    agent: Any = None

    @initialize(
        number=st.integers(0, len(AGENTS_USED) - 1), problem=st.sampled_from(list(PROBLEMS)), seed=st.integers(0, 1),
        regret=st.sampled_from(["realized", "realized", "expected"]),
        watched=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    def start(self, number: int, problem: str, seed: int, regret: str, watched: bool) -> None:
        options = (("seed", seed), ("regret", "realized" if watched else regret), ("watched", watched))
        if _undisturbed(number, problem, options) is None:
            problem, options = "grid", (("seed", seed), ("regret", "realized"), ("watched", False))
        self.reference = _undisturbed(number, problem, options)
        assert self.reference is not None, AGENTS_USED[number]
        self.problem, self.length = PROBLEMS[problem]
        self.options = options
        self.agent = AGENTS_USED[number].clone()
        self.done, self.total = 0, next(iter(self.length.values()))

    def _train(self, **more: Any) -> Any:
        return self.agent.train(self.problem, **self.length, **{**_given(self.options), **more})

    @rule(part=st.integers(1, 20))
    def go_on(self, part: int) -> None:
        self.count()
        self.done = min(self.total, self.done + part)
        run = self._train(stop_at=self.done)
        if self.done == self.total:
            assert _digest(run) == self.reference
            self.agent, self.done = self.agent.clone(), 0

    @rule(how=st.sampled_from(["file", "file", "copy", "deepcopy", "pickle"]))
    def come_back(self, how: str) -> None:
        self.count()
        if not self.done:
            return
        back = _came_back(self.agent, how)
        if how != "file" or self.agent.describe(self.problem).resumable:
            self.agent = back
            return
        try:
            back.train(self.problem, **self.length, **_given(self.options))
        except ValueError:
            return
        raise AssertionError("a run that cannot be saved in the middle went on from a file")

    @rule(what=st.sampled_from([{"seed": 7}, {"regret": "exact"}, {"stop_at": 0}, {"records": -1}, {"seed": -1}]))
    def wrong_train(self, what: dict[str, Any]) -> None:
        self.count()
        if not self.done:
            return
        try:
            self._train(**what)
        except ValueError:
            return
        raise AssertionError(f"train(**{what}) was taken in the middle of a run")

    @rule(state=small, action=st.integers(0, 1), reached=small, reward=rewards)
    def learn_aside(self, state: int, action: int, reached: int, reward: float) -> None:
        """A copy learns something else; the run does not notice."""
        self.count()
        if self.done:
            aside = copy.deepcopy(self.agent)
            try:
                for _ in range(5):
                    aside.observe(state, action, reward, reached)
            except ValueError as error:
                if 0.0 <= reward <= 1.0 or "as the problem states" not in str(error):
                    raise
                return
            aside.end_episode()
            _look(aside, self.problem.n_actions)

    @rule(seed=small)
    def look(self, seed: int) -> None:
        self.count()
        if self.done:
            _look(self.agent, self.problem.n_actions)
            if self.problem.horizon is not None:
                assert np.isfinite(self.agent.evaluate(self.problem, episodes=1, seed=seed)).all()


AGENT_MACHINES = {"agents": AgentCalls, "sessions": SessionCalls}
