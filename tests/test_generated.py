"""Problems drawn from a seed: everything comes from it, and changes are of the kind that was asked for."""

import json

import numpy as np
import pytest
from naive_planning import same_model

from dqucb import check_problem
from dqucb.problems import FAMILIES, PROBLEMS, garnet, generated
from dqucb.problems.generated import CHANGES, EPISODES, STEPS

SEEDS = (0, 1, 2)


def rows_of(phase):
    """Each row as a dictionary: (next state, reward) -> probability."""
    model = phase.model.written_out()
    rows = []
    for start, end in zip(model.row_start[:-1], model.row_start[1:], strict=True):
        here = slice(start, end)
        outcomes = zip(model.successor[here].tolist(), model.reward[here].tolist(), strict=True)
        rows.append(dict(zip(outcomes, model.probability[here].tolist(), strict=True)))
    return rows


def marginal(row, part):
    """The distribution of next states (part 0) or of rewards (part 1)."""
    found = {}
    for outcome, probability in row.items():
        found[outcome[part]] = found.get(outcome[part], 0.0) + probability
    return found


def distance(one, two):
    """Total variation between two distributions."""
    return sum(abs(one.get(key, 0.0) - two.get(key, 0.0)) for key in {*one, *two}) / 2


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_problems_that_can_be_learned(family):
    kinds = CHANGES if family != "garnet-large" else ("few-rows",)
    for seed in SEEDS:
        for change in kinds:
            problem = generated(family, seed=seed, change=change)
            check_problem(problem)
            assert problem.n_phases == 1 if change == "none" else problem.n_phases > 1
            assert max(problem.change_at, default=0) < EPISODES
            values = problem.optimal_values()
            assert (values <= problem.value_bounds[:, None] * (1 + 1e-12)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_comes_from_the_seed_and_a_description_builds_it_again(family):
    first, other = generated(family, seed=5), generated(family, seed=6)
    again = generated(**{key: value for key, value in json.loads(json.dumps(first.description)).items()
                         if key != "problem"})  # fmt: skip
    assert again.description == first.description
    assert same_model(again, first)
    assert again.change_at == first.change_at
    assert first.model.successor.shape != other.model.successor.shape or not same_model(first, other)


def test_families_draw_apart_from_each_other():
    one, two = generated("bandit-bernoulli", 0, "none"), generated("bandit-sure", 0, "none")
    assert one.n_actions != two.n_actions or not np.array_equal(one.model.probability, two.model.probability)


def test_kinds_of_change_are_drawn_too():
    drawn = [generated("two-state", seed=seed).description["change"] for seed in range(120)]
    assert set(drawn) == set(CHANGES)
    assert 20 <= drawn.count("none") <= 60


@pytest.mark.parametrize("family", ["garnet", "dirichlet", "grid", "chain", "garnet-stochastic-rewards"])
def test_a_change_is_of_its_kind(family):
    before = rows_of(generated(family, 4, "none"))
    for change in ("all-rows", "few-rows", "slight", "rewards"):
        problem = generated(family, 4, change)
        assert rows_of(problem.phases[0]) == before
        after = rows_of(problem.phases[1])
        moved = [distance(marginal(a, 0), marginal(b, 0)) for a, b in zip(before, after, strict=True)]
        paid = [distance(marginal(a, 1), marginal(b, 1)) for a, b in zip(before, after, strict=True)]
        if change == "rewards":
            assert max(moved) < 1e-12 < max(paid)
            continue
        assert max(paid) < 1e-12 < max(moved)
        if change == "slight":
            assert max(moved) <= 0.25
        if change == "few-rows":
            assert 1 <= sum(each > 1e-12 for each in moved) <= max(1, round(0.1 * len(moved)))


def test_in_bandits_a_change_of_rows_is_one_of_rewards():
    for change in ("all-rows", "few-rows", "slight"):
        first, second = map(rows_of, generated("bandit-bernoulli", 3, change).phases)
        moved = [distance(a, b) for a, b in zip(first, second, strict=True)]
        assert max(moved) > 0.0
        assert change != "few-rows" or sum(each > 1e-12 for each in moved) == 1


def test_returning_problems_return():
    problem = generated("grid", 1, "returning")
    assert problem.n_phases >= 4
    first, second, *later = problem.phases
    assert not same_model(first, second)
    for number, phase in enumerate(later):
        assert same_model(phase, (first, second)[number % 2])


def test_goals_of_drawn_grids_can_be_reached():
    for seed in range(20):
        for family in ("grid", "grid-terminal"):
            problem = generated(family, seed, "all-rows")
            start = problem.model.initial_state[0]
            for phase in range(2):
                long = problem.optimal_values(phase)[0]
                assert long[start] > 0.0, (family, seed)


def test_change_points_and_lengths_can_be_given():
    problem = generated("garnet", 0, "all-rows", change_at=(10, 20), horizon=7)
    assert (problem.change_at, problem.horizon, problem.n_phases) == ((10, 20), 7, 3)
    endless = generated("garnet", 0, "several", discount=0.9)
    assert (endless.discount, endless.horizon) == (0.9, None)
    assert EPISODES < max(endless.change_at) < STEPS
    assert generated("garnet", 1, change_at=(5,)).n_phases == 2  # a change is drawn, whatever the seed


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="unknown family 'garnets': did you mean garnet"):
        generated("garnets")
    with pytest.raises(ValueError, match="change must be"):
        generated("garnet", change="everything")
    with pytest.raises(ValueError, match=r"change_at must be empty if and only if change='none', got \[5\]"):
        generated("garnet", change="none", change_at=(5,))
    with pytest.raises(ValueError, match="depends on the step"):
        generated("garnet-step-dependent", horizon=1_000)
    with pytest.raises(ValueError, match="branching must be"):
        garnet(n_states=4, branching=5)
    with pytest.raises(ValueError, match="exactly one of horizon and discount"):
        garnet(horizon=3, discount=0.5)


def test_a_garnet_has_its_size():
    problem = garnet(n_states=30, n_actions=4, branching=7, seed=2, rewarding=0.2)
    rows = rows_of(problem)
    assert {len(row) for row in rows} == {7}
    assert len(rows) == 120
    paying = {index // 4 for index, row in enumerate(rows) if max(marginal(row, 1)) == 1.0}
    assert len(paying) == 6
    assert 0 not in paying
    assert PROBLEMS["garnet"]().description["n_states"] == 20
