"""Every builder of a problem: rows, phases, optimal values by hand, descriptions that build it again, errors."""

import inspect
import json

import numpy as np
import pytest
from naive_planning import same_model

from dqucb import problems
from dqucb.problems import (
    TabularMDP,
    cliff_walking,
    combination_lock,
    drifting_lake,
    endless_river,
    frozen_lake,
    frozen_lake_8x8,
    gradual_lock,
    gridworld,
    large_rooms,
    moving_goal,
    new_prize,
    periodic_lake,
    random_mdp,
    returning_rooms,
    river_swim,
    still_grid,
    still_lake,
    taxi,
    tidal_river,
    two_rooms,
)


def dense(mdp):
    """P and mean rewards of a phase, (S, A, S) and (S, A)."""
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    R = np.zeros((mdp.n_states, mdp.n_actions))
    model = mdp.model.written_out()
    for row in range(mdp.n_states * mdp.n_actions):
        for entry in range(model.row_start[row], model.row_start[row + 1]):
            pair = divmod(row, mdp.n_actions)
            P[(*pair, model.successor[entry])] += model.probability[entry]
            R[pair] += model.probability[entry] * model.reward[entry]
    return P, R


def lock_value(H, p, prizes):
    """The best of: open the lock with the higher prize, the wrong first turn included; or sink at once."""
    small = 1 / (8 * H)
    values = []
    for prize in prizes:
        value = max(p * prize + (1 - p) * small, small)
        for steps_left in range(2, H):
            value = max(p * value + (1 - p) * small * steps_left, small * steps_left)
        values.append(value)
    return max(p * values[0] + (1 - p) * values[1], p * values[1] + (1 - p) * values[0])


@pytest.mark.parametrize(
    ("H", "A", "p", "low", "high"), [(5, 2, 0.98, 0.25, 1.0), (4, 3, 0.7, 0.1, 0.9), (2, 2, 1, 0, 1)]
)
def test_the_value_of_the_lock_is_that_of_opening_it(H, A, p, low, high):
    problem = combination_lock(change_at=(10, 20), horizon=H, n_actions=A, success=p, low=low, high=high)
    for phase in range(3):
        assert problem.optimal_values(phase)[0, 0] == pytest.approx(lock_value(H, p, (low, high)), rel=1e-12)


def test_the_lock_of_mao_et_al():
    problem = combination_lock()
    assert (problem.n_states, problem.n_actions, problem.horizon) == (10, 2, 5)
    assert problem.change_at == (1_000, 2_000, 3_000, 4_000)
    assert problem.optimal_values()[0, 0] == pytest.approx(0.98 * 0.98**4, abs=0.02)
    first, second = (dense(phase) for phase in problem.phases[:2])
    np.testing.assert_array_equal(first[0], second[0])  # only the prizes change places
    assert sorted(np.unique(first[1])) == sorted(np.unique(second[1]))
    prize = [{state: R[state].max() for state in (8, 9)} for R in (first[1], second[1])]
    assert prize[0] == {8: pytest.approx(0.2455), 9: pytest.approx(0.9805)}
    assert prize[1] == {8: pytest.approx(0.9805), 9: pytest.approx(0.2455)}
    np.testing.assert_array_equal(dense(problem.phases[2])[1], first[1])
    assert not np.array_equal(dense(combination_lock(seed=1).phases[0])[0], first[0])
    assert first[0][1, :, 1].tolist() == [1.0, 1.0]


def test_the_prizes_of_the_gradual_lock_move_in_equal_steps():
    problem, lock = gradual_lock(change_at=(10, 20, 30, 40)), combination_lock()
    prizes = np.array([dense(phase)[1][8:].max(axis=1) for phase in problem.phases])
    np.testing.assert_allclose(np.diff(prizes, axis=0), [[0.98 * 0.75 / 4, -0.98 * 0.75 / 4]] * 4, rtol=1e-12)
    for ours, theirs in ((problem.phases[0], lock.phases[0]), (problem.phases[-1], lock.phases[1])):
        np.testing.assert_array_equal(dense(ours)[1], dense(theirs)[1])
        np.testing.assert_array_equal(dense(ours)[0], dense(theirs)[0])
    # In the middle of the change both locks are worth the same.
    values = [problem.optimal_values(phase)[0, 0] for phase in range(5)]
    assert values[2] == min(values)


def test_river_swim_is_turned_round():
    problem = river_swim(change_at=(5,))
    P, R = dense(problem.phases[0])
    assert P[0].tolist() == [[1, 0, 0, 0, 0, 0], [0.4, 0.6, 0, 0, 0, 0]]
    assert P[2].tolist() == [[0, 1, 0, 0, 0, 0], [0, 0.05, 0.6, 0.35, 0, 0]]
    assert P[5].tolist() == [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0.4, 0.6]]
    assert np.argwhere(R).tolist() == [[0, 0], [5, 1]]
    turned_P, turned_R = dense(problem.phases[1])
    np.testing.assert_array_equal(turned_P, P[::-1, ::-1, ::-1])
    np.testing.assert_array_equal(turned_R, R[::-1, ::-1])
    np.testing.assert_allclose(problem.optimal_values(0), problem.optimal_values(1)[:, ::-1], rtol=1e-12)
    # The last step is worth its reward, the one before it drifts or swims to that.
    assert problem.optimal_values(0)[19].tolist() == [0.005, 0, 0, 0, 0, 1]
    assert problem.optimal_values(0)[18].tolist() == pytest.approx([0.01, 0.005, 0, 0, 0.35, 1.6])
    assert river_swim(n_states=5).model.initial_state.tolist() == [2, 2]


@pytest.mark.parametrize("change", [0.0, 0.3, 1.0])
def test_random_mdps_change_by_exactly_what_is_asked(change):
    problem = random_mdp(change=change, change_at=(10, 20), n_states=9, n_actions=4, successors=4, seed=3)
    first, R = dense(problem.phases[0])
    assert ((first > 0).sum(axis=2) == 4).all()
    for phase in problem.phases[1:]:
        P, same = dense(phase)
        np.testing.assert_allclose(np.abs(P - first).sum(axis=2) / 2, change, atol=1e-12)
        np.testing.assert_allclose(same, R, rtol=1e-12)
    assert problem.optimal_values()[9].tolist() == pytest.approx(R.max(axis=1).tolist())
    rewards = [random_mdp(seed=seed).model.written_out().reward for seed in (1, 2)]
    assert (rewards[0] != rewards[1]).any()


def test_drifting_and_periodic_lakes_are_lakes():
    drift = drifting_lake(first=0.1, last=0.5, change_at=(10, 20, 30, 40), horizon=20)
    lake = frozen_lake(slip=(0.1, 0.2, 0.3, 0.4, 0.5), change_at=(10, 20, 30, 40), horizon=20)
    np.testing.assert_allclose(drift.model.written_out().probability, lake.model.written_out().probability)
    # State 0, action right: the chosen move has probability 1 - slip.
    chosen = [dense(phase)[0][0, 2, 1] for phase in drifting_lake().phases]
    assert np.diff(chosen) == pytest.approx(np.full(21, -2 / 63))
    assert same_model(drifting_lake().phases[0], frozen_lake(slip=0.0))
    turns = periodic_lake(slip=(0, 0.5, 1), change_at=(3, 6, 9))
    assert turns.description["slip"] == [0, 0.5, 1, 0]
    assert same_model(turns.phases[0], turns.phases[3])
    assert periodic_lake().n_phases == 5


def test_still_problems_have_one_phase():
    assert isinstance(still_lake(), TabularMDP)
    assert same_model(still_lake(slip=0.25), frozen_lake(slip=0.25))
    assert same_model(still_grid(noise=0.1, rows=3, cols=4), gridworld(noise=0.1, rows=3, cols=4))


def test_only_the_reward_moves_with_the_goal():
    problem = moving_goal(noise=0.0, change_at=(7,))
    for phase, distance in enumerate((13, 4)):
        assert problem.optimal_values(phase)[0, 0] == 60 - distance
    (first, R), (second, moved) = (dense(phase) for phase in problem.phases)
    np.testing.assert_array_equal(first, second)
    assert (np.unique(np.argwhere(R)[:, 0]), np.unique(np.argwhere(moved)[:, 0])) == (49, 40)
    assert [phase.grid[4][0] for phase in problem.phases] == [".", "G"]
    assert isinstance(moving_goal(goals=[(1, 1)], change_at=()), TabularMDP)


BUILDERS = {
    "cliff-walking": cliff_walking,
    "drifting-lake": drifting_lake,
    "endless-river": endless_river,
    "frozen-lake-8x8": frozen_lake_8x8,
    "gradual-lock": gradual_lock,
    "large-rooms": large_rooms,
    "new-prize": new_prize,
    "periodic-lake": periodic_lake,
    "returning-rooms": returning_rooms,
    "still-grid": still_grid,
    "still-lake": still_lake,
    "taxi": taxi,
    "tidal-river": tidal_river,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_a_description_builds_the_same_problem_under_its_own_name(name):
    problem = BUILDERS[name]()
    description = json.loads(json.dumps(problem.description))
    assert description.pop("problem") == problem.name == name
    again = BUILDERS[name](**description)
    assert again.description == problem.description
    assert same_model(again, problem)
    assert again.change_at == problem.change_at
    assert all(phase.name == name for phase in problem.phases)
    assert set(description) <= set(inspect.signature(BUILDERS[name]).parameters)
    assert BUILDERS[name].__name__ in problems.__all__


def test_toy_text_is_gymnasiums_table_with_scaled_rewards():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    ours, theirs = cliff_walking().phases[1], problems.from_gymnasium(env, horizon=100)
    np.testing.assert_allclose(100.0 * ours.optimal_values(), theirs.optimal_values(), rtol=1e-12)
    problem = taxi(horizon=30)
    assert (problem.n_states, problem.n_actions, problem.horizon) == (500, 6, 30)
    assert problem.optimal_values().max() == 1.0  # a passenger in the taxi, at the destination
    assert problem.optimal_values(1).max() <= 1.0
    assert not same_model(*problem.phases)


@pytest.mark.parametrize("build", [cliff_walking, taxi])
def test_bounds_hold_with_negative_rewards(build):
    problem = build()
    for phase in range(2):
        assert (problem.optimal_values(phase) <= problem.value_bounds[:, None] + 1e-12).all()


def test_a_prize_appears_and_nothing_else_changes():
    problem = new_prize(noise=0.0, change_at=(5,))
    first, second = (phase.model.written_out() for phase in problem.phases)
    for field in ("row_start", "successor", "probability"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    changed = np.flatnonzero(first.reward != second.reward)
    rows = np.searchsorted(first.row_start, changed, side="right") - 1
    assert set(rows // 4) == {40}
    # From (0, 5) the corners are 8 and 9 moves away.
    assert problem.optimal_values(0)[0, 5] == pytest.approx(0.5 * (50 - 8))
    assert problem.optimal_values(1)[0, 5] == pytest.approx(50 - 9)


def test_rooms_return():
    problem = returning_rooms(change_at=(3, 6, 9))
    assert same_model(problem.phases[0], problem.phases[2])
    assert same_model(problem.phases[1], problem.phases[3])
    assert [phase.grid[4][5] for phase in problem.phases] == ["#", ".", "#", "."]
    policies = [problem.optimal_q(phase).argmax(axis=-1)[0] for phase in (0, 1)]
    assert not np.array_equal(*policies)


def test_the_tide_turns_within_the_episode():
    problem = tidal_river(change_at=(7,), horizon=4)
    river = river_swim(change_at=(1,), horizon=4)
    size = 12
    for phase, order in enumerate(((0, 0, 1, 1), (1, 1, 0, 0))):
        model = problem.phases[phase].model.written_out()
        for step, part in enumerate(order):
            ref = river.phases[part].model.written_out()
            for row in range(size):
                here = slice(*model.row_start[step * size + row : step * size + row + 2])
                there = slice(*ref.row_start[row : row + 2])
                np.testing.assert_array_equal(model.successor[here], ref.successor[there])
                np.testing.assert_array_equal(model.probability[here], ref.probability[there])
                np.testing.assert_array_equal(model.reward[here], ref.reward[there])


def test_others_are_known_problems_of_another_size():
    assert same_model(frozen_lake_8x8(slip=0.25), frozen_lake(slip=0.25, map="8x8"))
    assert same_model(large_rooms(), two_rooms(noise=0.05, rows=40, cols=50, horizon=200, change_at=(5_000,)))
    assert same_model(endless_river(), river_swim(discount=0.95, change_at=(50_000,)))
    assert new_prize(rows=2, cols=3, horizon=5, prizes=0.0, change_at=()).n_phases == 1
    assert same_model(still_grid(), gridworld(noise=0.2))


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (combination_lock, {"horizon": 1}, "horizon must be an integer >= 2, got 1"),
        (combination_lock, {"success": 0}, "success must be > 0 and <= 1, got 0"),
        (combination_lock, {"low": -1}, "low must be >= 0, got -1"),
        (combination_lock, {"change_at": (5, 5)}, "change_at must increase strictly"),
        (river_swim, {"n_states": 2}, "n_states must be an integer >= 3, got 2"),
        (river_swim, {"horizon": 5, "discount": 0.5}, "exactly one of horizon and discount, got both"),
        (random_mdp, {"change": 1.1}, "change must be >= 0 and <= 1, got 1.1"),
        (random_mdp, {"successors": 6}, r"successors must be an integer in \[1, 5\], got 6"),
        (random_mdp, {"rewarding": 10}, r"rewarding must be an integer in \[1, 9\], got 10"),
        (drifting_lake, {"last": 2}, "last must be >= 0 and <= 1, got 2"),
        (periodic_lake, {"slip": ()}, "slip must be a number in"),
        (still_lake, {"slip": -1}, "slip must be >= 0 and <= 1, got -1"),
        (moving_goal, {"goals": [(9, 9)]}, r"the row of each of goals must be an integer in \[0, 4\], got 9"),
        (moving_goal, {"goals": ()}, "goals must hold one cell"),
        (moving_goal, {"change_at": (1, 2)}, "2 values of goals make 2 phases and need 1 change points"),
        (cliff_walking, {"slippery": ()}, "slippery must be True or False, or one of them for each phase"),
        (cliff_walking, {"slippery": "no"}, "slippery in each phase must be True or False, got 'no'"),
        (taxi, {"rainy": (True, 2)}, "rainy in each phase must be True or False, got 2"),
        (taxi, {"horizon": 5, "discount": 0.5}, "exactly one of horizon and discount, got both"),
        (new_prize, {"prizes": (0, 2)}, "each of prizes must be >= 0 and <= 1, got 2"),
        (new_prize, {"cols": 2}, "cols must be an integer >= 3, got 2"),
        (returning_rooms, {"doors": (9,)}, r"each of doors must be an integer in \[0, 4\], got 9"),
        (returning_rooms, {"doors": ()}, "doors must hold one or more rows"),
        (tidal_river, {"turn": 20}, r"turn must be an integer in \[1, 19\], got 20"),
        (frozen_lake_8x8, {"change_at": (1, 2)}, "2 values of slip make 2 phases and need 1 change points"),
        (endless_river, {"discount": 1.0}, "discount must be >= 0 and < 1, got 1.0"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(build, given, message):
    with pytest.raises(ValueError, match=message):
        build(**given)
