"""The benchmark of updates of both backends."""

import json
from itertools import product

import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')


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
