"""The project as a whole: linters, types, the rules between layers, and what an import costs."""

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


def test_imports_point_downwards_only():
    passes("lint-imports", "--no-cache")


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
    heavy = {"torch", "sklearn", "pandas", "matplotlib", "numba", "joblib", "typer", "rich", "scipy"}
    code = f"import sys, dqucb; print(sorted({heavy!r} & set(sys.modules)))"
    assert run_python(code).strip() == "[]"


def test_training_loads_numba_but_no_plots_frames_or_commands(run_python):
    heavy = {"torch", "sklearn", "pandas", "matplotlib", "joblib", "threadpoolctl", "typer", "rich"}
    train = "from dqucb import QUCB, combination_lock; QUCB().train(combination_lock(change_at=()), episodes=2)"
    assert run_python(f"import sys; {train}; print(sorted({heavy!r} & set(sys.modules)))").strip() == "[]"


def test_nothing_in_the_package_needs_the_reference_of_the_tests():
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [line for line in requirements if line.startswith(("scikit-learn", "scipy"))] == []
    imports = re.compile(r"^\s*(?:from|import) (sklearn|scipy|torch)\b", re.MULTILINE)
    found = [path for path in (ROOT / "dqucb").rglob("*.py") if imports.search(path.read_text())]
    assert [str(path) for path in found if path.parent.name != "deep"] == []  # deep agents have an extra of their own


def test_the_lowest_versions_are_the_ones_that_are_tested():
    """`make test-lowest` installs what pyproject.toml promises, and not something newer."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed, extras = project["project"]["dependencies"], project["project"]["optional-dependencies"]
    lines = [*needed, *(line for extra in extras.values() for line in extra if not line.startswith("dqucb["))]
    promised = {re.split(r"[\[<>=]", line)[0]: re.search(r">=([\d.]+)", line)[1] for line in lines}
    tested = dict(line.split("==") for line in (ROOT / "constraints-lowest.txt").read_text().split("\n")[1:] if line)
    assert {re.split("[<>=]", line)[0] for line in needed} <= set(tested)
    assert [name for name in tested.keys() & promised if not f"{tested[name]}.".startswith(f"{promised[name]}.")] == []


def test_every_public_name_exists():
    assert all(getattr(dqucb, name) is not None for name in dqucb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'DQUBC'"):
        _ = dqucb.DQUBC


@pytest.mark.parametrize(("code", "meant"), [
    ("import dqucb; dqucb.PlaningDQUCB", "PlanningDQUCB"),
    ("import dqucb.drift; dqucb.drift.ShiftMonitr", "ShiftMonitor"),
    ("import dqucb.envs; dqucb.envs.ShiftWraper", "ShiftWrapper"),
    ("import dqucb.deep; dqucb.deep.DeepDQUBC", "DeepDQUCB"),
])  # fmt: skip
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(code, meant):
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert f"Did you mean: '{meant}'?" in finished.stderr


def test_import_star_needs_no_optional_package():
    hidden = "import sys; sys.modules['stable_baselines3'] = None; sys.modules['torch'] = None\n"
    code = (
        hidden
        + "from dqucb import *\nfrom dqucb.drift import *\nfrom dqucb.envs import *\nprint(ShiftMonitor.__name__)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert finished.stdout == "ShiftMonitor\n", finished.stderr


def test_deep_agents_need_torch_and_no_other_framework():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {re.split("[<>=]", requirement)[0] for requirement in extras["deep"]} == {"scipy", "tensorboard", "torch"}


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
