"""Folders of experiments that somebody or something tampered with."""

import hashlib
import json
import logging
import os
from contextlib import contextmanager

import numpy as np
import pytest

from dqucb.experiments import SettingsDifferError, compare, load_comparison, manifest, store
from dqucb.experiments.trials import canonical
from dqucb.problems import gridworld

PROBLEM = gridworld(noise=(0.05, 0.3), change_at=(60,), rows=2, cols=3, horizon=8)


def run_sweep(folder, episodes=70, seeds=3, **options):
    return compare(["qucb", "random"], PROBLEM, episodes, seeds=seeds, jobs=1, out=folder, **options)


@pytest.fixture
def folder(tmp_path):
    run_sweep(tmp_path)
    return tmp_path


def first_file(folder):
    return sorted((folder / "runs").iterdir())[0]


# ---- the lock --------------------------------------------------------------------------------------------


def test_the_lock_follows_no_link_and_empties_nothing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / ".lock").symlink_to(victim)
    with pytest.raises(ValueError, match=r"out must be a folder that can be .* got .*out: \.lock: a symbolic link"):
        run_sweep(out)
    assert victim.read_text() == "precious"
    (out / ".lock").unlink()
    os.link(victim, out / ".lock")
    run_sweep(out)
    assert victim.read_text() == "precious"


def test_a_lock_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(ValueError, match=r"\.lock must be a file"):
        run_sweep(tmp_path)


def test_settings_are_checked_again_under_the_lock(tmp_path, monkeypatch):
    """Another session with other settings begins between this one's look at the folder and its lock."""
    real, others = store._locked, []

    @contextmanager
    def slow_lock(folder):
        if not others:
            others.append(1)
            run_sweep(tmp_path, episodes=80)
        with real(folder):
            yield

    monkeypatch.setattr(store, "_locked", slow_lock)
    with pytest.raises(SettingsDifferError, match="length is 80 there, 70 here"):
        run_sweep(tmp_path)
    assert len(load_comparison(tmp_path).traces) == 6


# ---- the manifest ----------------------------------------------------------------------------------------


def test_every_changed_byte_of_a_manifest_is_noticed_or_means_the_same(folder):
    path = folder / "manifest.json"
    data = path.read_bytes()
    right = store.Store(folder).manifest()
    refused = []
    for place in range(0, len(data), 7):
        for bit in (1, 16, 64):
            changed = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
            try:
                assert manifest.from_bytes(changed, str(path)) == right
            except store.SavedFileError as error:
                refused.append(str(error))
    assert len(refused) > 3 * len(data) / 7 * 0.8
    assert all(str(path) in text for text in refused)


def change(content, place, value):
    *way, last = place
    for step in way:
        content = content[step]
    if value is KeyError:
        del content[last]
    else:
        content[last] = value


PLACES = [
    "settings", "settings/problem", "settings/problem/problem", "settings/length", "settings/unit",
    "settings/regret", "settings/change_at", "settings/seeds", "settings/agents", "settings/agents/QUCB",
    "settings/agents/QUCB/agent", "settings/agents/QUCB/parameters", "settings/agents/QUCB/seeds", "versions",
    "versions/numpy", "command", "created", "format", "sessions", "sessions/0/runs", "sessions/0/seconds",
    "sessions/0/workers", "sessions/0/versions",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_manifest_of_other_types_under_a_valid_checksum_is_refused_in_our_words(folder, place):
    path = folder / "manifest.json"
    right = json.loads(path.read_text())
    refused = 0
    for value in (KeyError, None, [None], -1.5, {"a": {}}, {"QUCB": {"seeds": 3}}, True):
        content = json.loads(json.dumps(right))
        del content["sha256"]
        change(content, [int(step) if step.isdigit() else step for step in place.split("/")], value)
        content["sha256"] = hashlib.sha256(canonical(content).encode()).hexdigest()
        path.write_text(json.dumps(content))
        try:
            load_comparison(folder).summary()  # some are manifests too: of one agent, or with other parameters
        except store.SavedFileError:
            refused += 1
    assert refused >= 4


# ---- files that cannot be read ---------------------------------------------------------------------------


def test_one_unreadable_file_is_reported_and_left_out(folder, caplog):
    path = first_file(folder)
    path.unlink()
    path.mkdir()  # even root cannot read it as a file
    loaded = load_comparison(folder)
    assert any("left out" in note and path.name in note for note in loaded.notes)
    assert len(loaded.summary()) == 2
    with caplog.at_level(logging.WARNING, "dqucb"):
        again = run_sweep(folder)
    assert again.computed == 1
    assert "not a file; set aside as" in caplog.text


def test_what_was_set_aside_is_never_overwritten(folder):
    corrupt = folder / "corrupt"
    corrupt.mkdir()
    path = first_file(folder)
    kept = corrupt / f"{path.name}.1"
    kept.write_text("kept")  # as if .0 had been removed since
    path.write_bytes(b"")
    run_sweep(folder)
    path.write_bytes(b"")
    run_sweep(folder)
    assert kept.read_text() == "kept"
    assert sorted(each.suffix for each in corrupt.iterdir()) == [".0", ".1", ".2"]


# ---- deep checkpoints ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_checkpoint_is_set_aside_and_its_runs_start_anew(tmp_path, caplog, monkeypatch, damage):
    pytest.importorskip("scipy")
    from dqucb.deep import DQN
    from dqucb.running import engine

    agent = DQN(hidden=(8,), learning_starts=20, capacity=200, batch=8)
    options = {"steps": 120, "seeds": 2, "jobs": 1, "regret": "none"}
    whole = compare(agent, "cartpole", out=tmp_path / "whole", **options)
    out = tmp_path / "stopped"

    class StopError(Exception):
        pass

    def stop_after_first(*arguments, **named):
        real(*arguments, **named)
        raise StopError

    real = DQN._save_checkpoint
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("dqucb.running.lockstep.BLOCK_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(DQN, "_save_checkpoint", stop_after_first)
        with pytest.raises(StopError):
            compare(agent, "cartpole", out=out, **options)
    (path,) = (out / "checkpoints").iterdir()
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    again = compare(agent, "cartpole", out=out, **options)
    assert "the checkpoint is set aside as" in caplog.text
    assert [each.name for each in (out / "corrupt").iterdir()] == [f"{path.name}.0"]
    assert list((out / "checkpoints").iterdir()) == []
    for place in whole.traces:
        for name in ("returns", "lengths", "ends"):
            ref, comp = getattr(whole.load_run(*place), name), getattr(again.load_run(*place), name)
            np.testing.assert_array_equal(comp, ref, strict=True)
