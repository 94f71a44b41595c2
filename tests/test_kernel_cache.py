"""Machine code on disk: shipped kernels are used where they fit; all else ends in compiling, never in an error."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numba
import pytest

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
        output, errors = process.communicate(timeout=300)
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
    build = "import sys; from dqucb.agents.ahead import _cache, build; build(_cache.SHIPPED, [[sys.executable, '-c', "
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


@pytest.mark.parametrize("folder", ["shipped", "kept"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "flipped", "not a kernel"])
def test_a_damaged_file_is_compiled_again(installation, folder, damage):
    if folder == "kept":
        shutil.rmtree(installation.shipped)
        installation.use()
    for path in getattr(installation, folder).glob("*.kernel"):
        whole = path.read_bytes()
        middle = len(whole) // 2
        payload = zlib.compress(pickle.dumps("not a kernel"))
        path.write_bytes({
            "emptied": b"",
            "cut": whole[:middle],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "not a kernel": hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload,
        }[damage])  # fmt: skip
    assert installation.use()[0] == [RIGHT, COMPILED]
    assert installation.use()[0] == [RIGHT, READ]  # it was replaced, or kept elsewhere


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
    assert errors.count("set NUMBA_CACHE_DIR to a folder that can be written") == 1


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
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert output.splitlines()[0] == RIGHT
    assert installation.use()[0] == [RIGHT, READ]
    assert all(path.suffix == ".kernel" for path in installation.kept.iterdir())


def test_the_bits_do_not_depend_on_the_cpu(run_python):
    """No contraction of a*b+c and no reordered sums: code for the oldest and for this CPU give the same run."""
    code = """
import hashlib, dqucb
run = dqucb.DQUCB(scope="step").train(dqucb.frozen_lake(), episodes=3_000, seed=3)
print(hashlib.sha256(run.returns.tobytes() + run.likelihood.tobytes()).hexdigest())
"""
    assert run_python(code) == run_python(code, NUMBA_CPU_NAME="generic")
