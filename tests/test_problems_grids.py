"""The problems that test one thing each: their rows, their optimal values, and that descriptions build them again."""

import inspect
import json

import numpy as np
import pytest
from naive_planning import same_model

from dqucb import problems
from dqucb.problems import (
    cliff_walking,
    drifting_lake,
    endless_river,
    frozen_lake,
    frozen_lake_8x8,
    gridworld,
    large_rooms,
    new_prize,
    periodic_lake,
    returning_rooms,
    river_swim,
    still_grid,
    still_lake,
    taxi,
    tidal_river,
    two_rooms,
)

BUILDERS = {
    "cliff-walking": cliff_walking,
    "drifting-lake": drifting_lake,
    "endless-river": endless_river,
    "frozen-lake-8x8": frozen_lake_8x8,
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
        (cliff_walking, {"slippery": ()}, "slippery must be True or False, or one of them for each phase"),
        (cliff_walking, {"slippery": "no"}, "slippery must be True or False, or one of them for each phase, got 'no'"),
        (taxi, {"rainy": (True, 2)}, "rainy must be an integer in"),
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
