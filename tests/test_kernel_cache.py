"""A kernel cache that is damaged, full or not there: kernels are compiled again, and the user is told which folder."""

import errno
import importlib.util
import os
import time
from pathlib import Path

import pytest
from numba.core import config

from dqucb import Random, gridworld
from dqucb._kernels import _cache_file, episodes

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")

SOURCE = """
from dqucb._kernels._jit import kernel

@kernel
def doubled(value):
    return value + value
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A function that imports a small kernel anew, as a new process would, with a cache of its own."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_cache_file, "_complained", set())
    path = tmp_path / "small.py"
    path.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("small", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.doubled

    return load


def files(tmp_path, ending):
    return sorted((tmp_path / "cache").rglob(f"*{ending}"))


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def test_a_whole_cache_is_used(fresh, tmp_path):
    assert (fresh()(2), fresh()(2.5)) == (4, 5.0)
    assert len(files(tmp_path, ".nbc")) == 2
    again = fresh()
    assert (again(2), again(2.5), hits(again)) == (4, 5.0, 2)


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "pickle", "folder", "gone"])
def test_a_damaged_file_is_removed_and_its_kernel_compiled_again(fresh, tmp_path, caplog, ending, damage):
    assert fresh()(2) == 4
    (path,) = files(tmp_path, ending)
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        path.write_bytes({"cut": data[:50], "empty": b"", "flipped": flipped, "pickle": b"\x80\x04."}[damage])
    damaged = fresh()
    assert (damaged(2), hits(damaged)) == (4, 0)
    if damage not in ("gone", "folder"):
        assert f"{path}: a damaged file of the kernel cache is removed" in caplog.text
    if damage != "folder":
        healed = fresh()
        assert (healed(2), hits(healed)) == (4, 1)


def test_code_of_another_signature_is_not_taken(fresh, tmp_path):
    both = fresh()
    assert (both(2), both(2.5)) == (4, 5.0)
    first, second = files(tmp_path, ".nbc")
    first.write_bytes(second.read_bytes())  # as two processes leave it that save at once
    again = fresh()
    assert (again(2), again(2.5)) == (4, 5.0)


@pytest.mark.parametrize("how", ["full", "no folder"])
def test_a_cache_that_cannot_be_written_is_done_without_in_words(fresh, tmp_path, monkeypatch, caplog, how):
    kernel = fresh()
    folder = Path(kernel._cache.cache_path)
    if how == "full":

        def full(*arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "replace", full)
    else:
        folder.rmdir()
        folder.write_text("in the way")
    assert (kernel(2), kernel(2.5)) == (4, 5.0)
    assert caplog.text.count("kernels cannot be kept in") == 1
    assert str(folder) in caplog.text
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_the_seconds_of_a_run_are_without_compilation(monkeypatch):
    real, calls = episodes.run_episodes, []

    def compiling_first(*arguments):
        if not calls:
            time.sleep(0.5)
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(episodes, "run_episodes", compiling_first)
    run = Random().train(gridworld(0.1, rows=2, cols=2, horizon=4), episodes=5, seed=1)
    assert len(calls) > 1
    assert 0.0 < run.seconds < 0.5
