"""TabularMDP and ShiftingMDP: every form of input, the compiled model, the shared interface, all errors."""

import json
import pickle

import gymnasium
import naive_planning as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_planning import random_arrays, same_model
from scipy import sparse

from dqucb._kernels import model as kernels
from dqucb.problems import ShiftingMDP, TabularMDP, _rows, from_gymnasium, frozen_lake, gridworld, two_rooms

CHAIN = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])  # two states, one action: go to state 1 and stay


def taxi():
    return "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"


def cliff():
    return "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"


def dense(mdp, steps=1):
    """P (steps, S, A, S) read back from the model."""
    S, A = mdp.n_states, mdp.n_actions
    P = np.zeros((steps, S, A, S))
    for h, s, a, y in np.ndindex(P.shape):
        row = kernels.row_of(mdp.model, 0, h, s, a)
        P[h, s, a, y] = kernels.transition_probability(mdp.model, row, y)
    return P


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
def test_all_forms_give_the_same_model(seed, n_states, n_actions, steps):
    P, R, terminal, _ = random_arrays(seed, n_states, n_actions, steps)
    given = {"horizon": steps if steps > 1 else 4, "terminal": np.flatnonzero(terminal)}
    ref = TabularMDP(P, R, **given) if steps > 1 else TabularMDP(P[0], R[0], **given)
    matrices = [sparse.csr_matrix(p.reshape(-1, n_states)) for p in P]
    comp = TabularMDP(matrices, R, **given) if steps > 1 else TabularMDP(matrices[0], R[0], **given)
    assert same_model(ref, comp)
    assert same_model(ref, TabularMDP([m.tocoo() for m in matrices], R if steps > 1 else R[0], **given))
    assert ref.description == comp.description
    kept = ~terminal
    np.testing.assert_allclose(dense(ref, steps)[:, kept], P[:, kept], rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3))
def test_model_invariants_and_draws(seed, n_states, n_actions):
    P, R, terminal, initial = random_arrays(seed, n_states, n_actions, 1, random_start=True)
    mdp = TabularMDP(P[0], R[0], horizon=3, terminal=terminal, initial=initial)
    model, rng = mdp.model.written_out(), np.random.default_rng(seed)
    assert model.row_start[0] == 0
    assert model.row_start[-1] == model.successor.size
    for row in range(n_states * n_actions):
        inside = slice(model.row_start[row], model.row_start[row + 1])
        assert model.cumulative[inside][-1] == 1.0
        assert (np.diff(model.cumulative[inside]) >= 0).all()
        assert (np.diff(model.probability[inside]) <= 0).all()
        uniform = rng.random()
        ref = inside.start + naive.draw(model.probability[inside], uniform)
        assert kernels.draw(mdp.model, row, uniform) == (model.successor[ref], model.reward[ref])
        last = inside.stop - 1
        assert kernels.draw(mdp.model, row, np.nextafter(1.0, 0.0)) == (model.successor[last], model.reward[last])
    twin = np.random.default_rng(seed)
    start = kernels.draw_initial(model, 0, np.random.default_rng(seed))
    if (np.asarray(initial) == 1.0).any():
        assert initial[start] == 1.0
    else:
        assert start == naive.draw(initial, twin.random())


def test_a_certain_start_takes_nothing_from_the_generator():
    rng = np.random.default_rng(0)
    assert kernels.draw_initial(gridworld().model, 1, rng) == 0
    assert rng.random() == np.random.default_rng(0).random()


def test_start_states_of_probability_zero_are_never_drawn():
    thirds = np.array([0.0, 1, 1, 1, 0.0]) / 3
    mdp = TabularMDP(np.full((5, 1, 5), 0.2), np.zeros(5), horizon=1, initial=thirds)
    assert mdp.model.initial_cumulative[0, 3:].tolist() == [1.0, 1.0]
    assert mdp.model.initial_cumulative[0, 0] == 0.0


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 2), (4, 2), (4, 2, 3), (4, 2, 3, 2)])
def test_reward_shapes(shape):
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(2), size=(2, 3))
    R = rng.random(shape)
    mdp = TabularMDP(P, R, horizon=4)
    stepwise = shape[0] == 4
    full = R if stepwise else R[None]
    full = full.reshape(full.shape + (1,) * (4 - full.ndim))
    full = np.broadcast_to(full, (len(full), 2, 3, 2))
    ref, _ = naive.backward_induction(np.broadcast_to(P, full.shape), full, np.zeros(2, bool), 4)
    np.testing.assert_allclose(mdp.optimal_values(), ref, rtol=1e-12)


def test_duplicates_merge_unless_their_rewards_differ():
    table = {
        0: {0: [(0.25, 1, 1.0, False), (0.25, 1, 1.0, False), (0.5, 1, 3.0, False)]},
        1: {0: [(1.0, 0, 0, False)]},
    }
    mdp = TabularMDP(table, horizon=2)
    assert mdp.model.successor[:2].tolist() == [1, 1]
    assert mdp.model.written_out().reward[:2].tolist() == [1.0, 3.0]
    assert mdp.model.written_out().probability[:2].tolist() == [0.5, 0.5]
    assert kernels.transition_probability(mdp.model, 0, 1) == 1.0
    assert mdp.optimal_values()[1, 0] == 2.0


def test_rows_are_renormalised_and_terminal_rows_ignored():
    P = np.zeros((2, 1, 2))
    P[0, 0] = [0.5, 0.5 + 5e-9]
    mdp = TabularMDP(P, [0.0, 7.0], horizon=3, terminal=[1])
    assert mdp.model.written_out().probability[:2].sum() == 1.0
    assert mdp.optimal_values()[:, 1].tolist() == [0.0] * 4
    assert mdp.return_bound == 3.0  # the reward of a terminal state is never paid


def test_value_bounds():
    def bounds(**given):
        return TabularMDP(CHAIN, [0.0, given.pop("reward", 1.0)], **given).value_bounds.tolist()

    assert bounds(horizon=3) == [3.0, 2.0, 1.0, 0.0]
    assert bounds(horizon=3, return_bound=1.5) == [1.5, 1.5, 1.0, 0.0]
    assert bounds(horizon=3, reward=0.2) == [3.0, 2.0, 1.0, 0.0]
    assert bounds(horizon=3, reward=-4) == [3.0, 2.0, 1.0, 0.0]
    assert bounds(horizon=2, reward=10) == [20.0, 10.0, 0.0]
    assert bounds(discount=0.5) == [2.0]
    assert bounds(discount=0.5, reward=3, return_bound=5) == [5.0]
    assert frozen_lake(horizon=3).value_bounds.tolist() == [1.0, 1.0, 1.0, 0.0]
    mixed = ShiftingMDP([TabularMDP(CHAIN, [0, r], horizon=2) for r in (1.0, 5.0)], [1])
    assert mixed.value_bounds.tolist() == [10.0, 5.0, 0.0]


def test_shared_interface():
    single, shifting = gridworld(noise=0.1), gridworld()
    assert single.phases == (single,)
    assert (single.change_at, single.n_phases, shifting.n_phases) == ((), 1, 2)
    assert [shifting.phase_at(i) for i in (0, 24_999, 25_000, 10**9)] == [0, 0, 1, 1]
    assert single.phase_at(10**9) == 0
    for problem in (single, shifting, frozen_lake(discount=0.9), two_rooms()):
        assert problem.model is problem.model
        assert problem.coordinates.shape == (problem.n_states, 2)
        assert json.loads(json.dumps(problem.description)) == problem.description
        clone = pickle.loads(pickle.dumps(problem))
        assert same_model(problem, clone)
        assert repr(clone) == repr(problem)
        # One compiled specialisation serves every problem.
        assert numba.typeof(problem.model) == numba.typeof(single.model)
    assert repr(single) == "TabularMDP('gridworld', 50 states, 4 actions, horizon=100, 710 transitions, start 0)"
    assert "2 phases, change_at=(25000,)" in repr(shifting)


def test_descriptions_identify():
    def digest(**given):
        return TabularMDP(CHAIN, given.pop("R", [0.0, 1.0]), **{"horizon": 3, **given}).description["sha256"]

    assert digest() == digest()
    others = [
        digest(R=[0.0, 0.5]),
        digest(horizon=4),
        digest(initial=1),
        digest(terminal=[1]),
        digest(return_bound=2),
    ]
    assert len({digest(), *others}) == 6
    custom = ShiftingMDP([TabularMDP(CHAIN, [0, r], horizon=2) for r in (0.0, 1.0)], [5])
    assert custom.description["problem"] == "shifting"
    assert custom.description["change_at"] == [5]
    assert len(custom.description["phases"]) == 2


def test_shifting_model_holds_each_phase():
    problem = frozen_lake()
    model, stride = problem.model.written_out(), problem.model.phase_stride
    for number, phase in enumerate(problem.phases):
        phase_model = phase.model.written_out()
        for row in range(stride):
            ours = slice(model.row_start[number * stride + row], model.row_start[number * stride + row + 1])
            alone = slice(phase_model.row_start[row], phase_model.row_start[row + 1])
            for field in ("successor", "probability", "cumulative", "reward"):
                assert np.array_equal(getattr(model, field)[ours], getattr(phase_model, field)[alone])


def test_rows_share_distributions_and_nothing_else(monkeypatch):
    """However a problem is cut into chunks, and however many distributions it has, it is the same problem."""
    rng = np.random.default_rng(0)
    distributions = [[1.0], [0.5, 0.5], [0.75, 0.25]]
    P, R = np.zeros((12, 3, 12)), np.zeros((12, 3, 12))
    for pair in np.ndindex(12, 3):
        distribution = distributions[rng.integers(3)]
        states = rng.choice(12, len(distribution), replace=False)
        P[pair][states] = distribution
        R[pair][states] = rng.integers(2)
    whole = TabularMDP(P, R, horizon=3)
    assert whole.model.reward.size <= 2 * (1 + 2 + 2)
    np.testing.assert_array_equal(dense(whole)[0], P)
    for rows, few in ((5, 1_000), (5, 1), (7, 2)):
        monkeypatch.setattr(_rows, "CHUNK", rows)
        monkeypatch.setattr(_rows, "FEW", few)
        cut = TabularMDP(P, R, horizon=3)
        assert cut.description == whole.description
        for ours, ref in zip(cut.model.written_out(), whole.model.written_out(), strict=True):
            np.testing.assert_array_equal(ours, ref)


def test_distributions_with_the_same_hash_are_compared(monkeypatch):
    monkeypatch.setattr(_rows, "_mixed", lambda probability, reward, place: np.zeros_like(place))
    start = np.array([0, 1, 3, 5, 6])
    probability = np.array([1.0, 0.5, 0.5, 0.5, 0.5, 1.0])
    reward = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    assert _rows._first_alike(start, probability, reward).tolist() == [0, 1, 2, 0]


def test_check_run():
    gridworld(noise=0.1).check_run(1)
    frozen_lake().check_run(40_001)
    with pytest.raises(
        ValueError, match=r"change_at=20000 lies at or beyond .*episodes=20000.*more than 40000 episodes"
    ):
        frozen_lake().check_run(20_000)
    with pytest.raises(ValueError, match=r"change_at=25000 .*steps=25000"):
        gridworld(discount=0.9).check_run(25_000)


class TestGymnasiumTables:
    def test_frozen_lake_is_ours(self):
        theirs = TabularMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=100)
        ours = frozen_lake(slip=2 / 3, horizon=100)
        assert theirs.grid == ours.grid
        assert np.array_equal(theirs.model.terminal, ours.model.terminal)
        np.testing.assert_allclose(theirs.optimal_values(), ours.optimal_values(), rtol=0, atol=1e-12)
        assert theirs.description["id"] == "FrozenLake-v1"

    def test_cliff_walking(self):
        mdp = from_gymnasium(gymnasium.make(cliff()), horizon=50)
        assert np.flatnonzero(mdp.model.terminal).tolist() == [47]
        assert mdp.optimal_values()[0, 36] == -13.0  # the published length of the way along the cliff

    def test_taxi(self):
        mdp = from_gymnasium(gymnasium.make(taxi()), horizon=200)
        assert (mdp.n_states, mdp.n_actions) == (500, 6)
        assert mdp.model.terminal.sum() == 4  # taxi and passenger at one of four destinations
        assert mdp.model.initial_state[0] == -1
        assert mdp.return_bound == 200 * 20
        start = gymnasium.make(taxi()).unwrapped.initial_state_distrib
        assert start @ mdp.optimal_values()[0] == pytest.approx(7.93, abs=0.01)  # known mean optimal return

    def test_a_state_that_ends_only_some_transitions_gets_an_absorbing_twin(self):
        table = {0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 2.0, False)]}}
        mdp = TabularMDP(table, horizon=3)
        assert mdp.n_states == 3
        assert mdp.model.terminal.tolist() == [False, False, True]
        # V_2 = (0.5, 2), V_1(0) = 0.5 + 0.5 * 2, V_1(1) = 2.5, V_0(0) = 0.5 + 0.5 * 2.5
        assert mdp.optimal_values()[0, 0] == 1.75

    def test_errors(self):
        with pytest.raises(ValueError, match="env must have a transition table P"):
            from_gymnasium(gymnasium.make("CartPole-v1"), horizon=10)
        with pytest.raises(ValueError, match="exactly one of horizon and discount, got neither"):
            from_gymnasium(gymnasium.make("FrozenLake-v1"))
        with pytest.raises(ValueError, match=r"same actions 0..A-1 each, got the actions \[1\] at state 1"):
            TabularMDP({0: {0: [(1.0, 0, 0, False)]}, 1: {1: [(1.0, 0, 0, False)]}}, horizon=1)
        with pytest.raises(ValueError, match="leave out R and terminal"):
            TabularMDP({0: {0: [(1.0, 0, 0, False)]}}, [0.0], horizon=1)
        with pytest.raises(ValueError, match="leads to state 5, allowed are 0 to 0"):
            TabularMDP({0: {0: [(1.0, 5, 0, False)]}}, horizon=1)


def changed(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"P": changed(CHAIN, (1, 0, 1), 0.9)}, r"P\[s=1, a=0\] sums to 0.9: .*must sum to one"),
        (
            {"P": np.stack([CHAIN, changed(CHAIN, (0, 0, 1), 2)]), "horizon": 2},
            r"P\[h=1, s=0, a=0\] sums to 2",
        ),
        (
            {"P": changed(CHAIN, (0, 0), [-0.5, 1.5])},
            r"P\[s=0, a=0\] has the probability -0.5 for successor 0",
        ),
        ({"P": changed(CHAIN, (0, 0, 0), np.nan)}, r"P must be finite, got .*nan.* at index \(0, 0, 0\)"),
        ({"P": np.zeros((2, 3))}, r"P must have shape \(S,A,S\) or \(H,S,A,S\), got \(2, 3\)"),
        ({"P": np.zeros((2, 1, 3))}, "P must have shape"),
        ({"P": "a string"}, "P must be an array .* got str"),
        ({"P": sparse.csr_matrix((3, 2))}, r"must have the same shape \(S\*A, S\), got \(3, 2\)"),
        ({"R": None}, "R must be an array"),
        ({"R": [0.0, np.nan]}, r"R must be finite, got .*nan.* at index \(1,\)"),
        ({"R": np.zeros(3)}, r"R must have shape \(2,\), \(2, 1\) or \(2, 1, 2\), .*got \(3,\)"),
        ({"R": "no"}, "R must be an array of numbers"),
        ({"P": np.stack([CHAIN] * 3), "R": np.zeros((4, 2)), "horizon": 3}, "P has 3 steps and R has 4"),
        ({"discount": 0.9}, "exactly one of horizon and discount, got both"),
        ({"horizon": None}, "exactly one of horizon and discount, got neither"),
        ({"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        (
            {"horizon": None, "discount": 1.0},
            "discount must be >= 0 and < 1, got 1.0: without one, pass horizon",
        ),
        ({"P": np.stack([CHAIN] * 4)}, "horizon=3, but P or R has 4 steps"),
        ({"P": np.stack([CHAIN] * 4), "horizon": None, "discount": 0.9}, "a discounted problem has no steps"),
        ({"terminal": [2]}, r"terminal must be an integer in \[0, 1\], got 2"),
        ({"terminal": [True]}, r"terminal as a mask must have shape \(2,\), got \(1,\)"),
        ({"terminal": [0]}, "initial must not be a terminal state, got state 0"),
        ({"initial": 2}, r"initial must be an integer in \[0, 1\], got 2"),
        ({"initial": [0.5, 0.4]}, "initial must be a state id or a distribution.*sum 0.9"),
        ({"initial": [1.5, -0.5]}, "initial must be .*smallest -0.5"),
        ({"initial": [1.0]}, "initial must have 2 numbers, got 1"),
        ({"return_bound": 0}, "return_bound must be > 0, got 0"),
        ({"grid": ["ab", "c"]}, "grid must be equally long rows of 2 letters"),
    ],
)
def test_errors_say_what_to_do(given, message):
    arguments = {"P": CHAIN, "R": [0.0, 1.0], "horizon": 3, **given}
    with pytest.raises(ValueError, match=message):
        TabularMDP(arguments.pop("P"), arguments.pop("R"), **arguments)


def phase(P=CHAIN, **given):
    return TabularMDP(P, np.zeros(len(P)), **{"horizon": 3, **given})


@pytest.mark.parametrize(
    ("phases", "change_at", "message"),
    [
        ([phase(), phase()], [], "2 phases need 1, got 0"),
        ([phase()], [5], "1 phases need 0, got 1"),
        ([phase()] * 3, [5, 5], "must increase strictly"),
        ([phase()] * 2, [0], "change_at must be an integer >= 1, got 0"),
        ([phase()] * 2, [2.5], "change_at must be an integer >= 1, got 2.5"),
        ([], [], "phases must be one or more TabularMDP"),
        ([CHAIN], [], "phases must be one or more TabularMDP"),
        ([phase(), phase(horizon=4)], [5], "same horizon: 3 in phase 0, 4 in phase 1"),
        ([phase(), phase(horizon=None, discount=0.5)], [5], "same horizon"),
        ([phase(), phase(np.ones((1, 1, 1)))], [5], "same n_states: 2 in phase 0, 1 in phase 1"),
        ([phase(), phase(terminal=[1])], [5], "same terminal states, phase 1 differs"),
    ],
)
def test_shifting_errors(phases, change_at, message):
    with pytest.raises(ValueError, match=message):
        ShiftingMDP(phases, change_at)


def test_problems_load_nothing_heavy(run_python):
    # Numba itself loads the top of SciPy, and the package registers its Gymnasium ids: what counts comes on top.
    code = (
        "import sys, numba, dqucb; before = set(sys.modules); import dqucb.problems; "
        "print({m.split('.')[0] for m in set(sys.modules) - before} "
        "& {'gymnasium', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'torch'})"
    )
    assert run_python(code).strip() == "set()"


def test_the_arrays_of_a_problem_cannot_be_changed():
    """Kernels trust what was checked once: a changed successor would be a place outside every table."""
    lake = frozen_lake(slip=(0, 0.5), change_at=(10,))
    for model in (lake.model, lake.phases[0].model):
        for name in ("successor", "cumulative", "row_start", "outcome_start", "terminal", "initial_cumulative"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(model, name)[...] = 1


def test_a_transposed_r_is_explained():
    P = np.full((4, 2, 4), 0.25)
    for ends in ({"horizon": 5}, {"discount": 0.9}):
        with pytest.raises(ValueError, match=r"R of shape \(2, 4\) is read as one row for each step: .* pass its \.T"):
            TabularMDP(P, np.zeros((2, 4)), **ends)
