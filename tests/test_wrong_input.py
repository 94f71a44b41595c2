"""Values that used to be taken silently, or that ended in an error which names nothing."""

import os

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

import dqucb
from dqucb import DQUCB, Random, TransitionCounts, compare, gridworld
from dqucb.cli import app
from dqucb.deep import RandomPolicy
from dqucb.envs.making import make_env
from dqucb.experiments.options import Options


class Elsewhere(gymnasium.Env):
    """An env of five states whose next state is anything."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reached):
        self.reached = reached

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return self.reached, 1.0, False, False, {}


@pytest.mark.parametrize("reached", [2.7, "1", np.float64(1.0), np.array([1]), None, 7, True])
def test_states_of_an_env_are_whole_numbers(reached):
    with pytest.raises(ValueError, match=r"next_state must be an integer in \[0, 4\], got"):
        Random().train(Elsewhere(reached), episodes=2, horizon=3, max_return=3.0)


class Paying(gymnasium.Env):
    """An env of one state, as a number or as a vector, that pays anything."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pays, observation_space=None):
        self.pays, self.observation_space = pays, observation_space or gymnasium.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        return np.zeros_like(self.observation_space.sample()), {}

    def step(self, action):
        return self.reset()[0], self.pays, True, False, {}


VECTOR = gymnasium.spaces.Box(-1.0, 1.0, (1,))


@pytest.mark.parametrize("pays", ["1", "1_0", None, np.array([1.0]), np.array([1.0, 2.0]), 1j])
def test_the_reward_of_an_env_is_one_number(pays):
    with pytest.raises(ValueError, match="reward of the env must be a number, got"):
        Random().train(Paying(pays), episodes=2, horizon=1)
    with pytest.raises(ValueError, match="reward of the env must be a number, got"):
        RandomPolicy().train(Paying(pays, VECTOR), episodes=2)


@pytest.mark.parametrize("pays", [1, True, np.bool_(True), np.float32(1.0), np.array(1.0)])
def test_the_reward_of_an_env_may_have_any_type_of_a_number(pays):
    for run in (
        Random().train(Paying(pays), episodes=2, horizon=1),
        RandomPolicy().train(Paying(pays, VECTOR), episodes=2),
    ):
        assert run.returns.tolist() == [1.0, 1.0]


def test_a_reward_that_deep_agents_cannot_hold_is_refused():
    """Replay is in 32 bits, where it would be infinite, and one such reward is like any other."""
    with pytest.raises(ValueError, match=r"reward must be finite in 32 bits, got 1e\+200"):
        RandomPolicy().train(Paying(1e200, VECTOR), episodes=2)


def test_observations_without_any_number_are_refused():
    for space in (gymnasium.spaces.Tuple([]), gymnasium.spaces.Dict({}), gymnasium.spaces.Box(0.0, 1.0, (0,))):
        with pytest.raises(ValueError, match=r"env must have Box, Dict, Tuple, .* observations"):
            RandomPolicy().train(Paying(1.0, space), episodes=2)


@pytest.mark.parametrize("agent", [Random(), RandomPolicy()], ids=str)
def test_a_function_that_returns_the_same_env_again_makes_no_env_for_a_second_run(agent):
    """Its second run would begin where the first ended, and deep agents step all seeds in turn."""
    env = Paying(1.0, VECTOR if isinstance(agent, RandomPolicy) else None)
    ends = {} if isinstance(agent, RandomPolicy) else {"horizon": 1}
    with pytest.raises(ValueError, match="problem must make a new env for each of 2 runs, got a function that returns"):
        agent.train_seeds(lambda: env, 2, episodes=3, **ends)
    with pytest.raises(ValueError, match="problem must make a new env for each of 2 runs, got a function that returns"):
        compare(agent, lambda: env, 3, seeds=2, jobs=1, regret="none", **ends)
    assert len(agent.clone().train(lambda: env, episodes=3, **ends)) == 3


@pytest.mark.parametrize("pair", [("\u00e9", "e\u0301"), (" a", "a "), ("a  b", "a b")])
def test_labels_that_look_alike_are_refused(pair):
    with pytest.raises(ValueError, match="labels of agents must differ as text, got"):
        compare({pair[0]: Random(), pair[1]: DQUCB()}, "combination-lock", 20, seeds=1, jobs=1)


@pytest.mark.parametrize("label", ["", " ", "two\nlines", "a\0b"])
def test_a_label_is_one_line_of_text(label):
    with pytest.raises(ValueError, match="labels of agents must be printable text on one line, got"):
        compare({label: Random()}, "combination-lock", 20, seeds=1, jobs=1)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_folder_that_no_system_can_write_is_refused_in_words(name, tmp_path):
    with pytest.raises(ValueError, match="out must be a path that the system can write, got"):
        compare(Random(), "combination-lock", 20, seeds=1, jobs=1, out=f"{tmp_path}/{name}")


class Broken(TransitionCounts):
    """A density that answers anything."""

    answer = float("nan")

    def likelihood(self, *transition):
        return self.answer


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -0.5, None, "1"])
def test_a_density_that_gives_no_likelihood_is_named(answer, monkeypatch):
    monkeypatch.setattr(Broken, "answer", answer)
    agent = DQUCB(density=Broken(3, 2, horizon=4, window=5)).start(3, 2, horizon=4)
    with pytest.raises(ValueError, match=r"the likelihood that density gives must be >= 0, got"):
        agent.observe(0, 0, 0.0, 1)


def test_an_empty_path_is_not_the_folder_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="out must be the path of a folder, got an empty one"):
        compare("random", gridworld(0.1, rows=2, cols=2, horizon=3), 5, seeds=1, jobs=1, out="")
    for command in (["run", "gridworld"], ["sweep", "gridworld"], ["report", "x"], ["plot", "x"], ["export", "x"]):
        done = CliRunner().invoke(app, [*command, "--out", ""])
        assert done.exit_code == 2, command
        assert "a path, not an empty word" in done.stderr.replace("│", " ")
    assert os.listdir(tmp_path) == []


NAMES = ["problem", "agents", "seeds", "out", "episodes", "steps", "jobs", "bonus_scale", "regret", "change_at",
         "max_return", "backend", "scheduler", "set", "vary", "nonsense"]  # fmt: skip
VALUES = [
    "true", '""', '"x"', "1.5", "-3", "nan", "inf", "[]", '["a"]', "[[1]]", "{a=1}", "{qucb=3}", "{qucb={window=1}}",
    '{problem={noise="x"}}', "1979-05-27", "07:32:00", "99999999999999999999", "[1.5]", "[true]",
    '{problem={rows="a"}}',
    "{problem={rows=-1}}", '{problem={change_at=["x"]}}', "{bonus_scale=[]}", '{bonus_scale=["a"]}', "{bonus_scale=1}",
    "{bonus_scale=[[1]]}", '{random={"a b"=1}}', "9" * 5_000,
]  # fmt: skip
FINE = {("out", '"x"'), ("bonus_scale", "1.5"), ("scheduler", '""'), ("scheduler", '"x"'),
        ("bonus_scale", "99999999999999999999"), ("max_return", "1.5"), ("max_return", "-3"),
        ("max_return", "99999999999999999999")}  # fmt: skip


def start(path):
    options = Options.read({"config": path})
    options.check_sweep(bool(options.values))
    options.start(progress=False, command="")


@pytest.mark.parametrize("name", NAMES)
def test_values_of_a_wrong_type_in_a_toml_file_are_refused_with_their_name(name, tmp_path, monkeypatch):
    monkeypatch.setattr("dqucb.experiments.execution.Job.__call__", lambda *_: pytest.fail("a run began"))
    right = {"problem": '"gridworld"', "agents": '["qucb"]', "episodes": "30", "seeds": "1", "jobs": "1"}
    path = tmp_path / "study.toml"
    for value in VALUES:
        if (name, value) in FINE:
            continue
        lines = {**right, name: value}
        path.write_text("\n".join(f"{key} = {text}" for key, text in lines.items()))
        with pytest.raises(ValueError, match=r".") as caught:
            start(path)
        said = str(caught.value)
        known = {"agents": "agent", "set": "", "vary": "", "nonsense": "option"}.get(name, name)
        assert known in said or "is not TOML" in said, (value, said)
        assert len(said) < 2_000


def test_what_is_nearly_a_problem_or_an_agent_is_answered_with_what_to_write():
    with pytest.raises(ValueError, match=r"got the name 'frozen-lake': pass dqucb.PROBLEMS\['frozen-lake'\]\(\)"):
        make_env("frozen-lake")
    with pytest.raises(ValueError, match="unknown problem 'frozen_lakes': did you mean frozen-lake"):
        dqucb.QUCB().train("frozen_lakes", episodes=5)
    with pytest.raises(ValueError, match=r"QUCB'>: write QUCB\(\.\.\.\)"):
        dqucb.compare([dqucb.QUCB], dqucb.combination_lock(change_at=()), 5, seeds=1, jobs=1)


def test_a_run_too_short_for_its_changes_says_so():
    with pytest.raises(ValueError, match="episodes must be enough for the 4 changes of combination-lock, got 3"):
        dqucb.compare("random", "combination-lock", 3, seeds=1)


def test_a_detector_that_declares_more_updates_than_can_be_counted_is_refused(tmp_path):
    from saved_files import contents, write

    from dqucb.drift import FiniteDriftDetector

    path = FiniteDriftDetector(n_states=3, n_actions=2).update(0, 1, 2).save(tmp_path / "detector")
    settings, arrays = contents(path)
    write(path, {**settings, "n_updates": 10**400}, arrays)
    with pytest.raises(dqucb.SavedFileError, match="n_updates must be an integer in"):
        FiniteDriftDetector.load(path)
