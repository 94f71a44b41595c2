"""Sizes that cannot fit are refused in words before memory is taken."""

import json
import tracemalloc
from contextlib import ExitStack, contextmanager

import gymnasium
import numpy as np
import pytest
from agent_cases import CASES, IDS
from saved_files import contents, write
from typer.testing import CliRunner

import dqucb
from dqucb import AGENTS, DQUCB, QUCB, SavedFileError, SlidingKDE, SlidingWindowQUCB, TabularAgent, _validate
from dqucb.agents import sizing
from dqucb.cli import app
from dqucb.running.compiled import Sizes

TABULAR = [name for name in AGENTS if issubclass(AGENTS[name], TabularAgent)]


@contextmanager
def little_memory():
    """What is done within may take 200 MB at most, imports included."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    finally:
        tracemalloc.stop()


def refused(message):
    """With little memory, and in words."""
    stack = ExitStack()
    stack.enter_context(little_memory())
    stack.enter_context(pytest.raises(ValueError, match=message))
    return stack


def held(learner):
    return sizing._bytes_of(learner)


@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_the_size_of_tables_is_known_from_tiny_ones(agent, kind):
    for n_states, n_actions, horizon, successors in [(8, 3, 6, 4), (8, 2, 11, 8), (8, 5, 1, 1)]:
        ends = (horizon, None) if kind == "horizon" else (None, 0.9)
        bounds = np.ones(horizon + 1 if kind == "horizon" else 1)
        sizes = Sizes(n_states, n_actions, *ends, bounds, 500, successors, successors, 2)
        predicted = sizing.table_bytes(agent._new_learner, sizes)
        if agent.get_params().get("state_features") is not None:
            assert predicted == 0  # its states are given
        else:
            assert predicted == held(agent._new_learner(sizes))


@pytest.mark.parametrize("name", TABULAR)
def test_tables_that_cannot_fit_are_refused_in_words(name):
    what = r"the tables of \w+ for 100,000,000 states, 1,000 actions and 100 steps"
    with refused(what + r" would take ([\d,.]+|more than a million) TB, more than the [\d,.]+ GB that this machine"):
        AGENTS[name]().start(10**8, 1_000, horizon=100)


def test_other_sizes_that_cannot_fit_are_refused_in_words(monkeypatch):
    with refused(r"a table of 1,000,000,000,000,000 steps would take 8,000.0 TB"):
        QUCB().start(1, 1, horizon=10**15)
    with refused(r"the curves of 1,000,000,000,000 episodes would take 40.0 TB"):
        QUCB().train(dqucb.gridworld(0.1, rows=2, cols=2, horizon=3), episodes=10**12)
    with refused(r"a window of 1,000,000,000,000 episodes would take 4,004.0 TB"):
        SlidingWindowQUCB(window=10**12).start(100, 1_000, horizon=1_000, length=10**12)
    with refused(r"window must be an integer in .* got 1000000000000, which takes 8.0 TB"):
        SlidingKDE(10**12)
    with refused(r"seeds must be an integer in \[1, 1000000\], got 99999999999"):
        dqucb.compare("qucb", "gridworld", 10, seeds=99_999_999_999)
    monkeypatch.setenv(_validate.MAX_GB, "0.001")
    _validate.memory_limit.cache_clear()
    try:
        with refused(r"would take \d+.\d MB, more than the 1.0 MB .*DQUCB_MAX_GB sets another"):
            QUCB().start(1_000, 1_000, horizon=5)
        monkeypatch.setenv(_validate.MAX_GB, "much")
        _validate.memory_limit.cache_clear()
        with refused("DQUCB_MAX_GB must be a number above 0, got 'much'"):
            QUCB().start(1_000, 1_000, horizon=5)
    finally:
        _validate.memory_limit.cache_clear()


@pytest.mark.parametrize("seeds", ["99999999999", "0-99999999999", "1,5-99999999999,7"])
def test_a_command_with_too_many_seeds_is_refused(seeds):
    with little_memory():
        done = CliRunner().invoke(app, ["run", "gridworld", "--seeds", seeds])
    assert done.exit_code == 2
    assert "seeds must be" in done.stderr


def test_images_whose_replay_buffer_cannot_fit_are_refused_in_words():
    pytest.importorskip("scipy")
    import dqucb.deep.trainer
    from dqucb.deep import DQN

    assert dqucb.deep.trainer  # with all that it imports

    class Images(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0.0, 1.0, (210, 160, 3), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

    with refused(r"a replay buffer of .* 10 seeds and observations of 100,800 .* 403.2 GB"):
        DQN(hidden=(2,)).train_seeds(Images, seeds=10, steps=5, max_return=1.0)


def test_a_small_file_that_declares_much_is_refused_before_memory_is_taken(tmp_path):
    path = QUCB().start(3, 2, horizon=4).save(tmp_path / "agent")
    settings, arrays = contents(path)
    assert path.stat().st_size < 5_000
    for name, size in {"n_states": 10**8, "n_actions": 10**9, "max_successors": 10**9}.items():
        changed = json.loads(json.dumps(settings))
        changed["sizes"][name] = size
        write(path, changed, arrays)
        if name == "max_successors":  # QUCB has no table of them
            assert QUCB.load(path).visits_.shape == (4, 3, 2)
        else:
            with little_memory(), pytest.raises(SavedFileError, match=r"it declares .* whose tables take .* and holds"):
                QUCB.load(path)


def test_a_large_agent_still_comes_back(tmp_path):
    agent = DQUCB(window=10).start(400, 10, horizon=300)
    assert DQUCB.load(agent.save(tmp_path / "agent")).visits_.shape == (300, 400, 10)
