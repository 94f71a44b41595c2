"""The benchmark of deep agents through changes of CartPole's physics."""

import json
from itertools import product

import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from benchmarks import deep_changes


def test_every_change_has_a_row_with_the_falls_of_every_agent(capsys):
    kinds = ["force x -1", "placebo"]
    assert deep_changes.main(["--quick", "--seeds", "2", "--kinds", ",".join(kinds)]) == 0
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0].strip() for row in rows] == kinds
    for row in rows:
        assert len(row) == 1 + len(deep_changes.AGENTS) + 2
        for cell in row[1:-2]:
            mean, each = cell.strip(" )").split(" (")
            counts = [int(count) for count in each.split(", ")]
            assert float(mean) == pytest.approx(np.mean(counts), abs=0.06)
    assert rows[1][-2].strip() == "-; -"  # no alarm without a change


def test_falls_are_short_episodes_that_end_after_the_change():
    class Run:
        lengths = np.array([200, 50, 200, 60, 30, 200, 20, 7])  # the last one was not over

    assert deep_changes.falls(Run(), 449) == 3
    assert deep_changes.falls(Run(), 510) == 2
    assert deep_changes.falls(Run(), 540) == 1


def test_drawn_changes_depend_on_the_seed_alone():
    assert deep_changes.drawn(1) == deep_changes.drawn(1)
    assert deep_changes.drawn(1) != deep_changes.drawn(2)
    changed = {name for change in deep_changes.drawn(3).values() for name in change}
    assert changed == {"force", "length", "gravity", "noise"}


def test_updates_of_both_backends_are_compared_with_stable_baselines3_and_the_limit(tmp_path):
    pytest.importorskip("torch", reason="torch is missing")
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is missing")
    from benchmarks import torch_updates

    assert torch_updates.main(["--rounds", "1", "--updates", "2", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "torch_updates.json").read_text())
    cases = [(row["network"], row["backend"], row["seeds"]) for row in rows]
    assert sorted(cases) == sorted(product(torch_updates.SIZES, ("compiled", "torch"), (1, 10)))
    for row in rows:
        expected = row["seeds"] * row["sb3_microseconds"] / row["microseconds"]
        assert row["times_sb3"] == pytest.approx(expected)
        assert row["limit"] > 0
