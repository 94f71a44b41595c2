"""Self-tuning DQUCB does what it is for: it finds the right scale, notices changes, and costs little without any."""

import numpy as np
import pytest

from dqucb import QUCB, SavedFileError, SelfTuningDQUCB, load_agent
from dqucb.problems import frozen_lake, moving_goal, river_swim, still_grid, still_lake

SEEDS = range(3)


def regret(agent, problem, episodes):
    return np.mean([agent.train(problem, episodes=episodes, seed=seed).regret[-1] for seed in SEEDS])


def test_the_bandit_moves_to_a_better_learner():
    """On a slippery lake a scale of 200 explores for ever; together with 1 most of its cost is avoided."""
    problem = still_lake(horizon=60)
    bad, good = (regret(SelfTuningDQUCB(bonus_scales=[scale]), problem, 4_000) for scale in (200.0, 1.0))
    agent = SelfTuningDQUCB(bonus_scales=[200.0, 1.0])
    assert regret(agent, problem, 4_000) < good + 0.5 * (bad - good)
    assert agent.bonus_scale_ == 1.0


def test_a_change_is_noticed_soon_and_none_is_imagined():
    agent = SelfTuningDQUCB()
    for seed in SEEDS:
        agent.train(river_swim(change_at=(2_000,)), episodes=2_100, stop_at=2_000, seed=seed)
        assert agent.alarms_ == 0
        agent.train(river_swim(change_at=(2_000,)), episodes=2_100, seed=seed)
        assert agent.alarms_ > 0


def test_a_moved_goal_is_noticed_although_transitions_stay():
    problem = moving_goal(rows=3, cols=4, goals=((2, 3), (2, 0)), change_at=(1_500,), horizon=20)
    agent = SelfTuningDQUCB()
    for seed in SEEDS:
        agent.train(problem, episodes=1_600, stop_at=1_500, seed=seed)
        before = agent.alarms_
        agent.train(problem, episodes=1_600, seed=seed)
        assert before == 0 < agent.alarms_


def test_an_alarm_clears_the_bandit_and_shortens_memory():
    problem = river_swim(change_at=(1_000,))
    agent = SelfTuningDQUCB(recall=5)
    agent.train(problem, episodes=2_000, stop_at=1_000)
    learner = agent._started().learner
    assert learner.held.max() > 100
    pulls = learner.bandit[0].sum()
    agent.train(problem, episodes=2_000, stop_at=1_060, resume=agent)
    assert agent.alarms_ > 0
    learner = agent._started().learner
    assert learner.bandit[0].sum() < 60 < pulls
    assert learner.held.max() <= 5 + 60


@pytest.mark.parametrize(
    ("problem", "episodes"), [(still_grid(), 20_000), (still_lake(), 20_000)], ids=["grid", "lake"]
)
def test_what_readiness_costs_where_nothing_shifts(problem, episodes):
    """At most 1.05 times the regret of QUCB at the best of several scales."""
    best = min(regret(QUCB(bonus_scale=scale), problem, episodes) for scale in (0.1, 0.5, 1.0))
    assert regret(SelfTuningDQUCB(), problem, episodes) <= 1.05 * best


BAD = [
    ({"bonus_scales": ()}, r"bonus_scales must be one or more numbers, got \(\)"),
    ({"bonus_scales": 0.2}, "bonus_scales must be one or more numbers, got 0.2"),
    ({"bonus_scales": (0.1, -1.0)}, "each of bonus_scales must be"),
    ({"memory": 1}, "memory must be"),
    ({"recall": 0}, "recall must be"),
    ({"others": -1}, "others must be"),
    ({"likelihood_floor": 0.0}, "likelihood_floor must be"),
    ({"forgetting": 1.5}, "forgetting must be"),
    ({"exploration": -0.1}, "exploration must be"),
    ({"threshold": 0.0}, "threshold must be"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=str)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SelfTuningDQUCB(**settings)


def test_the_bonus_follows_the_horizon():
    for horizon in (4, 100):
        agent = SelfTuningDQUCB(bonus_scales=[3.0, 1.0])
        agent.train(still_lake(horizon=horizon), episodes=1)
        np.testing.assert_allclose(agent._started().learner.scales, [3.0 / horizon**0.5, 1.0 / horizon**0.5])


def test_it_exists_only_with_a_horizon():
    with pytest.raises(ValueError, match="SelfTuningDQUCB needs a problem with a horizon"):
        SelfTuningDQUCB().train(frozen_lake(discount=0.9, change_at=(10, 20)), steps=30)


TAMPERED = {
    "held": lambda table: table + 1,
    "path": lambda table: table + 1_000,
    "clock": lambda table: table + 1_000,
    "outcomes": lambda table: table + (np.int64(1_000) << 32),
    "bandit": lambda table: table - 1_000,
    "counts": lambda table: table - 1_000,
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_file_that_would_lead_a_kernel_astray_is_refused(tmp_path, name):
    agent = SelfTuningDQUCB()
    agent.train(frozen_lake(horizon=10, change_at=(5, 10)), episodes=20)
    learner = agent._started().learner
    agent._started().learner = learner._replace(**{name: TAMPERED[name](getattr(learner, name))})
    path = agent.save(tmp_path / "agent.npz")
    with pytest.raises(SavedFileError, match="not a usable agent"):
        load_agent(path)
