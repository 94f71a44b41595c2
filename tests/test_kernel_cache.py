"""Machine code on disk: shipped kernels are used where they fit; all else ends in compiling, never in an error."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numba
import pytest

from dqucb import Random, gridworld
from dqucb._kernels import episodes
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

USE = """
from dqucb._kernels.formulas import blend
print(blend(1.0, 3.0, 0.5))
from dqucb._kernels._cache import progress
print(progress.begun > 0, progress.read > 0)
"""
WHY = "from dqucb._kernels._cache import why_not_shipped; print(why_not_shipped())"
RIGHT, COMPILED, READ = "2.0", "True False", "False True"


class Installation:
    """A copy of the package with a cache folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.package, self.cache = folder, folder / "dqucb", folder / "cache"
        self.shipped, self.kept = self.package / "_kernels" / "compiled", self.cache / "dqucb"

    def start(self, code: str = USE, **environment: str) -> subprocess.Popen[str]:
        """A process that uses it."""
        settings = {"NUMBA_CACHE_DIR": str(self.cache), "PYTHONPATH": str(self.folder), **environment}
        return subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, **settings}, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def use(self, code: str = USE, **environment: str) -> tuple[list[str], str]:
        """(lines of standard output, standard error)."""
        process = self.start(code, **environment)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        return output.splitlines(), errors

    def forget(self) -> None:
        """Empty the cache, not what was shipped."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def edit_list(self, **changes: str) -> None:
        """Change the list of what was shipped."""
        path = self.shipped / "kernels.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Made as a wheel is, but with one kernel."""
    installation = Installation(tmp_path_factory.mktemp("built"))
    shutil.copytree(ROOT / "dqucb", installation.package, ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    build = "import sys; from dqucb.aot import _cache, build; build(_cache.SHIPPED, [[sys.executable, '-c', "
    installation.use(f"{build}{USE!r}]])")
    assert len(list(installation.shipped.glob("*.kernel"))) == 1
    return installation


@pytest.fixture
def installation(built, tmp_path):
    shutil.copytree(built.folder, tmp_path / "copy")
    return Installation(tmp_path / "copy")


def test_shipped_kernels_are_used_and_nothing_is_compiled(installation):
    output, errors = installation.use()
    assert output == [RIGHT, READ]
    assert errors == ""
    assert not installation.kept.exists()


def test_what_is_compiled_is_kept(installation):
    shutil.rmtree(installation.shipped)
    assert installation.use()[0] == [RIGHT, COMPILED]
    assert installation.use()[0] == [RIGHT, READ]


def test_a_damaged_file_is_compiled_again_and_replaced(installation):
    shutil.rmtree(installation.shipped)
    installation.use()
    (path,) = installation.kept.iterdir()
    for content in damaged(path).values():
        path.write_bytes(content)
        output, errors = installation.use()
        assert output == [RIGHT, COMPILED]
        assert f"{path}: a damaged file" in errors
    assert installation.use() == ([RIGHT, READ], "")
    path.unlink()
    path.mkdir()
    assert installation.use()[0] == [RIGHT, COMPILED]


def test_a_damaged_shipped_file_is_not_used(installation):
    (path,) = installation.shipped.glob("*.kernel")
    for content in damaged(path).values():
        path.write_bytes(content)
        installation.forget()
        assert installation.use()[0] == [RIGHT, COMPILED]
        assert installation.use()[0] == [RIGHT, READ]  # it is kept in the other folder


def damaged(path):
    """Ways in which a file can be wrong."""
    whole, payload = path.read_bytes(), zlib.compress(pickle.dumps("not a kernel"))
    middle = len(whole) // 2
    checksum = hashlib.sha256(path.name.encode() + payload).hexdigest().encode()
    return {
        "emptied": b"",
        "cut": whole[:middle],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "not a kernel": checksum + b"\n" + payload,
    }


def test_the_code_of_another_signature_is_not_taken(installation):
    """A file that was copied or renamed is whole, but not what its name says."""
    shutil.rmtree(installation.shipped)
    both = USE + "print(blend(1, 3, 1))"
    assert installation.use(both)[0] == [RIGHT, COMPILED, "3.0"]
    first, second = installation.kept.iterdir()
    first.write_bytes(second.read_bytes())
    output, errors = installation.use(both)
    assert (output[0], output[2]) == (RIGHT, "3.0")
    assert "a damaged file" in errors


@pytest.mark.parametrize(
    ("name", "words"),
    [("numba", "numba 0.1, and this is"), ("python", "python 0.1, and this is"), ("sources", "are for other sources")],
)  # fmt: skip
def test_kernels_of_another_version_are_not_used(installation, name, words):
    installation.edit_list(**{name: "0.1"})
    output, _ = installation.use(USE + WHY)
    assert output[:2] == [RIGHT, COMPILED]
    assert words in output[2]


def test_a_damaged_list_means_compiling(installation):
    (installation.shipped / "kernels.json").write_text("{")
    assert installation.use()[0] == [RIGHT, COMPILED]


def test_a_cpu_that_lacks_something_compiles_for_itself(installation):
    older = "from dqucb._kernels import _numba_private as n; n.host_features = lambda: frozenset(['sse2'])\n"
    output, _ = installation.use(older + USE + WHY)
    assert output[:2] == [RIGHT, COMPILED]
    assert "need a CPU of kind" in output[2]


def test_a_cpu_that_the_user_chose_is_compiled_for(installation):
    assert installation.use(NUMBA_CPU_NAME="generic")[0] == [RIGHT, COMPILED]
    assert installation.use(NUMBA_CPU_NAME="generic")[0] == [RIGHT, READ]
    assert installation.use(NUMBA_OPT="1")[0] == [RIGHT, COMPILED]


def test_an_edited_kernel_file_expires_both(installation):
    """Numba alone would keep the machine code into which the old callee was inlined."""
    formulas = installation.package / "_kernels" / "formulas.py"
    edited = formulas.read_text().replace("return (1.0 - alpha) * old + alpha * target", "return 0.25")
    assert edited != formulas.read_text()
    formulas.write_text(edited)
    assert installation.use()[0] == ["0.25", COMPILED]


def test_without_a_writable_folder_each_process_compiles_and_says_so(installation):
    shutil.rmtree(installation.shipped)
    caches = installation.package / "_kernels" / "__pycache__"
    caches.mkdir(exist_ok=True)
    for path in (caches / "kernels", installation.folder / "file"):
        path.write_text("in the way")  # root may write anywhere, but not into a file
    nowhere = str(installation.folder / "file")
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"), nowhere)
    output, errors = installation.use(**places)
    assert output == [RIGHT, COMPILED]
    assert errors.count("let NUMBA_CACHE_DIR name a folder for them") == 1


def test_a_full_disk_is_said_once_and_stops_nothing(installation):
    shutil.rmtree(installation.shipped)
    full = """
from pathlib import Path
def write_bytes(self, data): raise OSError(28, "No space left on device")
Path.write_bytes = write_bytes
"""
    output, errors = installation.use(full + USE)
    assert output == [RIGHT, COMPILED]
    assert errors.count("No space left on device") == 1
    assert list(installation.kept.iterdir()) == []


def test_processes_that_start_together_do_not_disturb_each_other(installation):
    shutil.rmtree(installation.shipped)
    together = [installation.start() for _ in range(3)]
    for process in together:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert output.splitlines()[0] == RIGHT
    assert installation.use()[0] == [RIGHT, READ]
    assert all(path.suffix == ".kernel" for path in installation.kept.iterdir())


def test_the_bits_do_not_depend_on_the_cpu(run_python):
    """No contraction of a*b+c and no reordered sums: code for the oldest and for this CPU give the same run."""
    code = """
import hashlib, dqucb
run = dqucb.DQUCB(scope="step").train(dqucb.frozen_lake(change_at=(1_000, 2_000)), episodes=3_000, seed=3)
print(hashlib.sha256(run.returns.tobytes() + run.likelihood.tobytes()).hexdigest())
"""
    assert run_python(code) == run_python(code, NUMBA_CPU_NAME="generic")


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
