"""Steps that learn together: what the parameter takes, what it buys, when a pair is split, and its tables in files."""

import numpy as np
import pytest
from agent_cases import SIZE, S, task

from dqucb import DQUCB, QUCB, UCBB, UCBMQ, UCBVI, Agent, DetectReset, QLearning, SavedFileError, TabularMDP, _storage
from dqucb.problems import frozen_lake, gridworld, river_swim, still_grid

REFUSED = [
    (QUCB, {"stage_dependent": "maybe"}, "stage_dependent must be True, False or \"auto\", got 'maybe'"),
    (UCBVI, {"stage_dependent": None}, 'stage_dependent must be True, False or "auto", got None'),
    (QLearning, {"stage_dependent": 1}, 'stage_dependent must be True, False or "auto", got 1'),
    (UCBMQ, {"stage_dependent": False}, "stage_dependent must be True for UCBMQ"),
    (UCBB, {"stage_dependent": "auto"}, "stage_dependent must be True or False for UCBB"),
    (UCBVI, {"stage_dependent": False, "planning": "real_time"}, "planning must be 'full' with stage_dependent=False"),
    (UCBVI, {"stage_dependent": "auto", "cap_q": False}, "cap_q must be True with stage_dependent='auto', got False"),
    (UCBVI, {"stage_dependent": False, "transition_noise": 0.1}, "transition_noise must be 0.0 with"),
]


@pytest.mark.parametrize(("build", "given", "message"), REFUSED, ids=str)
def test_what_is_refused(build, given, message):
    with pytest.raises(ValueError, match=message):
        build(**given)


def two_halves():
    """Transitions that are others in the second half of an episode."""
    rng = np.random.default_rng(0)
    halves = rng.dirichlet(np.full(8, 0.3), size=(2, 8, 3))
    P = np.repeat(halves, 10, axis=0)
    return TabularMDP(P, np.repeat(rng.random((1, 8, 3)), 20, axis=0), horizon=20, initial=0)


def splits(agent):
    learner = agent._started().learner
    return int((learner.data if isinstance(agent, UCBVI) else learner.q.test).split.sum())


@pytest.mark.parametrize("build", [QUCB, UCBVI])
def test_auto_splits_where_steps_differ_and_not_where_the_world_changes(build):
    different = two_halves()
    regret = {
        form: np.mean([build(stage_dependent=form).train(different, episodes=8_000, seed=s).regret[-1] for s in (1, 2)])
        for form in (True, False, "auto")
    }
    assert regret["auto"] < 1.2 * regret[True]
    assert regret["auto"] < 0.5 * regret[False]
    for problem in (
        gridworld(rows=3, cols=4, horizon=20, noise=(0.05, 0.3), change_at=(1_000,)),
        river_swim(change_at=()),
    ):
        agent, shared = build(stage_dependent="auto"), build(stage_dependent=False)
        run, other = agent.train(problem, episodes=2_000, seed=1), shared.train(problem, episodes=2_000, seed=1)
        assert splits(agent) == 0
        np.testing.assert_array_equal(run.returns, other.returns)
        np.testing.assert_array_equal(agent.q_, shared.q_)
        np.testing.assert_array_equal(agent.visits_.sum(axis=0), shared.visits_)


def test_shared_steps_learn_faster():
    """The grid and the lake of the paper in small, at a c that suits both forms."""
    for problem, least in ((still_grid(rows=3, cols=5, horizon=30), 8), (frozen_lake(slip=0.5, change_at=()), 4)):
        for build, settings in ((QUCB, {"bonus_scale": 0.1}), (DQUCB, {"bonus_scale": 0.1}), (UCBVI, {})):
            alone, together = (
                build(stage_dependent=form, **settings).train(problem, episodes=3_000, seed=100).regret[-1]
                for form in (True, False)
            )
            assert together * (least if build is not UCBVI else 1.5) < alone


def test_ucbvi_plans_only_when_counts_have_grown():
    agent, problem = UCBVI(stage_dependent=False), still_grid(rows=3, cols=5, horizon=30)
    plans = []

    def count(moment):
        plans.append(agent._started().learner.V.copy())

    run = agent.train(problem, episodes=2_000, seed=1, callback=count)
    learner = agent._started().learner
    assert (learner.data.planned <= learner.data.visits).all()
    assert (learner.data.visits <= 1.1 * learner.data.planned + 1 + 30).all()
    assert learner.data.visits.sum() == run.steps == agent.visits_.sum()


def test_a_discount_has_no_steps():
    problem = frozen_lake(slip=0.5, discount=0.9, change_at=())
    runs = [QUCB(stage_dependent=form).train(problem, steps=500, seed=1) for form in (True, False, "auto")]
    assert runs[0].returns.tobytes() == runs[1].returns.tobytes() == runs[2].returns.tobytes()


def test_ucbvi_meets_successors_that_the_problem_did_not_have(tmp_path):
    for form in (False, "auto"):
        agent = UCBVI(stage_dependent=form)
        agent.train(gridworld(rows=2, cols=4, horizon=6, noise=0.0, change_at=()), episodes=41)
        before = agent.visits_.sum()
        for after in [*range(8)] * 2:
            agent.observe(0, 1, 0.125 * after, after, 2)
        agent.end_episode()
        path = agent.save(tmp_path / "agent.npz")
        assert agent.visits_.sum() == before + 16
        np.testing.assert_array_equal(Agent.load(path).q_, agent.q_)


def test_alarms_are_part_of_the_run():
    problem = gridworld(rows=3, cols=4, horizon=9, noise=(0.0, 0.6), change_at=(200,))
    for form in (True, False):
        agent = DetectReset(stage_dependent=form, threshold=4.0)
        run = agent.train(problem, episodes=400, seed=1)
        np.testing.assert_array_equal(run.alarms, agent.alarms_)
        assert len(run.alarms) > 0
        assert run.alarms.min() >= 200
    assert run.alarms[0] < 215  # shared detectors are quick


# ---- files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    found = {}
    agents = {
        "shared": QUCB(stage_dependent=False),
        "auto": DQUCB(stage_dependent="auto", window=6),
        "ucbvi": UCBVI(stage_dependent=False),
        "ucbvi auto": UCBVI(stage_dependent="auto"),
        "detect": DetectReset(threshold=1.0),
    }
    for name, agent in agents.items():
        agent.train(task("horizon"), seed=1, stop_at=60, **SIZE["horizon"])
        found[name] = _storage.load(agent.save(tmp_path_factory.mktemp("saved") / "agent.npz"), "Agent")
    return found


def changed(array, value, where=0):
    array = array.copy()
    array.flat[where] = value
    return array


TAMPERED = [
    ("shared", "learner.q.visits", lambda x: changed(x, -1)),
    ("shared", "learner.q.Q", lambda x: x.transpose(2, 0, 1)),
    ("shared", "learner.q.V", lambda x: x[:, :-1]),
    ("auto", "learner.q.test.model.next_states", lambda x: changed(x, S + 1)),
    ("auto", "learner.q.test.model.known", lambda x: changed(x, 10**6)),
    ("auto", "learner.q.test.model.counts", lambda x: x + 1.0),
    ("auto", "learner.q.test.step_counts", lambda x: changed(x, -1)),
    ("auto", "learner.q.test.step_visits", lambda x: x + 1),
    ("auto", "learner.q.test.weights", lambda x: changed(x, np.nan)),
    ("auto", "learner.q.test.split", lambda x: x.astype(np.int8)),
    ("auto", "learner.q.visits", lambda x: changed(x, 10**9)),
    ("ucbvi", "learner.policy", lambda x: changed(x, 99)),
    ("ucbvi", "learner.policy", lambda x: changed(x, -1)),
    ("ucbvi", "learner.data.next_states", lambda x: changed(x, -1)),
    ("ucbvi", "learner.data.distinct", lambda x: x + 1),
    ("ucbvi", "learner.data.visits", lambda x: x + 1),
    ("ucbvi", "learner.data.planned", lambda x: x + 10**6),
    ("ucbvi", "learner.shares", lambda x: x * np.inf),
    ("ucbvi auto", "learner.data.model.known", lambda x: changed(x, -1)),
    ("detect", "learner.alarms.used", lambda x: x + 10**6),
    ("detect", "learner.alarms.times", lambda x: x[:-1] * 0 + 10**6),
    ("detect", "learner.outcomes.times", lambda x: changed(x, -1)),
]


@pytest.mark.parametrize(
    ("kind", "name", "change"), TAMPERED, ids=[f"{k}-{n}-{i}" for i, (k, n, _) in enumerate(TAMPERED)]
)
def test_tampered_arrays_are_refused(saved, kind, name, change, tmp_path):
    settings, arrays = saved[kind]
    path = tmp_path / "agent.npz"
    _storage.save(path, "Agent", settings, **arrays)
    Agent.load(path)
    with np.errstate(invalid="ignore"):
        _storage.save(path, "Agent", settings, **{**arrays, name: change(arrays[name])})
    with pytest.raises(SavedFileError, match=r"agent\.npz"):
        Agent.load(path)


# ---- the variants of DQUCB --------------------------------------------------------------------------------


def test_the_paper_variant_is_a_parameter():
    agent = DQUCB(variant="paper", bonus_scale=0.1)
    assert agent.get_params()["variant"] == "paper"
    assert agent.get_params()["likelihood_floor"] is None  # as given
    assert repr(agent.clone()) == repr(agent) == "DQUCB(bonus_scale=0.1, variant='paper')"
    problem = frozen_lake(slip=(0.1, 0.6), horizon=60, change_at=(100,))
    settings = {"likelihood_floor": 0.1, "learning_rate_horizon": 60.0}
    paper, spelt, studied = (
        a.train(problem, episodes=200, seed=1)
        for a in (agent, DQUCB(bonus_scale=0.1, **settings), DQUCB(bonus_scale=0.1))
    )
    assert paper.lengths.tobytes() == spelt.lengths.tobytes() != studied.lengths.tobytes()
    assert paper.likelihood.tobytes() == spelt.likelihood.tobytes()
    with pytest.raises(ValueError, match="variant must be one of 'studied', 'paper', got 'papr'; did you mean 'paper'"):
        DQUCB(variant="papr")


def test_parameters_are_kept_as_given():
    sklearn_base = pytest.importorskip("sklearn.base")
    features = [[0], [1], [2]]
    for agent in (
        DQUCB(state_features=features, window=np.int64(5), bonus_scale=1),
        UCBVI(bonus_scale=np.float64(0.5)),
    ):
        for name, value in sklearn_base.clone(agent).get_params().items():
            assert type(value) is type(getattr(agent, name))
    assert DQUCB(state_features=features).state_features is features
