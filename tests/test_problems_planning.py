"""Planning against its slow twins, over random problems and known answers."""

import naive_planning as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_planning import random_arrays

import dqucb
from dqucb._kernels import planning as kernels
from dqucb.problems import ShiftingMDP, TabularMDP, frozen_lake, gridworld, planning, two_rooms

shapes = {
    "seed": st.integers(0, 10**6),
    "n_states": st.integers(1, 6),
    "n_actions": st.integers(1, 4),
}


@settings(max_examples=60, deadline=None)
@given(**shapes, horizon=st.integers(1, 6), stepwise=st.booleans(), random_start=st.booleans())
def test_horizon(seed, n_states, n_actions, horizon, stepwise, random_start):
    P, R, terminal, initial = random_arrays(seed, n_states, n_actions, horizon if stepwise else 1, random_start)
    dense = (P, R) if stepwise else (P[0], R[0])
    mdp = TabularMDP(*dense, horizon=horizon, terminal=terminal, initial=initial)
    values, q_values = naive.backward_induction(P, R, terminal, horizon)
    np.testing.assert_allclose(mdp.optimal_values(), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mdp.optimal_q(), q_values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        planning.evaluate_policy(mdp, planning.solve(mdp).policy), values, rtol=1e-12, atol=1e-12
    )
    policy = np.random.default_rng(seed).integers(n_actions, size=(horizon, n_states))
    ref = naive.policy_values(P, R, terminal, policy)
    np.testing.assert_allclose(planning.evaluate_policy(mdp, policy), ref, rtol=1e-12, atol=1e-12)
    start = ref[0, 0] if not random_start else initial @ ref[0]
    assert planning.policy_return(mdp, policy) == pytest.approx(start, rel=1e-12, abs=1e-12)
    scratch = np.full((2, n_states), np.nan)
    kernels.policy_values(mdp.model, 0, kernels.Actions(policy), horizon, scratch)  # in the memory of two steps
    np.testing.assert_array_equal(scratch[0], planning.evaluate_policy(mdp, policy)[0])


@settings(max_examples=60, deadline=None)
@given(**shapes, discount=st.sampled_from([0.0, 0.3, 0.9, 0.99]))
def test_discount(seed, n_states, n_actions, discount):
    P, R, terminal, _ = random_arrays(seed, n_states, n_actions, 1)
    mdp = TabularMDP(P[0], R[0], discount=discount, terminal=terminal)
    values, q_values = naive.policy_iteration(P, R, terminal, discount)
    np.testing.assert_allclose(mdp.optimal_values(), values, rtol=0, atol=2e-9)
    np.testing.assert_allclose(mdp.optimal_q(), q_values, rtol=0, atol=2e-9)
    assert np.array_equal(mdp.optimal_values(), mdp.optimal_q().max(axis=1))
    policy = np.random.default_rng(seed).integers(n_actions, size=n_states)
    ref = naive.discounted_policy_values(P, R, terminal, policy, discount)
    np.testing.assert_allclose(planning.evaluate_policy(mdp, policy), ref, rtol=0, atol=2e-9)


def test_the_tolerance_is_kept():
    mdp = gridworld(noise=0.2, discount=0.95)
    exact = planning.solve(mdp, tolerance=1e-12).values
    for tolerance in (1.0, 1e-2, 1e-6):
        assert np.abs(planning.solve(mdp, tolerance=tolerance).values - exact).max() <= tolerance


def test_a_discount_near_one_and_a_tolerance_out_of_reach():
    mdp = gridworld(noise=0.2, rows=2, cols=3, discount=1 - 1e-3)
    assert np.isfinite(mdp.optimal_values()).all()
    with pytest.raises(ValueError, match="finer than float64 can resolve"):
        planning.solve(mdp, tolerance=1e-12)


def test_each_phase_is_solved_as_if_alone():
    problem = frozen_lake(horizon=30)
    for number, phase in enumerate(problem.phases):
        assert np.array_equal(problem.optimal_values(number), phase.optimal_values())
        policy = planning.solve(problem, number).policy
        assert planning.policy_return(problem, policy, number) == problem.optimal_values(number)[0, 0]


def test_phases_with_and_without_steps_mix():
    P, R, terminal, _ = random_arrays(3, 4, 2, 5)
    stepwise = TabularMDP(P, R, horizon=5, terminal=terminal)
    plain = TabularMDP(P[0], R[0], horizon=5, terminal=terminal)
    problem = ShiftingMDP([plain, stepwise], [10])
    assert np.array_equal(problem.optimal_q(0), plain.optimal_q())
    assert np.array_equal(problem.optimal_q(1), stepwise.optimal_q())


def test_known_values():
    # Without slip the 4x4 lake is crossed in 6 steps; the goal of the 5x10 grid is 13 moves away.
    assert frozen_lake(slip=0.0, horizon=6).optimal_values()[0, 0] == 1.0
    assert frozen_lake(slip=0.0, horizon=5).optimal_values()[0, 0] == 0.0
    assert gridworld(noise=0.0).optimal_values()[0, 0] == 100 - 13
    assert gridworld(noise=0.0, terminal_goal=True).optimal_values()[0, 0] == 1.0
    assert gridworld(noise=0.0, discount=0.5, rows=1, cols=2).optimal_values().tolist() == pytest.approx([1.0, 2.0])
    # The goal is entered by the second move and then by every third: two moves there, one back.
    ring = gridworld(noise=0.0, rows=1, cols=3, discount=0.5, terminal_goal=True)
    assert ring.optimal_values()[0] == pytest.approx(0.5 / (1 - 0.5**3))
    # A wall with a door in the middle leaves shortest ways, but fewer of them.
    rooms = two_rooms(noise=0.0)
    assert rooms.optimal_values(1)[0, 0] == 87.0


def test_a_policy_without_steps_is_played_at_every_step():
    mdp = gridworld(noise=0.1, horizon=20)
    always_right = np.full(50, 1)
    same = planning.evaluate_policy(mdp, np.full((20, 50), 1))
    assert np.array_equal(planning.evaluate_policy(mdp, always_right), same)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros(3, int), r"integer actions of shape \(20, 50\), got int64 of shape \(3,\)"),
        (np.zeros((20, 50)), "integer actions .* got float64"),
        (np.full((20, 50), 4), r"actions in \[0, 3\], got values from 4 to 4"),
    ],
)
def test_bad_policies(policy, message):
    with pytest.raises(ValueError, match=message):
        planning.evaluate_policy(gridworld(noise=0.1, horizon=20), policy)


def test_bad_phase_and_tolerance():
    mdp = gridworld(horizon=20)
    with pytest.raises(ValueError, match=r"phase must be an integer in \[0, 1\], got 2"):
        mdp.optimal_values(2)
    with pytest.raises(ValueError, match="tolerance is for discounted problems"):
        planning.solve(mdp, tolerance=0.1)
    with pytest.raises(ValueError, match="tolerance must be > 0"):
        planning.solve(gridworld(discount=0.9), tolerance=0)


def test_a_return_bound_that_is_none_is_found_out():
    mdp = TabularMDP(np.ones((1, 1, 1)), [1.0], horizon=10, return_bound=5)
    with pytest.raises(ValueError, match="return_bound=5 is below the optimal value 10 of phase 0"):
        mdp.optimal_values()


def test_callers_cannot_spoil_what_is_kept():
    mdp = gridworld(noise=0.1, horizon=5)
    mdp.optimal_values()[:] = np.nan
    assert np.isfinite(mdp.optimal_values()).all()


BITS = """
import hashlib
from dqucb.problems import frozen_lake, gridworld, planning

digest = hashlib.sha256()
for problem in (gridworld(horizon=9), frozen_lake(horizon=12), gridworld(discount=0.8, rows=2, cols=3)):
    for phase in range(problem.n_phases):
        solution = planning.solve(problem, phase)
        digest.update(solution.values.tobytes() + solution.q_values.tobytes())
        worst = solution.q_values.argmin(axis=-1)
        digest.update(planning.evaluate_policy(problem, worst, phase).tobytes())
        digest.update(repr(planning.policy_return(problem, worst, phase)).encode())
print(digest.hexdigest())
"""


@pytest.mark.nojit
def test_same_bits_without_the_jit(same_bits_without_jit):
    same_bits_without_jit(BITS)


def test_a_discount_next_to_one_is_solved_in_moments():
    """Value iteration would need a trillion sweeps here."""
    P = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]])
    R = np.array([[0.0, 0.2], [1.0, 0.3]])
    discount = 1 - 1e-11
    problem = TabularMDP(P, R, discount=discount)
    # The best cycle: 0 -> 1 for nothing, then 1 -> 0 or 1 for 1; its mean reward is 2/3.
    values = problem.optimal_values()
    np.testing.assert_allclose(values * (1 - discount), 2 / 3, rtol=1e-4)
    assert problem.optimal_q().argmax(axis=1).tolist() == [0, 0]
    np.testing.assert_allclose(planning.evaluate_policy(problem, np.array([0, 0])), values, rtol=1e-4)
    poor = planning.evaluate_policy(problem, np.array([1, 1]))
    np.testing.assert_allclose(poor * (1 - discount), [0.2, 0.3], rtol=1e-4)
    with pytest.raises(ValueError, match=r"discount=0\.99999999999 is too near 1 to evaluate a policy again and again"):
        dqucb.QUCB().train(problem, steps=10, regret="expected")


def test_policy_iteration_finds_what_value_iteration_finds(monkeypatch):
    rng = np.random.default_rng(3)
    for _ in range(5):
        P, R = rng.dirichlet(np.full(6, 0.3), (6, 3)), rng.normal(size=(6, 3))
        swept = TabularMDP(P, R, discount=0.95, terminal=[5], initial=0).optimal_values()
        with monkeypatch.context() as patched:
            patched.setattr("dqucb.problems.planning.MOST_BACKUPS", 0)
            solved = TabularMDP(P, R, discount=0.95, terminal=[5], initial=0).optimal_values()
        np.testing.assert_allclose(solved, swept, atol=1e-8)


def test_a_long_solution_hears_ctrl_c(monkeypatch):
    """Sweeps come in blocks; between two of them Python may interrupt."""
    problem = TabularMDP(np.ones((1, 1, 1)), np.ones((1, 1)), discount=0.999)
    wanted = problem.optimal_values()
    calls = []
    monkeypatch.setattr("dqucb.problems.planning.BLOCK", 100)
    sweep = kernels.value_iteration
    monkeypatch.setattr(kernels, "value_iteration", lambda *args: calls.append(args[4]) or sweep(*args))
    np.testing.assert_array_equal(planning.solve(problem).values, wanted)
    assert len(calls) > 100
    assert max(calls) == 100
