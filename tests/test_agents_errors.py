"""Bad input to agents: what is refused, in which words, and that nothing is lost by it."""

import json

import numpy as np
import pytest
from agent_cases import copy, task

from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, QLearning, Random
from dqucb.problems import frozen_lake

BAD_SETTINGS = [
    (QUCB, {"bonus": "rot"}, "bonus must be one of .*got 'rot'; did you mean 'root'"),
    (QUCB, {"bonus_scale": -1}, "bonus_scale must be >= 0, got -1"),
    (QUCB, {"bonus_scale": float("nan")}, "bonus_scale must be .*got nan"),
    (QUCB, {"delta": 0}, "delta must be > 0 and <= 1, got 0"),
    (QUCB, {"learning_rate_horizon": 0}, "learning_rate_horizon must be > 0, got 0"),
    (DQUCB, {"variant": "papr"}, "variant must be one of 'studied', 'paper', got 'papr'"),
    (QUCB, {"act_on": "Q"}, "act_on must be one of 'qhat', 'q', got 'Q'"),
    (DQUCB, {"window": 0}, "window must be an integer >= 1, got 0"),
    (DQUCB, {"window": 2.5}, "window must be an integer >= 1, got 2.5"),
    (DQUCB, {"kernel": "gausian"}, "kernel must be one of .*did you mean 'gaussian'"),
    (DQUCB, {"bandwidth": -1.0}, "bandwidth must be > 0, got -1.0"),
    (DQUCB, {"scope": "pairs"}, "scope must be one of .*did you mean 'pair'"),
    (DQUCB, {"likelihood": "exact"}, "likelihood must be one of .*got 'exact'"),
    (DQUCB, {"likelihood_floor": 0.0}, "likelihood_floor must be > 0 and <= 1, got 0.0"),
    (DQUCB, {"likelihood_floor": 2}, "likelihood_floor must be .*got 2"),
    (DQUCB, {"likelihood_noise": -0.1}, "likelihood_noise must be >= 0, got -0.1"),
    (UCBVI, {"planning": "lazy"}, "planning must be one of 'full', 'real_time', got 'lazy'"),
    (UCBVI, {"transition_noise": float("inf")}, "transition_noise must be .*got inf"),
    (UCBMQ, {"bonus": 3}, "bonus must be one of .*got 3"),
    (QLearning, {"epsilon": 1.5}, "epsilon must be >= 0 and <= 1, got 1.5"),
    (QLearning, {"learning_rate": 0.0}, "learning_rate must be > 0 and <= 1, got 0.0"),
    (QLearning, {"optimistic": "yes"}, "optimistic must be True or False, got 'yes'"),
]


@pytest.mark.parametrize(("cls", "settings", "message"), BAD_SETTINGS, ids=[str(s) for _, s, _ in BAD_SETTINGS])
def test_bad_settings(cls, settings, message):
    with pytest.raises(ValueError, match=message):
        cls(**settings)


def test_bad_training():
    problem, discounted = task("horizon"), task("discount")
    for given, options, message in (
        (problem, {}, "give exactly one of episodes and steps, got episodes=None"),
        (problem, {"steps": 90}, "a problem with a horizon takes episodes="),
        (problem, {"episodes": 90, "steps": 90}, "give exactly one of episodes and steps"),
        (discounted, {"episodes": 400}, "a discounted problem takes steps="),
        (problem, {"episodes": 90.0}, "episodes must be an integer >= 1, got 90.0"),
        (problem, {"episodes": 20}, "change_at=20 lies at or beyond the end of a run of episodes=20"),
        (discounted, {"steps": 100}, "change_at=100 lies at or beyond"),
        (problem, {"episodes": 90, "horizon": 6}, "only for Gymnasium envs"),
        (problem, {"episodes": 90, "seed": -1}, "seed must be an integer >= 0, got -1"),
        (problem, {"episodes": 90, "seed": None}, "seed must be an integer >= 0, got None"),
        (problem, {"episodes": 90, "regret": "exact"}, "regret must be one of .*got 'exact'"),
        (problem, {"episodes": 90, "stop_at": 91}, r"stop_at must be an integer in \[1, 90\], got 91"),
        (discounted, {"steps": 400, "records": 0}, "records must be an integer >= 1, got 0"),
        (problem, {"episodes": 90, "callback": "log"}, "callback must be a function of a `Progress`, got 'log'"),
    ):
        agent = QUCB()
        with pytest.raises(ValueError, match=message):
            agent.train(given, **options)
        with pytest.raises(ValueError, match="has learned nothing yet"):
            agent.visits_  # noqa: B018
    for agent in (UCBVI(), UCBMQ()):
        message = rf"{agent.name} needs a problem with a horizon, got discount=0.9: use QUCB"
        with pytest.raises(ValueError, match=message):
            agent.train(discounted, steps=400)
    with pytest.raises(ValueError, match=r"state_features must have shape \(8, axes\), got \(4, 2\)"):
        DQUCB(state_features=np.zeros((4, 2), int)).train(problem, episodes=90)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    problem, path = task("horizon"), tmp_path / "checkpoint"
    DQUCB(window=7).train(problem, episodes=90, seed=3, stop_at=50, checkpoint=path)
    other = frozen_lake(slip=(0, 0.4), change_at=(40,), horizon=12)
    base = {"episodes": 90, "seed": 3}
    for agent, given, options, what in (
        (DQUCB(window=8), problem, base, "is of another agent"),
        (QUCB(), problem, base, "is of another agent"),
        (DQUCB(window=7), other, base, "its problem is"),
        (DQUCB(window=7), problem, {**base, "episodes": 91}, "its length is 90, not 91"),
        (DQUCB(window=7), problem, {**base, "seed": 4}, "its seed is 3, not 4"),
        (DQUCB(window=7), problem, {**base, "regret": "expected"}, "its regret_form is"),
    ):
        with pytest.raises(ValueError, match=what):
            agent.train(given, checkpoint=path, **options)
    assert len(DQUCB(window=7).train(problem, checkpoint=path, **base)) == 90


@pytest.mark.parametrize("agent", [QUCB(), DQUCB(), UCBVI(), UCBMQ(), QLearning(), Random()], ids=repr)
def test_stepping_refuses_bad_input_and_keeps_its_tables(agent):
    agent = copy(agent)
    with pytest.raises(ValueError, match="has learned nothing yet: call train or start first"):
        agent.act(0, 0)
    with pytest.raises(ValueError, match="call train or start first"):
        agent.save("never.npz")
    for sizes, message in (
        ({}, "exactly one of horizon and discount"),
        ({"horizon": 3, "discount": 0.9}, "exactly one of horizon and discount"),
        ({"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        ({"discount": 1.0}, "discount must be .*got 1.0"),
        ({"horizon": 3, "return_bound": -1.0}, "return_bound must be > 0, got -1.0"),
        ({"horizon": 3, "length": 0}, "length must be an integer >= 1, got 0"),
        ({"horizon": 3, "seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.start(5, 2, **sizes)
    with pytest.raises(ValueError, match="n_states must be an integer >= 1, got 0"):
        agent.start(0, 2, horizon=3)
    agent.start(5, 2, horizon=3)
    agent.observe(1, 1, 0.5, 2, 0)
    q, visits = agent.q_, agent.visits_
    good = {"state": 1, "action": 1, "reward": 0.5, "next_state": 2, "step": 0}
    for change, message in (
        ({"reward": float("nan")}, "reward must be a finite number, got nan"),
        ({"reward": float("inf")}, "reward must be a finite number, got inf"),
        ({"state": 5}, r"state must be an integer in \[0, 4\], got 5"),
        ({"state": -1}, r"state must be an integer in \[0, 4\], got -1"),
        ({"next_state": 5}, r"next_state must be an integer in \[0, 4\], got 5"),
        ({"action": 2}, r"action must be an integer in \[0, 1\], got 2"),
        ({"step": 3}, r"step must be an integer in \[0, 2\], got 3"),
        ({"step": 0.0}, r"step must be an integer in \[0, 2\], got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.observe(**{**good, **change})
    with pytest.raises(ValueError, match="state must be"):
        agent.act(7, 0)
    assert agent.q_.tobytes() == q.tobytes()
    assert agent.visits_.tobytes() == visits.tobytes()


def test_an_oracle_needs_the_true_transitions():
    agent = DQUCB(likelihood="oracle")
    with pytest.raises(ValueError, match="must know the true transitions"):
        agent.start(5, 2, horizon=3)
    agent.train(task("horizon"), episodes=90)
    with pytest.raises(ValueError, match="must know the true transitions"):
        agent.observe(3, 1, 0.0, 4, 2)


def test_agents_print_and_describe_themselves():
    assert repr(DQUCB()) == "DQUCB()"
    assert repr(DQUCB(window=7, bonus="theory")) == "DQUCB(bonus='theory', window=7)"
    assert json.dumps(DQUCB(state_features=np.eye(3, dtype=int)).parameters())
    run = QUCB(bonus_scale=np.float64(0.5)).train(task("horizon"), episodes=90, seed=np.int64(2))
    assert run.seed == 2
    assert type(run.seed) is int


def test_none_is_allowed_where_the_type_says_so():
    """Also where it is not the default."""
    assert DQUCB(learning_rate_horizon=None).learning_rate_horizon is None
    with pytest.raises(ValueError, match="learning_rate_horizon must be > 0, got -1"):
        DQUCB(learning_rate_horizon=-1)
