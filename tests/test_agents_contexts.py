"""SWUCRL2-CW, BORL, RLCD and NS-NAC: their slow twins, and that each learns as published."""

import naive_contexts
import naive_windows
import numpy as np
import pytest
from naive_agents import train, train_discounted
from test_agents_twins import EPISODES, SHAPES, STEPS, TOLERANCE, random_pair

from dqucb import BORL, NSNAC, RLCD, SWUCRL2CW, ShiftingMDP, TabularMDP
from dqucb.problems import random_mdp
from dqucb.running.compiled import sizes_of

LARGE = {"rtol": 1e-7, "atol": 1e-7}


def check_with_horizon(agent, twin, problem, world, seed, episodes=EPISODES):
    run = agent.train(problem, episodes=episodes, seed=seed)
    returns, regret, _, lengths = train(twin, world, episodes, seed)
    np.testing.assert_array_equal(run.returns, returns)
    np.testing.assert_array_equal(run.lengths, lengths)
    np.testing.assert_array_equal(agent.visits_, twin.visits if agent.stage_dependent else twin.visits[0])
    np.testing.assert_allclose(run.regret, regret, **TOLERANCE)
    np.testing.assert_allclose(agent.q_, twin.Q, **TOLERANCE)
    return run


def check_without(agent, twin, problem, world, seed):
    run = agent.train(problem, steps=STEPS, seed=seed, records=STEPS)
    rewards, _, _ = train_discounted(twin, world, STEPS, seed)
    np.testing.assert_array_equal(run.returns, rewards)
    np.testing.assert_array_equal(agent.visits_, twin.visits[0])
    np.testing.assert_allclose(agent.q_, twin.Q[0], **LARGE)
    return run


@pytest.mark.parametrize("stage_dependent", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.05])
@pytest.mark.parametrize("window", [7, 150])
def test_swucrl2_cw_is_its_twin(window, scale, stage_dependent):
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, **shape)
        agent = SWUCRL2CW(window=window, widening=0.1, bonus_scale=scale, stage_dependent=stage_dependent)
        twin = naive_windows.SlidingUCRL(
            world, EPISODES, arms=[(window, 0.1)], c=scale, stage_dependent=stage_dependent
        )
        check_with_horizon(agent, twin, problem, world, seed)
        problem, world = random_pair(seed, discount=0.8, random_start=seed % 2 == 0)
        twin = naive_windows.SlidingUCRL(world, STEPS, arms=[(window, 0.1)], c=scale)
        check_without(agent, twin, problem, world, seed)


def test_borl_is_its_twin():
    chosen = []
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, unit_rewards=True, **shape)
        agent = BORL(bonus_scale=0.05)
        block, arms = agent._arms(sizes_of(problem, 300))
        twin = naive_windows.SlidingUCRL(world, 300, arms=arms, block=block, c=0.05)
        check_with_horizon(agent, twin, problem, world, seed, 300)
        np.testing.assert_allclose(agent.chances_, twin.chances, **TOLERANCE)
        chosen.append(twin.arm)
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("stage_dependent", [True, False])
@pytest.mark.parametrize("most", [2, 10])
def test_rlcd_is_its_twin(most, stage_dependent):
    created = 0
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, **shape)
        agent = RLCD(memory=8, adjustment=0.3, min_quality=0.05, max_models=most, reward_weight=0.5,
                     stage_dependent=stage_dependent)  # fmt: skip
        twin = naive_contexts.RLCD(
            world, memory=8, rho=0.3, omega=0.5, least=0.05, most=most, epsilon=0.1, stage_dependent=stage_dependent
        )
        run = check_with_horizon(agent, twin, problem, world, seed)
        np.testing.assert_array_equal(run.alarms, twin.alarms)
        assert agent.n_models_ == len(twin.models)
        created += len(run.alarms)
    assert created > 4


@pytest.mark.parametrize("stage_dependent", [True, False])
def test_ns_nac_is_its_twin(stage_dependent):
    for seed, shape in enumerate(SHAPES):
        problem, world = random_pair(seed, **shape)
        settings = {"alpha": 0.2, "beta": 0.3, "stage_dependent": stage_dependent}
        agent = NSNAC(learning_rate=0.2, policy_rate=0.3, restarts=3, stage_dependent=stage_dependent)
        twin = naive_contexts.NSNAC(world, segment=5 * EPISODES // 3, **settings)
        check_with_horizon(agent, twin, problem, world, seed)
        problem, world = random_pair(seed, discount=0.8, random_start=seed % 2 == 0)
        twin = naive_contexts.NSNAC(world, segment=134, alpha=0.2, beta=0.3)
        check_without(agent, twin, problem, world, seed)
        np.testing.assert_allclose(agent.policy_, twin.pi[0], **TOLERANCE)


def test_the_exact_value_of_a_softmax_policy_is_its_mean_return():
    """Expected regret evaluates the policy that acts: over many episodes it has the mean of the realized one."""
    problem = random_mdp(change_at=())
    agent = NSNAC(learning_rate=1e-9, policy_rate=1e-9)  # stays uniform
    exact = agent.train(problem, episodes=20, regret="expected").gaps
    assert np.ptp(exact) < 1e-4
    realized = agent.train(problem, episodes=20_000, seed=2).gaps
    assert abs(realized.mean() - exact[0]) < 4 * realized.std() / np.sqrt(20_000)


# ---- what they learn --------------------------------------------------------------------------------------

STEPS_OF_A_RUN = 60_000


def two_states(move):
    """Action `move` changes the state, the other one keeps it and pays 1 in state 1: 0.9 at best, 0.25 at random."""
    P = np.zeros((2, 2, 2))
    P[:, move] = [[0.1, 0.9], [0.9, 0.1]]
    P[:, 1 - move] = [[0.9, 0.1], [0.1, 0.9]]
    R = np.zeros((2, 2))
    R[1, 1 - move] = 1.0
    return TabularMDP(P, R, discount=0.9)


STILL = two_states(0)
SHIFTING = ShiftingMDP([two_states(0), two_states(1), two_states(0)], [20_000, 40_000])


def mean_at_the_end(agent, problem):
    runs = [agent.clone().train(problem, steps=STEPS_OF_A_RUN, seed=seed, records=100) for seed in range(3)]
    return min(run.returns[-10:].sum() / run.lengths[-10:].sum() for run in runs)


def total_regret(agent, problem):
    return [agent.clone().train(problem, steps=STEPS_OF_A_RUN, seed=seed).regret[-1] for seed in range(3)]


def test_swucrl2_cw_learns_at_the_published_radii_and_its_window_forgets():
    assert mean_at_the_end(SWUCRL2CW(window=STEPS_OF_A_RUN), STILL) > 0.85
    narrow = SWUCRL2CW(bonus_scale=0.1)
    assert max(total_regret(narrow, SHIFTING)) < 0.1 * min(
        total_regret(narrow.clone(window=STEPS_OF_A_RUN, widening=0.0), SHIFTING)
    )


def test_the_published_window_and_widening_of_swucrl2_cw():
    """W = 3 S^(2/3) sqrt(A T / (B + 1)) and eta = sqrt((B + 1) W / T)."""
    sizes = sizes_of(STILL, 80_000)
    ((window, widening),) = SWUCRL2CW(variation=1.0)._arms(sizes)[1]
    assert window == int(3 * 2 ** (2 / 3) * (2 * 80_000 / 2) ** 0.5)
    assert widening == pytest.approx((2 * window / 80_000) ** 0.5)
    block, arms = BORL()._arms(sizes)
    assert block == int(3 * 2 ** (2 / 3) * (2 * 80_000) ** 0.5)
    assert {window for window, _ in arms} >= {1, block}
    assert min(eta for _, eta in arms) == pytest.approx(1 / (2 * 80_000**0.5))
    assert max(eta for _, eta in arms) == 1.0


class TwoArms(BORL):
    """BORL with short blocks and two pairs (window, widening), of which the first one learns nothing."""

    def _arms(self, sizes):
        return 200, [(1, 1.0), (200, 0.0)]


def test_the_bandit_of_borl_finds_the_better_window():
    for seed in range(3):
        agent = TwoArms(bonus_scale=0.05)
        agent.train(STILL, steps=400_000, seed=seed)
        assert agent.chances_[1] > 0.8
        assert agent.chances_.sum() == pytest.approx(1.0)


def permutations(seed, S=6, A=3):
    """Every action permutes the states; one pair pays."""
    rng = np.random.default_rng(seed)
    P, R = np.zeros((S, A, S)), np.zeros((S, A))
    for action in range(A):
        P[np.arange(S), action, rng.permutation(S)] = 1.0
    R[rng.integers(S), rng.integers(A)] = 1.0
    return TabularMDP(P, R, horizon=10)


def test_rlcd_finds_the_model_of_a_context_that_returns():
    one, other = permutations(20), permutations(21)
    problem = ShiftingMDP([one, other, one, other], [500, 1_000, 1_500])
    back = []
    for seed in range(4):
        agent = RLCD()
        run = agent.train(problem, episodes=2_000, seed=seed)
        assert agent.n_models_ == 2
        assert all(((run.alarms >= change) & (run.alarms < change + 5)).any() for change in problem.change_at)
        assert not (run.alarms < 500).any()
        alone = RLCD(max_models=1).train(problem, episodes=2_000, seed=seed)
        assert run.regret[-1] < alone.regret[-1]
        back += [run.returns[1_001:1_004].sum(), alone.returns[1_001:1_004].sum()]
    assert sum(back[::2]) > 2 * sum(back[1::2])  # one model first has to forget the other context


def test_ns_nac_learns_and_its_restarts_make_it_adapt():
    assert mean_at_the_end(NSNAC(), STILL) > 0.85
    assert max(total_regret(NSNAC(), SHIFTING)) < 0.2 * min(total_regret(NSNAC(restarts=1), SHIFTING))


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (SWUCRL2CW, {"window": 0}, "window must be an integer >= 1, got 0"),
        (SWUCRL2CW, {"widening": -1}, "widening must be >= 0, got -1"),
        (BORL, {"bonus_scale": 0}, "bonus_scale must be > 0, got 0"),
        (RLCD, {"memory": 0}, "memory must be an integer >= 1, got 0"),
        (RLCD, {"reward_weight": 2}, "reward_weight must be >= 0 and <= 1, got 2"),
        (NSNAC, {"restarts": 0}, "restarts must be an integer >= 1, got 0"),
        (NSNAC, {"learning_rate": 0}, "learning_rate must be > 0 and <= 1, got 0"),
    ],
)
def test_errors_name_the_parameter(build, given, message):
    with pytest.raises(ValueError, match=message):
        build(**given)
