"""The contract of `dqucb.base`: every registered agent keeps it, and so can an agent of one's own."""

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest
import sklearn.base

import dqucb
from dqucb import AGENTS, DQUCB, PROBLEMS, QUCB, Agent, check_agent, check_problem
from dqucb._parameters import Within
from dqucb._validate import integer, real
from dqucb.agents import TabularAgent
from dqucb.agents.confidence import NeedsHorizonError
from dqucb.checks import small_problem

TABULAR = [name for name, kind in AGENTS.items() if issubclass(kind, TabularAgent)]


class Counting(Agent):
    """Goes round the actions; counts what it saw."""

    def __init__(self, *, first: int = 0, labels: tuple[str, ...] = ("a", "b")) -> None:
        self.first, self.labels = first, labels

    def begin(self, observation_space, action_space, *, horizon, discount, length, rng):
        self.n_actions, self.turn, self.ended = int(action_space.n), self.first, 0

    def act(self, observation, step=0):
        return self.turn % self.n_actions

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        self.turn += 1

    def end_episode(self):
        self.ended += 1


class Minimal(Agent):
    """Only what an agent must have."""

    def act(self, observation, step=0):
        return 0

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        pass


class Stubborn(QUCB):
    """A subclass with steps of its own."""

    def act(self, observation, step=0):
        return 1


class PatientQUCB(QUCB):
    """A subclass that only has other defaults."""


@pytest.mark.parametrize("name", TABULAR)
def test_registered_agents_keep_the_contract(name):
    check_agent(AGENTS[name]())


@pytest.mark.parametrize("name", TABULAR)
def test_registered_agents_keep_the_contract_with_a_discount(name):
    try:
        check_agent(AGENTS[name](), small_problem(discount=0.9), steps=60)
    except NeedsHorizonError:
        pytest.skip("needs a horizon")


@pytest.mark.nojit
def test_registered_agents_keep_the_contract_without_the_jit(run_python):
    code = """
from dqucb import AGENTS, check_agent
from dqucb.agents import TabularAgent
for name, kind in AGENTS.items():
    if issubclass(kind, TabularAgent):
        check_agent(kind())
        print(name)
"""
    assert run_python(code, NUMBA_DISABLE_JIT="1").split() == TABULAR


@pytest.mark.parametrize("agent", [Counting(first=1), Minimal(), Stubborn(), PatientQUCB()], ids=repr)
def test_agents_of_ones_own_keep_the_contract(agent):
    check_agent(agent)


def test_an_agent_written_in_python_trains_where_its_spaces_fit():
    agent = Counting(first=2)
    run = agent.train(small_problem(), episodes=30)
    assert run.agent == "Counting"
    assert run.parameters == {"first": 2, "labels": ["a", "b"]}
    assert agent.ended == 30
    assert len(run.phase_regret()) == 2
    on_cartpole = Counting().train("CartPole-v1", episodes=5, max_return=500.0)
    assert (on_cartpole.gaps == 500.0 - on_cartpole.returns).all()
    with pytest.raises(ValueError, match="cannot be saved"):
        agent.save("never")


def test_a_subclass_with_steps_of_its_own_is_honoured():
    assert Stubborn().train(small_problem(), episodes=30).returns.tobytes() != (
        QUCB().train(small_problem(), episodes=30).returns.tobytes()
    )
    agent = Stubborn()
    agent.train(small_problem(), episodes=30)
    assert (agent.visits_[:, :, [0, 2]] == 0).all()


def test_a_saved_subclass_comes_back(tmp_path):
    agent = PatientQUCB(bonus_scale=0.3)
    agent.train(small_problem(), episodes=30)
    for kind in (PatientQUCB, QUCB, Agent):
        loaded = kind.load(agent.save(tmp_path / "agent"))
        assert type(loaded) is PatientQUCB
        assert loaded.q_.tobytes() == agent.q_.tobytes()


@pytest.mark.parametrize("name", TABULAR)
def test_scikit_learn_clones_agents(name):
    agent = AGENTS[name]()
    twin = sklearn.base.clone(agent)
    assert twin is not agent
    assert twin.parameters() == agent.parameters()


def test_parameters():
    agent = DQUCB(window=7)
    assert agent.get_params()["window"] == 7
    assert agent.clone(window=9).window == 9
    assert agent.window == 7
    assert agent.set_params(bandwidth=2.0) is agent
    assert (agent.window, agent.bandwidth) == (7, 2.0)
    with pytest.raises(ValueError, match=r"unknown parameter of DQUCB 'windw': did you mean window\?"):
        agent.set_params(windw=3)
    with pytest.raises(ValueError, match="window must be an integer >= 1, got 0"):
        agent.set_params(window=0)
    assert agent.window == 7
    agent.train(small_problem(), episodes=30)
    with pytest.raises(ValueError, match="has learned nothing yet"):
        agent.set_params(window=8).act(0)


def test_agents_by_name():
    assert repr(dqucb.make_agent("dqucb", window=50)) == "DQUCB(window=50)"
    with pytest.raises(ValueError, match=r"unknown agent 'dqubc': did you mean dqucb"):
        dqucb.make_agent("dqubc")
    with pytest.raises(ValueError, match="unknown parameter of qucb 'window'"):
        dqucb.make_agent("qucb", window=50)


def test_predict_and_evaluate():
    lock = dqucb.combination_lock(change_at=())
    agent = QUCB(bonus_scale=0.1)
    agent.train(lock, episodes=2_000)
    policy = agent.greedy_policy()
    assert all(agent.predict(s, step=h) == policy[h, s] for h in range(5) for s in range(10))
    returns = agent.evaluate(lock, episodes=50)
    assert returns.shape == (50,)
    assert agent.evaluate(lock, episodes=50).tobytes() == returns.tobytes()
    assert agent.evaluate(lock, episodes=50, seed=1).tobytes() != returns.tobytes() or returns.std() == 0
    before = agent.visits_
    agent.evaluate(lock, episodes=3)
    np.testing.assert_array_equal(agent.visits_, before)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_registered_problems_can_be_learned(name):
    check_problem(PROBLEMS[name]())
    problem, facts = PROBLEMS[name](), PROBLEMS.facts(name)
    assert facts["steps" if problem.horizon is None else "episodes"] > max(problem.change_at, default=0)


def test_checks_find_what_is_wrong():
    class Forgetful(Counting):
        """Its clone is another agent."""

        def __init__(self, *, first=0):
            super().__init__(first=first + 1)

    class Random(Counting):
        """The same seed gives other runs."""

        def act(self, observation, step=0):
            return int(np.random.default_rng().integers(self.n_actions))

    for agent, message in ((Forgetful(first=1), "must keep the parameters"), (Random(), "same seed")):
        with pytest.raises(AssertionError, match=message):
            check_agent(agent)
    with pytest.raises(ValueError, match=r"agent must be a dqucb.Agent, got 3"):
        check_agent(3)
    with pytest.raises(ValueError, match="problem must be a TabularMDP"):
        check_problem("lake")


class Remembering:
    """A callback with a state of its own."""

    def __init__(self):
        self.done = []

    def __call__(self, moment):
        self.done.append(moment.done)

    def state(self):
        return {"done": np.array(self.done, np.int64), "calls": len(self.done)}

    def restore(self, state):
        self.done = state["done"].tolist()

    def results(self, i):
        return {"done": np.array(self.done)}


@pytest.mark.parametrize("agent", [QUCB(), Stubborn()], ids=repr)
def test_a_checkpoint_holds_the_state_of_a_callback(agent, tmp_path):
    first, second, path = Remembering(), Remembering(), tmp_path / "checkpoint"
    if isinstance(agent, Stubborn):  # stepped from Python: the env is not part of the file
        run = agent.train(small_problem(), episodes=40, callback=first)
        assert run.extras["done"].tolist() == first.done
        return
    agent.clone().train(small_problem(), episodes=40, stop_at=20, callback=first, checkpoint=path)
    run = agent.clone().train(small_problem(), episodes=40, callback=second, checkpoint=path)
    assert second.done[: len(first.done)] == first.done
    assert second.done[-1] == 40
    assert run.extras["done"].tolist() == second.done


def test_several_seeds_have_checkpoints_of_their_own(tmp_path):
    path = tmp_path / "checkpoint"
    part = QUCB().train_seeds(small_problem(), seeds=2, episodes=40, stop_at=20, checkpoint=path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint-0", "checkpoint-1"]
    whole = QUCB().train_seeds(small_problem(), seeds=2, episodes=40, checkpoint=path)
    for seed in range(2):
        assert len(part[seed]) == 20
        assert whole[seed].returns.tobytes() == QUCB().train(small_problem(), episodes=40, seed=seed).returns.tobytes()


def test_an_env_that_states_its_best_return_or_its_regret():
    run = Counting().train("cartpole", episodes=3)
    assert (run.gaps == 200.0 - run.returns).all()
    rules = AGENTS["random-allocation"]().train("hospital", steps=20)
    assert np.isfinite(rules.gaps).all()


def test_checks_hold_under_python_o():
    """`python -O` leaves out every assert; a broken agent must be found all the same."""
    code = """
import dqucb

class Forgetful(dqucb.QUCB):
    def clone(self, **changes):
        return dqucb.UCBVI()

try:
    dqucb.check_agent(Forgetful())
except AssertionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert "clone() must give a Forgetful" in done.stdout, done.stderr


def test_ranges_of_parameters_are_declared_with_their_types():
    @dataclass(kw_only=True, eq=False, repr=False)
    class Guess(dqucb.Random):
        """An agent with a parameter that has a range, a word and no default, and one whose default is None."""

        share: Annotated[float | str, Within(real, 0.0, 1.0, also=("auto",))] = 0.5
        longest: Annotated[int | None, Within(integer, 2)] = None

    assert Guess(share="auto", longest=3).clone().get_params() == {"share": "auto", "longest": 3}
    assert Guess(share=1).parameters() == {"share": 1.0, "longest": None}  # 1 and 1.0 are the same
    for wrong, message in (
        ({"share": 1.5}, "share must be >= 0 and <= 1, got 1.5"),
        ({"share": "atuo"}, "share must be one of 'auto', got 'atuo'; did you mean 'auto'?"),
        ({"share": None}, "share must be >= 0 and <= 1, got None"),
        ({"longest": 1}, "longest must be an integer >= 2, got 1"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            Guess(**wrong)
