"""Files of agents written in Python: `state` and `restore`, resumed runs, and the code that wrote a file."""

import signal
import subprocess
import sys
import textwrap
import warnings

import gymnasium
import numpy as np
import pytest

from dqucb import QUCB, Agent, SavedFileError, check_agent
from dqucb.checks import small_problem
from dqucb.run import CURVES
from dqucb.running import files

MODULE = """
import numpy as np
import dqucb

class Learner(dqucb.Agent):
    def __init__(self, *, epsilon=0.3):
        self.epsilon = epsilon

    def begin(self, observation_space, action_space, *, rng, **facts):
        self.rng, self.q, self.episodes = rng, np.zeros((observation_space.n, action_space.n)), 0

    def act(self, observation, step=0):
        if self.rng.random() < self.epsilon / (1 + self.episodes):
            return int(self.rng.integers(self.q.shape[1]))
        return int(self.q[observation].argmax())

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        self.q[state, action] += 0.1 * (reward + self.q[next_state].max() - self.q[state, action])

    def end_episode(self):
        self.episodes += 1

    def state(self):
        return {"q": self.q, "episodes": self.episodes}

    def restore(self, state):
        self.q[:], self.episodes = state["q"], state["episodes"]
"""


def learner(changed=("", "")):
    """The class above, with a part of its code changed."""
    names = {"__name__": "a_script"}
    exec(MODULE.replace(*changed), names)
    return names["Learner"]


def assert_same(one, other):
    for name in CURVES:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


class Drifting(gymnasium.Env):
    """A random walk with a Dict observation; it can be saved, and ends within a record of a run of steps."""

    observation_space = gymnasium.spaces.Dict(
        x=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32), sign=gymnasium.spaces.Discrete(3, start=-1)
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.age = np.zeros(2, np.float32), 0
        return self._observation(), {}

    def step(self, action):
        self.x = (self.x + self.np_random.normal(size=2) * (1 + action)).astype(np.float32)
        self.age += 1
        return self._observation(), float(-abs(self.x).sum()), self.age == 7, False, {}

    def _observation(self):
        return {"x": self.x.copy(), "sign": np.int64(np.sign(self.x[0]))}

    def checkpoint_state(self):
        return {"x": self.x, "age": self.age, "rng": self.np_random.bit_generator.state}

    def restore_state(self, state):
        self.x, self.age = state["x"], state["age"]
        self.np_random.bit_generator.state = state["rng"]


class Walker(Agent):
    """Acts by the sum of all that it observed."""

    def begin(self, observation_space, action_space, *, rng, **facts):
        self.rng, self.total = rng, np.zeros(2)

    def act(self, observation, step=0):
        return int(self.total.sum() + observation["x"].sum() + step > self.rng.normal())

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        self.total += next_state["x"] * next_state["sign"]

    def state(self):
        return {"total": self.total}

    def restore(self, state):
        self.total[:] = state["total"]


@pytest.mark.parametrize("ends", [{"horizon": 6}, {"discount": 0.9}], ids=str)
def test_an_agent_with_state_and_restore_keeps_the_contract_of_files(ends):
    check_agent(learner()(), small_problem(**ends), **{"episodes" if "horizon" in ends else "steps": 60})


def test_an_agent_that_forgets_a_part_of_its_state_does_not():
    forgetful = learner(('"episodes": self.episodes', '"episodes": 0'))
    with pytest.raises(AssertionError, match=r"bit for bit: does state\(\) hold all"):
        check_agent(forgetful())


def test_a_run_of_steps_resumes_in_the_middle_of_an_episode(tmp_path):
    whole = Walker().train(Drifting, steps=100, records=10)
    stopped = Walker()
    stopped.train(Drifting, steps=100, records=10, stop_at=30)  # episodes have 7 steps
    twice = Walker.load(Walker.load(stopped.save(tmp_path / "once")).save(tmp_path / "twice"))
    assert_same(twice.train(Drifting, steps=100, records=10), whole)
    assert twice.total.tolist() != stopped.total.tolist()


def test_a_loaded_agent_predicts_and_says_why_a_finished_run_cannot_continue(tmp_path):
    agent = learner()()
    agent.train(small_problem(), episodes=40)
    loaded = type(agent).load(agent.save(tmp_path / "agent"))
    assert [loaded.predict(state) for state in range(5)] == [agent.predict(state) for state in range(5)]
    with pytest.raises(ValueError, match="finished run of 40 episodes"):
        loaded.train(small_problem(), episodes=40)


def test_a_killed_run_continues_with_the_same_bits(tmp_path):
    script = MODULE + textwrap.dedent("""
        import os, signal, sys
        from dqucb.checks import small_problem
        from dqucb.running import engine

        engine.CHECKPOINT_SECONDS = 0.0

        def kill(moment):
            if moment.done >= 25 and os.path.exists(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)

        Learner().train(small_problem(), episodes=60, seed=3, checkpoint=sys.argv[1], callback=kill)
    """)
    path = tmp_path / "checkpoint"
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=600)
    assert done.returncode == -signal.SIGKILL
    kind = learner()
    assert 0 < kind.load(path)._sessions[0].done < 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resumed = kind().train(small_problem(), episodes=60, seed=3, checkpoint=path)
    assert_same(resumed, kind().train(small_problem(), episodes=60, seed=3))


def test_a_checkpoint_of_other_code_of_the_agent_is_warned_of(tmp_path):
    path = tmp_path / "checkpoint"
    learner()().train(small_problem(), episodes=60, stop_at=20, checkpoint=path)
    edited = learner(("0.1 *", "0.2 *"))
    with pytest.warns(
        UserWarning, match="saved by other code of Learner: it continues with the present code"
    ) as caught:
        edited().train(small_problem(), episodes=60, stop_at=30, checkpoint=path)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edited().train(small_problem(), episodes=60, checkpoint=path)  # written by this code since


def test_a_checkpoint_of_other_code_of_the_package_is_warned_of(tmp_path, monkeypatch):
    agent = QUCB()
    agent.train(small_problem(), episodes=40, stop_at=20)
    path = agent.save(tmp_path / "agent")
    monkeypatch.setattr(files, "versions", lambda: {"code": "another"})
    with pytest.warns(UserWarning, match="other code of dqucb"):
        QUCB.load(path).train(small_problem(), episodes=40)


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, {1, 2}, np.int64(3), float("nan"), object()], ids=lambda value: type(value).__name__
)
def test_a_state_that_would_not_come_back_is_refused(tmp_path, value):
    kind = learner(('"episodes": self.episodes', '"episodes": self.given'))
    agent = kind()
    agent.train(small_problem(), episodes=20)
    agent.given = value
    with pytest.raises(ValueError, match=r"Learner.state\(\) must hold arrays and JSON values .* got 'episodes'"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


def test_an_agent_without_state_says_what_it_lacks(tmp_path):
    class Silent(Agent):
        def act(self, observation, step=0):
            return 0

        def observe(self, state, action, reward, next_state, step=0, terminated=False):
            pass

    agent = Silent()
    agent.train(small_problem(), episodes=20)
    with pytest.raises(ValueError, match=r"Silent cannot be saved: it must define state\(\) and restore\(state\)"):
        agent.save(tmp_path / "agent")
    with pytest.raises(ValueError, match="checkpoint must be None for Silent"):
        Silent().train(small_problem(), episodes=20, checkpoint=tmp_path / "agent")


class Dithering(QUCB):
    """Sometimes takes another action, the less often the more steps it has taken."""

    taken = 0

    def act(self, observation, step=0):
        self.taken += 1
        return self.taken % 2 if self.taken % (1 + self.taken // 10) == 0 else super().act(observation, step)


class DitheringOn(Dithering):
    """The same, with its counter in the file."""

    def state(self):
        return {"taken": self.taken}

    def restore(self, state):
        self.taken = state["taken"]


def test_a_subclass_of_a_tabular_agent_adds_its_state_to_the_tables(tmp_path):
    whole = DitheringOn().train(small_problem(), episodes=40)
    assert_same(Dithering().train(small_problem(), episodes=40), whole)
    stopped = DitheringOn()
    stopped.train(small_problem(), episodes=40, stop_at=13)
    loaded = DitheringOn.load(stopped.save(tmp_path / "agent"))
    assert loaded.taken == stopped.taken > 0
    assert_same(loaded.train(small_problem(), episodes=40), whole)
    assert DitheringOn().describe(small_problem()).resumable


def test_a_subclass_of_a_tabular_agent_without_state_does_not_continue_from_a_file(tmp_path):
    stopped = Dithering()
    stopped.train(small_problem(), episodes=40, stop_at=13)
    with pytest.raises(ValueError, match="cannot"):
        Dithering.load(stopped.save(tmp_path / "agent")).train(small_problem(), episodes=40)
    assert not Dithering().describe(small_problem()).resumable


def test_damaged_runs_are_refused(tmp_path):
    from dqucb import _storage

    agent = learner()()
    agent.train(small_problem(), episodes=40, stop_at=20)
    settings, arrays = _storage.load(agent.save(tmp_path / "agent"), "Agent")
    for name, array in (
        ("curve.ends", arrays["curve.ends"] + 1),
        ("curve.position", np.array([9, 20])),
        ("curve.returns", arrays["curve.returns"][:3]),
    ):
        path = _storage.save(tmp_path / "damaged", "Agent", settings, **(arrays | {name: array}))
        with pytest.raises(SavedFileError, match=name.removeprefix("curve.")):
            type(agent).load(path)
