"""One rule for alarms and detectors, for every kind of agent.

`run.alarms` are the agent's own where it looks for changes itself, else those of `train(detector=...)`; and
`on_alarm="restart"` acts only on agents without alarms of their own.
"""

import gymnasium
import numpy as np
import pytest

import dqucb
from dqucb import QUCB, DetectReset, PlanningDQUCB, gridworld
from dqucb.deep import DQN, DeepDQUCB
from dqucb.hospital import CUCBRA

AT = (30, 60)  # updates at which the detector gives an alarm


class Scripted:
    """Gives an alarm at set updates."""

    statistic, significance = 0.0, 1.0

    def __init__(self):
        self.n_updates, self.drift_detected, self.changed_at = 0, False, None

    def update(self, state, action, next_state, reward=None):
        self.drift_detected = self.n_updates in AT
        if self.drift_detected:
            self.changed_at = self.n_updates - 10
        self.n_updates += 1
        return self

    def clone(self):
        return Scripted()


class Counting(dqucb.Agent):
    """An agent written in Python that counts its restarts."""

    def begin(self, observation_space, action_space, **facts):
        self.restarts = 0

    def act(self, observation, step=0):
        return 0

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        pass

    def restart(self):
        self.restarts += 1


SMALL = {"hidden": (8,), "learning_starts": 20, "batch_size": 4}
GRID = gridworld(rows=2, cols=2, horizon=5, noise=0.1)
FLAT = gridworld(rows=2, cols=2, discount=0.9, noise=0.1)
# Agent, problem, length, and whether it has alarms of its own.
CASES = {
    "tabular": (QUCB(), GRID, {"episodes": 20}, False),
    "tabular by steps": (QUCB(), FLAT, {"steps": 100}, False),
    "tabular with a test of its own": (DetectReset(), GRID, {"episodes": 20}, True),
    "planning": (PlanningDQUCB(), GRID, {"episodes": 20}, True),
    "of the user": (Counting(), GRID, {"episodes": 20}, False),
    "deep": (DQN(**SMALL), "cartpole", {"steps": 100}, False),
    "deep by the paper": (DeepDQUCB(variant="paper", **SMALL), "cartpole", {"steps": 100}, False),
    "deep and adaptive": (DeepDQUCB(**SMALL), "cartpole", {"steps": 100}, True),
    "allocation": (CUCBRA(), "hospital", {"steps": 100}, False),
}


def _restarts(agent, monkeypatch):
    """A list that grows with every restart of the agent, or of its learner."""
    found = []
    if agent.in_lockstep:
        from dqucb.deep.trainer import Trainer

        monkeypatch.setattr(Trainer, "restart", lambda self, i, changed_at: found.append(changed_at))
    else:
        monkeypatch.setattr(type(agent), "restart", lambda self: found.append(True))
    return found


@pytest.mark.parametrize("on_alarm", ["restart", "note"])
@pytest.mark.parametrize("case", CASES)
def test_whose_alarms_count(case, on_alarm, monkeypatch):
    agent, problem, length, has_own = CASES[case]
    agent = agent.clone()
    restarts = _restarts(agent, monkeypatch)
    run = agent.train(problem, detector=Scripted(), on_alarm=on_alarm, **length)
    at = [index // 5 for index in AT] if "episodes" in length else list(AT)
    assert agent.detector_alarms_.tolist() == at
    assert agent._has_own_alarms == has_own
    assert run.alarms.tolist() == ([] if has_own else at)  # too few steps for an alarm of an agent's own
    assert len(restarts) == (2 if on_alarm == "restart" and not has_own else 0)
    assert len(agent.train(problem, seed=1, **length).alarms) == 0  # a new run without a detector has none


def test_every_seed_of_a_lockstep_run_has_a_detector_of_its_own():
    agent = DQN(**SMALL)
    runs = agent.train_seeds("cartpole", seeds=[3, 4], steps=100, detector=Scripted())
    assert [run.alarms.tolist() for run in runs] == [list(AT)] * 2
    assert len({id(session.detector.detector) for session in agent._sessions}) == 2


def test_own_alarms_of_an_adaptive_agent_are_not_mixed_with_those_of_a_detector(tmp_path):
    agent = DeepDQUCB(**SMALL)
    agent.train("cartpole", steps=100, stop_at=80, detector="auto")
    agent._sessions[0].own_alarms.append(70)
    run = agent.train("cartpole", steps=100, detector="auto")
    assert run.alarms.tolist() == [70]
    loaded = DeepDQUCB.load(agent.save(tmp_path / "agent"))
    assert loaded._own_alarms(0).tolist() == [70]


def test_a_foreign_env_with_steps_numbers_the_steps_of_its_episodes():
    steps = []

    class Noting(Counting):
        def act(self, observation, step=0):
            steps.append(step)
            return 0

    Noting().train(gymnasium.make("CartPole-v1"), steps=30)
    assert steps[:5] == [0, 1, 2, 3, 4]
    assert steps.count(0) > 1


def test_evaluation_leaves_an_env_of_the_user_open():
    class Closed(gymnasium.Wrapper):
        closed = 0

        def close(self):
            self.closed += 1
            super().close()

    env = Closed(gymnasium.make("CartPole-v1"))
    agent = DQN(**SMALL)
    agent.train("CartPole-v1", steps=30)
    assert len(agent.evaluate(env, 1)) == 1
    assert env.closed == 0
    assert np.isfinite(agent.evaluate("CartPole-v1", 2)).all()
