"""Aggregates over several problems."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dqucb import compare
from dqucb.cli import app
from dqucb.experiments import Aggregate, aggregate


@pytest.fixture(scope="module")
def comparisons():
    problems = {"lock": "combination-lock", "lake": "frozen-lake"}
    return {name: compare(["qucb", "random"], each, 200, seeds=5, jobs=1) for name, each in problems.items()}


def test_scores_are_relative_to_the_best_agent_of_each_problem(comparisons):
    over = aggregate(comparisons)
    for name, each in comparisons.items():
        regrets = {label: np.array(list(each.final(label).values())) for label in over.labels}
        best = min(runs.mean() for runs in regrets.values())
        for label in over.labels:
            np.testing.assert_allclose(over.scores[label][name], regrets[label] / best)


def test_statistics_of_known_scores():
    over = Aggregate({
        "a": {"x": np.array([1.0, 2.0, 3.0, 4.0]), "y": np.array([1.0, 1.0, 1.0, 1.0])},
        "b": {"x": np.array([5.0, 6.0, 7.0, 8.0]), "y": np.array([0.5, 0.5, 2.0, 2.0])},
    })  # fmt: skip
    assert over.interquartile_mean("a").value == pytest.approx(np.mean([1.0, 1.0, 1.0, 2.0]))
    assert over.improvement("a", "b").value == pytest.approx((1.0 + 0.5) / 2)
    assert over.improvement("b", "a").value == pytest.approx(0.25)
    assert over.geometric_mean("a") == pytest.approx(np.sqrt(2.5))
    np.testing.assert_allclose(over.profile("a", [0.5, 1.0, 2.0, 4.0]), [0.0, 0.625, 0.75, 1.0])
    low, high = over.improvement("a", "b")[1:]
    assert low <= 0.75 <= high


def test_intervals_cover_the_probability_of_improvement():
    """Normal results with a known probability on each of four problems: the bootstrap interval covers about 95 %."""
    truth = 0.76025  # Φ(1 / √2)
    covered = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        scores = {
            label: {str(problem): random.normal(shift, 1.0, 15) for problem in range(4)}
            for label, shift in (("a", 0.0), ("b", 1.0))
        }
        low, high = Aggregate(scores).improvement("a", "b")[1:]
        covered += low <= truth <= high
    assert covered >= 85


def test_comparisons_must_hold_the_same_agents(comparisons):
    other = compare(["qucb", "dqucb"], "combination-lock", 200, seeds=2, jobs=1)
    with pytest.raises(ValueError, match="the same agents"):
        aggregate({**comparisons, "other": other})
    with pytest.raises(ValueError, match="at least one comparison"):
        aggregate({})


def test_the_command_prints_a_table_and_draws(tmp_path):
    for name in ("combination-lock", "frozen-lake"):
        compare(["qucb", "random"], name, 200, seeds=3, jobs=1, out=tmp_path / name)
    folders = [str(tmp_path / name) for name in ("combination-lock", "frozen-lake")]
    shown = CliRunner().invoke(app, ["aggregate", *folders, "--out", str(tmp_path / "picture")])
    assert shown.exit_code == 0, shown.output
    assert "QUCB" in shown.output
    assert "2 problems" in shown.output
    assert (tmp_path / "picture.png").stat().st_size > 1000
    rows = json.loads(CliRunner().invoke(app, ["aggregate", *folders, "--json"]).output)
    assert [row["agent"] for row in rows] == ["QUCB", "Random"]
    assert CliRunner().invoke(app, ["aggregate", str(tmp_path / "nothing")]).exit_code == 2
