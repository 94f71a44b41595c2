"""Loops of the user's own that are careless: what they leave in the tables is sound, and what is saved loads."""

import numpy as np
import pytest

from dqucb import AGENTS, Agent, SelectiveRestart, SlidingWindowQUCB, TabularAgent, TabularMDP, _storage
from dqucb.agents import tabular

TABULAR = [name for name in AGENTS if issubclass(AGENTS[name], TabularAgent)]


def count_of(agent):
    return agent._started().learner.counts


def test_a_window_holds_its_last_visits_whatever_the_steps_are_called():
    agent = SlidingWindowQUCB(window=3).start(2, 1, horizon=2, length=100)
    for _ in range(50):  # the episode is never ended, and all visits say that they are the first step
        bonus, _ = agent.observe(0, 0, 1.0, 1, step=0)
        assert np.isfinite(bonus)
    assert (count_of(agent) >= 0).all()
    assert count_of(agent).sum() <= 3 * 2
    for _ in range(4):
        agent.end_episode()
    assert count_of(agent).sum() == 0


@pytest.mark.parametrize("name", TABULAR)
def test_what_a_careless_loop_leaves_can_be_saved_and_loaded(name, tmp_path):
    """Forgotten ends of episodes, repeated and skipped steps, rewards of any size and sign."""
    rng = np.random.default_rng(3)
    for trial in range(4):
        agent = AGENTS[name]().start(3, 2, horizon=3, length=20, seed=trial)
        for _ in range(60):
            state, action, reached, step = (int(number) for number in rng.integers([3, 2, 3, 3]))
            reward = float(rng.choice([0.0, 1.0, -5.0, 1e6, -1e100 if trial % 2 else 0.5]))
            answer = agent.observe(state, action, reward, reached, step, bool(rng.random() < 0.2))
            assert np.isfinite(answer).all()
            if rng.random() < 0.1:
                agent.end_episode()
        loaded = Agent.load(agent.save(tmp_path / "agent"))
        assert loaded.q_.tobytes() == agent.q_.tobytes()


@pytest.mark.parametrize("name", TABULAR)
def test_a_long_loop_of_the_users_own_takes_no_more_memory_than_a_short_one(name, monkeypatch):
    """Memory that is reserved for steps is reserved again only when it has been used."""
    monkeypatch.setattr(tabular, "STEP_RESERVE", 8)
    agent = AGENTS[name]().start(3, 2, horizon=3, length=2_000)
    held = []
    for step in range(3_000):
        agent.observe(step % 3, step % 2, 1.0, (step + 1) % 3, step % 3, step % 3 == 2)
        if step % 3 == 2:
            agent.end_episode()
        if step % 1_000 == 999:
            held.append(sum(array.nbytes for array in agent._packed()[1].values()))
    assert held[2] <= 1.1 * held[1] < 1e6


def test_rewards_whose_squares_overflow_are_refused():
    agent = SelectiveRestart().start(2, 1, horizon=2)
    with pytest.raises(ValueError, match=r"reward must be >= -1e\+100 and <= 1e\+100, got 1e\+300"):
        agent.observe(0, 0, 1e300, 1)
    with pytest.raises(ValueError, match=r"each of R must be >= -1e\+100 and <= 1e\+100, got .*-1e\+200"):
        TabularMDP(np.ones((1, 1, 1)), np.array([[-1e200]]), horizon=2)


@pytest.mark.parametrize("successor", [0.7, "0", True, -1])
def test_successors_of_a_table_are_states(successor):
    table = {0: {0: [(1.0, successor, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
    with pytest.raises(ValueError, match=r"each successor in P\[0\]\[0\] must be an integer >= 0, got"):
        TabularMDP(table, horizon=3)


@pytest.mark.parametrize("name", ["qucb", "ucbb", "ucbmq"])
def test_a_count_that_would_overflow_is_refused(name, tmp_path):
    """Counts of a step have 32 bits; 2**31 visits of one pair at one step gave a bonus that is no number."""
    agent = AGENTS[name]().start(2, 1, horizon=2)
    agent.observe(0, 0, 1.0, 1)
    settings, arrays = _storage.load(agent.save(tmp_path / "agent"), "Agent")
    (visits,) = (array for key, array in arrays.items() if key.rpartition(".")[2] == "visits")
    visits[visits > 0] = 2**30
    loaded = Agent.load(_storage.save(tmp_path / "old", "Agent", settings, **arrays))
    assert np.isfinite(loaded.observe(0, 0, 1.0, 1)).all()
    visits[visits > 0] = 2**31 - 1
    loaded = Agent.load(_storage.save(tmp_path / "old", "Agent", settings, **arrays))
    with pytest.raises(ValueError, match=r"2,147,483,647 visits"):
        loaded.observe(0, 0, 1.0, 1)
