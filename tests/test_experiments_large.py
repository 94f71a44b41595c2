"""Folders with many runs: the index, statistics in linear time and memory, and sizes that are refused."""

import logging
import os
import tracemalloc

import numpy as np
import pytest

from dqucb.experiments import compare, load_comparison, runner, statistics
from dqucb.problems import gridworld

PROBLEM = gridworld(noise=(0.05, 0.3), change_at=(60,), rows=2, cols=3, horizon=8)


def run_sweep(folder, seeds=6, **options):
    return compare(["qucb", "planning-dqucb"], PROBLEM, 70, seeds=seeds, jobs=1, out=folder, **options)


@pytest.fixture
def indexed(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "WORTH_WHILE", 3)
    monkeypatch.setattr(runner, "SHARD", 5)
    made = run_sweep(tmp_path)
    assert len(list((tmp_path / "index").iterdir())) == 3  # 5, 5 and 2 runs
    return made


def assert_same(one, other):
    assert one.traces.keys() == other.traces.keys()
    for place, ref in other.traces.items():
        comp = one.traces[place]
        for name, value in vars(ref).items():
            if name == "seconds":  # of runs that were made again
                continue
            np.testing.assert_array_equal(getattr(comp, name), value, strict=isinstance(value, np.ndarray))


def opened(monkeypatch):
    """The run files that are opened from now on."""
    names = []
    real = runner.Store.load
    monkeypatch.setattr(runner.Store, "load", lambda self, trial, seed: names.append(seed) or real(self, trial, seed))
    return names


def test_an_index_gives_the_same_traces_without_opening_a_run(indexed, monkeypatch):
    names = opened(monkeypatch)
    assert_same(load_comparison(indexed.folder), indexed)
    again = run_sweep(indexed.folder)
    assert again.computed == 0
    assert_same(again, indexed)
    assert names == []


def test_small_experiments_have_none(tmp_path):
    run_sweep(tmp_path, seeds=1)
    assert not (tmp_path / "index").exists()


def test_a_run_that_changed_since_is_read_again(indexed, monkeypatch):
    trial = indexed.trials["QUCB"]
    touched, damaged, gone = (indexed.folder / "runs" / f"{trial.key(seed)}.npz" for seed in (0, 1, 2))
    os.utime(touched, ns=(0, 0))  # a clock that went back
    damaged.write_bytes(damaged.read_bytes()[:-1])
    gone.unlink()
    names = opened(monkeypatch)
    loaded = load_comparison(indexed.folder)
    assert sorted(names) == [0, 1, 2]
    assert sorted(loaded.missing) == [("QUCB", 1), ("QUCB", 2)]
    assert any(damaged.name in note for note in loaded.notes)
    assert run_sweep(indexed.folder).computed == 2
    names.clear()
    assert_same(load_comparison(indexed.folder), indexed)
    assert names == []


def test_a_damaged_index_is_ignored(indexed, caplog):
    for number, path in enumerate(sorted((indexed.folder / "index").iterdir())):
        data = path.read_bytes()
        path.write_bytes(data[:-5] if number else data[:200] + b"x" + data[201:])
    with caplog.at_level(logging.WARNING, "dqucb"):
        assert_same(load_comparison(indexed.folder), indexed)
    assert caplog.text.count("not a readable index") == 3


def test_a_forged_index_is_ignored(indexed, caplog):
    from saved_files import contents, write

    path = sorted((indexed.folder / "index").iterdir())[0]
    settings, arrays = contents(path)
    changes = {name: array[:-1] for name, array in arrays.items() if len(array)}
    changes |= {"counts": arrays["counts"] - 5, "points": arrays["points"] * 0, "keys": arrays["keys"][:, :5]}
    changes |= {
        "version": arrays["version"] + 7,
        "stamps": arrays["stamps"][:, :1],
        "numbers": arrays["numbers"][:, :1],
    }
    for name, array in changes.items():
        write(path, settings, arrays | {name: array})
        loaded = load_comparison(indexed.folder)
        assert len(loaded.traces) == len(indexed.traces), name
    write(path, {**settings, "versions": 3}, arrays)
    assert len(load_comparison(indexed.folder).traces) == len(indexed.traces)
    assert caplog.text.count("not a readable index") > len(changes)


def test_a_disk_without_room_for_the_index_is_no_failure(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(runner, "WORTH_WHILE", 3)
    (tmp_path / "index").write_text("in the way")
    assert run_sweep(tmp_path, seeds=2).computed == 4
    assert "the index was not written" in caplog.text


# ---- statistics ------------------------------------------------------------------------------------------


def test_memory_of_statistics_does_not_grow_with_the_seeds():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20_000), rng.normal(0.1, size=20_000)
    tracemalloc.start()
    try:
        assert 0.5 < statistics.probability_of_improvement(x, y).low < 0.54
        assert statistics.mean_interval(x).low < 0.01
        statistics.band(x[:, None] + np.zeros(20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250 * 2**20
