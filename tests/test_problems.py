"""The builders: every row against the rules written out naively, parameters, maps, errors."""

import json

import naive_planning as naive
import numpy as np
import pytest
from naive_planning import same_model

from dqucb.problems import TabularMDP, frozen_lake, gridworld, two_rooms
from dqucb.problems.frozen_lake import MAPS, random_map


def outcomes(mdp, state, action):
    """{(successor, reward): probability} of one row of a problem with a single phase."""
    row = state * mdp.n_actions + action
    result = {}
    model = mdp.model.written_out()
    for entry in range(model.row_start[row], model.row_start[row + 1]):
        key = int(model.successor[entry]), float(model.reward[entry])
        assert key not in result
        result[key] = model.probability[entry]
    return result


def assert_rows(mdp, expected):
    for state in range(mdp.n_states):
        for action in range(mdp.n_actions):
            ref = expected(state, action)
            comp = outcomes(mdp, state, action)
            assert comp.keys() == ref.keys(), (state, action)
            assert comp == pytest.approx(ref, rel=1e-12), (state, action)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.2, 1.0])
@pytest.mark.parametrize(("rows", "cols", "walls"), [(5, 10, ()), (1, 4, ()), (3, 3, ((1, 1), (0, 2)))])
def test_gridworld_rows(noise, rows, cols, walls):
    mdp = gridworld(noise=noise, rows=rows, cols=cols, walls=walls)

    def expected(state, action):
        row = naive.gridworld_row(rows, cols, walls, noise, divmod(state, cols), "LRUD"[action])
        reward = float(state == rows * cols - 1)
        return {(r * cols + c, reward): p for (r, c), p in row.items()}

    assert_rows(mdp, expected)
    assert not mdp.model.terminal.any()
    assert mdp.return_bound == 100.0


def test_gridworld_with_a_terminal_goal():
    mdp = gridworld(noise=0.3, terminal_goal=True, goal=(2, 3))
    goal = 23

    def expected(state, action):
        if state == goal:
            return {(goal, 0.0): 1.0}
        row = naive.gridworld_row(5, 10, (), 0.3, divmod(state, 10), "LRUD"[action])
        return {(r * 10 + c, float((r, c) == (2, 3))): p for (r, c), p in row.items()}

    assert_rows(mdp, expected)
    assert np.flatnonzero(mdp.model.terminal).tolist() == [goal]
    assert mdp.return_bound == 1.0


def test_a_discounted_terminal_goal_leads_back_to_the_start():
    mdp = gridworld(noise=0.3, terminal_goal=True, discount=0.9, start=(1, 1))
    assert all(outcomes(mdp, 49, action) == {(11, 0.0): 1.0} for action in range(4))
    assert outcomes(mdp, 48, 1)[49, 1.0] > 0.7
    assert not mdp.model.terminal.any()
    assert mdp.return_bound == pytest.approx(10.0)


def test_two_rooms():
    problem = two_rooms()
    assert problem.grid == problem.phases[0].grid
    assert problem.phases[0].grid[1] == "." * 10
    assert problem.phases[1].grid == ("S....#....", ".....#....", "..........", ".....#....", ".....#...G")
    assert same_model(problem.phases[0], gridworld(noise=0.2))
    wall = [(row, 5) for row in (0, 1, 3, 4)]
    assert same_model(problem.phases[1], gridworld(noise=0.2, walls=wall))
    wall_ids = {row * 10 + col for row, col in wall}
    for state in set(range(50)) - wall_ids:
        for action in range(4):
            assert not wall_ids & {there for there, _ in outcomes(problem.phases[1], state, action)}
    assert two_rooms(change_at=()).n_phases == 1
    assert [phase.grid[0][5] for phase in two_rooms(change_at=(5, 9)).phases] == [".", "#", "."]
    assert two_rooms(noise=(0.1, 0.3), change_at=5).description["noise"] == [0.1, 0.3]
    assert two_rooms(rows=3, cols=5, wall=1, door=0).phases[1].grid == ("S....", ".#...", ".#..G")


@pytest.mark.parametrize("slip", [0.0, 1 / 2, 2 / 3, 1.0])
@pytest.mark.parametrize("name", ["4x4", "8x8"])
def test_frozen_lake_rows(slip, name):
    lines = MAPS[name]
    size = len(lines)
    mdp = frozen_lake(slip=slip, map=name)

    def expected(state, action):
        if lines[state // size][state % size] in "HG":
            return {(state, 0.0): 1.0}
        row = naive.frozen_lake_row(lines, slip, divmod(state, size), "LDRU"[action])
        return {(r * size + c, float(lines[r][c] == "G")): p for (r, c), p in row.items()}

    assert_rows(mdp, expected)
    letters = "".join(lines)
    assert np.flatnonzero(mdp.model.terminal).tolist() == [i for i, x in enumerate(letters) if x in "HG"]
    assert (mdp.return_bound, mdp.horizon, mdp.model.initial_state[0]) == (1.0, 500, 0)


def test_a_discounted_lake_goes_on():
    mdp = frozen_lake(slip=0.5, discount=0.9)
    assert not mdp.model.terminal.any()
    for state in (5, 7, 11, 12, 15):
        assert all(outcomes(mdp, state, action) == {(0, 0.0): 1.0} for action in range(4))
    assert outcomes(mdp, 14, 2)[15, 1.0] == 0.5
    assert mdp.return_bound == pytest.approx(10.0)
    two = frozen_lake(slip=0.0, discount=0.9, map=["SFG", "SFH"])
    assert outcomes(two, 2, 0) == {(0, 0.0): 0.5, (3, 0.0): 0.5}


def test_several_starts():
    mdp = frozen_lake(slip=0.0, map=["SFG", "SFH"])
    assert mdp.model.initial_state.tolist() == [-1]
    assert mdp.model.initial_cumulative.tolist() == [[0.5, 0.5, 0.5, 1.0, 1.0, 1.0]]


def test_random_maps_have_a_way():
    maps = {random_map(6, 0.6, seed) for seed in range(20)}
    assert len(maps) == 20
    assert random_map(6, 0.6, 3) == random_map(6, 0.6, 3)
    for lines in maps:
        mdp = frozen_lake(slip=0.0, map=lines, horizon=36)
        assert mdp.optimal_values()[0, 0] == 1.0
    assert frozen_lake(map="random", size=5, seed=7).grid == random_map(5, 0.8, 7)
    assert len(frozen_lake(map="random").grid) == 8
    with pytest.raises(ValueError, match="frozen=1e-09 must be larger"):
        random_map(9, 1e-9, 0)


def test_defaults_and_phases():
    assert gridworld().change_at == (25_000,)
    assert frozen_lake().change_at == (20_000, 40_000)
    assert isinstance(gridworld(noise=0.1), TabularMDP)
    assert isinstance(frozen_lake(slip=0.5, change_at=()), TabularMDP)
    assert gridworld(noise=(0.1, 0.2, 0.3), change_at=(3, 5)).n_phases == 3
    assert gridworld(discount=0.9, horizon=None).horizon is None
    assert gridworld(noise=(0.1, 0.2), change_at=5).change_at == (5,)


def test_descriptions_rebuild_the_problem():
    built = frozen_lake(slip=(0, 1 / 3), change_at=(9,), horizon=7, map="8x8")
    again = json.loads(json.dumps(built.description))
    assert again.pop("problem") == "frozen-lake"
    assert same_model(built, frozen_lake(**again))
    built = gridworld(noise=0.1, rows=3, cols=3, walls=[(1, 1)], discount=0.5)
    again = json.loads(json.dumps(built.description))
    assert again.pop("problem") == "gridworld"
    assert same_model(built, gridworld(**again))
    built = two_rooms(change_at=(4, 6))
    again = json.loads(json.dumps(built.description))
    assert again.pop("problem") == "two-rooms"
    assert same_model(built, two_rooms(**again))


def test_a_large_grid_stays_sparse():
    mdp = gridworld(noise=0.1, rows=100, cols=100, horizon=200)
    assert mdp.model.successor.size < 170_000
    assert mdp.model.reward.size < 50  # rows share their probabilities and rewards


def test_coordinates():
    assert frozen_lake().coordinates[[0, 3, 4, 15]].tolist() == [[0, 0], [0, 3], [1, 0], [3, 3]]
    assert gridworld().coordinates[49].tolist() == [4, 9]
    assert TabularMDP(np.ones((1, 1, 1)), [0.0], horizon=1).coordinates is None


@pytest.mark.parametrize(
    ("build", "given", "message"),
    [
        (gridworld, {"noise": 1.5}, "noise must be >= 0 and <= 1, got 1.5"),
        (gridworld, {"noise": ()}, "noise must be a number in"),
        (gridworld, {"noise": 0.1, "change_at": (5,)}, r"need 0 change points, got change_at=\(5,\)"),
        (gridworld, {"noise": (0.1, 0.2, 0.3)}, "3 phases and need 2 change points, got change_at=None"),
        (gridworld, {"change_at": (0,)}, "change_at must be an integer >= 1, got 0"),
        (gridworld, {"horizon": 5, "discount": 0.5}, "exactly one of horizon and discount, got both"),
        (gridworld, {"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        (gridworld, {"rows": 0}, "rows must be an integer >= 1, got 0"),
        (gridworld, {"goal": (5, 0)}, r"the row of goal must be an integer in \[0, 4\], got 5"),
        (gridworld, {"goal": 3}, r"goal must be a cell \(row, column\), got 3"),
        (gridworld, {"goal": (0, 0)}, "start and goal must differ"),
        (gridworld, {"walls": [(0, 0)]}, "walls must leave the start and the goal free"),
        (gridworld, {"walls": [(row, 3) for row in range(5)]}, "walls must leave a way"),
        (two_rooms, {"wall": 0}, r"wall must be an integer in \[1, 8\], got 0"),
        (two_rooms, {"door": 5}, r"door must be an integer in \[0, 4\], got 5"),
        (two_rooms, {"noise": (0.1, 0.2), "change_at": (4, 6)}, "2 phases and need 1 change points"),
        (frozen_lake, {"slip": -0.1}, "slip must be >= 0 and <= 1, got -0.1"),
        (frozen_lake, {"slip": (0, 0.5)}, "2 phases and need 1 change points, got change_at=None"),
        (frozen_lake, {"map": "9x9"}, "map must be one of '4x4', '8x8', 'random', got '9x9'"),
        (frozen_lake, {"map": ["SF", "G"]}, "map must be rows of equal length"),
        (frozen_lake, {"map": ["SF", "FF"]}, "at least one S and one G"),
        (frozen_lake, {"map": ["SX", "FG"]}, "map must be rows of equal length of the letters"),
        (frozen_lake, {"map": ["SH", "HG"]}, "map must have a way from each S to a G"),
        (frozen_lake, {"size": 4}, "belong to map=\"random\" only"),
        (frozen_lake, {"map": "random", "size": 1}, "size must be an integer >= 2, got 1"),
        (frozen_lake, {"return_bound": -1}, "return_bound must be > 0, got -1"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(build, given, message):
    with pytest.raises(ValueError, match=message):
        build(**given)
