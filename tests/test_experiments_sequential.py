"""`seeds="auto"`: the sequential test, and the runs that it asks for."""

from itertools import combinations, product

import numpy as np
import pytest

from dqucb import compare, load_comparison
from dqucb.experiments import sequential
from dqucb.experiments.sequential import SequentialTest, sum_beyond_boundary


def outcome(draw, shifts, random, looks=6):
    """Run the test on drawn results; the decisions and the results used by each agent."""
    labels = [f"agent {number}" for number in range(len(shifts))]
    results = {label: [] for label in labels}
    test = SequentialTest(labels, looks)
    while not test.is_over:
        for label in test.active:
            results[label] += list(draw(random, test.block) + shifts[labels.index(label)])
        test.look({label: results[label] for label in test.active})
    return test, {label: len(values) for label, values in results.items()}


def heavy(random, size):
    """Normal results of which one in ten is a failure."""
    return random.normal(size=size) + 100.0 * (random.random(size) < 0.1)


@pytest.mark.parametrize("draw", [lambda random, size: random.normal(size=size), heavy])
def test_agents_with_equal_distributions_are_rarely_told_apart(draw):
    trials = 200
    wrong = sum(
        bool(outcome(draw, [0.0, 0.0, 0.0], np.random.default_rng(seed))[0].decisions) for seed in range(trials)
    )
    assert wrong <= 20  # 10 are expected at most; 21 or more have a probability of 0.001


@pytest.mark.parametrize("level", [0.05, 0.3])
@pytest.mark.parametrize("values", [range(6), [1, 1, 2, 5, 5, 5], [0, 0, 0, 0, 0, 7]])
def test_the_level_holds_over_all_arrangements(level, values):
    """Every way to deal three blocks of results to two agents, by enumeration."""
    looks, ranks = 3, [2.0 * np.mean([i + 1 for i, other in enumerate(sorted(values)) if other == v]) for v in values]
    deals = [
        [*(ranks[i] for i in own), *(ranks[i] for i in range(6) if i not in own)] for own in combinations(range(6), 3)
    ]
    for look in range(1, looks + 1):
        sums = [sum_beyond_boundary(np.array(path, int), level, looks) for path in product(deals, repeat=look)]
        assert np.mean(np.array(sums) != 0) <= level * look / looks + 1e-9
        assert np.mean(np.sign(sums)) == pytest.approx(0.0)
    if level == 0.3:  # the level is used where the number of different sums allows it
        assert np.mean(np.array(sums) != 0) > 0.05 or len(set(values)) == 2


def test_number_of_pairs_that_can_be_equal():
    """Against an enumeration of all ways to put the agents into groups."""
    names, random = list("abcde"), np.random.default_rng(0)
    pairs = list(combinations(names, 2))
    for _ in range(30):
        undecided = [pair for pair in pairs if random.random() < 0.6]
        best = 0
        for groups in product(range(5), repeat=5):
            together = [(a, b) for a, b in pairs if groups[names.index(a)] == groups[names.index(b)]]
            if set(together) <= set(undecided):
                best = max(best, len(together))
        assert sequential._most_equal_pairs(undecided) == best


def test_different_agents_are_told_apart_with_few_seeds():
    for seed in range(10):
        test, used = outcome(lambda r, n: r.normal(size=n), [0.0, 5.0], np.random.default_rng(seed))
        assert [(each.better, each.worse) for each in test.decisions] == [("agent 0", "agent 1")]
        assert max(used.values()) <= 10


def test_decided_agents_need_no_more_runs():
    test, used = outcome(lambda r, n: r.normal(size=n), [0.0, 0.0, 20.0], np.random.default_rng(1))
    assert used["agent 2"] < used["agent 0"] == 30
    assert test.undecided == [("agent 0", "agent 1")]


def test_equal_results_are_not_told_apart():
    test = SequentialTest(["a", "b"], 2)
    assert test.look({"a": [1.0] * 5, "b": [1.0] * 5}) == []
    assert test.look({"a": [1.0] * 10, "b": [1.0] * 10}) == []
    assert test.is_over
    with pytest.raises(ValueError, match="at most 2 looks"):
        test.look({"a": [1.0] * 15, "b": [1.0] * 15})


def test_results_of_a_wrong_size_are_refused():
    with pytest.raises(ValueError, match="results of a must be 5 numbers at look 1, got 4"):
        SequentialTest(["a", "b"], 2).look({"a": [1.0] * 4, "b": [1.0] * 5})


def test_compare_stops_when_the_agents_are_told_apart(tmp_path):
    def run(**options):
        return compare(["qucb", "dqucb", "random"], "combination-lock", 300, jobs=1, seeds="auto", **options)

    memory = run(max_seeds=20)
    kept = run(max_seeds=20, out=tmp_path)
    again = run(max_seeds=20, out=tmp_path)
    used = {label: len(kept.seeds_of(label)) for label in kept.labels}
    assert used["Random"] < used["QUCB"] == used["DQUCB"] == 20
    assert kept.computed == memory.computed == sum(used.values())
    assert again.computed == 0
    assert not kept.missing
    assert memory.notes == kept.notes == again.notes == load_comparison(tmp_path).notes
    assert "QUCB is better than Random" in kept.notes[0]
    assert "QUCB and DQUCB: no significant difference" in kept.notes[0]
    for label in kept.labels:  # the same runs as with a fixed number of seeds
        fixed = compare(label.lower(), "combination-lock", 300, jobs=1, seeds=used[label])
        assert fixed.final(label) == kept.final(label)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": "many"}, "seeds must be a number of seeds, a list of different seeds or \"auto\", got 'many'"),
        ({"seeds": "auto", "max_seeds": 3}, r"max_seeds must be an integer in \[5, 1000000\], got 3"),
    ],
)
def test_wrong_seeds_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compare(["qucb", "dqucb"], "combination-lock", 300, jobs=1, **options)


def test_one_agent_cannot_be_told_apart():
    with pytest.raises(ValueError, match="agents to tell apart must be 2 to 12, got 1"):
        compare("qucb", "combination-lock", 300, jobs=1, seeds="auto")
