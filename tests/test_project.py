"""The project as a whole: linters, types, the rules between rooms, the README, and what an import costs."""

import doctest
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import dqucb

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def passes(*command: str) -> None:
    finished = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_ruff_finds_nothing():
    passes("ruff", "check", ".")


def test_everything_is_formatted():
    passes("ruff", "format", "--check", ".")


def test_types_hold():
    passes("mypy")


def test_rooms_call_downwards_only():
    passes("lint-imports", "--no-cache")


def test_readme_code_runs():
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted >= 8
    assert results.failed == 0


def test_documents_run():
    for page in ("docs/extending.md",):
        results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)
        assert results.attempted > 0
        assert results.failed == 0


def test_every_public_name_has_an_example():
    """Functions and classes; constants and registries are documented where they are defined."""
    documented = [getattr(dqucb, name) for name in dqucb.__all__ if callable(getattr(dqucb, name))]
    assert [thing.__name__ for thing in documented if ">>>" not in (thing.__doc__ or "")] == []
    assert len(documented) >= 60


OPTIONAL = ("dqucb.drift.sb3",)  # needs a package that the tests do without


def test_examples_run():
    names = [found.name for found in pkgutil.walk_packages(dqucb.__path__, "dqucb.") if found.name not in OPTIONAL]
    results = {name: doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS) for name in names}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 250


def test_one_version_everywhere():
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert metadata["project"]["version"] == dqucb.__version__
    assert f"## {dqucb.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_import_loads_nothing_heavy(run_python):
    heavy = {"torch", "sklearn", "pandas", "matplotlib", "numba", "joblib", "typer"}
    code = f"import sys, dqucb; print(sorted({heavy!r} & set(sys.modules)))"
    assert run_python(code).strip() == "[]"


def test_using_an_agent_loads_numba_but_no_plots_or_frames(run_python):
    heavy = {"torch", "sklearn", "pandas", "matplotlib", "joblib", "typer"}
    code = f"import sys; from dqucb import DQUCB; DQUCB(); print(sorted({heavy!r} & set(sys.modules)))"
    assert run_python(code).strip() == "[]"


def test_every_public_name_exists():
    assert all(getattr(dqucb, name) is not None for name in dqucb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'DQUBC'"):
        _ = dqucb.DQUBC


def test_torch_is_pinned_for_the_makefile_and_free_for_users():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(re.fullmatch(r"torch>=[\d.]+", requirement) for requirement in extras["deep"])


def test_a_build_without_a_compiler_says_what_to_install(tmp_path):
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "dqucb", tmp_path / "dqucb", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    finished = subprocess.run(
        [sys.executable, "setup.py", "build_ext"],
        cwd=tmp_path,
        env={**os.environ, "CC": "/no/such/compiler"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode != 0
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith("dqucb needs a C compiler and the Python headers to build: install them with")


def test_no_writable_cache_folder_still_works(run_python):
    code = """
import numba.core.caching as caching
def refuse(self): raise OSError("read-only file system")
for place in vars(caching).values():
    if hasattr(place, "ensure_cache_path"):
        place.ensure_cache_path = refuse
from dqucb import TransitionCounts
counts = TransitionCounts(3, 2)
counts.push(0, 0, 1)
print(counts.likelihood(0, 0, 1))
"""
    assert run_python(code).strip() == "1.0"


def test_an_edited_kernel_file_expires_the_disk_cache(tmp_path, run_python):
    """Numba alone would keep the machine code into which the old callee was inlined."""
    shutil.copytree(ROOT / "dqucb", tmp_path / "dqucb", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
from dqucb import TransitionCounts
counts = TransitionCounts(3, 2)
counts.push(0, 0, 1)
print(counts.likelihood(0, 0, 1))
"""
    cache = str(tmp_path / "cache")
    assert run_python(code, NUMBA_CACHE_DIR=cache).strip() == "1.0"
    formulas = tmp_path / "dqucb" / "_kernels" / "formulas.py"
    edited = formulas.read_text().replace("return max(floor, joint / marginal * density_ratio)", "return 0.25")
    assert edited != formulas.read_text()
    formulas.write_text(edited)
    assert run_python(code, NUMBA_CACHE_DIR=cache).strip() == "0.25"
