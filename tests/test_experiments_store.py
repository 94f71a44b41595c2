"""Files that survive: written whole or not at all, checked, set aside when damaged, never unpickled."""

import errno
import hashlib
import json
import logging
import os
import pickle

import numpy as np
import pytest

import dqucb
from dqucb import QUCB, Run, _storage
from dqucb._storage import SavedFileError
from dqucb.experiments import SettingsDifferError, compare, load_comparison, store
from dqucb.problems import gridworld


def run_sweep(folder, episodes=70, **options):
    problem = gridworld(noise=(0.05, 0.3), change_at=(60,), rows=2, cols=3, horizon=8)
    return compare(["qucb", "random"], problem, episodes, seeds=3, jobs=1, out=folder, **options)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run_sweep(tmp_path_factory.mktemp("reference"))


def assert_same(one, other):
    for place in other.traces:
        np.testing.assert_array_equal(one.load_run(*place).gaps, other.load_run(*place).gaps, strict=True)


def files_of(folder):
    return sorted((folder / "runs").iterdir())


def is_whole(data):
    try:
        Run.from_bytes(data)
    except SavedFileError:
        return False
    return True


def test_every_changed_byte_is_noticed():
    data = QUCB().train(gridworld(0.1, rows=2, cols=2, horizon=4), episodes=5).to_bytes()
    assert is_whole(data)
    for place in range(0, len(data), 7):
        assert not is_whole(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert not is_whole(data[:-1])
    assert not is_whole(b"")


def test_a_stored_run_is_an_ordinary_saved_run(reference):
    path = files_of(reference.folder)[0]
    assert isinstance(Run.load(path), Run)
    keys = {trial.key(seed) for trial in reference.trials.values() for seed in trial.seeds}
    assert {path.stem for path in files_of(reference.folder)} == keys


def test_a_second_call_computes_nothing_and_says_so(tmp_path, caplog):
    assert run_sweep(tmp_path).computed == 6
    stamps = [path.stat().st_mtime_ns for path in files_of(tmp_path)]
    with caplog.at_level(logging.INFO, "dqucb"):
        assert run_sweep(tmp_path).computed == 0
    assert "6 of 6 runs are in" in caplog.text
    assert [path.stat().st_mtime_ns for path in files_of(tmp_path)] == stamps


def _truncate(path, other):
    path.write_bytes(path.read_bytes()[:100])


def _empty(path, other):
    path.write_bytes(b"")


def _flip(path, other):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def _exchange(path, other):
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [_truncate, _empty, _flip, _exchange])
def test_a_damaged_file_is_reported_set_aside_and_redone(tmp_path, caplog, reference, damage):
    run_sweep(tmp_path)
    path, other = files_of(tmp_path)[:2]
    damage(path, other)
    loaded = load_comparison(tmp_path)
    assert any(path.name in note for note in loaded.notes)
    assert len(loaded.missing) == 1
    again = run_sweep(tmp_path)
    assert again.computed == 1
    assert path.name in caplog.text
    assert "set aside" in caplog.text
    assert [each.name for each in (tmp_path / "corrupt").iterdir()] == [f"{path.name}.0"]
    assert_same(again, reference)


def test_nothing_is_unpickled(tmp_path):
    run_sweep(tmp_path)
    path = files_of(tmp_path)[0]
    marker = tmp_path / "unpickled"

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    for content in (pickle.dumps(Bomb()), _npz_with(Bomb())):
        # With a valid checksum, as someone who wants to be believed would write it.
        body = content[:-2] + (64).to_bytes(2, "little")
        path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
        assert run_sweep(tmp_path).computed == 1
    assert not marker.exists()


def _npz_with(thing):
    import io

    buffer = io.BytesIO()
    np.savez(buffer, ends=np.array([thing], dtype=object))
    return buffer.getvalue()


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch, reference, broken):
    """The manifest and three runs fit on the disk, no more."""
    fitting = []

    def when_full(real):
        def call(*arguments):
            if any(str(tmp_path) in os.fspath(a) for a in arguments if isinstance(a, str | os.PathLike)):
                fitting.append(1)
            if len(fitting) > 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        return call

    class FullFile:
        """Takes half of what is written, then finds the disk full."""

        def __init__(self, path, mode):
            self.file = open(path, mode)  # noqa: SIM115
            self.here = tmp_path in path.parents  # runs are packed in a folder elsewhere first, which has room
            fitting.extend([1] if self.here and path.name.endswith(".tmp") else [])

        def write(self, data):
            full = self.here and len(fitting) > 4
            self.file.write(data[: len(data) // 2] if full else data)
            if full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

    with monkeypatch.context() as patch:
        if broken == "replace":
            patch.setattr(os, "replace", when_full(os.replace))
        else:
            patch.setattr(_storage, "open", FullFile, raising=False)
        if broken == "fsync":
            patch.setattr(FullFile, "write", lambda self, data: self.file.write(data))
            patch.setattr(os, "fsync", when_full(os.fsync))
        with pytest.raises(OSError, match="No space left"):
            run_sweep(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")] == []
    assert len(files_of(tmp_path)) == 3
    assert all(is_whole(path.read_bytes()) for path in files_of(tmp_path))
    again = run_sweep(tmp_path)
    assert again.computed == 3
    assert_same(again, reference)


def test_leftover_temporary_files_go(tmp_path):
    run_sweep(tmp_path)
    leftover = tmp_path / "runs" / ".abc.npz.123.tmp"
    leftover.write_bytes(b"half")
    run_sweep(tmp_path)
    assert not leftover.exists()


def test_other_settings_are_refused_and_named(tmp_path):
    run_sweep(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(SettingsDifferError, match="length is 70 there, 71 here"):
        run_sweep(tmp_path, episodes=71)
    with pytest.raises(SettingsDifferError, match='regret is "realized" there, "expected" here'):
        run_sweep(tmp_path, regret="expected")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_folder_is_for_one_sweep_at_a_time(tmp_path):
    done = run_sweep(tmp_path)
    with (
        store.Store(tmp_path).writing(done.settings, ""),
        pytest.raises(ValueError, match="in use by another sweep"),
        store.Store(tmp_path).writing(done.settings, ""),
    ):
        pass


def test_folders_without_a_manifest_are_refused(tmp_path):
    with pytest.raises(SavedFileError, match=r"no manifest.json here"):
        load_comparison(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(SavedFileError, match="not a readable manifest"):
        load_comparison(tmp_path)


def test_runs_of_two_versions_are_not_mixed_silently(tmp_path, monkeypatch, caplog):
    run_sweep(tmp_path)
    files_of(tmp_path)[0].unlink()
    monkeypatch.setattr(dqucb, "__version__", "9.9.9")
    again = run_sweep(tmp_path)
    assert "begun with other versions: dqucb is" in caplog.text
    assert again.computed == 1  # runs of a released version are kept
    assert any("several versions of dqucb" in note for note in again.notes)


def test_the_manifest_tells_what_happened(tmp_path):
    run_sweep(tmp_path, command="dqucb run ...")
    said = json.loads((tmp_path / "manifest.json").read_text())
    assert said["command"] == "dqucb run ..."
    assert said["sessions"][0]["runs"] == 6
    assert {"python", "numpy", "numba", "dqucb"} <= set(said["versions"])
