"""Runs have the same bits as when `golden.json` was written."""

import json

import golden


def test_short_runs_have_the_bits_that_they_always_had():
    expected, found = json.loads(golden.FILE.read_text()), golden.tabular()
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []
