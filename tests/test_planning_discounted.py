"""PlanningDQUCB with a discount: prioritised sweeps against their twin, memory that grows with what is met, files."""

import tracemalloc

import naive_agents as naive
import numpy as np
import pytest
from test_agents_files import contents, write
from test_agents_twins import dense
from test_planning_dqucb import Twin, width_of

import dqucb
from dqucb import SavedFileError
from dqucb.agents import PlanningDQUCB
from dqucb.problems import frozen_lake, gridworld

GRID = {"rows": 40, "cols": 40, "discount": 0.9}  # more states than have room from the beginning


@pytest.mark.parametrize(
    "problem",
    [gridworld(rows=7, cols=7, noise=0.3, discount=0.99), frozen_lake(slip=(0, 2 / 3), change_at=(90,), discount=0.95)],
)
def test_work_that_is_left_for_later_steps_is_that_of_its_twin(problem):
    agent, twin = PlanningDQUCB(), Twin(dense(problem), width_of(problem), "shared", 1e-3, problem.discount)
    run = agent.train(problem, steps=200, seed=5, records=200)
    rewards, _, _ = naive.train_discounted(twin, dense(problem), 200, 5)
    np.testing.assert_array_equal(run.returns, rewards)
    np.testing.assert_allclose(agent.q_, twin.twin.Q[0], rtol=1e-9, atol=1e-9)
    assert agent._started().learner.plan.work.tolist() == [
        getattr(twin.twin, name) for name in ("credit", "spent", "next", "left")
    ]


def test_memory_grows_with_what_is_met():
    agent = PlanningDQUCB()
    agent.train(gridworld(rows=150, cols=150, noise=0.1, discount=0.9), steps=2_000, seed=1)
    learner = agent._started().learner
    assert learner.outcomes.counts.shape[1] < 5_000
    assert agent.visits_.shape == agent.q_.shape == (22_500, 4)
    assert agent.visits_.sum() == 2_000
    unmet = agent.q_[agent.visits_.sum(axis=1) == 0]
    np.testing.assert_allclose(unmet, 10.0, rtol=1e-12)  # what was never met could be worth everything
    assert agent.greedy_policy().shape == (22_500,)


def test_a_million_states_are_begun_with_little_memory():
    tracemalloc.start()
    agent = PlanningDQUCB().start(10**6, 4, discount=0.99)
    agent.observe(999_999, agent.act(999_999), 1.0, 5)
    assert tracemalloc.get_traced_memory()[1] < 120 * 2**20  # of which tables for the first thousands of states
    tracemalloc.stop()
    assert agent.visits_[999_999].sum() == 1
    assert agent.predict(7) == 0


def test_tables_that_grew_go_on_with_the_same_bits(tmp_path):
    problem = gridworld(noise=(0.0, 0.4), change_at=(3_000,), **GRID)
    whole, cut = PlanningDQUCB(), PlanningDQUCB()
    ref = whole.train(problem, steps=6_000, seed=2)
    cut.train(problem, steps=6_000, seed=2, stop_at=2_500)
    loaded = dqucb.Agent.load(cut.save(tmp_path / "agent.npz"))
    comp = loaded.train(problem, steps=6_000, seed=2)
    for name in ("returns", "gaps", "likelihood"):
        assert getattr(comp, name).tobytes() == getattr(ref, name).tobytes()
    assert loaded.q_.tobytes() == whole.q_.tobytes()


def test_room_is_no_part_of_the_result():
    """Fewer records are longer, and ask for more room at once."""
    problem = gridworld(noise=0.1, **GRID)
    runs = [PlanningDQUCB().train(problem, steps=4_000, seed=2, records=records) for records in (4, 1_000)]
    assert runs[0].regret[-1] == pytest.approx(runs[1].regret[-1], rel=1e-12)
    assert runs[0].returns.sum() == runs[1].returns.sum()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    agent = PlanningDQUCB()
    agent.train(gridworld(rows=9, cols=9, noise=0.3, discount=0.99), steps=600, stop_at=500, seed=1)
    assert (agent._started().learner.plan.queue.level > 0).any()  # so that there is a list to break
    return contents(agent.save(tmp_path_factory.mktemp("saved") / "agent.npz"))


def at(array, place, value):
    array = array.copy()
    array.flat[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("number", lambda x: at(x, 0, 10**6)),
        ("number", lambda x: at(x, 0, -2)),
        ("number", lambda x: np.where(x == 1, 0, x)),
        ("n_met", lambda x: x + 1),
        ("n_met", lambda x: x + 10**6),
        ("visits", lambda x: x[:, :-1]),
        ("visits", lambda x: -x),
        ("outcomes.counts", lambda x: x[:, :-1]),
        ("outcomes.counts", lambda x: x[0]),
        ("outcomes.next_states", lambda x: x + 10**6),
        ("plan.policy", lambda x: at(x, 0, 4)),
        ("plan.edges", lambda x: x + 10**6),
        ("plan.edges", lambda x: at(x, 1, 0)),
        ("plan.edges", lambda x: x[:3]),
        ("plan.n_edges", lambda x: x + 10**6),
        ("plan.newest", lambda x: at(x, 0, 10**6)),
        ("plan.work", lambda x: at(x, 0, 10**6)),
        ("plan.work", lambda x: at(x, 2, 10**6)),
        ("plan.work", lambda x: at(x, 3, -1)),
        ("plan.V", lambda x: x * np.nan),
        ("plan.queue.level", lambda x: np.zeros_like(x)),
        ("plan.queue.level", lambda x: np.full_like(x, 21)),
        ("plan.queue.after", lambda x: np.zeros_like(x)),
        ("plan.queue.before", lambda x: np.full_like(x, 10**6)),
        ("plan.queue.ends", lambda x: np.full_like(x, 10**6)),
        ("plan.queue.ends", lambda x: np.full_like(x, -1)),
        ("plan.queue.ends", lambda x: x[:-1]),
    ],
)
def test_tampered_arrays_are_refused(saved, name, change, tmp_path):
    settings, arrays = saved
    path = tmp_path / "agent.npz"
    write(path, settings, arrays)
    dqucb.Agent.load(path)
    write(path, settings, {**arrays, f"learner.{name}": change(arrays[f"learner.{name}"])})
    with pytest.raises(SavedFileError, match=r"agent\.npz"):
        dqucb.Agent.load(path)
