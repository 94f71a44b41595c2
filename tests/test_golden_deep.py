"""Runs of deep and allocation agents give the numbers that they gave when `golden_deep.json` was written."""

import json

import golden_deep
import pytest


def test_short_runs_give_the_numbers_that_they_always_gave():
    expected, found = json.loads(golden_deep.FILE.read_text()), golden_deep.deep()
    assert sorted(found) == sorted(expected)
    for name, curves in expected.items():
        for curve, numbers in curves.items():
            assert found[name][curve] == pytest.approx(numbers, rel=1e-3, abs=2e-3, nan_ok=True), (name, curve)
