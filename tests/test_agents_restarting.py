"""Rivals that plan or restart: their slow twins, the same bits however they are run, and clear errors."""

import naive_restarts as naive
import numpy as np
import pytest
from naive_agents import train
from test_agents_twins import CHANGES, EPISODES, SHAPES, TOLERANCE, random_pair

from dqucb import (
    MASTER,
    PSRL,
    RBOCPDUCRL2,
    UCBVI,
    AdaptiveRestart,
    Agent,
    DynaQPlus,
    OracleUCBVI,
    PartialRestart,
    ProbeRestart,
    RestartQUCB,
    SelectiveRestart,
)
from dqucb.envs import TabularEnv
from dqucb.problems import combination_lock, frozen_lake, gridworld, random_mdp, river_swim

DYNA = {"epsilon": 0.2, "replays": 3}
TWINS = {
    "told": (OracleUCBVI, naive.Told, {"restart_at": CHANGES}, {}),
    "R-BOCPD": (RBOCPDUCRL2, naive.Forecasting, {"false_alarms": 1.0}, {}),
    "probes": (ProbeRestart, naive.Probing, {"probe_rate": 0.3, "false_alarms": 1.0}, {}),
    "PSRL": (PSRL, naive.Sampling, {}, {}),
    "PSRL, forgetting": (PSRL, naive.Sampling, {"forgetting": 0.8, "prior": 0.5}, {}),
    "MASTER": (MASTER, naive.Master, {"test_scale": 0.1}, {}),
    "selective": (SelectiveRestart, naive.Selective, {"threshold": 2.0}, {}),
    "adaptive": (AdaptiveRestart, naive.Selective, {"threshold": 2.0}, {}),
    "Dyna-Q+": (DynaQPlus, naive.Dyna, DYNA, {"learning_rate": 0.3}),
    "Dyna-Q+, optimistic": (
        DynaQPlus,
        naive.Dyna,
        {**DYNA, "optimistic": True, "epsilon": 0.0},
        {"learning_rate": 0.5},
    ),
}
NOTICE = ("R-BOCPD", "probes", "MASTER", "selective", "adaptive")


@pytest.mark.parametrize("stage_dependent", [True, False])
@pytest.mark.parametrize("rival", TWINS)
def test_rivals_are_their_twins(rival, stage_dependent):
    agent_class, twin_class, settings, ours = TWINS[rival]
    settings = {**settings, "stage_dependent": stage_dependent}
    only_theirs = {"selective": False} if rival == "adaptive" else {}
    theirs = {"kappa": 0.01, "alpha": ours["learning_rate"]} if ours else {"c": 0.4}
    alarms = 0
    episodes = 5 * EPISODES if rival in ("selective", "adaptive", "probes") else EPISODES
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, unit_rewards=True, **shape)
        agent = agent_class(bonus_scale=theirs.get("kappa", 0.4), **settings, **ours)
        twin = twin_class(world, episodes, **theirs, **settings, **only_theirs)
        run = agent.train(problem, episodes=episodes, seed=seed)
        returns, regret, _, lengths = train(twin, world, episodes, seed)
        np.testing.assert_array_equal(run.returns, returns)
        np.testing.assert_array_equal(run.lengths, lengths)
        np.testing.assert_array_equal(agent.visits_, twin.visits if stage_dependent else twin.visits[0])
        np.testing.assert_allclose(run.regret, regret, **TOLERANCE)
        np.testing.assert_allclose(agent.q_, twin.Q, **TOLERANCE)
        if rival in NOTICE:
            np.testing.assert_array_equal(run.alarms, twin.alarms)
            alarms += len(run.alarms)
    assert alarms > 0 or rival not in NOTICE


@pytest.mark.parametrize("stage_dependent", [True, False])
@pytest.mark.parametrize("variation", [0.0, 0.4])
def test_partial_restarts_are_their_twin(variation, stage_dependent):
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, unit_rewards=True, **shape)
        agent = PartialRestart(epochs=5, variation=variation, bonus_scale=0.4, stage_dependent=stage_dependent)
        n = 5 * EPISODES
        twin = naive.Selective(
            world, n, c=0.4, stage_dependent=stage_dependent, restart_at=range(EPISODES, n, EPISODES),
            raised=5 * variation / 5,
        )  # fmt: skip
        run = agent.train(problem, episodes=n, seed=seed)
        returns, regret, _, _ = train(twin, world, n, seed)
        np.testing.assert_array_equal(run.returns, returns)
        np.testing.assert_allclose(run.regret, regret, **TOLERANCE)
        np.testing.assert_allclose(agent.q_, twin.Q, **TOLERANCE)


def test_partial_restarts_lie_between_full_ones_and_none():
    """With a variation above 1 an epoch's bound is no bound: a full restart. With 0 only the stages restart."""
    problem = random_mdp(change_at=())
    full = RestartQUCB(epochs=5).train(problem, episodes=2_000, seed=1)
    large = PartialRestart(epochs=5, variation=50.0).train(problem, episodes=2_000, seed=1)
    np.testing.assert_array_equal(large.returns, full.returns)
    regret = [
        np.mean(
            [PartialRestart(epochs=5, variation=x).train(problem, episodes=2_000, seed=s).regret[-1] for s in range(4)]
        )
        for x in (0.0, 0.5, 50.0)
    ]
    assert regret[0] < regret[1] < regret[2]


def test_adaptive_restarts_pay_where_returns_drop():
    """On the lock of Mao et al. 2021, and without a change they hardly ever come."""
    lock = combination_lock(change_at=(2_000,))
    for seed in range(3):
        run = AdaptiveRestart().train(lock, episodes=4_000, seed=seed)
        never = AdaptiveRestart(threshold=1e9).train(lock, episodes=4_000, seed=seed)
        assert run.regret[-1] < 0.6 * never.regret[-1]
        assert ((run.alarms >= 2_000) & (run.alarms < 2_050)).any()
        still = AdaptiveRestart().train(combination_lock(change_at=()), episodes=4_000, seed=seed)
        assert len(still.alarms) <= 2


def test_posterior_sampling_does_not_settle_on_a_bad_policy():
    problem = random_mdp(change_at=())
    runs = PSRL().train_seeds(problem, range(100, 116), episodes=1_200)
    assert max(run.regret[-1] for run in runs) < 700  # 1,400 on a quarter of them while unseen outcomes led to a mean


SMALL = {"rows": 3, "cols": 4, "noise": (0.05, 0.3), "change_at": (120,), "horizon": 9}
AGENTS = [
    OracleUCBVI(restart_at=[120]),
    RBOCPDUCRL2(false_alarms=1.0),
    ProbeRestart(probe_rate=0.2, false_alarms=1.0),
    PSRL(forgetting=0.98),
    MASTER(test_scale=0.1),
    SelectiveRestart(threshold=2.0),
    AdaptiveRestart(threshold=2.0),
    PartialRestart(epochs=4, variation=0.5),
    DynaQPlus(bonus_scale=0.01),
]
BOTH = [agent.clone(stage_dependent=form) for agent in AGENTS for form in (True, False)]


@pytest.mark.parametrize("agent", BOTH, ids=repr)
def test_a_run_is_the_same_in_one_go_in_parts_and_in_steps(agent, tmp_path):
    problem = gridworld(**SMALL)
    agent = agent.clone()
    whole = agent.train(problem, episodes=200, seed=2)
    half = agent.clone()
    half.train(problem, episodes=200, seed=2, stop_at=130)
    loaded = Agent.load(half.save(tmp_path / "half"))
    stepped = agent.clone()
    for other, run in (
        (loaded, loaded.train(problem, episodes=200, seed=2)),
        (stepped, stepped.train(TabularEnv(problem), episodes=200, seed=2)),
    ):
        for name in ("returns", "lengths", "alarms"):
            np.testing.assert_array_equal(getattr(run, name), getattr(whole, name))
        np.testing.assert_array_equal(other.q_, agent.q_)
        np.testing.assert_array_equal(other.visits_, agent.visits_)
        np.testing.assert_array_equal(other.greedy_policy(), agent.greedy_policy())
    assert agent.visits_.sum() == whole.steps


def test_the_jit_changes_no_bit(same_bits_without_jit):
    same_bits_without_jit("""
import sys; sys.path.insert(0, "tests")
import test_agents_restarting as t
for agent in t.BOTH:
    agent = agent.clone()
    run = agent.train(t.gridworld(**{**t.SMALL, "change_at": (20,)}), episodes=40, seed=5)
    print(agent, run.returns.tolist(), run.alarms.tolist(), agent.q_.tolist(), agent.visits_.tolist())
""")


def test_a_planner_that_never_restarts_is_ucbvi_with_shared_steps():
    problem = frozen_lake(slip=(0.0, 0.5), change_at=(100,), horizon=30)
    told, ucbvi = OracleUCBVI(bonus_scale=0.1), UCBVI(bonus_scale=0.1, stage_dependent=False)
    runs = [agent.train(problem, episodes=300, seed=1) for agent in (told, ucbvi)]
    np.testing.assert_array_equal(runs[0].returns, runs[1].returns)
    np.testing.assert_allclose(told.q_, ucbvi.q_, rtol=1e-12)


@pytest.mark.parametrize("agent", [RBOCPDUCRL2(), ProbeRestart()], ids=repr)
def test_detectors_ring_at_the_change_and_not_without_one(agent):
    run = agent.clone().train(river_swim(change_at=(600,)), episodes=1_200, seed=3)
    assert len(run.alarms) == 1
    assert 600 <= run.alarms[0] < 610
    assert len(agent.clone().train(river_swim(change_at=()), episodes=1_200, seed=3).alarms) == 0


@pytest.mark.parametrize("agent", AGENTS, ids=repr)
def test_rivals_need_a_horizon(agent):
    with pytest.raises(ValueError, match=f"{agent.name} needs a problem with a horizon, got discount=0.9"):
        agent.clone().train(frozen_lake(slip=0.5, discount=0.9), steps=10)


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (PSRL, {"bonus_scale": 0}, "bonus_scale must be > 0, got 0"),
        (PSRL, {"prior": -1}, "prior must be > 0, got -1"),
        (PSRL, {"forgetting": 1.5}, "forgetting must be > 0 and <= 1, got 1.5"),
        (PSRL, {"stage_dependent": "auto"}, "stage_dependent must be True or False, got 'auto'"),
        (MASTER, {"stage_dependent": "maybe"}, "stage_dependent must be True or False, got 'maybe'"),
        (MASTER, {"stage_dependent": "auto"}, "stage_dependent must be True or False, got 'auto'"),
        (MASTER, {"test_scale": 0}, "test_scale must be > 0, got 0"),
        (RBOCPDUCRL2, {"false_alarms": 0}, "false_alarms must be > 0 and <= 1, got 0"),
        (ProbeRestart, {"probe_rate": 2}, "probe_rate must be >= 0 and <= 1, got 2"),
        (OracleUCBVI, {"restart_at": [5, 5]}, r"restart_at must increase strictly, got \(5, 5\)"),
        (SelectiveRestart, {"threshold": 0}, "threshold must be > 0, got 0"),
        (SelectiveRestart, {"learning_rate_horizon": -2}, "learning_rate_horizon must be > 0, got -2"),
        (PartialRestart, {"variation": -1}, "variation must be >= 0, got -1"),
        (PartialRestart, {"epochs": "often"}, "epochs must be one of 'theory', 'doubling', got 'often'"),
        (DynaQPlus, {"replays": -1}, "replays must be an integer >= 0, got -1"),
        (DynaQPlus, {"bonus_scale": -1}, "bonus_scale must be >= 0, got -1"),
        (DynaQPlus, {"stage_dependent": 1}, "stage_dependent must be True or False, got 1"),
    ],
)
def test_errors_say_what_to_do(build, given, message):
    with pytest.raises(ValueError, match=message):
        build(**given)
